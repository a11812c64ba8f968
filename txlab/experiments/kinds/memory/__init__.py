"""The kind "memory": recurrent cells that have to remember the beginning of a sequence, and the gradient that reaches
back to it (MATH R2, R3); the schema of its scenarios.

torch is not imported here, because validating a scenario imports its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from txlab.engine.explain import Explanation, Operand
from txlab.experiments.kind import Label
from txlab.experiments.learning import schema as learning
from txlab.experiments.learning.explanations import MeanLoss, explain_step
from txlab.experiments.protocol import Experiment
from txlab.experiments.schema import PositiveInt, Scenario, Section, several
from txlab.experiments.tabular.kind import TabularKind


class Remembering(Section):
    """A symbol, then noise; at the end it is to be named."""

    symbols: Annotated[int, Field(ge=2, le=1000)] = Field(4, description="K, of which one comes first")
    length: Annotated[int, Field(ge=2, le=10_000)] = Field(100, description="T, steps from the symbol to the answer")


CellName = Literal["rnn", "gru", "gru-mehlig", "lstm"]


class Cells(Section):
    """The cells that learn beside each other, each with its own weights."""

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


class Train(learning.Train):
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


MEANINGS = {
    "loss": ("L = −(1/B) Σ ln p(symbol | x₁ … x_T)", "R1", "of this batch, before the update; chance is ln K"),
    "accuracy": ("share of the batch whose symbol is the likeliest", "R1", "chance is 1/K"),
    "val_loss": ("L = −(1/n) Σ ln p(symbol | x₁ … x_T)", "R1", "of sequences that it does not learn from"),
    "val_accuracy": ("share whose symbol is the likeliest", "R1", "of sequences that it does not learn from"),
    "fall": (
        "log₁₀ ‖∂L_T/∂s_T‖ − log₁₀ ‖∂L_T/∂s₁‖",
        "R2",
        "orders of magnitude lost on the way back; s = h, or h and c",
    ),
}


class MemoryKind(TabularKind):
    name = "memory"
    title = "Memory: cells and their gradients"
    schema = MemoryScenario
    screen = "recurrent"
    primary_metrics = ("loss/lstm", "loss/gru", "loss/rnn", "loss")
    units: ClassVar[Mapping[str, str]] = {
        "loss": "nats",
        "loss/": "nats",
        "val_loss/": "nats",
        "fall/": "orders of magnitude",
    }
    labels: ClassVar[Mapping[str, Label]] = {
        "accuracy/": Label("right", "of the batch"),
        "val_accuracy/": Label("right", "of unseen sequences"),
        "fall/": Label("fall", "of the gradient, to the first step"),
    }

    def resolve(self, scenario: Any, say: Callable[[str], None] = lambda text: None) -> Any:
        resolved = super().resolve(scenario, say)
        return resolved.model_copy(update={"compute": resolved.compute.model_copy(update={"attention": "sdpa"})})

    def experiment(self, scenario: Any) -> Experiment:
        from txlab.experiments.kinds.memory.experiment import MemoryExperiment
        from txlab.experiments.learning.gradient import prepare

        prepare(scenario.compute)
        return MemoryExperiment(scenario)

    def explain_metric(
        self, scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        if not isfinite(values[name]):
            return None
        if name in ("lr", "grad_norm"):
            return explain_step(scenario, MeanLoss(), name, values, step, facts)
        metric, _, cell = name.partition("/")
        operands = []
        if name == "loss":
            equation, math, note = "L = Σ L_cell", "R1", "the cells do not share weights, so none learns from another"
            operands = [Operand(key[5:], values[key]) for key in values if key.startswith("loss/")]
        elif metric in MEANINGS:
            equation, math, note = MEANINGS[metric]
            from txlab.engine.recurrent.cells import CELLS

            operands = [Operand(cell, CELLS[cell].rule, CELLS[cell].source)]
        else:
            return None
        return Explanation(
            f"why is {name} {values[name]:.4g} at step {step}?", equation, math, note, operands, [], values[name]
        )


KIND = MemoryKind()
