"""The scenarios of "superposition": tables, keys, defaults, and what does not fit together; without torch."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from txlab.experiments.learning import schema as learning
from txlab.experiments.schema import PositiveInt, Scenario, Section, several

KEPT = 0.5  # a feature whose vector is longer than this has a direction of its own
Sparsity = Annotated[float, Field(ge=0, lt=1)]


class Features(Section):
    """The features: numbers that are mostly zero, x_i uniform in 0 … 1, or 0 with probability S."""

    features: Annotated[int, Field(ge=2, le=256)] = Field(5, description="n")
    sparsities: list[Sparsity] = Field(
        [0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99],
        min_length=1,
        max_length=16,
        description="S, one for each model: how often a feature is zero",
    )
    importance: Annotated[float, Field(gt=0, le=1)] = Field(
        0.9, description="r: an error in feature i = 0, 1 … counts rⁱ"
    )

    @model_validator(mode="after")
    def each_once(self) -> Self:
        if len(set(self.sparsities)) < len(self.sparsities):
            raise ValueError("each sparsity may be named once")
        return self


class Bottleneck(Section):
    """x′ = ReLU(Wᵀ W x + b), W (m, n): column i of W is the vector of feature i."""

    dimensions: Annotated[int, Field(ge=2, le=64)] = Field(2, description="m")
    restarts: Annotated[int, Field(ge=1, le=256)] = Field(
        8, description="models of each sparsity, from different initial weights; the one of least loss is shown"
    )


class Train(learning.Batches, learning.Optimizer):
    """One Adam for all models: none of their weights is shared, so each learns as if alone."""

    steps: PositiveInt = 2000
    batch: PositiveInt = Field(1024, description="B, examples a step, the same for all models")
    learning_rate: Annotated[float, Field(gt=0, le=10)] = 1e-2
    warmup: Annotated[int, Field(ge=0)] = Field(0, description="steps of linear warm-up")
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.999
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    clip: Annotated[float, Field(ge=0)] = Field(0.0, description="largest gradient norm, of all models; 0 = none")
    final: Annotated[float, Field(ge=0, le=1)] = Field(0.0, description="last learning rate, as a share of the peak")


class SuperpositionScenario(Scenario):
    """Features that share dimensions, the more the sparser they are."""

    kind: Literal["superposition"] = "superposition"
    data: Features = Field(default_factory=Features)
    model: Bottleneck = Field(default_factory=Bottleneck)
    train: Train = Field(default_factory=Train)

    def outline(self) -> list[tuple[str, str]]:
        data, model, train = self.data, self.model, self.train
        return [
            ("Model", f"{several(data.features, 'feature')} in {several(model.dimensions, 'dimension')} and back"),
            ("Sparsities", f"{', '.join(f'{S:g}' for S in data.sparsities)}; the best of {model.restarts} each"),
            ("Training", f"{several(train.steps, 'step')} of {several(train.batch, 'example')}"),
        ]
