"""How large the model of a scenario is and what a step of it costs, before it has run."""

from txlab.engine.explain import Explanation, Operand, Step
from txlab.experiments.kinds.image_classification.schema import ImageScenario
from txlab.experiments.learning.sizes import Size, dimensions, explained


def explain_scenario(scenario: ImageScenario, seconds: float) -> Explanation:
    """A vision transformer."""
    from txlab.engine.transformer.costs import costs
    from txlab.experiments.kinds.image_classification.shape import shape_of

    shape = shape_of(scenario)
    N, D, F, T = shape.layers, shape.width, shape.inner, shape.context
    cost = costs(shape)
    rest = cost.matmul_weights - N * (4 * D * D + 2 * D * F)
    made = f"{N} · (4 · {D}² + 2 · {D} · {F}) + {rest}"
    also = " and the class token" if shape.pooling == "class" else ""
    return explained(
        Size(cost, N, T, D, "patch", "positions, norms, biases"),
        scenario.train,
        seconds,
        equation="FLOPs a step = B · T · (6 w + 12 N T D)",
        math="T11, T14",
        operands=[*dimensions(N, shape.heads, D, F), Operand("T", T, f"patches of an image{also}")],
        weights=[Step("w", made, cost.matmul_weights, "with the patches' map and, once an image, the classes")],
    )
