"""The kind "convolution": filters that learn to tell generated shapes (MATH F7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add
from typing import Any, ClassVar

from txlab.engine.explain import HALF, Explaining, Explanation
from txlab.errors import LabError
from txlab.experiments.kinds.convolution.schema import ConvolutionScenario
from txlab.experiments.learning.explanations import MeanLoss
from txlab.experiments.learning.kind import GradientKind
from txlab.experiments.protocol import Frame


class ConvolutionKind(GradientKind):
    name = "convolution"
    writes = False
    title = "Convolution"
    schema = ConvolutionScenario
    screen: ClassVar[str] = "convolution"
    mean = MeanLoss("L = −(1/n) Σ ln p(class | image)", "F7", "the images", "classes")
    uncompiled = "these runs take seconds"
    ungraphed = ""

    def resolve(self, scenario: Any, say: Callable[[str], None] = lambda text: None) -> Any:
        """Decide about threads alone: there is no attention, and the products are small."""
        compute = scenario.compute
        fixed = {"dtype": "float32", "attention": "sdpa"}
        decided = {name: value for name, value in fixed.items() if getattr(compute, name) == "auto"}
        return super().resolve(scenario.model_copy(update={"compute": compute.model_copy(update=decided)}), say)

    def shape_of(self, scenario: Any) -> Any:
        return scenario.shape()

    def require_possible(self, scenario: Any) -> None:
        """The bounds of the schema are enough."""

    def explain_frame(self, frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
        """Explain map/0 at (filter, y, x): the patch, the weights, the products and their sum. MATH F7."""
        if tensor != "map/0":
            raise LabError(f"nothing explains {tensor} here")
        channel, y, x = index
        weights, bias = frame.tensors["filter/0"][channel, 0], float(frame.tensors["bias/0"][channel])
        k = len(weights)
        patch = frame.tensors["picture"][y : y + k, x : x + k]
        products = patch * weights
        result = float(frame.tensors["map/0"][channel, y, x])
        why = Explaining(f"why does filter {channel + 1} answer {result:.4g} at row {y + 1}, column {x + 1}?", result)
        why.equation("z[y, x] = b + Σ_{u,v} W[u, v] a[y + u, x + v]", "F7", "Wang §3; LeCun et al. 1989")
        why.input("a", [[float(each) for each in row] for row in patch], "the patch: −1 is black, 1 white")
        why.input("W", [[float(each) for each in row] for row in weights], "the filter")
        why.input("b", bias)
        why.step("W a", "each weight times its pixel", [[float(each) for each in row] for row in products])
        why.compute("z", "{} + {}", add, bias, float(products.sum()), note="then relu")
        return why.result(HALF, scale=float(abs(products).sum()))


KIND = ConvolutionKind()
