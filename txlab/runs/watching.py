"""A run made of what another program prints: its lines as they come, read by `printed`, kept in log.txt.

Notable: a bar that is redrawn in place is a line for each carriage return. One that nothing has followed yet is read as
soon as the output pauses, or the last state of a bar would wait for its next one. Numbers without a step of their own
wait just as long, because a bar that is drawn again right after them (as by tqdm.write) says where they belong.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import time
from dataclasses import replace

from txlab.errors import LabError
from txlab.files import write_whole
from txlab.runs.printed import LONGEST_LINE, Placed, Printed, Steps, plain
from txlab.runs.printed_tables import Lines
from txlab.runs.recording import Recording, Status

PAUSE = 0.1  # seconds without output after which what is there is read
TELL_EVERY = 1.0  # seconds between two estimates of the time left
MOST_NAMES = 2000  # different numbers of a run
MOST_NOTES = 10  # of what is left out
LARGEST_LOG = 8 << 20  # bytes of log.txt; beyond them its middle is left out
KEPT_FIRST, KEPT_LAST = 1 << 20, 3 << 20
_END = re.compile(r"\r\n|[\n\r]|\x08+")


class PrintedRun:
    """Feeds a Recording with a program's output; used from one thread. `numbers` counts what has been recorded."""

    def __init__(self, run: Recording) -> None:
        self.run, self.log = run, PlainLog(run)
        self.lines, self.places = Lines(), Steps()
        self.names: set[str] = set()
        self.left_out: set[str] = set()
        self.numbers = 0
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""  # the line that has not ended
        self._peeked = ""  # what of it has been read already
        self._waiting: Placed | None = None  # numbers without a step of their own
        self._last: tuple[int, dict[str, float]] = (-1, {})
        self._first: tuple[int, float] | None = None  # step and time when steps began
        self._told = 0.0

    def feed(self, data: bytes) -> None:
        """Take the next piece of output."""
        text = self._rest + self._decode(data)
        at = 0
        for end in _END.finditer(text):
            if end.end() == len(text) and end[0] == "\r":
                break  # perhaps half of \r\n
            self._line(text[at : end.start()], end[0].endswith("\n"))
            at = end.end()
        self._rest = text[at:]
        if len(self._rest) > LONGEST_LINE:
            self._line(self._rest, False)
            self._rest = ""

    def idle(self) -> None:
        """Take what waits for more output; to be called when there has been none for PAUSE seconds."""
        if self._rest != self._peeked:
            line = plain(self._rest)
            said = self.lines.peek(line)
            if said is not None and (
                "%|" in line or said.counter in ("bar", "fraction")
            ):  # others may not be whole yet
                self._take(said)
                self._peeked = self._rest
        self._settle()
        self.log.flush()

    def close(self, status: Status, reason: str = "") -> None:
        if self._rest:
            self._line(self._rest, True)
            self._rest = ""
        for said in self.lines.rest():
            self._take(said)
        self._settle()
        self.log.flush()
        self.run.close(status, reason)

    def _line(self, line: str, ended: bool) -> None:
        known, self._peeked = self._peeked.rstrip("\r"), ""
        line = plain(line)
        if ended:
            self.log.add(line)
        if line != plain(known):
            for said in self.lines.read(line):
                self._take(said)

    def _take(self, said: Printed) -> None:
        placed = self.places.place(said)
        for name in said.unclear:
            self._leave_out(name, "its number may be read in two ways, as 1,234 may, or there are two of that name")
        if self._waiting is not None:
            if not placed.awaits and not placed.values and placed.step > self._waiting.step:
                self._waiting = replace(self._waiting, step=placed.step)
            self._settle()
        self._tell(placed)
        if placed.awaits and placed.values:
            self._waiting = placed
        else:
            self._record(placed)

    def _settle(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._record(waiting)

    def _record(self, placed: Placed) -> None:
        if not placed.values or (placed.step, placed.values) == self._last:  # a bar drawn again
            return
        self._last = (placed.step, placed.values)
        new = [name for name in placed.values if name not in self.names]
        if beyond := new[MOST_NAMES - len(self.names) :]:
            self._leave_out(beyond[0], f"the run has {MOST_NAMES} names already, and takes no others")
        self.names.update(new[: MOST_NAMES - len(self.names)])
        values = {name: value for name, value in placed.values.items() if name in self.names}
        try:
            self.run.log(placed.step, values)
            self.numbers += len(values)
        except LabError as error:  # a metric whose steps go back
            self._leave_out(next(iter(values), ""), str(error))

    def _leave_out(self, name: str, why: str) -> None:
        """Note once for each name, and for a few of them, that a number of it is left out."""
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
        """Write the lines that have come; a full disk costs the log, not the run."""
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
        said = f"\n[… {left_out} bytes left out …]\n".encode()
        self.run.write("log.txt", whole[:KEPT_FIRST] + said + whole[-KEPT_LAST:])
