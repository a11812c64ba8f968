"""A run made from another program's output: it is read by `stdout_steps`, and its lines are kept in log.txt."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from txlab.errors import LabError
from txlab.files import write_whole
from txlab.runs.recording import Recording, Status
from txlab.runs.stdout_steps import Output, Placed
from txlab.runs.stdout_tables import Lines

PAUSE = 0.1  # seconds without output after which pending output is read
TELL_EVERY = 1.0  # seconds between two estimates of the time left
MOST_NAMES = 2000  # metrics of a run
MOST_NOTES = 10  # of omitted numbers
LARGEST_LOG = 8 << 20  # bytes of log.txt; beyond them its middle is left out
KEPT_FIRST, KEPT_LAST = 1 << 20, 3 << 20


class PrintedRun:
    """Feeds a Recording with a program's output; used from one thread. `numbers` counts what has been recorded."""

    def __init__(self, run: Recording, lines: Lines | None = None) -> None:
        self.run, self.log = run, PlainLog(run)
        self.output = Output(lines)
        self.names: set[str] = set()
        self.left_out: set[str] = set()
        self.numbers = 0
        self._last: tuple[int, dict[str, float]] = (-1, {})
        self._first: tuple[int, float] | None = None  # step and time when steps began
        self._told = 0.0
        self._slow = 0  # patterns that have been noted as too slow

    def feed(self, data: bytes, stream: int = 0) -> None:
        """Take the next piece of output."""
        self._take(self.output.feed(data, stream))

    def idle(self) -> None:
        """Process pending output; to be called when there has been no output for PAUSE seconds."""
        self._take(self.output.idle())
        self.log.flush()

    def close(self, status: Status, reason: str = "") -> None:
        self._take(self.output.close())
        self.log.flush()
        self.run.close(status, reason)

    def _take(self, rows: Iterator[Placed]) -> None:
        for placed in rows:
            for name, why in placed.unclear.items():
                self._leave_out(name, why)
            if placed.rewind is not None:
                with contextlib.suppress(LabError):
                    self.run.rewind(placed.rewind, "the program printed earlier steps again")
            self._tell(placed)
            self._record(placed)
        for why in self.output.lines.too_slow[self._slow :]:
            self._slow += 1
            with contextlib.suppress(LabError):
                self.run.note(self.run.recorder.step, why)
        for line in self.output.ended:
            self.log.add(line)
        self.output.ended.clear()

    def _record(self, placed: Placed) -> None:
        if not placed.values or (placed.step, placed.values) == self._last:  # a bar drawn again
            return
        self._last = (placed.step, placed.values)
        new = [name for name in placed.values if name not in self.names]
        if beyond := new[MOST_NAMES - len(self.names) :]:
            self._leave_out(beyond[0], f"the run has {MOST_NAMES} names already, and takes no more")
        self.names.update(new[: MOST_NAMES - len(self.names)])
        values = {name: value for name, value in placed.values.items() if name in self.names}
        try:
            self.run.add(placed.step, values)
            self.numbers += len(values)
        except LabError as error:
            self._leave_out(next(iter(values), ""), str(error))

    def _leave_out(self, name: str, why: str) -> None:
        """Note, once per name and for a few names, that a number is left out."""
        if name not in self.left_out and len(self.left_out) < MOST_NOTES:
            self.left_out.add(name)
            with contextlib.suppress(LabError):
                self.run.note(self.run.recorder.step, f"{name} is left out: {why}")

    def _tell(self, placed: Placed) -> None:
        """Record how many steps there are, and the time left: that of the bar, or by the speed so far."""
        recorder, now = self.run.recorder, time.monotonic()
        if placed.steps and placed.steps != recorder.info.steps and placed.steps < 2**53:
            recorder.info.steps = placed.steps
            with contextlib.suppress(OSError):
                recorder.info.save(recorder.run)
        if self._first is None or placed.step < self._first[0]:
            self._first = (placed.step, now)
        if not placed.steps or now - self._told < TELL_EVERY:
            return
        left, (first, begun) = placed.left, self._first
        if left is None and placed.step > first:
            left = (now - begun) / (placed.step - first) * max(0, placed.steps - placed.step)
        if left is not None:
            self._told = now
            with contextlib.suppress(LabError):
                self.run.log(placed.step, seconds_left=left)


class PlainLog:
    """log.txt of the run: whole lines without colours, and the last state of each bar; bounded in size."""

    def __init__(self, run: Recording) -> None:
        self.run, self.lines, self.size = run.recorder.run, [], 0  # type: ignore[var-annotated]
        self.failed = False

    def add(self, line: str) -> None:
        self.lines.append(line)
        if len(self.lines) >= 1000:
            self.flush()

    def flush(self) -> None:
        """Write the new lines; a full disk costs the log, not the run."""
        if not self.lines or self.failed:
            return
        data = ("\n".join(self.lines) + "\n").encode("utf-8", "replace")
        self.lines.clear()
        try:
            with self.run.log_file() as file:
                write_whole(file.fileno(), data)
                self.size = os.fstat(file.fileno()).st_size
            if self.size > LARGEST_LOG:
                self._shorten()
        except OSError:
            self.failed = True

    def _shorten(self) -> None:
        whole = self.run.read("log.txt", LARGEST_LOG + (64 << 20))
        left_out = len(whole) - KEPT_FIRST - KEPT_LAST
        note = f"\n[… {left_out} bytes left out …]\n".encode()
        self.run.write("log.txt", whole[:KEPT_FIRST] + note + whole[-KEPT_LAST:])
