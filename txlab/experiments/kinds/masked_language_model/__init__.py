"""The kind "masked-language-model": an encoder that learns to predict masked tokens from both sides (MATH T10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from txlab.engine.explain import Explanation, Operand, Step
from txlab.experiments.kinds.masked_language_model.schema import MaskedLanguageModelScenario
from txlab.experiments.learning.explanations import MeanLoss
from txlab.experiments.learning.kind import GradientKind, Size, dimensions, explain_size, refuse_unknown, vocabulary_of

if TYPE_CHECKING:
    from txlab.engine.transformer.bert import BertShape


class MaskedLanguageModelKind(GradientKind):
    name = "masked-language-model"
    title = "Masked language model"
    attends = True
    schema = MaskedLanguageModelScenario
    mean = MeanLoss("L = −(1/n) Σₜ ln p(xₜ | the text with its gaps)", "T10", "the tokens asked for", "tokens")
    uncompiled = "not for a masked-language-model"
    ungraphed = ""
    unfit = "a masked-language-model"

    def shape_of(self, scenario: MaskedLanguageModelScenario) -> BertShape:
        data = scenario.data
        return scenario.model.shape(vocabulary_of(data.tokenizer, data.vocabulary) + 3)  # [CLS], [SEP], [MASK]

    def explain_scenario(self, scenario: MaskedLanguageModelScenario, seconds: float = 0.0) -> Explanation:
        from txlab.engine.transformer.costs import costs

        refuse_unknown(scenario.start)
        shape = self.shape_of(scenario)
        N, D, F, T, V = shape.layers, shape.width, shape.inner, shape.context, shape.vocabulary
        cost = costs(shape)
        made = f"{N} · (4 · {D}² + 2 · {D} · {F}) + {D}² + {V} · {D}"
        return explain_size(
            Size(cost, N, T, D, "token", "tables, norms, biases"),
            scenario,
            seconds,
            equation="FLOPs a step = B · T · (6 w + 12 N T D),  w = N (4 D² + 2 D F) + D² + V D",
            math="T10, T11",
            operands=[
                *dimensions(N, shape.heads, D, F),
                Operand("T", T, "context"),
                Operand("V", V, "tokens, with [CLS], [SEP] and [MASK]"),
            ],
            weights=[Step("w", made, cost.matmul_weights, "weights per token")],
        )


KIND = MaskedLanguageModelKind()
