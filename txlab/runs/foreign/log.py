"""What the readers of other programs' logs have in common: where a log lies, what a reader returns, and its limits.

Notable: a reader hands out what is new in slices and stands between them at a `position` that is plain JSON, so that
another process goes on where this one stopped. A tail that cannot be read yet is waited for; it is an error only for
the slice that comes next, never for the log. Nothing is written where the log lies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from txlab.runs.as_json import text_of
from txlab.runs.events import LARGEST_STEP

Logged: TypeAlias = tuple[str, int, float, dict[str, Any]]
"""(event, step, Unix time, content): "metrics" and "machine" with their values by name, "sample" with prompt and text,
"note" with a text, "rewind" with a reason."""

EVENTS, METRICS, WANDB = "tfevents", "metrics.csv", ".wandb"  # in the names of the files of TensorBoard, Lightning, W&B

SLICE = 1 << 20  # bytes of a log that are read at a time
LARGEST_RECORD = 8 << 20  # bytes; a larger one (a picture, a graph) is passed over without being read
MOST_SERIES = 10_000  # names in one log; what has further names is left out
LONGEST_NAME = 300  # characters of a series
LONGEST_TEXT = 20_000  # characters of a sample
MOST_KINDS = 20  # of what is left out


@dataclass(frozen=True)
class ForeignLog:
    """One run that another program logs.

    program  "tensorboard", "wandb", "trackio" or "lightning"
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
        """What the run is called before its log says more: the last two folders of its path, or its own name."""
        place = self.path.parent if self.path.suffix in (".wandb", ".csv") else self.path
        parts = (self.path.stem, self.part) if self.part else place.parts[-2:]
        return "/".join(part for part in parts if part not in ("/", "runs", "wandb")) or place.name or "log"


@dataclass
class About:
    """What a log says about its run, as far as it has been read; "", {} and 0 stand for what it does not say.

    changed  when it was last written, Unix seconds
    status   "done" or "failed" if the log says that the run has ended
    problem  why something of it could not be read, as a sentence
    left_out what a run has no place for, and how often: a reader drops nothing without a word
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
        """Count something of the log that does not become part of the run."""
        if what not in self.left_out and len(self.left_out) < MOST_KINDS:
            self.examples[what] = text_of(example, 100)
        if what in self.examples:
            self.left_out[what] = self.left_out.get(what, 0) + 1

    def usable(self, step: int, name: str = "") -> bool:
        """Whether a run can have a step; if not, it counts as left out."""
        if -1 <= step <= LARGEST_STEP:
            return True
        self.leave_out("values at steps below -1 or beyond 2^62", f"{name} at {step}".strip())
        return False


class LogReader(Protocol):
    """Reads one log from a position on.

    position  plain JSON; given to another reader of the same log, it goes on after what was returned so far
    about     what is known of the run by now
    """

    position: dict[str, Any]
    about: About

    def mark(self) -> object:
        """What differs from before if anything may be new; it also sets `about.changed`. Raises OSError, Replaced."""

    def read(self) -> list[Logged] | None:
        """The next slice, perhaps an empty one; None = nothing more for now. Raises OSError, and Replaced if the log is
        not the one that was being read."""


class Names:
    """The names of a log's series, of which there are at most MOST_SERIES."""

    def __init__(self, about: About) -> None:
        self.about = about
        self.known: dict[str, str] = {}

    def take(self, name: str) -> str:
        """The name as a run may have it; "" if it is one too many or empty."""
        found = self.known.get(name)
        if found is None:
            if len(self.known) >= MOST_SERIES:
                self.about.leave_out(f"series beyond {MOST_SERIES}", name)
                return ""
            found = self.known[name] = text_of(name, LONGEST_NAME)
        return found
