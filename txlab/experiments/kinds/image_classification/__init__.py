"""The kind "image-classification": a vision transformer that learns to name generated shapes (MATH T14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from txlab.engine.explain import Explanation, Operand, Step
from txlab.experiments.kinds.image_classification.schema import ImageScenario
from txlab.experiments.learning.explanations import MeanLoss
from txlab.experiments.learning.kind import GradientKind, Size, dimensions, explain_size

if TYPE_CHECKING:
    from txlab.engine.transformer.vision import VisionShape


class ImageClassificationKind(GradientKind):
    name = "image-classification"
    writes = False
    title = "Image classification"
    attends = True
    schema = ImageScenario
    mean = MeanLoss("L = −(1/n) Σ ln p(class | image)", "T14", "the images", "classes")
    uncompiled = "these runs take a minute or two"
    ungraphed = ""

    def shape_of(self, scenario: ImageScenario) -> VisionShape:
        return scenario.shape()

    def explain_scenario(self, scenario: ImageScenario, seconds: float = 0.0) -> Explanation:
        from txlab.engine.transformer.costs import costs

        shape = scenario.shape()
        N, D, F, T = shape.layers, shape.width, shape.inner, shape.context
        cost = costs(shape)
        rest = cost.matmul_weights - N * (4 * D * D + 2 * D * F)
        made = f"{N} · (4 · {D}² + 2 · {D} · {F}) + {rest}"
        also = " and the class token" if shape.pooling == "class" else ""
        return explain_size(
            Size(cost, N, T, D, "patch", "positions, norms, biases"),
            scenario,
            seconds,
            equation="FLOPs a step = B · T · (6 w + 12 N T D)",
            math="T11, T14",
            operands=[*dimensions(N, shape.heads, D, F), Operand("T", T, f"patches of an image{also}")],
            weights=[Step("w", made, cost.matmul_weights, "with the patches' map and, once an image, the classes")],
        )


KIND = ImageClassificationKind()
