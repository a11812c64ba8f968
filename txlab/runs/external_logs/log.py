"""The common part of the readers of other programs' logs: where a log is, what a reader returns, and its limits.

Notable: a reader returns new content in slices; between them its `position` is plain JSON, so that another process can
continue where this one stopped. A tail that cannot be read yet is retried; it is an error of the next slice only, never
of the log. Nothing is written next to the log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from txlab.runs.as_json import text_of
from txlab.runs.events import LARGEST_STEP

Logged: TypeAlias = tuple[str, int, float, dict[str, Any]]
"""(event, step, Unix time, content): "metrics" and "machine" with their values by name, "sample" with prompt and text,
"note" with a text, "rewind" with a reason, "frame" with the tensors and facts of a picture or a histogram."""

EVENTS, WANDB = "tfevents", ".wandb"  # in the names of the files of TensorBoard and W&B
TABLES = (  # names of tables that programs write: Lightning, Stable-Baselines3, Ultralytics, Spinning Up, mmengine …
    *("metrics.csv", "progress.csv", "results.csv", "monitor.csv", "log.csv", "history.csv", "progress.txt"),
    *("metrics.json", "scalars.json", "metrics.jsonl", "log.jsonl", "logs.jsonl", "history.jsonl"),
)
STATE = "trainer_state.json"  # of transformers' Trainer

SLICE = 1 << 20  # bytes of a log that are read at a time
LARGEST_RECORD = 8 << 20  # bytes; a larger one (a picture, a graph) is skipped unread
MOST_SERIES = 10_000  # names in one log; further ones are left out
LONGEST_NAME = 300  # characters of a series
LONGEST_TEXT = 20_000  # characters of a sample
MOST_AXES = 200  # step metrics
GLOBAL_STEP = "global_step"
MOST_KINDS = 20  # of omitted content


@dataclass(frozen=True)
class ExternalLog:
    """One run that another program logs.

    program  a key of TITLES (mirror.py)
    path     its folder or file, resolved
    part     the run, in a file that holds several
    changed  when it was last written, Unix seconds
    """

    program: str
    path: Path
    part: str = ""
    changed: float = 0.0

    @property
    def name(self) -> str:
        """The name of the run before its log gives one: the last two folders of its path, or its own name."""
        own = self.path.suffix in (".wandb", ".csv", ".json") or self.path.name in TABLES
        place = self.path.parent if own else self.path
        parts = (self.path.stem, self.part) if self.part else place.parts[-2:]
        return "/".join(part for part in parts if part not in ("/", "runs", "wandb")) or place.name or "log"


@dataclass
class About:
    """What a log says about its run, as far as it has been read; "", {} and 0 = not known.

    changed   when it was last written, Unix seconds
    status    "done" or "failed" if the log says that the run has ended
    problem   why part of it could not be read, as a sentence
    left_out  omitted content that a run cannot store, and how often: a reader drops nothing silently
    """

    name: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    tags: list[str] = field(default_factory=list)
    group: str = ""
    host: str = ""
    started: float = 0.0
    changed: float = 0.0
    status: str = ""
    reason: str = ""
    problem: str = ""
    left_out: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)  # the first of each

    def leave_out(self, what: str, example: str = "") -> None:
        """Count omitted content of the log."""
        if what not in self.left_out and len(self.left_out) < MOST_KINDS:
            self.examples[what] = text_of(example, 100)
        if what in self.examples:
            self.left_out[what] = self.left_out.get(what, 0) + 1

    def usable(self, step: int, name: str = "") -> bool:
        """Whether a run can have this step; if not, it is counted as left out."""
        if -1 <= step <= LARGEST_STEP:
            return True
        self.leave_out("values at steps below -1 or beyond 2^62", f"{name} at {step}".strip())
        return False


class LogReader(Protocol):
    """Reads one log from a position on.

    position  plain JSON; another reader of the same log continues from it
    about     what is known about the run so far
    """

    position: dict[str, Any]
    about: About

    def mark(self) -> object:
        """A mark that changes if anything may be new; also sets `about.changed`. Raises OSError, Replaced."""

    def read(self) -> list[Logged] | None:
        """The next slice, possibly empty; None = nothing more for now. Raises OSError, and Replaced if it is a
        different log."""


class Axes:
    """Which logged number is the step of which series: what `define_metric` names, else a `global_step` of the rows.

    named  [name or prefix*, step metric], in the order of their definition; at most MOST_AXES
    last   the last value of each step metric
    """

    def __init__(self, position: dict[str, Any]) -> None:
        self.named: list[list[str]] = position.setdefault("axes", [])
        self.last: dict[str, int] = position.setdefault("last", {})

    def define(self, name: str, axis: str) -> None:
        if (
            0 < len(name) <= LONGEST_NAME
            and 0 < len(axis) <= LONGEST_NAME
            and [name, axis] not in self.named
            and len(self.named) < MOST_AXES
        ):
            self.named.append([name, axis])

    def axis_of(self, name: str) -> str:
        """The step metric of a name; "" = the row's own step."""
        exact = next((axis for given, axis in self.named if given == name), "")
        starts = (axis for given, axis in self.named if given.endswith("*") and name.startswith(given[:-1]))
        return exact or next(starts, "") or next((name for name in self.last if is_global(name)), "")

    def step_of(self, name: str, step: int) -> int:
        """The step of a value in a row whose own step is `step`."""
        return self.last.get(self.axis_of(name), step)

    def rows(self, step: int, values: dict[str, float]) -> list[tuple[int, dict[str, float]]]:
        """The values of a row by their steps; `step` is the row's own. A step metric that is a whole number is no
        value."""
        known = {axis for _, axis in self.named}
        for name, value in values.items():
            kept = name in known or (is_global(name) and (name in self.last or len(self.last) < MOST_AXES))
            if kept and value == value and 0 <= value <= LARGEST_STEP and value == int(value):
                self.last[name] = int(value)
        by_step: dict[int, dict[str, float]] = {}
        for name, value in values.items():
            if name not in self.last or value != self.last[name]:
                by_step.setdefault(self.step_of(name, step), {})[name] = value
        return sorted(by_step.items())


def is_global(name: str) -> bool:
    """Whether a name is that of the step of the whole training, as "trainer/global_step" is."""
    return name.rpartition("/")[2] == GLOBAL_STEP


class Names:
    """The names of a log's series, at most MOST_SERIES."""

    def __init__(self, about: About) -> None:
        self.about = about
        self.known: dict[str, str] = {}

    def take(self, name: str) -> str:
        """The name as used in the run; "" if it is empty or exceeds the limit."""
        used = self.known.get(name)
        if used is None:
            if len(self.known) >= MOST_SERIES:
                self.about.leave_out(f"series beyond {MOST_SERIES}", name)
                return ""
            used = self.known[name] = text_of(name, LONGEST_NAME)
        return used
