"""Reading a run while another process writes it: how screens and plots see a run directory.

Notable: the reader never writes, and shows a long log immediately: its tail, and two thousand rows spread evenly over
the rest, while `catch_up` reads all of it in slices in another thread; until then `complete` is False. For a million
rows, 154 MB, the sampled curve is there after 0.35 s, the whole one after 4 to 6 s. Anything torn, garbled or missing
is tried again at the next poll and never stops the reader.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from pathlib import Path
from typing import Any

from txlab.errors import LabError
from txlab.files import open_regular
from txlab.runs.directory import RunDirectory, RunInfo, RunState, state_of, tables_of
from txlab.runs.events import LONGEST, LineCursor, Replaced, Row, place_of
from txlab.runs.external_logs.mirror import mirror_at
from txlab.runs.folder import is_run
from txlab.runs.frames import FrameIndex
from txlab.runs.live_rows import MEASURED, Branch, Series, parse

AT_ONCE = 4 * 1024 * 1024  # a log up to this size is read whole by the first poll (about 90 ms)
EACH_POLL = 1024 * 1024  # the most that a later poll reads of what has been added (about 25 ms)
PAUSE = 0.0005  # seconds between slices of catching up, to let the drawing thread run

# A sample of a long log: bytes of its tail, places in the rest, and bytes read at each, about 28 rows, so that rare
# rows (validation) are found too. A light reader samples again after LIGHT_GROWTH new bytes, so that it stays small.
TAIL, SAMPLES, BLOCK = 256 * 1024, 2000, 4096
LIGHT_TAIL, LIGHT_SAMPLES, LIGHT_BLOCK = 64 * 1024, 64, 1024
LIGHT_GROWTH = 1024 * 1024
SEARCHED = 1024 * 1024 * 1024  # bytes of a log that are searched for rewinds (1.6 ms per megabyte)
CHUNK = LONGEST
MOST_REWINDS = 100_000
PARSED = 64 * 1024 * 1024  # bytes of rows that are parsed because they contain that word


class RunReader:
    """One run directory, past or still growing.

    `light` is for lists of many runs: run.json, heartbeat, the last 64 KiB of the log and 64 rows of the rest; it is
    never `complete` for a longer log. With `background` the first poll of a long log starts catching up in a background
    thread; `catch_up` then waits for it.

    Arrays in a Series are read-only and do not change when the run continues. All methods are thread-safe.

    info     run.json as last read successfully     state  of the run, as of the last poll
    version  increases whenever the reader's answers have changed
    problem  why run.json could not be read, or which entry of the directory does not belong to a run
    left_out  how many rows of the log are not kept, because it has too many names or too many other rows

    Raises LabError if the directory does not exist or is not a run.
    """

    def __init__(self, path: str | Path, *, light: bool = False, background: bool = True) -> None:
        self.directory = RunDirectory(path)
        self.light, self.background = light, background and not light
        self._catcher: threading.Thread | None = None
        self.version = 0
        self._told = 0  # the version at the last poll; catching up increases `version` too
        self._polling = threading.Lock()  # one thread polls at a time
        self._lock = threading.Lock()  # guards the branch and the cursor; never held for more than a few slices
        self._catching = threading.Lock()  # one thread catches up at a time
        self._frames: FrameIndex | None = None
        self._scenario: dict[str, Any] = {}
        self._files: dict[Path, Any] = {}
        self._start_over()
        self.info = RunInfo(name=self.directory.name)
        if not self.directory.path.is_dir():
            raise LabError(f"{self.directory.path} is not a run: there is no such directory")
        if not is_run(self.directory.path):
            raise LabError(f"{self.directory.path} is not a run: it has neither run.json nor events.jsonl")
        self._mirror = mirror_at(self.directory.path)
        self.problem = self._garbled = self._misplaced = ""
        self.state = RunState("created", None, 0, 0, "", None, "")
        self._look()

    def _start_over(self) -> None:
        self._branch, self._cursor = Branch(), LineCursor(self.directory.events)
        # While the branch is a sample: the fold from the first byte on, which will replace it.
        self._whole: tuple[Branch, LineCursor] | None = None
        self._sampled_at = 0
        self._series: dict[str, Series] = {}

    # Following

    def poll(self) -> bool:
        """Check for changes; True if there are any. Reads at most about a megabyte, after the first call."""
        with self._polling:
            if self._mirror is not None:
                self._mirror.look()
            changed = self._look()
            with self._lock:
                try:
                    changed |= self._read_on()
                except Replaced:
                    self._start_over()
                    changed = True
                    self._read_on()
            if self._frames is not None:
                changed |= self._frames.refresh()
            if changed:
                self.version += 1
            last_told, self._told = self._told, self.version
        far_behind = self._whole is not None or self._cursor.behind > EACH_POLL
        if self.background and far_behind and self._cursor.reachable:
            self.catch_up_in_background()
        return last_told != self.version

    def _look(self) -> bool:
        """Read run.json and heartbeat."""
        before = (self.info, self.state.status, self.state.step, self.problem)
        if self._has_changed(self.directory.run_file):
            try:
                self.info, self._garbled = RunInfo.load(self.directory), ""
            except LabError as error:  # garbled or gone: keep what is known and try again later
                self._garbled = str(error)
                self._files.pop(self.directory.run_file, None)
        if self._has_changed(self.directory.path, follow=True):
            wrong = self.directory.find_misplaced()
            self._misplaced = f"{wrong}, which no run of txlab has" if wrong else ""
        self.problem = self._garbled or self._misplaced
        self.state = state_of(self.directory, self.info)
        return before != (self.info, self.state.status, self.state.step, self.problem)

    def _has_changed(self, path: Path, follow: bool = False) -> bool:
        """Whether a directory, or a file that is replaced by renaming, has changed since the last call."""
        try:
            about = path.stat(follow_symlinks=follow)
        except OSError:
            known = self._files.pop(path, None)
            return known is not None or path == self.directory.run_file
        mark = (about.st_ino, about.st_size, about.st_mtime_ns)
        if self._files.get(path) == mark:
            return False
        self._files[path] = mark
        return True

    def _read_on(self) -> bool:
        begun = self._cursor.offset > 0
        size = 0
        if not begun and self._whole is None:
            with contextlib.suppress(OSError):
                size = self.directory.events.stat(follow_symlinks=False).st_size
        grown = self._cursor.offset - self._sampled_at if self.light else 0
        if size > (LIGHT_TAIL if self.light else AT_ONCE) or grown > LIGHT_GROWTH:
            return self._take_sample()
        limit = self._cursor.offset + (EACH_POLL if begun else AT_ONCE)
        changed = False
        while self._cursor.offset < limit and (lines := self._cursor.read()):
            self._branch.add_lines(lines)
            changed = True
        if changed:
            self._series.clear()
        return changed

    def _take_sample(self) -> bool:
        """Take a first sample of a long log."""
        events = self.directory.events
        how = (LIGHT_TAIL, LIGHT_SAMPLES, LIGHT_BLOCK, 0) if self.light else (TAIL, SAMPLES, BLOCK, SEARCHED)
        try:
            self._branch, offset = sample_branch(events, *how)
        except OSError:
            return False
        self._whole = Branch(), LineCursor(events)
        self._cursor = LineCursor(events, offset)
        self._cursor.look()
        self._sampled_at = offset
        self._series.clear()
        return True

    @property
    def complete(self) -> bool:
        """Whether every row that existed at the last poll has been read."""
        return self._whole is None and self._cursor.behind <= self._cursor.waiting

    def catch_up(self, seconds: float = math.inf) -> bool:
        """Read the log to its end, or for `seconds`, in slices of a few milliseconds. Returns `complete`.

        If a background thread is already catching up, this waits for it.
        """
        deadline = time.monotonic() + seconds
        with self._catching:
            while not self.light and time.monotonic() < deadline:
                whole = self._whole
                branch, cursor = whole or (self._branch, self._cursor)
                with contextlib.nullcontext() if whole else self._lock:
                    try:
                        lines = cursor.read()
                    except Replaced:
                        if whole:
                            self._whole = Branch(), LineCursor(self.directory.events)
                        else:
                            self._start_over()
                        continue
                    branch.add_lines(lines)
                    if not whole:
                        self._series.clear()
                        self.version += bool(lines)
                if lines:
                    time.sleep(PAUSE)
                elif whole is None or not cursor.reachable:
                    break
                else:
                    with self._lock:
                        if self._whole is whole:  # otherwise a poll has found that the log was replaced
                            (self._branch, self._cursor), self._whole = whole, None
                            self._series.clear()
                            self.version += 1
        return self.complete

    def catch_up_in_background(self) -> threading.Thread:
        """Start `catch_up` in a daemon thread and return it, or return the one already running."""
        if self._catcher is None or not self._catcher.is_alive():
            name = f"reading {self.directory.name}"
            self._catcher = threading.Thread(target=self.catch_up, name=name, daemon=True)
            self._catcher.start()
        return self._catcher

    # Results

    @property
    def scenario(self) -> dict[str, Any]:
        """scenario.toml as plain tables; {} while it is absent or not TOML."""
        if self._has_changed(self.directory.scenario_file):
            try:
                self._scenario = tables_of(self.directory)
            except LabError:
                self._files.pop(self.directory.scenario_file, None)
        return self._scenario

    @property
    def frames(self) -> FrameIndex:
        """The recording; opened on first use, refreshed by `poll` from then on."""
        if self._frames is None:
            self._frames = FrameIndex(self.directory.frames)
            self._frames.refresh()
        return self._frames

    def names(self, event: str | None = None) -> list[str]:
        """Names of the live branch, metrics before machine; `event` "metrics" or "machine" selects one kind."""
        with self._lock:
            return self._branch.names(event)

    def series(self, name: str) -> Series:
        """A metric on the live branch, by step; empty if there is none of that name."""
        with self._lock:
            series = self._series.get(name)
            if series is None:
                series = self._series[name] = self._branch.series(name)
            return series

    def dead_series(self, name: str) -> list[Series]:
        """The branches of a metric that rewinds ended, oldest first; drawn faintly."""
        with self._lock:
            return self._branch.dead_series(name)

    def latest(self, name: str) -> float | None:
        """The latest value on the live branch; None if there is none."""
        with self._lock:
            return self._branch.latest(name)

    def rows(self, event: str) -> list[Row]:
        """The live rows of an event that is not a measurement: "start", "sample", "control", "note", "checkpoint",
        "rewind", "end"."""
        with self._lock:
            return [row for row in self._branch.rows if row["event"] == event]

    @property
    def skipped(self) -> int:
        """The number of lines of the log that were not rows (torn by a crash, or garbled)."""
        return self._branch.skipped

    @property
    def left_out(self) -> int:
        return self._branch.left_out

    @property
    def omission(self) -> str:
        """A sentence about omitted rows; "" if there are none."""
        if not self.left_out:
            return ""
        rows = f"{self.left_out:,} rows".replace(",", " ") if self.left_out > 1 else "1 row"
        return f"{rows} of the log left out: too many names, too much besides numbers, or too many rewinds"


def sample_branch(path: Path, tail: int, samples: int, block: int, searched: int) -> tuple[Branch, int]:
    """A branch of sampled live rows plus all of the tail, and the offset after the last complete line.

    Notable: sampled rows must be live, or the curve would show steps that were rewound. So the rewinds are found first,
    and a sampled row counts only if no later rewind goes below its place. Beyond `searched` bytes there is no such
    search, and the places themselves decide: going backwards, only rows at or below the places that come later are
    kept. Raises OSError.
    """
    with os.fdopen(open_regular(path, follow=False), "rb", buffering=0) as file:
        descriptor = file.fileno()
        size = os.fstat(descriptor).st_size
        start = max(size - tail, 0)
        ending = os.pread(descriptor, size - start, start)
        first = ending.find(b"\n") + 1 if start else 0  # skip the rest of a row that the tail begins in
        nul = ending.find(0)
        end = ending.rfind(b"\n", 0, nul if nul >= 0 else len(ending)) + 1
        last = [row for line in ending[first:end].split(b"\n") if (row := parse(line)) is not None]
        rewinds = find_rewinds(descriptor, start + first) if start + first <= searched else None
        sampled = sample(descriptor, start + first, samples, block)
    searching = rewinds is not None
    later = [*(rewinds or []), *[(size, row["step"]) for row in last if row["event"] == "rewind"]]
    limit = math.inf if searching else min(map(place_of, last), default=math.inf)
    kept: list[Row] = []
    for offset, row in reversed(sampled):
        while searching and later and later[-1][0] > offset:
            limit = min(limit, later.pop()[1])
        if (place := place_of(row)) <= limit:
            kept.append(row)
            if not searching:
                limit = place
    branch = Branch()
    branch.add(kept[::-1])
    branch.add(last)
    return branch, start + max(end, first)


def find_rewinds(descriptor: int, end: int) -> list[tuple[int, int]] | None:
    """(offset, step) of every rewind before `end`, in order; None if there are too many."""
    word = b'"rewind"'
    rewinds: list[tuple[int, int]] = []
    position = parsed = 0
    while position < end and (chunk := os.pread(descriptor, min(CHUNK, end - position), position)):
        complete = chunk.rfind(b"\n") + 1 or len(chunk)  # a line longer than the chunk is not a row
        at = chunk.find(word, 0, complete)
        while at >= 0:
            line_start, line_end = chunk.rfind(b"\n", 0, at) + 1, chunk.find(b"\n", at, complete)
            line = chunk[line_start : line_end if line_end >= 0 else complete]
            row = parse(line)
            if row is not None and row["event"] == "rewind":
                rewinds.append((position + line_start, row["step"]))
            parsed += len(line)
            if len(rewinds) > MOST_REWINDS or parsed > PARSED:
                return None
            at = chunk.find(word, line_start + len(line), complete)
        position += complete
    return rewinds


def sample(descriptor: int, end: int, samples: int, size: int) -> list[tuple[int, Row]]:
    """From evenly spaced blocks: the first row of each set of metrics, and all other rows, with their offsets."""
    rows: list[tuple[int, Row]] = []
    stride = max(end // max(samples, 1), size)
    for place in range(0, end, stride):
        block = os.pread(descriptor, min(size, end - place), place)
        position = 0 if place == 0 else block.find(b"\n") + 1
        if position == 0 and place:
            continue
        seen: set[tuple[str, ...]] = set()
        while (newline := block.find(b"\n", position)) >= 0:
            row = parse(block[position:newline])
            if row is not None and row["event"] in MEASURED:
                names = (row["event"], *row["values"])
                if names not in seen:
                    seen.add(names)
                    rows.append((place + position, row))
            elif row is not None and row["event"] != "rewind":
                rows.append((place + position, row))
            position = newline + 1
    return rows
