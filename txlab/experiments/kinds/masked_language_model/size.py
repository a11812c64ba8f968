"""How large the model of a scenario is and what a step of it costs, before it has run."""

from txlab.engine.explain import Explanation, Operand, Step
from txlab.experiments.kinds.masked_language_model.schema import MaskedLanguageModelScenario
from txlab.experiments.learning.sizes import Size, dimensions, explained, refuse_unknown, vocabulary_of


def explain_scenario(scenario: MaskedLanguageModelScenario, seconds: float) -> Explanation:
    """An encoder that fills gaps."""
    from txlab.engine.transformer.costs import costs
    from txlab.experiments.kinds.masked_language_model.shape import shape_of

    refuse_unknown(scenario.start)
    data = scenario.data
    shape = shape_of(scenario, vocabulary_of(data.tokenizer, data.vocabulary) + 3)  # [CLS], [SEP], [MASK]
    N, D, F, T, V = shape.layers, shape.width, shape.inner, shape.context, shape.vocabulary
    cost = costs(shape)
    made = f"{N} · (4 · {D}² + 2 · {D} · {F}) + {D}² + {V} · {D}"
    return explained(
        Size(cost, N, T, D, "token", "tables, norms, biases"),
        scenario.train,
        seconds,
        equation="FLOPs a step = B · T · (6 w + 12 N T D),  w = N (4 D² + 2 D F) + D² + V D",
        math="T10, T11",
        operands=[
            *dimensions(N, shape.heads, D, F),
            Operand("T", T, "context"),
            Operand("V", V, "tokens, with [CLS], [SEP] and [MASK]"),
        ],
        weights=[Step("w", made, cost.matmul_weights, "what a token is multiplied with")],
    )
