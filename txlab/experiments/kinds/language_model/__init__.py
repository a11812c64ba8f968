"""The kind "language-model": a decoder-only transformer that learns to predict the next token (MATH T9)."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

from txlab.engine.explain import Explanation, Operand, Step
from txlab.experiments.kinds.language_model import explanations
from txlab.experiments.kinds.language_model.schema import LanguageModelScenario
from txlab.experiments.learning.kind import (
    LOSSES,
    GradientKind,
    Size,
    dimensions,
    explain_size,
    refuse_unknown,
    vocabulary_of,
)
from txlab.experiments.metric import Metric

if TYPE_CHECKING:
    from txlab.engine.transformer.gpt import GPTShape


class LanguageModelKind(GradientKind):
    name = "language-model"
    title = "Language model"
    attends = True
    schema = LanguageModelScenario
    ungraphed = ""
    METRICS = (
        *LOSSES,
        Metric("val_bits_per_byte", "bits/byte", "bits/byte", less=True, primary=True),
        Metric("copy_accuracy", "", "copies", "share of repeated tokens that are right", less=False, primary=True),
        Metric("in_context_score", "nats", "in context", "loss late minus loss early, nats", less=True, primary=True),
        Metric("val_loss/", label="val", title="nats, validation of each text", less=True),
        Metric("epochs/", label="epochs", title="epochs of each text"),
        Metric("accuracy_", label="accuracy", title="accuracy by number of examples", less=False),
    )

    def validation_text(self, scenario: LanguageModelScenario) -> str:
        from txlab.experiments.kinds.language_model.data import validation_text

        return validation_text(scenario)

    def explain_metric(
        self,
        scenario: LanguageModelScenario,
        name: str,
        step: int,
        values: Mapping[str, float],
        facts: Mapping[str, Any],
    ) -> Explanation | None:
        explanation = (
            explanations.explain_metric(scenario, name, step, values, facts) if isfinite(values[name]) else None
        )
        return explanation or super().explain_metric(scenario, name, step, values, facts)

    def shape_of(self, scenario: LanguageModelScenario) -> GPTShape:
        data = scenario.data
        reads = data.source == "text"
        return scenario.model.shape(vocabulary_of(data.tokenizer, data.vocabulary) if reads else data.vocabulary)

    def explain_scenario(self, scenario: LanguageModelScenario, seconds: float = 0.0) -> Explanation:
        """The decoder, with every matrix counted."""
        from txlab.engine.transformer.costs import costs

        refuse_unknown(scenario.start)
        data, shape = scenario.data, self.shape_of(scenario)
        reads = data.source == "text"
        N, D, F, T, V = shape.layers, shape.width, shape.inner, shape.context, shape.vocabulary
        cost = costs(shape)
        in_block = (cost.matmul_weights - V * D) // N
        form, made, maps = "4 D² + 2 D F", f"4 · {D}² + 2 · {D} · {F}", "W_Q, W_K, W_V, W_O; W₁, W₂"
        if shape.gated or shape.groups < shape.heads:
            G, matrices = shape.groups, 3 if shape.gated else 2
            form = f"2 D² (1 + G/H) + {matrices} D F"
            made, maps = f"2 · {D}² · (1 + {G}/{shape.heads}) + {matrices} · {D} · {F}", maps + ", W₃" * shape.gated
        if not F:  # attention alone
            form, made, maps = form.rpartition(" + ")[0], made.rpartition(" + ")[0], maps.partition(";")[0]
        beside = ["" if shape.tied else "W_E", "positions" if shape.positions == "learned" else "", "norms"]
        beside += ["biases"] if shape.bias else []
        return explain_size(
            Size(cost, N, T, D, "token", ", ".join(filter(None, beside))),
            scenario,
            seconds,
            equation=f"FLOPs a step = B · T · (6 w + 12 N T D),  w = N ({form}) + V D",
            math="T9, T11",
            operands=[
                *dimensions(N, shape.heads, D, F),
                Operand("T", T, "context"),
                Operand("V", V, "symbols" if not reads else "bytes" if data.tokenizer == "bytes" else "tokens"),
            ],
            weights=[
                Step("a block", made, in_block, maps),
                Step(
                    "w",
                    f"{N} · {in_block} + {V} · {D}",
                    N * in_block + V * D,
                    "with W_U: weights per token",
                ),
            ],
        )


KIND = LanguageModelKind()
