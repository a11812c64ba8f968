"""The scenarios of "memory": tables, keys, defaults, and what does not fit together; without torch."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from txlab.experiments.learning import schema as learning
from txlab.experiments.schema import PositiveInt, Scenario, Section, several


class Remembering(Section):
    """A symbol, then noise; at the end the cell has to name the symbol."""

    symbols: Annotated[int, Field(ge=2, le=1000)] = Field(4, description="K, of which one comes first")
    length: Annotated[int, Field(ge=2, le=10_000)] = Field(100, description="T, steps from the symbol to the answer")


CellName = Literal["rnn", "gru", "gru-mehlig", "lstm"]


class Cells(Section):
    """The cells that learn side by side, each with its own weights."""

    cells: list[CellName] = Field(["rnn", "gru", "lstm"], min_length=1, max_length=4)
    width: Annotated[int, Field(ge=1, le=4096)] = Field(32, description="H, units of each")
    memory: Literal["spread", "plain"] = Field(
        "spread",
        description="first biases of the gates that keep a state: of 1 to T steps (Tallec & Ollivier 2018), or as all",
    )

    @model_validator(mode="after")
    def each_once(self) -> Self:
        if len(set(self.cells)) < len(self.cells):
            raise ValueError("each cell may be named once")
        return self


class Train(learning.Batches, learning.Optimizer):
    """One AdamW for each cell."""

    steps: PositiveInt = 400
    batch: PositiveInt = Field(32, description="B, sequences a step")
    learning_rate: Annotated[float, Field(gt=0, le=10)] = 1e-2
    warmup: Annotated[int, Field(ge=0)] = Field(0, description="steps of linear warm-up")
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    decay: Literal["cosine", "constant"] = "constant"
    validation_batches: PositiveInt = Field(8, description="batches of each evaluation, always the same ones")


class MemoryScenario(Scenario):
    """Recurrent cells that have to remember the beginning of a sequence."""

    kind: Literal["memory"] = "memory"
    data: Remembering = Field(default_factory=Remembering)
    model: Cells = Field(default_factory=Cells)
    train: Train = Field(default_factory=Train)

    def outline(self) -> list[tuple[str, str]]:
        data, model, train = self.data, self.model, self.train
        return [
            ("Model", f"{', '.join(model.cells)}, {several(model.width, 'unit')} each"),
            ("Task", f"one of {several(data.symbols, 'symbol')}, named after {several(data.length - 1, 'step')}"),
            ("Training", f"{several(train.steps, 'step')} of {several(train.batch, 'sequence')}"),
        ]
