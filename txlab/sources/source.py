"""The source of a screen with time: frames by step, and the operations on their experiment.

A screen asks what its source can do (`can_edit`, `can_step` …), never which one it is. There are two: `live` steps an
experiment in a thread of this process; `recorded` reads a run directory, past or still growing, and leaves requests in
its inbox. A run of another machine is a `recorded` one too, because its mirror is a run directory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from txlab.experiments.protocol import Frame
from txlab.runs.live_rows import Series


@dataclass(frozen=True)
class Status:
    """The progress of a source.

    word   as in run.json: running, paused, done …; "" = not known yet
    step   reached        total  the last step; 0 = none or unknown
    ended  no further frames will follow
    speed  updates per second, where they are measured here
    """

    word: str = ""
    step: int = 0
    total: int = 0
    ended: bool = False
    speed: float = 0.0


class Source(Protocol):
    """Frames over time.

    can_edit    the experiment is here: `edit` changes it between two updates, and `ask` questions it
    can_step    it accepts `step` now        can_pause  … `pause` and `run`        can_stop  … `stop`
    can_undo    `undo` takes an update back
    can_pace    its `pace` can be chosen
    can_replay  frames of earlier steps are kept
    can_branch  a frame can become an experiment that is continued by hand
    """

    @property
    def can_edit(self) -> bool: ...
    @property
    def can_step(self) -> bool: ...
    @property
    def can_pause(self) -> bool: ...
    @property
    def can_stop(self) -> bool: ...
    @property
    def can_undo(self) -> bool: ...
    @property
    def can_pace(self) -> bool: ...
    @property
    def can_replay(self) -> bool: ...
    @property
    def can_branch(self) -> bool: ...

    @property
    def name(self) -> str:
        """The name of the run; "" for an experiment without one."""

    @property
    def scenario(self) -> Mapping[str, Any]:
        """The settings of the run; {} for an experiment without one."""

    @property
    def status(self) -> Status: ...

    @property
    def steps(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The steps of the frames, sorted."""

    def frame(self, at: int | None) -> Frame:
        """Return the frame at a step, or the last one before it; None: the newest. LabError if there is none."""

    def series(self, metric: str) -> Series:
        """Return a metric by step; empty if it is not known."""

    def adjust(self, name: str, value: float) -> None:
        """Set an adjustable parameter."""

    def step(self, updates: int = 1) -> None:
        """Make that many updates and pause."""

    def run(self) -> None: ...

    def pause(self) -> None: ...

    def stop(self) -> None:
        """End a run."""

    def ask(self, question: Callable[[Any], Any]) -> Any:
        """Return what a function of the experiment returns, called between two updates; None without one."""
