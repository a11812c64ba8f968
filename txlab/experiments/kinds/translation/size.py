"""How large the model of a scenario is and what a step of it costs, before it has run."""

from txlab.engine.explain import Explanation, Operand, Step
from txlab.experiments.kinds.translation.schema import TranslationScenario
from txlab.experiments.learning.sizes import Size, dimensions, explained


def explain_scenario(scenario: TranslationScenario, seconds: float) -> Explanation:
    """An encoder–decoder, at its full context: real pairs are shorter, and cost less."""
    from txlab.engine.transformer.costs import costs
    from txlab.experiments.kinds.translation.shape import shape_of

    shape = shape_of(scenario)
    E, N, D, F, T = shape.encoder_layers, shape.decoder_layers, shape.width, shape.inner, shape.context
    V, cost = shape.target_vocabulary, costs(shape)
    made = f"{E} · (4 · {D}² + 2 · {D} · {F}) + {N} · (8 · {D}² + 2 · {D} · {F}) + {V} · {D}"
    return explained(
        Size(cost, E + 2 * N, T, D, "position", "tables, norms, biases"),
        scenario.train,
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
        weights=[Step("w", made, cost.matmul_weights, "what a position is multiplied with")],
    )
