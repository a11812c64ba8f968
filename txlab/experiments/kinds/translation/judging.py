"""What it means that so many translations are right in every token (MATH T8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from txlab.engine.explain import Explanation, Operand, Step


def explain_exact_match(
    scenario: object, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
) -> Explanation:
    """How many sentences that is, beside what the token accuracy would make of it if mistakes fell at random."""
    share, tokens, corpus = values[name], values.get("token_accuracy"), facts.get("corpus", {})
    pairs, length = corpus.get("unseen_pairs"), corpus.get("target_tokens")
    operands, steps = [], []
    if pairs:
        operands.append(Operand("n", pairs, "pairs that training never saw, always the same"))
        steps.append(Step("right", f"{share:.4f} · {pairs}", share * pairs, "in every token"))
        steps.append(Step("wrong", f"(1 − {share:.4f}) · {pairs}", (1 - share) * pairs, "in at least one"))
    if tokens is not None and length:
        operands += [
            Operand("a", tokens, "token_accuracy: the likeliest token is right, given those before it"),
            Operand("T", length, "tokens of a translation, on average, with its end"),
        ]
        told = "if mistakes fell on tokens at random; it is more where they gather in a few sentences"
        steps.append(Step("aᵀ", f"{tokens:.4f}^{length:.1f}", tokens**length, told))
    return Explanation(
        question=f"what does an exact match of {share:.4g} mean?",
        equation="exact match = (1/n) Σ [ŷ = y],  ŷₜ = argmax p(· | ŷ₁ … ŷₜ₋₁, x)",
        math="T8",
        source="Wang §5",
        operands=operands,
        steps=steps,
        result=share,
    )
