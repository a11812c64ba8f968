"""Answers to "why this number?" for metrics of mixtures, the few-shot task and masked text (MATH T10, T12, T13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log
from operator import mul, truediv
from typing import Any

from txlab.engine.explain import Explaining, Explanation, compute_step
from txlab.experiments.learning.explanations import interval_steps


def explain_metric(
    scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
) -> Explanation | None:
    """Explain a metric that only training on texts records; None for any other."""
    if name == "val_loss" and scenario.data.mixture:
        return explain_mixture_loss(values[name], values, facts)
    if name.startswith("epochs/"):
        return explain_epochs(scenario, name, step, values, facts)
    if name.startswith("val_loss/"):
        return explain_part_loss(scenario, name, step, values, facts)
    if name == "in_context_score":
        return explain_in_context(scenario, values[name])
    return explain_few_shot(scenario, name, step, values, facts) if name.startswith("accuracy_") else None


def explain_in_context(scenario: Any, score: float) -> Explanation:
    """The value of the preceding context to a late symbol."""
    from txlab.experiments.kinds.language_model.symbols import late_and_early

    T = scenario.model.context
    late, early = late_and_early(T)
    why = Explaining(f"why an in-context score of {score:.4g} nats?", score)
    why.equation(
        "score = mean over t ≥ t_late of L_t − L_t_early,  L_t = −(1/B) Σ ln p(x_{t+1} | x₁ … x_t)",
        "T9, R1",
        "Olsson et al. 2022: token 500 minus token 50 of 512",
    )
    why.input("t_late", late, f"of t = 0 … {T - 1}")
    why.input("t_early", early, "where nothing has come twice yet, or next to nothing")
    why.measurement("score", "nats, over the validation sequences")
    why.means(
        compute_step("exp score", "exp({})", exp, min(score, 700.0), note="perplexity late, over perplexity early")
    )
    return why.result()


def explain_epochs(
    scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
) -> Explanation | None:
    """Epochs as tokens drawn over tokens in the text, compared with the number expected from the weight."""
    part = part_of(facts, name)
    if part is None:
        return None
    there, share, epochs = int(part["train_tokens"]), float(part["share"]), values[name]
    batch, length = scenario.train.batch, scenario.model.context
    expected = step * batch * length * share
    why = Explaining(f"how often has {part['name']} been read?", epochs)
    why.equation("epochs = tokens drawn / tokens there", "T12", "Mehlig; Brown et al. 2020, §2.2")
    why.input("w", share, "its share of the sequences")
    why.input("N", there, "tokens of its training share")
    why.step("expected", f"{step} · {batch} · {length} · {share:.4g}", expected, "tokens, without chance in the draws")
    drawn = round(epochs * there)
    why.compute("drawn", "{} · {}", mul, epochs, there, note="tokens")
    why.compute("epochs", "{} / {}", truediv, drawn, there, note="windows are drawn at random, so some come twice")
    return why.result()


def explain_part_loss(
    scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
) -> Explanation | None:
    """The contribution of one text's loss to the loss of the mixture."""
    parts = weighted_losses(values, facts)
    if part_of(facts, name) is None or parts is None:
        return None
    total = values.get("val_loss", sum(weight * loss for _, weight, loss in parts))
    why = Explaining(f"what does a loss of {values[name]:.4g} on this text add?", total)
    why.equation("L = Σᵢ wᵢ Lᵢ", "T12", "Mehlig")
    add_parts(why, parts, "val_loss, nats a token")
    return why.result()


def explain_mixture_loss(loss: float, values: Mapping[str, float], facts: Mapping[str, Any]) -> Explanation:
    """The validation loss of a mixture: the losses of its texts, weighted."""
    parts = weighted_losses(values, facts)
    why = Explaining(f"what does a loss of {loss:.4g} nats mean?", loss)
    why.equation("L = Σᵢ wᵢ Lᵢ,  Lᵢ = −(1/nᵢ) Σₜ ln p(xₜ | x₁ … xₜ₋₁)", "T12, R1", "Mehlig")
    if parts is None:
        why.measurement("L", "nats a token; the losses of its texts are not all recorded")
    else:
        add_parts(why, parts, "nats a token, whatever the length of a text")
    why.means(
        compute_step("exp L", "exp({})", exp, min(loss, 700.0), note="Πᵢ exp(Lᵢ)^wᵢ, the perplexities' mean"),
        compute_step("L / ln 2", "{} / {}", truediv, loss, log(2), note="bits a token, drawn by the weights"),
    )
    return why.result()


def weighted_losses(values: Mapping[str, float], facts: Mapping[str, Any]) -> list[tuple[str, float, float]] | None:
    """(name, weight, loss) of each text; None if one of them is not recorded."""
    parts = facts.get("corpus", {}).get("parts", [])
    known = [
        (part["name"], part["share"], values[key]) for part in parts if (key := f"val_loss/{part['name']}") in values
    ]
    return known if known and len(known) == len(parts) else None


def add_parts(why: Explaining, parts: Sequence[tuple[str, float, float]], note: str) -> None:
    """The loss of each text with its weight, their products, and the sum."""
    for name, weight, loss in parts:
        why.input(f"L of {name}", loss, f"weight {weight:.4g}")
        why.compute(f"w · L of {name}", "{} · {}", mul, weight, loss, note="nats")
    why.step("L", "the sum", sum(weight * loss for _, weight, loss in parts), note)


def part_of(facts: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The text of a mixture that a metric is about."""
    parts = facts.get("corpus", {}).get("parts", [])
    return next((part for part in parts if part["name"] == name.partition("/")[2]), None)


def explain_few_shot(
    scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
) -> Explanation | None:
    """The accuracy after k examples, compared with the best possible."""
    corpus = facts.get("corpus", {})
    n, m = corpus.get("letters"), corpus.get("answers")
    if not n or not m:
        return None
    k, share = int(name.rpartition("_")[2]), values[name]
    unseen = (1 - 1 / n) ** k
    asked = scenario.train.batch * scenario.train.validation_batches
    why = Explaining(f"why {share:.4g} right after {k} example{'' if k == 1 else 's'}?", share)
    why.equation("best possible: P(right) = 1 − (1 − 1/n)ᵏ (1 − 1/m)", "T13", "Mehlig; Brown et al. 2020, §2")
    why.input("k", k, "examples before the question")
    why.input("n", n, "letters")
    why.input("m", m, "capitals; each as likely where the letter did not come before")
    why.step("not shown", f"(1 − 1/{n})^{k}", unseen, "the letter of the question is in none of the examples")
    why.compute(
        "best",
        "1 − {} · (1 − 1/{})",
        lambda u, m: 1 - u * (1 - 1 / m),
        unseen,
        m,
        note="by look-up, else by guessing",
    )
    why.step("measured", f"{share * asked:.0f} / {asked}", share, "on maps that were never trained")
    why.meaning += interval_steps(share, asked)
    return why.result()
