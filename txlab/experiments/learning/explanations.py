"""Answers to "why this number?" for gradient-based training: attention and predictions in a frame, and the metrics of a
step (MATH T1, T9, F3, F5).

A frame keeps the queries and keys as they entered the product, so the engine's own functions compute the answer from
the frame, without the model or the run. torch is imported inside functions, so only asking costs its import.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, expm1, log
from operator import mul, sub, truediv
from typing import Any

import numpy as np

from txlab.engine.explain import Explaining, Explanation, Step, compute_step
from txlab.engine.intervals import share_interval
from txlab.errors import LabError
from txlab.experiments.learning.schema import clip_factor, factor
from txlab.experiments.protocol import Frame

# The attentions of a frame: the tokens of their rows and columns.
TOKENS = {
    "attention": ("probe", "probe"),
    "encoder": ("source", "source"),
    "decoder": ("target", "target"),
    "cross": ("target", "source"),
}
EXPLAINED = ("attention/pattern", "next/probability", "encoder/pattern", "decoder/pattern", "cross/pattern")


@dataclass(frozen=True)
class MeanLoss:
    """The terms of a loss: its equation, its formula's number, the items averaged over, and the items predicted."""

    equation: str = "L = −(1/n) Σₜ ln p(xₜ | x₁ … xₜ₋₁)"
    math: str = "T9, R1"
    over: str = "the scored tokens"
    things: str = "tokens"


def explain_attention(frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
    """Explain `frame.tensors[tensor][index]`. LabError if the frame lacks the data for it.

    attention/pattern   (layer, head, i, j): the row's softmax, from its q and k; so encoder/, decoder/, cross/pattern
    next/probability    (i, rank): the probability in nats and bits
    """
    if tensor not in EXPLAINED:
        raise LabError(f"{tensor} has no explanation; allowed: {', '.join(EXPLAINED)}")
    if tensor != "next/probability":
        return _weight(frame, tensor.partition("/")[0], *index)
    require(frame, tensor, tensor)
    return _next_token(frame, *index)


def require(frame: Frame, tensor: str, *names: str) -> None:
    """Raise LabError unless the frame holds these, from which `tensor` is explained."""
    for name in names:
        if name not in frame.tensors:
            raise LabError(f"this frame was recorded without {name}, from which {tensor} is explained")


def _weight(frame: Frame, site: str, layer: int, head: int, i: int, j: int) -> Explanation:
    require(frame, f"{site}/pattern", f"{site}/query", f"{site}/key")
    import torch

    from txlab.engine.interpret.why import explain_weight
    from txlab.engine.transformer.masks import CAUSAL, NO_MASK, GraphMask, Mask

    masks: dict[str, Mask] = {mask.name: mask for mask in (CAUSAL, NO_MASK)}
    fixed = {"encoder": NO_MASK.name, "decoder": CAUSAL.name, "cross": NO_MASK.name}
    named = fixed.get(site) or str(frame.facts.get("mask", CAUSAL.name))
    if edges := frame.facts.get("edges"):
        nodes = len(frame.tensors[f"{site}/query"][layer, head])
        masks["graph"] = GraphMask.of_edges(nodes, [(edge[0], edge[1]) for edge in edges])  # type: ignore[index, union-attr]
    if named not in masks:
        raise LabError(f"this frame was recorded under the mask {named!r}; explained are: {', '.join(masks)}")
    q, k = (
        torch.from_numpy(np.array(frame.tensors[name][layer, head], dtype=np.float32))  # (T, K)
        for name in (f"{site}/query", f"{site}/key")
    )
    rows, columns = (frame.tokens.get(name, ()) for name in TOKENS[site])
    recorded = float(frame.tensors[f"{site}/pattern"][layer, head, i, j])
    return explain_weight(q, k, masks[named], i, j, columns, rows, recorded)


# A frame's fact "predicts": how a prediction relates to its position, the item predicted, and the choices.
PREDICTED = {
    "next": ("after", "next tokens", "the vocabulary"),
    "place": ("in the place of", "tokens", "the vocabulary"),
    "class": ("by", "classes", "of them"),
}


def _next_token(frame: Frame, i: int, rank: int) -> Explanation:
    shown = np.asarray(frame.tensors["next/probability"], dtype=np.float64)  # (T, k)
    p, k = float(shown[i, rank]), shown.shape[1]
    names = list(frame.tokens.get("next", ()))[i * k : (i + 1) * k] or [str(place) for place in range(k)]
    probe = frame.tokens.get("probe") or frame.tokens.get("target", ())
    after = repr(probe[i]) if i < len(probe) else f"position {i}"
    nats = -log(p) if p > 0 else float("inf")
    lead, things, among = PREDICTED.get(str(frame.facts.get("predicts")), PREDICTED["next"])
    why = Explaining(f"why {p:.3g} for {names[rank]!r} {lead} {after}?", p, names, rank)
    why.equation("p(x) = exp(zₓ) / Σᵥ exp(zᵥ)", "F5, T9", "Becker-Kahn §4")
    why.step("p", "", shown[i].tolist(), f"the likeliest {things}; the softmax ran over all {among}")
    why.means(
        Step("zₓ − z₁", "ln p(x) − ln p(likeliest)", log(p / shown[i, 0]) if p > 0 else float("-inf"), "logits"),
        Step("−ln p", f"−ln {p:.4g}", nats, "nats: the loss, if it is this one"),
        Step("−log₂ p", f"−log₂ {p:.4g}", nats / log(2), "bits that it would then cost to say so"),
        Step("shown", "Σ of those shown", float(shown[i].sum()), "the others have the rest"),
    )
    return why.result()


def explain_step(
    scenario: Any, mean: MeanLoss, name: str, values: Mapping[str, float], step: int, facts: Mapping[str, Any]
) -> Explanation | None:
    """Explain a metric that all kinds record; `mean` describes the loss of this kind."""
    if name in ("loss", "val_loss"):
        return explain_loss(scenario, mean, name, values, facts)
    if name == "lr":
        return _learning_rate(scenario, step, values[name])
    if name == "grad_norm":
        return _gradient_norm(scenario, step, values[name])
    if name == "val_bits_per_byte":
        return explain_bits_per_byte(values, facts)
    return explain_accuracy(name, scenario, values, facts) if name in ACCURACIES else None


# Shares of predictions that are right → of what, and where.
ACCURACIES = {
    "copy_accuracy": "answers of this batch: symbols that the rest of the sequence determines",
    "masked_accuracy": "tokens asked for, in the validation text",
    "token_accuracy": "tokens of the unseen targets, each given those before it",
    "accuracy": "images of this batch",
    "val_accuracy": "images that training never sees",
}


def interval_steps(share: float, count: int) -> list[Step]:
    """The exact 95 % interval of a share of a sample. Clopper and Pearson 1934."""
    right = round(share * count)
    low, high = share_interval(right, count)
    return [
        Step("95 % from", f"p with P(X ≥ {right}) = .025", low, f"X ~ Bin({count}, p): the sample is one of many"),
        Step("95 % to", f"p with P(X ≤ {right}) = .025", high, "Clopper and Pearson 1934"),
    ]


def explain_accuracy(name: str, scenario: Any, values: Mapping[str, float], facts: Mapping[str, Any]) -> Explanation:
    """A share of right predictions, compared with uniform guessing, and its chance variation."""
    share, what, many = values[name], ACCURACIES[name], choices_of(facts)
    train = scenario.train
    count = {"accuracy": train.batch, "val_accuracy": train.batch * train.validation_batches}.get(name)
    why = Explaining(f"what does an accuracy of {share:.4g} mean?", share)
    source = "counted: the likeliest prediction is the right one, or not"
    why.equation("accuracy = (1/n) Σ [argmax p = y]", "F5", source)
    why.input("n", count or "all scored predictions", what)
    why.measurement("accuracy", "counted")
    why.means(Step("wrong", f"1 − {share:.4f}", 1 - share))
    if many:
        why.input("V", many, "to choose from")
        why.means(Step("1 / V", f"1 / {many}", 1 / many, "by guessing evenly"))
    if count:
        why.means(*interval_steps(share, count))
    return why.result()


def choices_of(facts: Mapping[str, Any]) -> int | None:
    """How many classes or tokens a prediction chooses from, if that is known."""
    classes = facts.get("classes")
    count: int | None = len(classes) if isinstance(classes, list) else facts.get("tokenizer", {}).get("vocabulary")
    return count


def _learning_rate(scenario: Any, step: int, rate: float) -> Explanation:
    train = scenario.train
    share = factor(step, train.warmup, train.steps, train.final, train.decay)
    why = Explaining(f"why a learning rate of {rate:.3g} at step {step}?", rate)
    why.equation(
        "η = η_peak · s(n),  s = n / W up to W, then f + (1 − f) · ½ (1 + cos(π (n − W) / (N − W)))",
        "F3",
        "Loshchilov & Hutter 2017, eq. 5, after linear warm-up",
    )
    why.input("η_peak", train.learning_rate, "train.learning_rate")
    why.input("n", step, "this update")
    why.input("W", train.warmup, "train.warmup")
    why.input("N", train.steps, "train.steps")
    why.input("f", train.final, "train.final")
    if step <= train.warmup:
        why.step("s", f"n / W = {step} / {train.warmup}", share, "linear warm-up")
    elif train.decay == "constant":
        why.step("s", "1", share, "after warm-up the rate stays")
    else:
        place = f"({step} − {train.warmup}) / ({train.steps} − {train.warmup})"
        why.step("s", f"{train.final} + (1 − {train.final}) · ½ (1 + cos(π · {place}))", share, "cosine decay")
    why.compute("η", "{} · {}", mul, train.learning_rate, share)
    return why.result(because="it was changed while it ran")


def _gradient_norm(scenario: Any, step: int, norm: float) -> Explanation:
    clip = scenario.train.clip
    scale = clip_factor(norm, clip)
    meaning = (
        "no clipping" if not clip else "larger than c: every gradient is scaled" if scale < 1 else "within c: untouched"
    )
    why = Explaining(f"what did a gradient norm of {norm:.3g} do at step {step}?", norm)
    why.equation("g ← g · min(1, c / (‖g‖ + 10⁻⁶)),  ‖g‖ = √Σ g²", "F3", "Pascanu et al. 2013")
    why.input("c", clip, "train.clip; 0 = no clipping (the log says if it was changed)")
    why.measurement("‖g‖", "over all parameters, before clipping")
    why.means(
        Step("scale", f"min(1, {clip:g} / {norm:.4g})" if clip else "1", scale, meaning),
        compute_step("‖g‖ used", "{} · {}", mul, norm, scale),
    )
    return why.result()


def explain_norm_of_updates(train: Any, norm: float, step: int, updates: int) -> Explanation:
    """The gradient norm of a step that consists of several updates."""
    why = Explaining(f"what did a gradient norm of {norm:.3g} do at step {step}?", norm)
    equation = "mean of ‖g‖ over the updates of the step,  g ← g · min(1, c / (‖g‖ + 10⁻⁶)) in each"
    why.equation(equation, "F3", "Pascanu et al. 2013")
    why.input("updates", updates, "of this step: epochs · minibatches")
    why.input("c", train.clip, "largest norm of an update; 0 = no clipping (the log says if it was changed)")
    why.measurement("‖g‖", "before clipping; of several models √Σ ‖g‖², each clipped by its own")
    return why.result()


def explain_sum(
    question: str, math: str, source: str, loss: float, terms: Sequence[tuple[str, str, float, float | None]]
) -> Explanation:
    """A loss as the sum of its terms (name, letter of its weight or "", weight, value); None = it has no such term."""
    why, equation, form = Explaining(question, loss), "", ""
    parts: list[float] = []
    signs: list[int] = []
    for name, letter, weight, value in terms:
        if value is None:
            continue
        sign = "" if not form else " − " if weight < 0 else " + "
        equation, form = f"{equation}{sign}{letter} {name}".replace("  ", " "), f"{form}{sign}{{}}"
        parts.append(abs(weight) * value)
        signs.append(-1 if weight < 0 else 1)
        why.input(name, value)
        if letter:
            why.input(letter, abs(weight), f"the weight of {name}")
            why.compute(f"{letter} {name}", "{} · {}", mul, abs(weight), value)
    why.equation(f"L = {equation.strip()}", math, source)
    if parts:
        meaning = "means over the updates of this step"
        why.compute("L", form, lambda *each: sum(map(mul, signs, each)), *parts, note=meaning)
    else:
        why.measurement("L")
    return why.result(because="the version that made this run did not record all of its terms")


def explain_loss(
    scenario: Any, mean: MeanLoss, name: str, values: Mapping[str, float], facts: Mapping[str, Any]
) -> Explanation:
    """The meaning of a loss in nats: perplexity, bits, and the loss of a uniform guess."""
    loss, equation, over, things = values[name], mean.equation, mean.over, mean.things
    many = choices_of(facts)
    unseen = "the unseen pairs" if "unseen_pairs" in facts.get("corpus", {}) else "validation"
    of = unseen if name == "val_loss" else "this batch"
    why = Explaining(f"what does a loss of {loss:.4g} nats mean?", loss)
    smoothing = getattr(scenario.train, "label_smoothing", 0.0) if name == "loss" else 0.0
    if smoothing:
        equation = "L = −(1/n) Σₜ Σᵥ q(v) ln p(v | y₁ … yₜ₋₁, x),  q(v) = (1 − s) · [v = yₜ] + s / V"
        why.input("s", smoothing, "train.label_smoothing (the log says if it was changed)")
        why.means(*(_explain_smoothing(loss, smoothing, many) if many else []))
    else:
        unsure = f"perplexity: as unsure as among that many {things}"
        why.means(
            compute_step("exp L", "exp({})", exp, min(loss, 700.0), note=unsure),
            compute_step("L / ln 2", "{} / {}", truediv, loss, log(2), note=f"bits for each of {over}"),
        )
    if many:
        why.input("V", many, things + (" in the vocabulary" if things == "tokens" else ""))
        why.means(Step("ln V", f"ln {many}", log(many), f"the loss of guessing evenly among all {things}"))
    why.equation(equation, mean.math, "Szegedy et al. 2016, §7" if smoothing else "Mehlig")
    why.measurement("L", f"mean over {over} of {of}, in nats")
    return why.result()


def _explain_smoothing(loss: float, s: float, V: int) -> list[Step]:
    """The meaning of a loss with label smoothing: its distance from the minimum, and the perplexity it allows.

    With u = −ln p(yₜ) the loss of a token is at least f(u) = q(yₜ) u − (1 − q(yₜ)) ln((1 − e⁻ᵘ) / (V − 1)), reached if
    all others have the same share. f is convex, so the mean of u is at most the larger u with f(u) = L.
    """
    right = 1 - s + s / V
    least = -right * log(right) - (1 - right) * log(s / V)
    steps = [
        Step(
            "H(q)", f"−{right:.4g} ln {right:.4g} − {1 - right:.4g} ln({s:g} / {V})", least, "the least L can be: p = q"
        ),
        compute_step("L − H(q)", "{} − {}", sub, loss, least, note="KL(q ‖ p): the excess loss, in nats"),
    ]
    if loss < least - 1e-6:  # s was not the scenario's
        return steps[:1]
    low, high = -log(right), loss / right + 1.0
    for _ in range(100):
        u = (low + high) / 2
        at_least = right * u - (1 - right) * log(-expm1(-u) / (V - 1))
        low, high = (u, high) if at_least < loss else (low, u)
    steps.append(Step("perplexity", "exp u, f(u) = L", exp(low), "at most, of the targets; 1 / q(yₜ) where L = H(q)"))
    return steps


def explain_bits_per_byte(values: Mapping[str, float], facts: Mapping[str, Any]) -> Explanation | None:
    """Bits per byte of the text, from the loss per token and the bytes per token."""
    bits = values["val_bits_per_byte"]
    known = facts.get("tokenizer", {}).get("bytes_per_token")
    loss = values.get("val_loss")
    if loss is None or (not known and bits == 0):
        return None
    # Without run.json, the length of a token follows from the two metrics of one evaluation.
    length = float(known) if known else loss / log(2) / bits
    why = Explaining(f"why {bits:.4f} bits per byte?", bits)
    why.equation("bits per byte = L / ln 2 / (bytes per token)", "T9", "Gao et al. 2020, §3.1")
    why.input("L", loss, "val_loss, nats a token")
    why.input("bytes per token", length, "over the validation tokens that are scored")
    why.compute("bits per token", "{} / {}", truediv, loss, log(2))
    why.compute("bits per byte", "{} / {}", truediv, loss / log(2), length)
    why.means(
        compute_step(
            "of 8", "{} / {}", truediv, bits, 8, note="share of its size that an ideal coder with this model needs"
        )
    )
    return why.result()
