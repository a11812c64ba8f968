"""An experiment is something that can be stepped, inspected and restored.

Because every kind of learning follows this protocol, pause, resume, checkpoints, exact restart, recording, time travel
and the live panes are each written once. torch is not imported here, so a viewer can use the types without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from txlab.errors import RunFailed

if TYPE_CHECKING:
    import numpy as np
    import torch

    Array: TypeAlias = "np.ndarray[Any, Any] | torch.Tensor"

# A metric is a number or a zero-dimensional tensor that may still be on a device; the recorder fetches it later.
Metrics: TypeAlias = "Mapping[str, float | torch.Tensor]"

# Nested mappings and lists of tensors, numbers, strings, booleans and None: everything an exact restart needs.
State: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Frame:
    """A snapshot of an experiment for display.

    step     updates made when the frame was taken
    tensors  named arrays, e.g. "attention/pattern" (L, H, T, T)
    tokens   named rows of labels, e.g. "probe" (T labels), unescaped: a screen makes control characters visible
    texts    named texts
    facts    named JSON scalars and lists that tell how to read the rest, e.g. {"mask": "causal"}
    """

    step: int
    tensors: Mapping[str, Array] = field(default_factory=dict)
    tokens: Mapping[str, Sequence[str]] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    """A text that the model wrote: `prompt` was given, `text` continues it."""

    prompt: str
    text: str


@dataclass(frozen=True)
class Adjustable:
    """A parameter that can be changed while the experiment runs; `low <= value <= high`.

    least  the value that a factor above 1 turns 0 into; a smaller factor turns values below half of it into 0; 0 = none
    """

    name: str
    value: float
    low: float
    high: float
    unit: str = ""
    least: float = 0.0

    def scale(self, factor: float) -> float:
        """The value times a factor, to 4 digits.

        >>> from dataclasses import replace
        >>> beta = Adjustable("beta", 0.0, 0.0, 100.0, least=0.01)
        >>> beta.scale(1.25), replace(beta, value=0.005).scale(0.8), replace(beta, value=0.05).scale(1.25)
        (0.01, 0.0, 0.0625)
        """
        value = self.value * factor
        if self.least and factor > 1:
            value = value or self.least
        elif self.least and value < self.least / 2:
            value = 0.0
        return float(f"{value:.4g}")


@dataclass(frozen=True)
class Budget:
    """The computed memory of a step.

    of     a description of the step: "12 × 1024 positions, width 768, bfloat16, sdpa attention"
    parts  bytes, by purpose
    lower  settings that would need less, in words, the first to try first
    """

    of: str
    parts: dict[str, int]
    lower: Sequence[str] = ()

    @property
    def total(self) -> int:
        return sum(self.parts.values())


class NotFinite(RunFailed):
    """An update was refused because a loss or gradient was not finite; the weights are those before the update."""

    def __init__(self, step: int, tensor: str, value: str) -> None:
        super().__init__(f"step {step}: {tensor} is {value}")
        self.step, self.tensor, self.value = step, tensor, value


class Experiment(Protocol):
    """See DESIGN, first idea. All methods are called from one thread, at step boundaries.

    Optional members of an experiment are in the protocols below it.
    """

    @property
    def step_count(self) -> int:
        """Updates made so far."""

    @property
    def steps(self) -> int:
        """The total number of updates. If the experiment ends when it is finished, this is an upper bound that falls to
        `step_count` as soon as it is done: the loop checks it after every step. facts()["open_end"] then
        says so beforehand, and no remaining time is shown."""

    def step(self) -> Metrics:
        """Make one update; device scalars stay on the device. Raises NotFinite before the weights are touched."""

    def verify(self) -> None:
        """Raise NotFinite if an update since the last call was refused on an asynchronous device (a GPU)."""

    def evaluate(self) -> Metrics:
        """Measure without learning: the same numbers for the same weights, whenever it is called."""

    def frame(self) -> Frame: ...

    def samples(self) -> Sequence[Sample]:
        """Texts for display; empty if the experiment writes none."""

    def facts(self) -> Mapping[str, Any]:
        """JSON facts for run.json: parameters, tokens_per_step, flops_per_step, compute (the choices and their
        reasons)…"""

    def adjustable(self) -> Mapping[str, Adjustable]: ...

    def adjust(self, name: str, value: float) -> None:
        """Set an adjustable parameter (already validated against its bounds)."""

    def state_dict(self) -> State: ...

    def load_state_dict(self, state: State) -> None: ...


@runtime_checkable
class Measuring(Protocol):
    def take_speeds(self) -> Mapping[str, float]:
        """Speeds that were measured since the last call. Unlike metrics they differ from run to run."""


@runtime_checkable
class Noting(Protocol):
    def notes(self) -> Sequence[str]:
        """Sentences for the log that have not been shown yet."""


@runtime_checkable
class Budgeted(Protocol):
    def budget(self) -> Budget | None:
        """The memory that a step needs; None if it is not known."""


@runtime_checkable
class Deciding(Protocol):
    """why: the reasons for settings that were decided by a measurement. A resumed run has those of its beginning."""

    why: list[str]


@runtime_checkable
class Gathering(Protocol):
    def put_together(self) -> AbstractContextManager[None]:
        """The models whole, while rank 0 measures."""
