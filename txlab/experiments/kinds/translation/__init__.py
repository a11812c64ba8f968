"""The kind "translation": an encoder–decoder that learns to translate generated pairs (MATH T8)."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

from txlab.engine.explain import Explaining, Explanation, Operand, Step, compute_step
from txlab.experiments.kinds.translation.schema import TranslationScenario
from txlab.experiments.learning.explanations import MeanLoss
from txlab.experiments.learning.kind import LOSSES, GradientKind, Size, dimensions, explain_size
from txlab.experiments.metric import Metric

if TYPE_CHECKING:
    from txlab.engine.transformer.encoder_decoder import EncoderDecoderShape

MEAN = MeanLoss("L = −(1/n) Σₜ ln p(yₜ | y₁ … yₜ₋₁, x)", "T8, R1", "the tokens of the targets", "tokens")
METRICS = (
    *LOSSES,
    Metric("exact_match", label="exact", note="unseen ones right throughout", less=False, primary=True),
    Metric("token_accuracy", label="tokens", note="right, the ones before given", less=False),
)


class TranslationKind(GradientKind):
    name = "translation"
    title = "Translation"
    attends = True
    schema = TranslationScenario
    mean, METRICS = MEAN, METRICS
    uncompiled = "batches have many shapes"
    ungraphed = "batches have many shapes"
    unfit = "translation, whose batches have many shapes"

    def explain_metric(
        self, scenario: TranslationScenario, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        if name == "exact_match" and isfinite(values[name]):
            return explain_exact_match(values, facts)
        return super().explain_metric(scenario, name, step, values, facts)

    def shape_of(self, scenario: TranslationScenario) -> EncoderDecoderShape:
        return scenario.shape()

    def explain_scenario(self, scenario: TranslationScenario, seconds: float = 0.0) -> Explanation:
        """An encoder–decoder at its full context; real pairs are shorter and cost less."""
        from txlab.engine.transformer.costs import costs

        shape = scenario.shape()
        E, N, D, F, T = shape.encoder_layers, shape.decoder_layers, shape.width, shape.inner, shape.context
        V, cost = shape.target_vocabulary, costs(shape)
        made = f"{E} · (4 · {D}² + 2 · {D} · {F}) + {N} · (8 · {D}² + 2 · {D} · {F}) + {V} · {D}"
        return explain_size(
            Size(cost, E + 2 * N, T, D, "position", "tables, norms, biases"),
            scenario,
            seconds,
            equation="FLOPs a step ≤ B · T · (6 w + 12 (Nₑ + 2 N_d) T D)",
            math="T8, T11",
            operands=[
                Operand("Nₑ", E, f"layers of the encoder, of {shape.heads} heads each"),
                Operand("N_d", N, "layers of the decoder, each with cross-attention too"),
                *dimensions(N, shape.heads, D, F)[1:],
                Operand("T", T, "most tokens of a source and of a target; a position is one of each"),
                Operand("V", V, f"tokens of the target; the source has {shape.source_vocabulary}"),
            ],
            weights=[Step("w", made, cost.matmul_weights, "weights per position")],
        )


def explain_exact_match(values: Mapping[str, float], facts: Mapping[str, Any]) -> Explanation:
    """The number of exact sentences, compared with the number expected from the token accuracy for independent
    errors."""
    share, tokens, corpus = values["exact_match"], values.get("token_accuracy"), facts.get("corpus", {})
    pairs, length = corpus.get("unseen_pairs"), corpus.get("target_tokens")
    why = Explaining(f"what does an exact match of {share:.4g} mean?", share)
    why.equation("exact match = (1/n) Σ [ŷ = y],  ŷₜ = argmax p(· | ŷ₁ … ŷₜ₋₁, x)", "T8", "Wang §5")
    why.measurement("exact match", "counted")
    if pairs:
        why.input("n", pairs, "pairs that training never saw, always the same")
        why.means(
            compute_step("right", "{} · {}", lambda a, n: a * n, share, pairs, note="in every token"),
            Step("wrong", f"(1 − {share:.4f}) · {pairs}", (1 - share) * pairs, "in at least one"),
        )
    if tokens is not None and length:
        why.input("a", tokens, "token_accuracy: the likeliest token is right, given those before it")
        why.input("T", length, "tokens of a translation, on average, with its end")
        meaning = "if mistakes fell on tokens at random; it is more where they gather in a few sentences"
        why.means(Step("aᵀ", f"{tokens:.4f}^{length:.1f}", tokens**length, meaning))
    return why.result()


KIND = TranslationKind()
