"""Answers to "why this number?" for metrics of mixtures, the few-shot task and masked text (MATH T10, T12, T13)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import exp, log
from operator import mul, truediv
from typing import Any

from txlab.engine.explain import Explanation, Operand, Step, computed
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
    """What the symbols before it are worth to a late one."""
    from txlab.experiments.kinds.language_model.symbols import late_and_early

    T = scenario.model.context
    late, early = late_and_early(T)
    return Explanation(
        question=f"why an in-context score of {score:.4g} nats?",
        equation="score = mean over t ≥ t_late of L_t − L_t_early,  L_t = −(1/B) Σ ln p(x_{t+1} | x₁ … x_t)",
        math="T9, R1",
        source="Olsson et al. 2022: token 500 minus token 50 of 512",
        operands=[
            Operand("t_late", late, f"of t = 0 … {T - 1}"),
            Operand("t_early", early, "where nothing has come twice yet, or next to nothing"),
        ],
        steps=[Step("score", "", score, "nats, over the validation sequences")],
        meaning=[
            computed("exp score", "exp({})", exp, min(score, 700.0), note="perplexity late, over perplexity early")
        ],
    )


def explain_epochs(
    scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
) -> Explanation | None:
    """Epochs as tokens drawn over tokens in the text, beside the number expected from the weight."""
    part = part_of(facts, name)
    if part is None:
        return None
    there, share, epochs = int(part["train_tokens"]), float(part["share"]), values[name]
    batch, length = scenario.train.batch, scenario.model.context
    expected = step * batch * length * share
    return Explanation(
        question=f"how often has {part['name']} been read?",
        equation="epochs = tokens drawn / tokens there",
        math="T12",
        source="Mehlig; Brown et al. 2020, §2.2",
        operands=[
            Operand("w", share, "its share of the sequences"),
            Operand("N", there, "tokens of its training share"),
        ],
        steps=[
            Step(
                "expected",
                f"{step} · {batch} · {length} · {share:.4g}",
                expected,
                "tokens, were no draw left to chance",
            ),
            Step("drawn", f"{epochs:.6g} · {there}", epochs * there, "tokens"),
            Step(
                "epochs", f"{epochs * there:.0f} / {there}", epochs, "windows are drawn at random, so some come twice"
            ),
        ],
    )


def explain_part_loss(
    scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
) -> Explanation | None:
    """What the loss of one text contributes to the loss of the mixture."""
    operands, steps, complete = weighted_losses(values, facts)
    if part_of(facts, name) is None or not complete:
        return None
    steps[-1] = replace(steps[-1], note="val_loss, nats a token")
    return Explanation(
        question=f"what does a loss of {values[name]:.4g} on this text add?",
        equation="L = Σᵢ wᵢ Lᵢ",
        math="T12",
        source="Mehlig",
        operands=operands,
        steps=steps,
    )


def explain_mixture_loss(loss: float, values: Mapping[str, float], facts: Mapping[str, Any]) -> Explanation:
    """The validation loss of a mixture: the losses of its texts, weighted."""
    operands, steps, complete = weighted_losses(values, facts)
    if not complete:
        steps.append(Step("L", "", loss, "nats a token"))
    return Explanation(
        question=f"what does a loss of {loss:.4g} nats mean?",
        equation="L = Σᵢ wᵢ Lᵢ,  Lᵢ = −(1/nᵢ) Σₜ ln p(xₜ | x₁ … xₜ₋₁)",
        math="T12, R1",
        source="Mehlig",
        operands=operands,
        steps=steps,
        meaning=[
            computed("exp L", "exp({})", exp, min(loss, 700.0), note="Πᵢ exp(Lᵢ)^wᵢ, the perplexities' mean"),
            computed("L / ln 2", "{} / {}", truediv, loss, log(2), note="bits a token, drawn by the weights"),
        ],
    )


def weighted_losses(values: Mapping[str, float], facts: Mapping[str, Any]) -> tuple[list[Operand], list[Step], bool]:
    """The loss of each text with its weight, their products and, if all of them are known, the sum."""
    parts = facts.get("corpus", {}).get("parts", [])
    known = [(part, values[key]) for part in parts if (key := f"val_loss/{part['name']}") in values]
    operands = [Operand(f"L of {part['name']}", loss, f"weight {part['share']:.4g}") for part, loss in known]
    steps = [
        computed(f"w · L of {part['name']}", "{} · {}", mul, part["share"], loss, note="nats") for part, loss in known
    ]
    complete = bool(known) and len(known) == len(parts)
    if complete:
        steps.append(
            Step(
                "L",
                "the sum",
                sum(part["share"] * loss for part, loss in known),
                "nats a token, whatever the length of a text",
            )
        )
    return operands, steps, complete


def part_of(facts: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The text of a mixture that a metric is about."""
    parts = facts.get("corpus", {}).get("parts", [])
    return next((part for part in parts if part["name"] == name.partition("/")[2]), None)


def explain_few_shot(
    scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
) -> Explanation | None:
    """The accuracy after k examples, beside the best possible."""
    corpus = facts.get("corpus", {})
    n, m = corpus.get("letters"), corpus.get("answers")
    if not n or not m:
        return None
    k, share = int(name.rpartition("_")[2]), values[name]
    unseen = (1 - 1 / n) ** k
    asked = scenario.train.batch * scenario.train.validation_batches
    return Explanation(
        question=f"why {share:.4g} right after {k} example{'' if k == 1 else 's'}?",
        equation="best possible: P(right) = 1 − (1 − 1/n)ᵏ (1 − 1/m)",
        math="T13",
        source="Mehlig; Brown et al. 2020, §2",
        operands=[
            Operand("k", k, "examples before the question"),
            Operand("n", n, "letters"),
            Operand("m", m, "capitals; each as likely where the letter did not come before"),
        ],
        steps=[
            Step("not shown", f"(1 − 1/{n})^{k}", unseen, "the letter of the question is in none of the examples"),
            computed(
                "best",
                "1 − {} · (1 − 1/{})",
                lambda u, m: 1 - u * (1 - 1 / m),
                unseen,
                m,
                note="whoever looks it up, and guesses",
            ),
            Step("measured", f"{share * asked:.0f} / {asked}", share, "on maps that were never trained"),
        ],
        meaning=interval_steps(share, asked),
    )
