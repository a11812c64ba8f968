"""A run, read while somebody else writes it: the one door through which screens, plots and exports see a directory.

Notable: it never writes into the run. A huge log is shown at once (`coarse`), read as a whole in slices by
`catch_up` in another thread, and remembered in a cache of the viewer (`sidecar`); until then `complete` is False.
Whatever is torn, garbled or missing is tried again at the next poll, and never ends the reading.
"""

import threading
import time
from pathlib import Path
from typing import Any

from txlab.errors import LabError
from txlab.runs import curve_cache as sidecar
from txlab.runs.directory import RunDirectory, RunInfo, State, state_of
from txlab.runs.events import Row
from txlab.runs.finding import is_run
from txlab.runs.frames import FrameIndex
from txlab.runs.live_rows import Branch, Series
from txlab.runs.recovery import tables_of
from txlab.runs.sampled_log import BLOCK, SAMPLES, TAIL, coarse_branch
from txlab.runs.tail import LineCursor, Replaced

AT_ONCE = 4 * 1024 * 1024  # a log up to this size is read whole by the first poll (about 90 ms)
EACH_POLL = 1024 * 1024  # of what has been added since, a poll reads no more than this (about 25 ms)
LIGHT_TAIL, LIGHT_SAMPLES, LIGHT_BLOCK = 64 * 1024, 64, 1024
LIGHT_GROWTH = 1024 * 1024  # a light reader takes a new sample after this many new bytes, so that it stays small
PAUSE = 0.0005  # seconds between slices of catching up, for the thread that draws


class RunReader:
    """One run directory, past or still growing.

    `light` is for lists of many runs: run.json, heartbeat, the last 64 KiB of the log and 64 rows of the rest; it is
    never `complete` for a longer log. `cache=False` neither reads nor writes the viewer's cache. With `background` the
    first poll of a long log starts catching up in a thread of its own; `catch_up` then waits for it.

    Arrays in a Series are read-only and stay as they are when the run goes on. Any thread may call any method.

    Raises LabError if the directory does not exist or is not a run.
    """

    def __init__(self, path: str | Path, *, light: bool = False, cache: bool = True, background: bool = True) -> None:
        self.directory = RunDirectory(path)
        self.light, self.cache = light, cache and not light
        self.background = background and not light
        self._catcher: threading.Thread | None = None
        self.version = 0  # grows whenever what the reader would answer has changed
        self._told = 0  # the version at the last poll; catching up moves it on, too
        self._branch, self._cursor = Branch(), LineCursor(self.directory.events)
        self._whole = True  # the branch was folded from the first byte on
        self._light_from = 0
        self._series: dict[str, Series] = {}
        self._polling = threading.Lock()  # one thread polls at a time
        self._lock = threading.Lock()  # around the branch and the cursor; never held for more than a few slices
        self._catching = threading.Lock()  # one thread catches up at a time
        self._frames: FrameIndex | None = None
        self._scenario: dict[str, Any] = {}
        self._unfinished: tuple[Branch, LineCursor] | None = None  # where catching up was left
        self._files: dict[Path, Any] = {}
        self._info = RunInfo(name=self.directory.name)
        if not self.directory.path.is_dir():
            raise LabError(f"{self.directory.path} is not a run: there is no such directory")
        if not is_run(self.directory.path):
            raise LabError(f"{self.directory.path} is not a run: it has neither run.json nor events.jsonl")
        self.problem = ""  # why run.json could not be read, or what in the directory is none of a run's
        self._garbled = self._misplaced = ""
        self._state = State("created", None, 0, 0, "", None, "")
        self._look()

    # ── following ────────────────────────────────────────────────────────────────────────────────────────────────

    def poll(self) -> bool:
        """Look again; whether anything has changed. Reads at most about a megabyte, after the first time."""
        with self._polling:
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
            told, self._told = self._told, self.version
        far_behind = not self._whole or self._cursor.behind > EACH_POLL
        if self.background and far_behind and self._cursor.reachable:
            self.catch_up_in_background()
        return told != self.version

    def _look(self) -> bool:
        """run.json and heartbeat."""
        before = (self._info, self._state.status, self._state.step, self.problem)
        if self._renewed(self.directory.run_file):
            try:
                self._info, self._garbled = RunInfo.load(self.directory), ""
            except LabError as error:  # garbled or gone: what was known stays, and it is tried again
                self._garbled = str(error)
                self._files.pop(self.directory.run_file, None)
        if self._renewed(self.directory.path, follow=True):
            wrong = self.directory.misplaced()
            self._misplaced = f"{wrong}, which no run of txlab has" if wrong else ""
        self.problem = self._garbled or self._misplaced
        self._state = state_of(self.directory, self._info)
        return before != (self._info, self._state.status, self._state.step, self.problem)

    def _renewed(self, path: Path, follow: bool = False) -> bool:
        """Whether a file that is replaced by renaming, or a directory, is another one than last time."""
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
        if self._cursor.offset == 0 and self._whole:
            size = size_of(self.directory.events)
            if size > (LIGHT_TAIL if self.light else AT_ONCE):
                return self._take_coarse()
        elif self.light and self._cursor.offset - self._light_from > LIGHT_GROWTH:
            return self._take_coarse()
        limit = self._cursor.offset + (EACH_POLL if self._cursor.offset else AT_ONCE)
        changed = False
        while self._cursor.offset < limit and (lines := self._cursor.read()):
            self._branch.add_lines(lines)
            changed = True
        if changed:
            self._series.clear()
        return changed

    def _take_coarse(self) -> bool:
        """The first look at a long log."""
        if self.cache and (found := sidecar.load(self.directory.events)) is not None and self._adopt_cached(found):
            return True
        try:
            if self.light:
                branch, offset = coarse_branch(
                    self.directory.events, LIGHT_TAIL, LIGHT_SAMPLES, LIGHT_BLOCK, searched=0
                )
            else:
                branch, offset = coarse_branch(self.directory.events, TAIL, SAMPLES, BLOCK)
        except OSError:
            return False
        self._branch, self._whole = branch, False
        self._cursor = LineCursor(self.directory.events, offset)
        self._cursor.look()
        self._light_from = offset
        self._series.clear()
        return True

    def _adopt_cached(self, found: sidecar.Remembered) -> bool:
        """Go on from what the cache knows, if that is nearly everything."""
        if size_of(self.directory.events) - found.offset > AT_ONCE:
            return False
        self._branch, self._whole = found.branch, True
        self._cursor = LineCursor(self.directory.events, found.offset)
        self._cursor.look()
        while lines := self._cursor.read():
            self._branch.add_lines(lines)
        self._series.clear()
        return True

    def _start_over(self) -> None:
        self._branch, self._cursor = Branch(), LineCursor(self.directory.events)
        self._whole, self._light_from = True, 0
        self._series.clear()

    @property
    def complete(self) -> bool:
        """Whether every row that was there at the last poll has been read."""
        return self._whole and self._cursor.behind <= self._cursor.waiting

    def catch_up(self, seconds: float | None = None) -> bool:
        """Read all of the log, in slices of some milliseconds; for so long, or to its end. Returns `complete`.

        Where a thread is at it already (`background`), this waits for it.
        """
        if self.light:
            return self.complete
        deadline = None if seconds is None else time.monotonic() + seconds
        with self._catching:
            if not self._whole or self._cursor.offset == 0:
                self._read_whole(deadline)
            while self._whole and (deadline is None or time.monotonic() < deadline):
                with self._lock:
                    try:
                        lines = self._cursor.read()
                    except Replaced:
                        self._start_over()
                        continue
                    if not lines:
                        break
                    self._branch.add_lines(lines)
                    self._series.clear()
                    self.version += 1
                time.sleep(PAUSE)
        return self.complete

    def catch_up_in_background(self) -> threading.Thread:
        """`catch_up` in a daemon thread, which is returned started; the one that is at it already, if there is one."""
        if self._catcher is None or not self._catcher.is_alive():
            name = f"reading {self.directory.name}"
            self._catcher = threading.Thread(target=self.catch_up, name=name, daemon=True)
            self._catcher.start()
        return self._catcher

    def _read_whole(self, deadline: float | None) -> None:
        """Fold the log from its beginning (or from the cache) beside the coarse branch, then take its place."""
        branch, cursor = self._beside()
        begun = cursor.offset
        while deadline is None or time.monotonic() < deadline:
            try:
                lines = cursor.read()
            except Replaced:
                branch, cursor = Branch(), LineCursor(self.directory.events)
                begun = 0
                continue
            if not lines and not cursor.reachable:
                break
            if not lines:
                if self.cache and cursor.offset - begun > AT_ONCE:
                    sidecar.save(self.directory.events, cursor.offset, branch)
                    begun = cursor.offset
                    continue  # while that was written, more may have come
                with self._lock:
                    self._branch, self._cursor, self._whole = branch, cursor, True
                    self._unfinished = None
                    self._series.clear()
                    self.version += 1
                return
            branch.add_lines(lines)
            time.sleep(PAUSE)
        self._unfinished = (branch, cursor)

    def _beside(self) -> tuple[Branch, LineCursor]:
        """Where catching up was left, or what the cache remembers, or the beginning."""
        if self._unfinished is not None:
            return self._unfinished
        if self.cache and (found := sidecar.load(self.directory.events)) is not None:
            cursor = LineCursor(self.directory.events, found.offset)
            cursor.look()
            return found.branch, cursor
        return Branch(), LineCursor(self.directory.events)

    # ── what is known ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def info(self) -> RunInfo:
        """run.json as it was last readable."""
        return self._info

    @property
    def state(self) -> State:
        """What can be concluded about the run, as of the last poll."""
        return self._state

    @property
    def scenario(self) -> dict[str, Any]:
        """scenario.toml as plain tables; {} while there is none, or it is no TOML."""
        if self._renewed(self.directory.scenario_file):
            try:
                self._scenario = tables_of(self.directory)
            except LabError:
                self._files.pop(self.directory.scenario_file, None)
        return self._scenario

    @property
    def frames(self) -> FrameIndex:
        """The recording; looked up when first asked for, refreshed by `poll` from then on."""
        if self._frames is None:
            self._frames = FrameIndex(self.directory.frames)
            self._frames.refresh()
        return self._frames

    def names(self, event: str | None = None) -> list[str]:
        """Names of the live branch, metrics before machine; `event` "metrics" or "machine" asks for one kind."""
        with self._lock:
            return self._branch.names(event)

    def series(self, name: str) -> Series:
        """The live branch of a metric, by step; empty if there is none of that name."""
        with self._lock:
            found = self._series.get(name)
            if found is None:
                found = self._series[name] = self._branch.series(name)
            return found

    def dead_series(self, name: str) -> list[Series]:
        """The branches of a metric that rewinds ended, oldest first; to be drawn faintly."""
        with self._lock:
            return self._branch.dead_series(name)

    def latest(self, name: str) -> float | None:
        """The value logged last on the live branch; None if there is none."""
        with self._lock:
            return self._branch.latest(name)

    def rows(self, event: str) -> list[Row]:
        """The live rows of an event that is not a measurement ("sample", "control", "note", "rewind", …)."""
        with self._lock:
            return [row for row in self._branch.rows if row["event"] == event]

    @property
    def samples(self) -> list[Row]:
        return self.rows("sample")

    @property
    def controls(self) -> list[Row]:
        return self.rows("control")

    @property
    def notes(self) -> list[Row]:
        return self.rows("note")

    @property
    def checkpoints(self) -> list[Row]:
        return self.rows("checkpoint")

    @property
    def starts(self) -> list[Row]:
        return self.rows("start")

    @property
    def ends(self) -> list[Row]:
        return self.rows("end")

    @property
    def rewinds(self) -> list[Row]:
        return self.rows("rewind")

    @property
    def skipped(self) -> int:
        """Lines of the log that were no rows (torn by a crash, or garbled)."""
        return self._branch.skipped


def size_of(path: Path) -> int:
    """Bytes of a file; 0 if it is not there."""
    try:
        return path.stat(follow_symlinks=False).st_size
    except OSError:
        return 0
