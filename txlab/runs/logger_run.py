"""The one run of a logger: a training, its tests, and another training after it.

Notable: nothing tells a logger that it will be used again, so its run is ended after each use and continued by the
next. Meanwhile it waits for the end of the program: an exception in between makes it a run that failed. A training that
counts its steps from 0 again continues the count, because two curves on the same steps would be one that zigzags; what
is measured at earlier steps by then, as a test at step 0, is at the run's last step.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterable
from typing import Any

from txlab.errors import LabError
from txlab.runs import ending
from txlab.runs.record import continue_run, record
from txlab.runs.recording import Recording, Status


class LoggerRun:
    """The run of one logger, begun when it is needed; `named` are arguments of `txlab.record`.

    first   the step of the run at which the current training has its step 0
    """

    def __init__(self, name: str, **named: Any) -> None:
        self.name, self.named = name, named
        self.known: Recording | None = None
        self.first = 0
        self.continued = False  # whether it was continued, and no training has begun since
        self.names: set[str] = set()
        self._waiting: _Waiting | None = None

    @property
    def run(self) -> Recording:
        """The recording, begun or continued."""
        if self.known is None:
            self.known = record(self.name, **self.named)
        elif not self.known.open and not self.known.silent and not self.known.recorder.gone:
            self._stop_waiting()
            with contextlib.suppress(LabError):  # another process writes it, or it is gone
                self.known = continue_run(self.known)
                self.continued = True
        return self.known

    def begin_training(self, step: int) -> None:
        """A training begins at its own `step`: anew, from a checkpoint, or where the last one ended."""
        run = self.run
        if run.silent or not self.names:
            return
        reached = run.recorder.step
        if step == 0 and reached > self.first:
            self.first = reached + 1
            run.note(reached, f"another training begins; its step 0 is step {self.first}")
        elif 0 < step < reached - self.first:
            run.rewind(self.first + step, f"resumed at step {step}")
        self.continued = False

    def place(self, step: int, names: Iterable[str]) -> int:
        """The step of the run for values at a logger's `step`."""
        run, names = self.run, set(names)
        reached = 0 if run.silent else run.recorder.step
        if self.continued and self.first + step < reached:
            if names <= self.names:
                self.begin_training(0)
            else:
                self.names |= names
                return reached
        self.names |= names
        return self.first + step

    def end(self, status: Status | None = None, reason: str = "", error: BaseException | None = None) -> None:
        """End the run for now."""
        run = self.known
        if run is None or run.silent or not run.open:
            return
        if error is not None and status is not None:
            run.end(status, reason, error)
        else:
            run.close(status, reason)
        self._waiting = _Waiting(self)
        ending.watch(self._waiting)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            ending.forget(self._waiting)
            self._waiting = None


class _Waiting:
    """A run that has ended before its program: if that fails, the run has failed (`ending.Ends`)."""

    busy = False

    def __init__(self, of: LoggerRun) -> None:
        self.of = weakref.ref(of, lambda _: ending.forget(self))
        self.signal = ""
        self.failure: Exception | None = None

    def note_signal(self, name: str) -> None:
        self.signal = name

    def end(self, status: str, reason: str = "", error: BaseException | None = None) -> None:
        ending.forget(self)
        of = self.of()
        if of is not None and status == "failed":
            of.run.end(status, reason, error)

    def disown(self) -> None:
        """Of a fork, where nothing is written: the run has ended in the process that recorded it."""
        self.of = lambda: None  # type: ignore[assignment]

    def thread_ended(self, thread: int, error: Exception) -> None:
        """Of no thread that logs."""
