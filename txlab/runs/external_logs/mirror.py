"""A run directory that mirrors another program's log, so that every screen and command reads it like any run.

It is in the user's cache, one for each log, and is updated when it is read: directly by a command, by a thread in the
console, which stops when the mirror is no longer shown. Processes take turns by a lock.

Notable: the process that computes the run is unknown. Its heartbeat is the time when the log was last written, from
which `state_of` concludes "running" or "silent"; only the log itself can tell that it has ended.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from txlab.errors import LabError
from txlab.files import OpenFolder, closing, lock, write_whole
from txlab.runs.as_json import encode_json, text_of
from txlab.runs.directory import SILENT_AFTER, RunDirectory, RunInfo
from txlab.runs.events import Replaced, encode_row
from txlab.runs.external_logs.log import ExternalLog, Logged, LogReader
from txlab.runs.label import LONGEST_NAME
from txlab.runs.live_rows import MEASURED

STATE = "source.json"
LARGEST_STATE = 4 << 20
POLL_EVERY = 0.5  # seconds
MOST_BEGINNINGS = 3  # in one update
LOOKED_AT = 10.0  # seconds for which a mirror is updated after the last access
FORGOTTEN = 30 * 86400.0  # seconds after which the mirror of a log that is gone is deleted
BESIDE = 1.0  # seconds between scalars of a step that are written as one row

TITLES = {
    **{"tensorboard": "TensorBoard", "wandb": "W&B", "trackio": "trackio", "lightning": "Lightning"},
    **{"mlflow": "MLflow", "trainer": "Trainer", "table": "table"},
}
FRAMES_MB = 64.0  # of the pictures and histograms of a log


def mirrors() -> Path:
    """The folder of all mirrors."""
    import platformdirs

    return platformdirs.user_cache_path("txlab") / "mirrors" / "logs"


def mirror_path(log: ExternalLog) -> Path:
    """The path of a log's mirror, whether or not it exists."""
    key = hashlib.sha256(os.fsencode(f"{log.program}\0{log.path}\0{log.part}")).hexdigest()[:16]
    plain = re.sub(r"[^\w.-]+", "-", log.name).strip(".-")[:80] or "log"
    return mirrors() / key / plain


def mirror_at(path: Path) -> Mirror | None:
    """The mirror whose run directory this is; None if it is something else.

    Any run may claim to mirror a file, so only one at the path of its log's mirror is accepted.
    """
    try:
        if path.absolute().parent.parent != mirrors():
            return None
        state = orjson.loads(RunDirectory(path).read(STATE, LARGEST_STATE))
        log = ExternalLog(str(state["program"]), Path(state["path"]), str(state["part"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Mirror(log) if log.program in TITLES and mirror_path(log) == path.absolute() else None


def reader_of(log: ExternalLog, position: dict[str, Any] | None, x: str = "") -> LogReader:
    """The reader of a log from a position on, or from its start; `x` is the column of a table that is the step."""
    if log.program == "trackio":
        from txlab.runs.external_logs.trackio import TrackioLog

        return TrackioLog(log.path, log.part, position)
    if log.program == "tensorboard":
        from txlab.runs.external_logs.tensorboard import TensorBoardLog

        return TensorBoardLog(log.path, position)
    if log.program == "wandb":
        from txlab.runs.external_logs.weights_and_biases import WandbLog

        return WandbLog(log.path, position)
    if log.program == "mlflow":
        from txlab.runs.external_logs.mlflow import MLflowDatabase, MLflowFolder

        return MLflowDatabase(log.path, log.part, position) if log.part else MLflowFolder(log.path, position)
    from txlab.runs.external_logs.tables import TableLog, TrainerLog

    return TrainerLog(log.path, position) if log.program == "trainer" else TableLog(log.path, position, x)


class Mirror:
    """The mirror of one log; `path` is its run directory. Methods may be called from any thread."""

    def __init__(self, log: ExternalLog, x: str | None = None) -> None:
        """`x` is the column of a table that is the step, "" = chosen by its name, None = as before."""
        self.log, self.path, self.x = log, mirror_path(log), x
        self.run = RunDirectory(self.path)
        self.wanted = 0.0  # time of the last access, by the monotonic clock
        self._turn = threading.Lock()
        self._reader: LogReader | None = None
        self._size = self._step = -1  # of events.jsonl, and the run's step: they belong to the reader's position
        self._mark: object = None  # of the state file, as this process knows it
        self._seen: object = None  # of the log, when it was last read completely
        self._told: object = None  # the state that the other files were written for

    # Updating

    def update(self, seconds: float = float("inf")) -> bool:
        """Read what is new for at most `seconds`; True if everything has been read. Waits for the lock.

        Raises LabError if the log or the cache cannot be read or written.
        """
        until = time.monotonic() + seconds
        try:
            with self._turn, self._lock(until) as ours:
                return ours and self._update(until)
        except OSError as error:
            self._reader = None  # it may be ahead of what has been written
            where = error.filename or self.log.path
            raise LabError(f"{where} cannot be read: {error.strerror or error}") from None

    @contextlib.contextmanager
    def _lock(self, until: float) -> Iterator[bool]:
        mirrors().mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.mkdir(parents=True, exist_ok=True)
        with OpenFolder.at(self.path) as folder, closing(folder.open("lock", os.O_RDWR | os.O_CREAT)) as descriptor:
            while True:
                try:
                    lock(descriptor)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        yield False
                        return
                    time.sleep(0.02)
            yield True

    def _update(self, until: float) -> bool:
        self._resume()
        assert self._reader is not None
        try:
            seen = self._reader.mark()
        except Replaced:
            self._start_over()
            seen = self._reader.mark()
        if seen != self._seen:
            events, begun = self._open_events(), 0
            try:
                while True:
                    try:
                        logged = self._reader.read()
                    except Replaced:
                        if (begun := begun + 1) > MOST_BEGINNINGS:
                            raise OSError(0, "it is replaced all the time", str(self.log.path)) from None
                        os.close(events)
                        self._start_over()
                        events = self._open_events()
                        continue
                    if logged is None:
                        self._append(events, self._left_out())
                        self._seen = seen
                        break
                    self._append(events, logged + self._left_out())
                    self._keep_state()
                    if time.monotonic() > until:
                        break
            finally:
                os.close(events)
        changed = self._reader.about.changed
        silent = bool(self._reader.about.status) or time.time() - changed > SILENT_AFTER
        if (mark := (seen, silent, self._mark)) != self._told:
            self._keep_info(changed, silent)
            self._told = mark
        return self._seen == seen

    def _resume(self) -> None:
        """Load the position reached last, perhaps by another process."""
        mark = None
        with contextlib.suppress(OSError):
            about = (self.path / STATE).stat(follow_symlinks=False)
            mark = (about.st_ino, about.st_mtime_ns, about.st_size)
        if self._reader is not None and mark == self._mark:
            return
        state: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):
            state = orjson.loads(self.run.read(STATE, LARGEST_STATE))
        self._seen, self._mark = None, mark
        try:
            size = int(state["size"])
            if self.run.events.stat(follow_symlinks=False).st_size < size:
                raise ValueError
            x = str(state.get("x", ""))
            if self.x is not None and self.x != x:
                raise ValueError("another column is the step")
            self.x = x
            self._reader, self._size, self._step = reader_of(self.log, state["position"], x), size, int(state["step"])
            for name, value in state["about"].items():
                setattr(self._reader.about, name, value)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self._start_over()

    def _start_over(self) -> None:
        """Forget what was read: the log is new, or a different one."""
        shutil.rmtree(self.run.frames, ignore_errors=True)
        with OpenFolder.at(self.path) as folder:
            for name in ("events.jsonl", "scenario.toml"):
                with contextlib.suppress(FileNotFoundError):
                    folder.unlink(name)  # not truncated: the new inode tells readers that it is another log
        self._reader, self._size, self._step, self._seen = reader_of(self.log, None, self.x or ""), 0, -1, None
        self._keep_state()

    def _open_events(self) -> int:
        with OpenFolder.at(self.path) as folder:
            descriptor = folder.open("events.jsonl", os.O_RDWR | os.O_CREAT | os.O_APPEND)
        if os.fstat(descriptor).st_size > self._size:  # by a process killed before it saved its position
            os.ftruncate(descriptor, self._size)
        return descriptor

    def _append(self, events: int, logged: list[Logged]) -> None:
        self._keep_frames([row for row in logged if row[0] == "frame"])
        rows, self._step = rows_of([row for row in logged if row[0] != "frame"], self._step)
        data = b"".join(map(encode_row, rows))
        write_whole(events, data)
        self._size += len(data)

    def _keep_frames(self, logged: list[Logged]) -> None:
        """Write pictures and histograms as frames, those of a step together."""
        if not logged:
            return
        from txlab.experiments.protocol import Frame
        from txlab.runs.frames import FrameIndex, FrameWriter, merge_frames

        writer = FrameWriter(self.run.frames, FRAMES_MB * 2**20)
        for _, step, _, content in logged:
            frame = Frame(max(0, step), content["tensors"], {}, {}, content["facts"])
            if frame.step in writer.steps:
                frame = merge_frames(FrameIndex(self.run.frames).read(frame.step), frame)
            writer.write(frame)

    def _left_out(self) -> list[Logged]:
        """A note for each kind of omitted content that has no note yet."""
        assert self._reader is not None
        about, noted = self._reader.about, self._reader.position.setdefault("told", [])
        new = [what for what in about.left_out if what not in noted]
        noted += new
        texts = [f"left out: {what}" + f", first {about.examples[what]}" * bool(about.examples[what]) for what in new]
        return [("note", max(0, self._step), about.changed, {"text": text}) for text in texts]

    def _keep_state(self) -> None:
        assert self._reader is not None
        state = {
            "program": self.log.program,
            "path": str(self.log.path),
            "part": self.log.part,
            "x": self.x or "",
            "size": self._size,
            "step": self._step,
            "position": self._reader.position,
            "about": vars(self._reader.about),
        }
        with OpenFolder.at(self.path) as folder:
            folder.write(STATE, encode_json(state))
            about = folder.stat(STATE)
        self._mark = (about.st_ino, about.st_mtime_ns, about.st_size)

    def _keep_info(self, changed: float, silent: bool) -> None:
        """Write run.json, heartbeat and scenario.toml."""
        from txlab.runs.loop_values import flatten_config, format_scenario

        assert self._reader is not None
        about, program = self._reader.about, TITLES[self.log.program]
        left_out = ", ".join(f"{count} {what}" for what, count in about.left_out.items())
        left_out = f"left out: {left_out}" if left_out else ""
        info = RunInfo(
            name=text_of(about.name or self.log.name, LONGEST_NAME),
            scenario=text_of(about.name or self.log.name, LONGEST_NAME),
            kind="recorded",
            title=f"{program}: {self.log.path}" + (f", {self.log.part}" if self.log.part else ""),
            status=about.status or "running",
            reason=about.reason or about.problem or left_out,
            host=about.host,
            created=about.started or changed,
            started=about.started or None,
            ended=changed if silent else None,
            step=max(0, self._step),
        )
        info.facts = {"source": {"program": self.log.program, "path": str(self.log.path), "part": self.log.part}}
        info.facts |= {"note": about.note} if about.note else {}
        info.config, info.tags, info.group = flatten_config(about.config), about.tags, about.group
        beat = {"time": changed, "step": info.step, "status": "running", "pid": 0, "host": about.host}
        with OpenFolder.at(self.path) as folder:
            folder.write("scenario.toml", format_scenario(info.name, about.config))
            folder.write("heartbeat", orjson.dumps(beat))
            folder.write("run.json", info.to_json())

    # Following

    def look(self) -> None:
        """Keep it updated from now on, in a thread of this process, until it has not been accessed for a while."""
        self.wanted = time.monotonic()
        with _lock:
            _followed[self.path] = self
            if not _threads:
                _threads.append(threading.Thread(target=_keep_up, name="mirrors", daemon=True))
                _threads[0].start()


def rows_of(logged: list[Logged], step_now: int) -> tuple[list[dict[str, Any]], int]:
    """The rows of a slice, and the run's step after them; `step_now` is the one before.

    Scalars of one step and about the same time become one row, and rows behind the run's step have "at", as the
    recorder would write them.
    """
    rows: list[dict[str, Any]] = []
    last: dict[str, Any] | None = None  # the row that may still take scalars
    for event, step, when, content in logged:
        beside = event == "metrics" and last is not None and step == last["step"] and abs(when - last["time"]) < BESIDE
        if beside and last is not None and last["values"].keys().isdisjoint(content):
            last["values"].update(content)
            continue
        row: dict[str, Any] = {"event": event, "time": when, "step": step}
        if event == "rewind":
            row |= {"from": step_now, **content, "explicit": True}
            step_now = step
        else:
            row |= {"values": content} if event in MEASURED else content
            if step < step_now:
                row["at"] = step_now
            step_now = max(step_now, step)
        rows.append(row)
        last = row if event == "metrics" else None
    return rows, step_now


_lock = threading.Lock()
_followed: dict[Path, Mirror] = {}
_threads: list[threading.Thread] = []


def _keep_up() -> None:
    """Update the followed mirrors in turn, for at most half a second each, until none is followed."""
    forget_old()
    while True:
        with _lock:
            now = time.monotonic()
            for path in [path for path, each in _followed.items() if now - each.wanted > LOOKED_AT]:
                del _followed[path]
            if not _followed:
                _threads.clear()
                return
            each_one = list(_followed.values())
        behind = False
        for mirror in each_one:
            with contextlib.suppress(LabError):  # reported when the run is opened; tried again
                behind |= not mirror.update(seconds=0.5)
        time.sleep(0.01 if behind else POLL_EVERY)


def forget_old() -> None:
    """Delete mirrors whose logs disappeared long ago."""
    with contextlib.suppress(OSError):
        for key in mirrors().iterdir():
            for path in key.iterdir():
                mirror = mirror_at(path)
                if mirror and not mirror.log.path.exists() and time.time() - path.stat().st_mtime > FORGOTTEN:
                    shutil.rmtree(key)
                    break
