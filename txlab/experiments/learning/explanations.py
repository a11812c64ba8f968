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

from txlab.engine.explain import Explanation, Operand, Step, computed, substituted
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
    """What a loss is a mean of: its equation, its formula's number, what it is averaged over, and what is predicted."""

    equation: str = "L = −(1/n) Σₜ ln p(xₜ | x₁ … xₜ₋₁)"
    math: str = "T9, R1"
    over: str = "the scored tokens"
    things: str = "tokens"


def explain_attention(frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
    """Explain `frame.tensors[tensor][index]`. LabError if the frame does not hold what the answer needs.

    attention/pattern   (layer, head, i, j): the row's softmax, from its q and k; so encoder/, decoder/, cross/pattern
    next/probability    (i, rank): what the probability means in nats and bits
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
    return explain_weight(q, k, masks[named], i, j, columns, rows)


# A frame's fact "predicts": how a prediction relates to its position, what is predicted, and among what.
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
    return Explanation(
        question=f"why {p:.3g} for {names[rank]!r} {lead} {after}?",
        equation="p(x) = exp(zₓ) / Σᵥ exp(zᵥ)",
        math="F5, T9",
        source="Becker-Kahn §4",
        operands=[],
        steps=[Step("p", "", shown[i].tolist(), f"the likeliest {things}; the softmax ran over all {among}")],
        meaning=[
            Step("zₓ − z₁", "ln p(x) − ln p(likeliest)", log(p / shown[i, 0]) if p > 0 else float("-inf"), "logits"),
            Step("−ln p", f"−ln {p:.4g}", nats, "nats: the loss, if it is this one"),
            Step("−log₂ p", f"−log₂ {p:.4g}", nats / log(2), "bits that it would then cost to say so"),
            Step("shown", "Σ of those shown", float(shown[i].sum()), "the others have what remains"),
        ],
        labels=names,
        asked=rank,
    )


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
    """A share of right predictions, beside that of guessing evenly, and how far chance moves it."""
    share, what, many = values[name], ACCURACIES[name], choices_of(facts)
    operands = [Operand("n", "all that are scored", what)]
    meaning = [Step("wrong", f"1 − {share:.4f}", 1 - share)]
    if many:
        operands.append(Operand("V", many, "to choose from"))
        meaning.append(Step("1 / V", f"1 / {many}", 1 / many, "by guessing evenly"))
    train = scenario.train
    count = {"accuracy": train.batch, "val_accuracy": train.batch * train.validation_batches}.get(name)
    if count:
        operands[0] = Operand("n", count, what)
        meaning += interval_steps(share, count)
    return Explanation(
        question=f"what does an accuracy of {share:.4g} mean?",
        equation="accuracy = (1/n) Σ [argmax p = y]",
        math="F5",
        source="counted: the likeliest prediction is the right one, or not",
        operands=operands,
        steps=[Step("accuracy", "", share, "counted")],
        meaning=meaning,
    )


def choices_of(facts: Mapping[str, Any]) -> int | None:
    """How many classes or tokens a prediction chooses from, if that is known."""
    classes = facts.get("classes")
    found: int | None = len(classes) if isinstance(classes, list) else facts.get("tokenizer", {}).get("vocabulary")
    return found


def _learning_rate(scenario: Any, step: int, rate: float) -> Explanation:
    train = scenario.train
    share = factor(step, train.warmup, train.steps, train.final, train.decay)
    # The peak may have been changed during the run; the row has the rate that was used.
    turned = abs(rate - train.learning_rate * share) > 1e-9 * abs(rate) and share > 0
    peak = rate / share if turned else train.learning_rate
    if step <= train.warmup:
        line = Step("s", f"n / W = {step} / {train.warmup}", share, "linear warm-up")
    elif train.decay == "constant":
        line = Step("s", "1", share, "after warm-up the rate stays")
    else:
        place = f"({step} − {train.warmup}) / ({train.steps} − {train.warmup})"
        line = Step("s", f"{train.final} + (1 − {train.final}) · ½ (1 + cos(π · {place}))", share, "cosine decay")
    return Explanation(
        question=f"why a learning rate of {rate:.3g} at step {step}?",
        equation="η = η_peak · s(n),  s = n / W up to W, then f + (1 − f) · ½ (1 + cos(π (n − W) / (N − W)))",
        math="F3",
        source="Loshchilov & Hutter 2017, eq. 5, after linear warm-up",
        operands=[
            Operand("η_peak", peak, "changed while it ran" if turned else "train.learning_rate"),
            Operand("n", step, "this update"),
            Operand("W", train.warmup, "train.warmup"),
            Operand("N", train.steps, "train.steps"),
            Operand("f", train.final, "train.final"),
        ],
        steps=[line, computed("η", "{} · {}", mul, peak, share)],
    )


def _gradient_norm(scenario: Any, step: int, norm: float) -> Explanation:
    clip = scenario.train.clip
    scale = clip_factor(norm, clip)
    told = (
        "no clipping" if not clip else "larger than c: every gradient is scaled" if scale < 1 else "within c: untouched"
    )
    return Explanation(
        question=f"what did a gradient norm of {norm:.3g} do at step {step}?",
        equation="g ← g · min(1, c / (‖g‖ + 10⁻⁶)),  ‖g‖ = √Σ g²",
        math="F3",
        source="Pascanu et al. 2013",
        operands=[Operand("c", clip, "train.clip; 0 = no clipping (the log says if it was changed)")],
        steps=[Step("‖g‖", "", norm, "over all parameters, before clipping")],
        meaning=[
            Step("scale", f"min(1, {clip:g} / {norm:.4g})" if clip else "1", scale, told),
            computed("‖g‖ used", "{} · {}", mul, norm, scale),
        ],
    )


def explain_norm_of_updates(train: Any, norm: float, step: int, updates: int) -> Explanation:
    """The gradient norm of a step that consists of several updates."""
    return Explanation(
        question=f"what did a gradient norm of {norm:.3g} do at step {step}?",
        equation="mean of ‖g‖ over the updates of the step,  g ← g · min(1, c / (‖g‖ + 10⁻⁶)) in each",
        math="F3",
        source="Pascanu et al. 2013",
        operands=[
            Operand("updates", updates, "of this step: epochs · minibatches"),
            Operand("c", train.clip, "largest norm of an update; 0 = no clipping (the log says if it was changed)"),
        ],
        steps=[Step("‖g‖", "", norm, "before clipping; of several models √Σ ‖g‖², each clipped by its own")],
    )


def explain_sum(
    question: str, math: str, source: str, loss: float, terms: Sequence[tuple[str, str, float, float | None]]
) -> Explanation:
    """A loss as the sum of its terms (name, letter of its weight or "", weight, value); None = it has no such term."""
    there = [(name, letter, weight, value) for name, letter, weight, value in terms if value is not None]
    operands, steps, equation = [], [], ""
    for name, letter, weight, value in there:
        sign = "" if not equation else " − " if weight < 0 else " + "
        equation += f"{sign}{letter} {name}" if letter else f"{sign}{name}"
        operands.append(Operand(name, value))
        if letter:
            operands.append(Operand(letter, abs(weight), f"the weight of {name}"))
            steps.append(computed(f"{letter} {name}", "{} · {}", mul, abs(weight), value))
    parts = [abs(weight) * value for _, _, weight, value in there]
    signs = [-1.0 if weight < 0 else 1.0 for _, _, weight, _ in there]
    missing = loss - sum(map(mul, signs, parts))
    if abs(missing) > 1e-4 * max(map(abs, [loss, *parts])):
        steps.append(Step("not recorded", "L without these", missing, "by the version that made this run"))
        parts, signs = [*parts, missing], [*signs, 1.0]
    form = "{}" + "".join(" − {}" if sign < 0 else " + {}" for sign in signs[1:])
    expression = substituted(form, lambda *each: sum(map(mul, signs, each)), *parts) if parts else ""
    steps.append(Step("L", expression, loss, "means over the updates of this step"))
    return Explanation(question, f"L = {equation}", math, source, operands, steps)


def explain_loss(
    scenario: Any, mean: MeanLoss, name: str, values: Mapping[str, float], facts: Mapping[str, Any]
) -> Explanation:
    """What a loss in nats means: perplexity, bits, and the loss of a uniform guess."""
    loss, equation, over, things = values[name], mean.equation, mean.over, mean.things
    many = choices_of(facts)
    unseen = "the unseen pairs" if "unseen_pairs" in facts.get("corpus", {}) else "validation"
    of = unseen if name == "val_loss" else "this batch"
    operands = []
    smoothing = getattr(scenario.train, "label_smoothing", 0.0) if name == "loss" else 0.0
    if smoothing:
        equation = "L = −(1/n) Σₜ Σᵥ q(v) ln p(v | y₁ … yₜ₋₁, x),  q(v) = (1 − s) · [v = yₜ] + s / V"
        operands.append(Operand("s", smoothing, "train.label_smoothing (the log says if it was changed)"))
        meaning = _smoothed(loss, smoothing, many) if many else []
    else:
        meaning = [
            computed(
                "exp L", "exp({})", exp, min(loss, 700.0), note=f"perplexity: as unsure as among so many {things}"
            ),
            computed("L / ln 2", "{} / {}", truediv, loss, log(2), note=f"bits for each of {over}"),
        ]
    if many:
        operands.append(Operand("V", many, things + (" in the vocabulary" if things == "tokens" else "")))
        meaning.append(Step("ln V", f"ln {many}", log(many), f"the loss of guessing evenly among all {things}"))
    return Explanation(
        question=f"what does a loss of {loss:.4g} nats mean?",
        equation=equation,
        math=mean.math,
        source="Szegedy et al. 2016, §7" if smoothing else "Mehlig",
        operands=operands,
        steps=[Step("L", "", loss, f"mean over {over} of {of}, in nats")],
        meaning=meaning,
    )


def _smoothed(loss: float, s: float, V: int) -> list[Step]:
    """What a loss with label smoothing means: its distance from the minimum, and the perplexity it allows.

    With u = −ln p(yₜ) the loss of a token is at least f(u) = q(yₜ) u − (1 − q(yₜ)) ln((1 − e⁻ᵘ) / (V − 1)), reached if
    all others have the same share. f is convex, so the mean of u is at most the larger u with f(u) = L.
    """
    right = 1 - s + s / V
    least = -right * log(right) - (1 - right) * log(s / V)
    steps = [
        Step(
            "H(q)", f"−{right:.4g} ln {right:.4g} − {1 - right:.4g} ln({s:g} / {V})", least, "the least L can be: p = q"
        ),
        computed("L − H(q)", "{} − {}", sub, loss, least, note="KL(q ‖ p): what is left to learn, in nats"),
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
    return Explanation(
        question=f"why {bits:.4f} bits per byte?",
        equation="bits per byte = L / ln 2 / (bytes per token)",
        math="T9",
        source="Gao et al. 2020, §3.1",
        operands=[
            Operand("L", loss, "val_loss, nats a token"),
            Operand("bytes per token", length, "over the validation tokens that are scored"),
        ],
        steps=[
            computed("bits per token", "{} / {}", truediv, loss, log(2)),
            computed("bits per byte", "{} / {}", truediv, loss / log(2), length),
        ],
        meaning=[
            computed(
                "of 8", "{} / {}", truediv, bits, 8, note="share of its size that an ideal coder with this model needs"
            ),
        ],
    )
