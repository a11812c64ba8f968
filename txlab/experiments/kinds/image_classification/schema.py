"""The scenarios of "image-classification": tables, keys, defaults, and what does not fit together; without torch.

Letters are those of `txlab formulas`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from txlab.experiments.learning import schema as learning
from txlab.experiments.schema import NonNegativeInt, PositiveInt, Scenario, Section, several

if TYPE_CHECKING:
    from txlab.engine.transformer.vision import VisionShape


Name = Literal["circle", "square", "triangle", "cross", "ring", "crescent"]
NAMES: tuple[Name, ...] = get_args(Name)


class ShapeImages(Section):
    """Images of one shape each, at a random place, size, angle and in random colours, under noise."""

    shapes: list[Name] = Field(list(NAMES), min_length=2, description="the classes")
    image: Annotated[int, Field(ge=8, le=512)] = Field(32, description="Y = X, pixels a side; a multiple of the patch")
    smallest: Annotated[float, Field(gt=0, le=0.5)] = Field(0.2, description="least radius, as a share of the side")
    largest: Annotated[float, Field(gt=0, le=0.5)] = Field(0.4, description="largest radius, as a share of the side")
    noise: Annotated[float, Field(ge=0, le=2)] = Field(0.08, description="deviation of the noise; white is 1, black 0")

    @model_validator(mode="after")
    def shapes_are_several_and_fit(self) -> Self:
        if len(set(self.shapes)) < len(self.shapes):
            raise ValueError(f"shapes must not name one twice; they are {', '.join(self.shapes)}")
        if self.smallest > self.largest:
            raise ValueError(f"smallest must not be above largest; {self.smallest} is above {self.largest}")
        return self


class VisionModel(learning.TransformerSection):
    """The shape of the vision transformer (MATH T14)."""

    layers: PositiveInt = Field(4, description="N, blocks")
    width: PositiveInt = Field(64, description="D, model width; a multiple of heads")
    patch: PositiveInt = Field(4, description="P, pixels a side of a patch")
    pooling: Literal["class", "mean"] = Field("class", description="class: a learnt token is read; mean: the patches")
    activation: Literal["gelu", "relu"] = "gelu"


class ImageTrain(learning.Batches, learning.Optimizer):
    """AdamW, a batch being of images."""

    batch: PositiveInt = Field(64, description="B, images a step")


class ProbeImage(Section):
    """The contents of a frame: the attention patterns of one image that training never sees."""

    image: NonNegativeInt = Field(0, description="its number among the generated ones")


class ImageScenario(Scenario):
    """A vision transformer that learns to name the shape in an image."""

    kind: Literal["image-classification"] = "image-classification"
    data: ShapeImages = Field(default_factory=ShapeImages)
    model: VisionModel = Field(default_factory=VisionModel)
    train: ImageTrain = Field(default_factory=ImageTrain)
    probe: ProbeImage = Field(default_factory=ProbeImage)

    def shape(self) -> VisionShape:
        """The model's shape: one class per shape to be named."""
        from txlab.engine.transformer.vision import VisionShape

        return VisionShape(image=self.data.image, classes=len(self.data.shapes), **self.model.model_dump())

    @model_validator(mode="after")
    def patches_fill_the_image(self) -> Self:
        side, patch = self.data.image, self.model.patch
        if side % patch:
            raise ValueError(f"data.image must be a multiple of model.patch; {side} is not a multiple of {patch}")
        if (side // patch) ** 2 > 1024:
            raise ValueError(f"model.patch = {patch} cuts data.image = {side} into more than 1024 patches")
        return self

    def outline(self) -> list[tuple[str, str]]:
        model, data, train = self.model, self.data, self.train
        side = data.image // model.patch
        layers, heads = several(model.layers, "layer"), several(model.heads, "head")
        patches = f"{side} × {side} patches of {model.patch} × {model.patch} pixels"
        return [
            ("Model", f"{layers}, {heads}, width {model.width}, {patches}"),
            ("Images", f"{data.image} × {data.image} pixels, made as they are needed: {', '.join(data.shapes)}"),
            ("Training", f"{several(train.steps, 'step')} of {train.batch} images"),
        ]
