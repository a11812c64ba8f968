"""The kind "convolution": filters that learn to tell generated shapes (MATH F7), and the schema of its scenarios.

torch is not imported here, because validating a scenario imports its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from txlab.engine.explain import Explanation, Operand, Step
from txlab.errors import LabError
from txlab.experiments.kinds.image_classification import ImageTrain, ProbeImage, ShapeImages
from txlab.experiments.learning.explanations import MeanLoss
from txlab.experiments.learning.kind import GradientKind
from txlab.experiments.protocol import Frame
from txlab.experiments.schema import Scenario, Section, several

if TYPE_CHECKING:
    from txlab.engine.convolution import ConvShape

Channels = Annotated[int, Field(ge=1, le=512)]
Side = Annotated[int, Field(ge=1, le=32)]


class Filters(Section):
    """Layers of filters, relu and the largest of each 2 × 2 between them."""

    channels: list[Channels] = Field([8, 32], min_length=1, max_length=6, description="filters of each layer")
    sizes: list[Side] = Field(
        [5, 5], min_length=1, max_length=6, description="pixels of a side of each layer's filters"
    )

    @model_validator(mode="after")
    def as_many_sizes_as_layers(self) -> Self:
        if len(self.channels) != len(self.sizes):
            raise ValueError(f"{len(self.channels)} layers have channels and {len(self.sizes)} have sizes")
        return self


class ConvolutionScenario(Scenario):
    """A convolutional network that learns to name the shape in a picture."""

    kind: Literal["convolution"] = "convolution"
    data: ShapeImages = Field(default_factory=ShapeImages)
    model: Filters = Field(default_factory=Filters)
    train: ImageTrain = Field(default_factory=ImageTrain)
    look: ProbeImage = Field(default_factory=ProbeImage)

    def shape(self) -> ConvShape:
        from txlab.engine.convolution import ConvShape

        model = self.model
        return ConvShape(self.data.image, tuple(model.channels), tuple(model.sizes), len(self.data.shapes))

    @model_validator(mode="after")
    def filters_fit(self) -> Self:
        side = self.data.image
        for number, size in enumerate(self.model.sizes, 1):
            if size > side:
                raise ValueError(
                    f"the filters of layer {number} have {size} pixels a side, and what they read has {side}"
                )
            side = (side - size + 1) // 2
        return self

    def outline(self) -> list[tuple[str, str]]:
        layers = ", ".join(
            f"{channels} of {size} × {size}"
            for channels, size in zip(self.model.channels, self.model.sizes, strict=True)
        )
        return [
            ("Model", f"filters: {layers}"),
            ("Images", f"{self.data.image} × {self.data.image} pixels: {', '.join(self.data.shapes)}"),
            ("Training", f"{several(self.train.steps, 'step')} of {self.train.batch} images"),
        ]


class ConvolutionKind(GradientKind):
    name = "convolution"
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
        return Explanation(
            question=f"why does filter {channel + 1} answer {result:.4g} at row {y + 1}, column {x + 1}?",
            equation="z[y, x] = b + Σ_{u,v} W[u, v] a[y + u, x + v]",
            math="F7",
            source="Wang §3; LeCun et al. 1989",
            operands=[
                Operand("a", [[float(each) for each in row] for row in patch], "the patch: −1 is black, 1 white"),
                Operand("W", [[float(each) for each in row] for row in weights], "the filter"),
                Operand("b", bias),
            ],
            steps=[
                Step("W a", "each weight times its pixel", [[float(each) for each in row] for row in products]),
                Step("z", f"{bias:.4g} + {float(products.sum()):.4g}".replace("-", "−"), result, "then relu"),
            ],
            result=result,
        )


KIND = ConvolutionKind()
