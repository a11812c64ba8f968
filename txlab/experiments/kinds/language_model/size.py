"""How large the model of a scenario is and what a step of it costs, before it has run."""

from txlab.engine.explain import Explanation, Operand, Step
from txlab.experiments.kinds.language_model.schema import LanguageModelScenario
from txlab.experiments.learning.sizes import Size, dimensions, explained, refuse_unknown, vocabulary_of


def explain_scenario(scenario: LanguageModelScenario, seconds: float) -> Explanation:
    """The decoder of a language model, with every matrix counted."""
    from txlab.engine.transformer.costs import costs
    from txlab.experiments.kinds.language_model.shape import shape_of

    refuse_unknown(scenario.start)
    data = scenario.data
    reads = data.source == "text"
    shape = shape_of(scenario, vocabulary_of(data.tokenizer, data.vocabulary) if reads else data.vocabulary)
    N, D, F, T, V = shape.layers, shape.width, shape.inner, shape.context, shape.vocabulary
    cost = costs(shape)
    in_block = (cost.matmul_weights - V * D) // N
    said, made, maps = "4 D² + 2 D F", f"4 · {D}² + 2 · {D} · {F}", "W_Q, W_K, W_V, W_O; W₁, W₂"
    if shape.gated or shape.groups < shape.heads:
        G, matrices = shape.groups, 3 if shape.gated else 2
        said = f"2 D² (1 + G/H) + {matrices} D F"
        made, maps = f"2 · {D}² · (1 + {G}/{shape.heads}) + {matrices} · {D} · {F}", maps + ", W₃" * shape.gated
    beside = ["" if shape.tied else "W_E", "positions" if shape.positions == "learned" else "", "norms"]
    beside += ["biases"] if shape.bias else []
    return explained(
        Size(cost, N, T, D, "token", ", ".join(filter(None, beside))),
        scenario.train,
        seconds,
        equation=f"FLOPs a step = B · T · (6 w + 12 N T D),  w = N ({said}) + V D",
        math="T9, T11",
        operands=[
            *dimensions(N, shape.heads, D, F),
            Operand("T", T, "context"),
            Operand("V", V, "symbols" if not reads else "bytes" if data.tokenizer == "bytes" else "tokens"),
        ],
        weights=[
            Step("a block", made, in_block, maps),
            Step(
                "w", f"{N} · {in_block} + {V} · {D}", N * in_block + V * D, "with W_U: what a token is multiplied with"
            ),
        ],
    )
