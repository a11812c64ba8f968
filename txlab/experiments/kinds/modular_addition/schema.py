"""The scenarios of "modular-addition": tables, keys, defaults, and what does not fit together; without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from txlab.experiments.learning import schema as learning
from txlab.experiments.schema import PositiveInt, Scenario, Section, several

if TYPE_CHECKING:
    from txlab.engine.transformer.gpt import GPTShape


STRONGEST = 5  # frequencies whose share of the energy is the metric "fourier", as many as Nanda et al. found


class Sums(Section):
    """All p² pairs, some for training and the others for validation."""

    modulus: Annotated[int, Field(ge=5, le=400)] = Field(59, description="p; the numbers are 0 … p − 1")
    share: Annotated[float, Field(gt=0, lt=1)] = Field(0.4, description="share of the pairs used for training")

    @property
    def pairs(self) -> int:
        """The number of training pairs: at least one, but not all."""
        return min(max(1, round(self.share * self.modulus**2)), self.modulus**2 - 1)


class Adder(learning.TransformerSection):
    """The decoder that reads "a b =" (MATH T9)."""

    layers: PositiveInt = Field(1, description="N, blocks")
    width: PositiveInt = Field(64, description="D, model width; a multiple of heads")
    activation: Literal["relu", "gelu"] = "relu"
    normalisation: Literal["layer", "rms"] = "layer"


class Train(learning.Optimizer):
    """One AdamW; a step sees all pairs of training."""

    steps: PositiveInt = 1500
    learning_rate: Annotated[float, Field(gt=0, le=10)] = 3e-3
    warmup: Annotated[int, Field(ge=0)] = Field(10, description="steps of linear warm-up")
    decay: Literal["cosine", "constant"] = "constant"
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.98
    weight_decay: Annotated[float, Field(ge=0)] = 1.0


class AdditionScenario(Scenario):
    """A transformer that learns to add modulo p."""

    kind: Literal["modular-addition"] = "modular-addition"
    data: Sums = Field(default_factory=Sums)
    model: Adder = Field(default_factory=Adder)
    train: Train = Field(default_factory=Train)

    def shape(self) -> GPTShape:
        """p numbers and "=", three positions, an unembedding of its own."""
        from txlab.engine.transformer.gpt import GPTShape

        return GPTShape(vocabulary=self.data.modulus + 1, context=3, tied=False, **self.model.model_dump())

    def outline(self) -> list[tuple[str, str]]:
        data, model, train = self.data, self.model, self.train
        layers, heads = several(model.layers, "layer"), several(model.heads, "head")
        return [
            ("Model", f"{layers}, {heads}, width {model.width}"),
            ("Task", f"(a + b) mod {data.modulus}, from {data.pairs} of {data.modulus**2} pairs"),
            ("Training", f"{several(train.steps, 'step')}, each of all {data.pairs} pairs"),
        ]
