"""The scenarios of "convolution": tables, keys, defaults, and what does not fit together; without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from txlab.experiments.kinds.image_classification.schema import ImageTrain, ProbeImage, ShapeImages
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
    probe: ProbeImage = Field(default_factory=ProbeImage)

    def shape(self) -> ConvShape:
        from txlab.engine.convolution import ConvShape

        model = self.model
        return ConvShape(self.data.image, tuple(model.channels), tuple(model.sizes), len(self.data.shapes))

    @model_validator(mode="after")
    def filters_fit(self) -> Self:
        side = self.data.image
        for number, size in enumerate(self.model.sizes, 1):
            if size > side:
                raise ValueError(f"the filters of layer {number} have {size} pixels a side, and their input has {side}")
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
