"""Three lines make anybody's own loop a run that the console can open.

    with txlab.record("my-model", config={"lr": 3e-4}) as run:
        for step in range(1000):
            run.log(step, loss=train())

Notable: steps may repeat but not go back unless `rewind` says so, because a curve that zigzags is a wrong curve. A run
that nobody closes is closed when the interpreter ends, as failed if an exception ended it.
"""

from __future__ import annotations

import atexit
import contextlib
import operator
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

from txlab.errors import LabError, one_line
from txlab.experiments.protocol import Frame, Sample
from txlab.runs.atomic import atomic_write
from txlab.runs.control import Inbox
from txlab.runs.directory import RunDirectory, new_info
from txlab.runs.finding import create_run_directory
from txlab.runs.lock import writing
from txlab.runs.loop import write_traceback
from txlab.runs.process import begin
from txlab.runs.recorder import Recorder

if TYPE_CHECKING:
    import torch

    from txlab.experiments.protocol import Array

ANSWER_EVERY = 0.5  # seconds between two looks into the inbox


def record(
    name: str,
    config: Mapping[str, Any] | None = None,
    root: str | Path | None = None,
    *,
    title: str = "",
    steps: int = 0,
    frames_mb: float = 64.0,
) -> Recording:
    """Begin a run named `name` under `root` ($TXLAB_RUNS or ./runs) and return what records it.

    config  whatever describes the run; stored as the table [config] of scenario.toml
    steps   how many there will be, if known: a screen can then show how far it is

    Raises LabError if the directory cannot be made.
    """
    import tomli_w

    run = create_run_directory(Path(root) if root is not None else None, name)
    info = new_info(run, name, "recorded", title, steps)
    said = {"kind": "recorded", "name": name, "config": as_toml(config or {})}
    atomic_write(run.scenario_file, tomli_w.dumps(said).encode())
    begin(run, info)
    return Recording(run, Recorder(run, info, frames_mb))


def as_toml(value: Any) -> Any:
    """A configuration as TOML can hold it: None left out, what TOML has no word for as its text."""
    if isinstance(value, Mapping):
        return {str(key): as_toml(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, (list, tuple)):
        return [as_toml(entry) for entry in value if entry is not None]
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def whole(step: SupportsIndex) -> int:
    """A step as Python's own integer: a row with numpy's or torch's would be no row to any reader."""
    try:
        return operator.index(step)
    except TypeError:
        raise LabError(f"a step is a whole number, not {str(step)[:60]!r}") from None


class Recording:
    """A run that another program's loop writes; `path` is its directory."""

    def __init__(self, run: RunDirectory, recorder: Recorder) -> None:
        self.path = run.path
        self.recorder = recorder
        self.inbox = Inbox(run)
        self._lock = contextlib.ExitStack()
        self._lock.enter_context(writing(run))
        self._open = True
        self._answered = time.monotonic()
        self._step = 0
        recorder.row("start", 0, pid=recorder.info.pid, host=recorder.info.host, resumed_from=None)
        atexit.register(self._at_exit)

    def log(self, step: SupportsIndex, **values: float | torch.Tensor) -> None:
        """Record named numbers of a step; tensors on a device are fetched late, many at once."""
        step = self._go_to(step)
        try:
            self.recorder.metrics(step, values)
        except (TypeError, ValueError, OverflowError) as error:
            named = ", ".join(f"{name} = {str(value)[:60]!r}" for name, value in values.items())
            raise LabError(f"step {step}: {named}: a metric is one number ({one_line(error)})") from error
        if self.recorder.due:
            self.recorder.flush()
        if time.monotonic() - self._answered >= ANSWER_EVERY:
            self._answer()

    def frame(
        self,
        step: SupportsIndex,
        tensors: Mapping[str, Array],
        tokens: Mapping[str, Sequence[str]] | None = None,
        texts: Mapping[str, str] | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Record what may be looked at: named arrays, rows of labels, texts, and facts that say how to read them."""
        step = self._go_to(step)
        self.recorder.frame(Frame(step, tensors, tokens or {}, texts or {}, facts or {}))

    def sample(self, step: SupportsIndex, prompt: str, text: str) -> None:
        """Record a text that the model wrote."""
        step = self._go_to(step)
        self.recorder.sample(step, Sample(prompt, text))

    def note(self, step: SupportsIndex, text: str) -> None:
        step = self._go_to(step)
        self.recorder.note(step, text)

    def rewind(self, step: SupportsIndex, reason: str = "") -> None:
        """Say that the loop went back: what was recorded after `step` no longer counts."""
        step = whole(step)
        self.recorder.flush()
        self.recorder.rewind(step, self._step, reason, explicit=True)
        self._step = step

    def close(self, status: str = "done", reason: str = "") -> None:
        """End the run; a second time nothing happens."""
        if self._open:
            self._open = False
            atexit.unregister(self._at_exit)
            with contextlib.suppress(OSError):
                self._answer()
            self.recorder.finish(status, reason)
            self._lock.close()

    def _go_to(self, step: SupportsIndex) -> int:
        """The step as a plain integer, from now on the current one; LabError if it goes back."""
        if not self._open:
            raise LabError(f"{self.path} is closed; nothing more can be recorded")
        plain = whole(step)
        if plain < 0:
            raise LabError(f"a step is a whole number from 0 on, not {plain}")
        if plain < self._step:
            back = f"say rewind({plain}) first if the loop went back"
            raise LabError(f"step {plain} comes after step {self._step}; {back}")
        self._step = plain
        return plain

    def _answer(self) -> None:
        self._answered = time.monotonic()
        for request in self.inbox.take():
            error = request.error or "this run is recorded by another program, which takes no requests"
            self.recorder.control(self._step, request, error)

    def _at_exit(self) -> None:
        error = getattr(sys, "last_value", None)
        self._end_with(error if isinstance(error, BaseException) else None)

    def _end_with(self, error: BaseException | None) -> None:
        if error is None:
            self.close()
        elif isinstance(error, KeyboardInterrupt):
            self.close("interrupted", "KeyboardInterrupt")
        else:
            write_traceback(self.recorder.run, error)
            self.close("failed", f"{type(error).__name__}: {one_line(error)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_with(error)
