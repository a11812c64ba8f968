"""The one writer of a run directory: rows, heartbeat, frames, checkpoints, run.json.

Notable: values that are still on a GPU wait in a buffer and are fetched together (at most every quarter of a second),
so that recording does not synchronise the device at each step; on a CPU a row is written immediately. A row leaves the
buffer only when it has been written. fdatasync and heartbeat run in a thread, out of the loop's way. A reserve file is
deleted on a full disk, so that the end can be written.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson

from txlab.errors import LabError, RunFailed, one_line
from txlab.experiments.protocol import Metrics, State
from txlab.files import closing, write_whole
from txlab.runs import checkpoints
from txlab.runs.alerts import LEVELS, Alarms, Alert, AlertCommand
from txlab.runs.control import Request
from txlab.runs.directory import RunDirectory, RunInfo, read_heartbeat
from txlab.runs.events import EventWriter, Row
from txlab.runs.frames import FrameWriter
from txlab.runs.loop_values import on_a_device
from txlab.runs.writing import begin

FETCH_EVERY = 0.25  # seconds for which values may wait on a device
SYNC_EVERY = 1.0
HEARTBEAT_EVERY = 2.0
RESERVE_BYTES = 256 * 1024

Listener = Callable[[Row], None]


def is_disk_full(error: BaseException) -> bool:
    """Whether an error means that the disk is full or a quota exceeded."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def begin_recording(
    run: RunDirectory, info: RunInfo, frames_mb: float = 64.0, listeners: Sequence[Listener] = ()
) -> Recorder:
    """Record in run.json that this process writes the run, and open its files. Raises what `Recorder` does; run.json
    then says that the run failed."""
    begin(run, info)
    try:
        return Recorder(run, info, frames_mb, listeners)
    except BaseException as error:
        info.status, info.reason, info.ended = "failed", f"it could not begin: {one_line(error)}", time.time()
        with contextlib.suppress(OSError):
            info.save(run)
        raise


class Recorder:
    """Writes one run; created by the process that holds its lock, used from one thread.

    `listeners` get every row as it is written, except the few that the clock's thread writes. Methods raise OSError if
    the disk fails, except finish().
    """

    def __init__(
        self, run: RunDirectory, info: RunInfo, frames_mb: float = 64.0, listeners: Sequence[Listener] = ()
    ) -> None:
        self.run, self.info, self.listeners = run, info, list(listeners)
        self.step = info.step
        with contextlib.suppress(OSError), run.folder() as top:
            if not top.kind(".reserve"):  # random, because a file system that compresses reserves no space for zeros
                top.write(".reserve", os.urandom(RESERVE_BYTES))
        self.frames = FrameWriter(run.folder("frames", make=True), frames_mb * 1e6)
        self.events = EventWriter(run.events, run.folder())
        self._waiting: deque[Row] = deque()  # rows waiting for a device, for earlier rows, or for the disk
        self._fetched = time.monotonic()
        self._sync_trouble: Exception | None = None
        self.usurped = ""  # a sentence, if another process writes this run too
        self.alarms, self.command = Alarms(time.time()), AlertCommand()
        self._noted: set[str] = set()  # what went wrong with the command, or in the thread
        self._closing = threading.Event()
        # Kept, because a laptop's host name changes with its network.
        self._us = {"pid": os.getpid(), "host": socket.gethostname()}
        self._beaten = False
        self._beat()
        self._thread = threading.Thread(target=self._keep_time, name="txlab heartbeat", daemon=True)
        self._thread.start()
        if self.events.mended:
            self.note(self.step, f"cut off {self.events.mended} bytes of a row that was never written whole")

    # Rows

    def row(self, event: str, step: int, **content: Any) -> None:
        """Write one row, after any waiting rows. After an OSError it is kept and written later."""
        self._add({"event": event, "time": time.time(), "step": step, **content})
        if len(self._waiting) == 1:
            self._write_waiting()

    def _add(self, row: Row) -> None:
        """Queue a row; if its step is below the run's step without a rewind, "at" records the run's step."""
        step = row["step"]
        if step >= self.step or row["event"] == "rewind":
            self.step = step
        else:
            row["at"] = self.step
        self._waiting.append(row)

    def _write_waiting(self) -> None:
        if self._sync_trouble is not None:
            trouble, self._sync_trouble = self._sync_trouble, None
            raise trouble
        while self._waiting:
            try:
                self.events.write(self._waiting[0])
            except LabError:  # it is too long, and would be again
                self._waiting.popleft()
                raise
            row = self._waiting.popleft()
            for listener in self.listeners:
                listener(row)
            if row["event"] == "metrics":
                for alert in self.alarms.metrics(row["step"], row["values"], row["time"]):
                    self.alert(row["step"], alert)

    def metrics(self, step: int, values: Metrics) -> None:
        """Record numbers that are reproducible for the same scenario, random seed, device and threads."""
        if any(on_a_device(value) for value in values.values()):
            self._add({"event": "metrics", "time": time.time(), "step": step, "values": dict(values)})
        else:
            self.row("metrics", step, values={name: number(value) for name, value in values.items()})

    @property
    def due(self) -> bool:
        """Whether values have waited on a device for long enough."""
        return bool(self._waiting) and time.monotonic() - self._fetched >= FETCH_EVERY

    def flush(self) -> None:
        """Fetch all values waiting on a device together and write their rows; if that fails, they remain queued."""
        self._fetched = time.monotonic()
        _fetch(self._waiting)
        self._write_waiting()

    def note(self, step: int, text: str) -> None:
        self.row("note", step, text=text)

    def alert(self, step: int, alert: Alert) -> None:
        """Record an alert, count it in run.json, and start the user's command."""
        self.row("alert", step, **asdict(alert))
        self._tell(step, alert)

    def _tell(self, step: int, alert: Alert) -> None:
        """Count an alert in run.json and start the command for it; failures are only noted."""
        known = self.info.alerts
        worst = max((level for level in LEVELS if level in (alert.level, known.get("level"))), key=LEVELS.index)
        about = {"title": alert.title, "step": step, "time": time.time()}
        self.info.alerts = {"count": int(known.get("count", 0)) + 1, "level": worst, **about}
        with contextlib.suppress(OSError):
            self.info.save(self.run)
        self._note_once(
            self.command.tell({"run": str(self.run.path), "name": self.info.name, **asdict(alert), **about})
        )

    def _note_once(self, why: str) -> None:
        """Note a failure ahead of the waiting rows, since another thread may have found it."""
        if why and why not in self._noted:
            self._noted.add(why)
            self.events.write({"event": "note", "time": time.time(), "step": self.step, "text": why})

    def control(
        self,
        step: int,
        request: Request,
        error: str | None = None,
        before: float | None = None,
        after: float | None = None,
        replayed: bool = False,
    ) -> None:
        """Record a request and its result; `error` None = it was carried out."""
        details = {"count": request.count} if request.request == "step" else {}
        self.row(
            "control",
            step,
            request=request.request,
            key=request.key,
            **{"from": before, "to": after},
            by=request.by,
            asked=request.asked,
            id=request.id,
            applied=error is None,
            error=error,
            replayed=replayed,
            **details,
        )

    def rewind(self, to: int, came_from: int, reason: str, explicit: bool) -> None:
        """Rewind: only rows and frames up to step `to` still count; `explicit` = the user requested it, so the changes
        made after that step are not repeated."""
        self.row("rewind", to, **{"from": came_from}, reason=reason, explicit=explicit)
        self.frames.rewind(to)

    # Checkpoints and status

    def checkpoint(
        self,
        step: int,
        state: State,
        keep: int = 3,
        val_loss: float | None = None,
        pending: Sequence[Mapping[str, Any]] = (),
        budget: int = 0,
    ) -> None:
        """Save the state once every row so far is on disk, then remove checkpoints beyond `keep` and the budget."""
        self.flush()
        self.events.sync()
        about = checkpoints.CheckpointInfo(step, self.events.size, val_loss, pending)
        size = checkpoints.save(self.run, step, state, about)
        self.row("checkpoint", step, bytes=size)
        checkpoints.prune(self.run, keep, budget)
        self.info.step = step
        self.info.save(self.run)

    def status(self, status: str) -> None:
        """Set the status, running or paused; readers see it immediately."""
        self.info.status, self.info.step = status, self.step
        self.alarms.rest(time.time(), status == "paused")
        self.info.save(self.run)
        self._beat()

    def waiting(self, what: str) -> None:
        """Record in run.json what the run waits for; "" = it continues."""
        self.info.facts = {**self.info.facts, "waiting": what}
        self.alarms.rest(time.time(), bool(what))
        self.info.step = self.step
        self.info.save(self.run)

    def finish(self, status: str, reason: str) -> None:
        """Write the end row, run.json and a last heartbeat. The reserve is deleted first, so that a full disk has room
        for them; errors of the disk or a device are not raised, and any other error only after run.json was written. A
        run that lost values is not done, whatever `status` says."""
        self._stop_thread()
        if self.usurped:  # the other process reports on the run
            self.events.close()
            return
        self._sync_trouble = None
        with contextlib.suppress(OSError), self.run.folder() as top:
            top.unlink(".reserve")
        if lost := self._rescue():
            status, reason = ("failed", lost) if status == "done" else (status, f"{reason}; {lost}".lstrip("; "))
        self.info.status, self.info.reason = status, reason
        self.info.step, self.info.ended = self.step, time.time()
        with contextlib.ExitStack() as then:  # last first: if a callback raises, the others still run
            then.callback(self.events.close)
            then.callback(self._beat)
            then.callback(self._write_info)
            with contextlib.suppress(OSError):
                self.row("end", self.step, status=status, reason=reason)
            with contextlib.suppress(OSError):
                self.events.sync()

    def _write_info(self) -> None:
        data = self.info.to_json()
        with contextlib.suppress(OSError):
            try:
                self.run.write("run.json", data, durable=True)
            except OSError:  # still no room for a second file: overwrite the old one, whose blocks are allocated
                with self.run.folder() as top, closing(top.open("run.json", os.O_WRONLY)) as descriptor:
                    write_whole(descriptor, data)
                    os.ftruncate(descriptor, len(data))

    def _rescue(self) -> str:
        """Write the waiting rows, one value at a time if necessary; return a sentence on what was lost, or ""."""
        try:
            self.flush()
            return ""
        except Exception as error:
            why = one_line(error)
            gone = ["a row that is too long"] if isinstance(error, LabError) else []  # it is no longer queued
        for row in self._waiting:
            values = row.get("values", {})
            for name in list(values):
                try:
                    values[name] = number(values[name])
                except Exception:
                    del values[name]
                    gone.append(f"{name} of step {row['step']}")
        while self._waiting:
            try:
                self._write_waiting()
            except LabError:
                gone.append("a row that is too long")
            except Exception:
                gone += [f"the {row['event']} row of step {row['step']}" for row in self._waiting]
                self._waiting.clear()
        few = ", ".join(gone[:3]) + (f" and {len(gone) - 3} more" if len(gone) > 3 else "")
        return f"not recorded: {few} ({why})" if gone else ""

    def close(self) -> None:
        """Release the thread and the files without writing an end (a fork, a test)."""
        self._stop_thread()
        self.events.close()

    @property
    def deleted(self) -> bool:
        """Whether the log, and perhaps the run directory, was deleted or replaced.

        A directory that was moved is written to at its new place.
        """
        try:
            return os.fstat(self.events.descriptor).st_nlink == 0
        except OSError:  # stale: deleted on another host
            return True

    @property
    def lost(self) -> str:
        """Why the directory can no longer be written to, as a sentence; "" if it can."""
        if self.usurped or not self.deleted:
            return self.usurped
        what = self.run.events if self.run.path.exists() else self.run.path
        return f"{what} was deleted while the run was computed, at step {self.step}; nothing more of it can be kept"

    @property
    def gone(self) -> bool:
        """Whether the log is no longer where it was: the run directory has been deleted, moved or replaced."""
        try:
            there, ours = self.run.events.stat(follow_symlinks=False), os.fstat(self.events.descriptor)
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False
        return (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino)

    def _stop_thread(self) -> None:
        self._closing.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    # The thread

    def _keep_time(self) -> None:
        synced, beaten = 0, time.monotonic()
        while not self._closing.wait(SYNC_EVERY):
            if self.deleted:
                self._sync_trouble = FileNotFoundError(errno.ENOENT, "it was deleted", str(self.run.events))
            if self.events.size != synced:
                synced = self.events.size
                try:
                    self.events.sync()
                except Exception as error:  # raised by the next row, in the loop's thread, which can act on it
                    self._sync_trouble = error
            if time.monotonic() - beaten >= HEARTBEAT_EVERY - SYNC_EVERY / 2:
                beaten = time.monotonic()
                try:
                    self._beat()
                    self._look()
                except Exception as error:  # without this thread the run would seem to have ended
                    with contextlib.suppress(Exception):
                        self._note_once(f"heartbeat: {type(error).__name__}: {one_line(error)}")

    def _look(self) -> None:
        """Let the clock find trouble that no row shows; written ahead of the waiting rows, which belong to the loop's
        thread."""
        with contextlib.suppress(OSError):
            disk = os.fstatvfs(self.events.descriptor)
            free, size = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
            for alert in self.alarms.look(time.time(), free, size):
                self.events.write({"event": "alert", "time": time.time(), "step": self.step, **asdict(alert)})
                self._tell(self.step, alert)

    def _beat(self) -> None:
        """Replace the heartbeat. On a full disk it is skipped; the next may succeed.

        If another process has replaced ours, both write this run (locks do not work between their hosts); the one
        later in the order of host names and pids ends.
        """
        us = self._us
        last = read_heartbeat(self.run)
        them = {"pid": last["pid"], "host": last["host"]} if last else us
        if self._beaten and them != us and (us["host"], us["pid"]) > (them["host"], them["pid"]):
            also = f"process {them['pid']} on {them['host']} computes {self.run.path} as well"
            self.usurped = f"{also}, so this one ends (process {us['pid']} on {us['host']})"
            self._sync_trouble = RunFailed(self.usurped)
            return
        self._beaten = True
        beat = {"time": time.time(), "step": self.step, "status": self.info.status, **us}
        with contextlib.suppress(OSError):
            self.run.write("heartbeat", orjson.dumps(beat))


def number(value: Any) -> float:
    """A metric as a float; a tensor is detached from its graph."""
    return float(value.detach() if hasattr(value, "detach") else value)


def _fetch(rows: Iterable[Row]) -> None:
    """Replace the tensors in rows by numbers, with one transfer per device and dtype."""
    groups: dict[tuple[Any, Any], list[tuple[dict[str, Any], str]]] = {}
    for row in rows:
        values = row.get("values", {})
        for name, value in values.items():
            if on_a_device(value):
                groups.setdefault((value.device, value.dtype), []).append((values, name))
            else:
                values[name] = number(value)
    if groups:
        import torch

        for places in groups.values():
            fetched = torch.stack([values[name].detach().reshape(()) for values, name in places]).tolist()
            for (values, name), value in zip(places, fetched, strict=True):
                values[name] = float(value)
