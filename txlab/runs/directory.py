"""One run on disk: the places in its directory, what its run.json says, and whether somebody computes it.

Notable: whether a run is alive is a reader's conclusion (pid, age of the heartbeat), not a file. Whoever writes a run
holds its directory open and never leaves it (OpenFolder); paths are for reading and for people. run.json is a summary:
nothing that a run needs to go on is in it alone, so one that was garbled is put together again from scenario.toml,
which says what runs, and the log, which says how far it came and how it ended.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from txlab.errors import LabError
from txlab.files import OpenFolder
from txlab.runs.events import each_row

FORMAT = 1
STATUSES = ("created", "running", "paused", "done", "stopped", "interrupted", "failed")
ALIVE = ("running", "paused")
LOST_AFTER = 30.0  # seconds; fifteen missed heartbeats, longer than a network file system keeps a stale attribute
AHEAD = 5.0  # seconds that clocks of hosts may differ by; a heartbeat further in the future is not believed
LARGEST_INFO = 4 << 20  # bytes of run.json that are read: parsing may take 25 times as much memory
LARGEST_HEARTBEAT = 4096

# What a run consists of, and what nothing else may take the place of.
FILES = ("run.json", "scenario.toml", "events.jsonl", "heartbeat", "lock", "log.txt", ".reserve")
FILES_OF_START = ("start.safetensors", "start-tokenizer.json")
FOLDERS = ("checkpoints", "frames", "inbox")


class RunDirectory:
    """The places inside one run. Making this object touches nothing.

    top      its directory, where it is held open: by the process that writes the run
    reserve  a little disk kept back, so that a run on a full disk can still say how it ended
    """

    def __init__(self, path: str | Path, top: OpenFolder | None = None) -> None:
        self.path, self.top = Path(path), top
        self.run_file, self.scenario_file = self.path / "run.json", self.path / "scenario.toml"
        self.events, self.log, self.heartbeat = (self.path / name for name in ("events.jsonl", "log.txt", "heartbeat"))
        self.lock, self.reserve = self.path / "lock", self.path / ".reserve"
        self.frames, self.checkpoints, self.inbox = (self.path / name for name in ("frames", "checkpoints", "inbox"))

    @classmethod
    def of(cls, run: RunDirectory | str | Path) -> RunDirectory:
        return run if isinstance(run, RunDirectory) else cls(run)

    def held(self) -> RunDirectory:
        """The same run with its directory held open: whatever happens to its name, no other place is written to.

        Raises LabError if there is no such directory.
        """
        path = self.path.resolve()
        try:
            return RunDirectory(path, OpenFolder.at(path))
        except OSError as error:
            raise LabError(f"{path} is not a run: {error.strerror}") from None

    def folder(self, *names: str, make: bool = False) -> OpenFolder:
        """The directory, or one in it, to be closed by the caller; `make` makes what is not there. Raises OSError."""
        place = self.top.again() if self.top is not None else OpenFolder.at(self.path, follow=True)
        for name in names:
            with place as outer:
                place = outer.folder(name, make=make)
        return place

    def read(self, name: str, largest: int) -> bytes:
        """A file directly in the run, of at most `largest` bytes. Raises OSError."""
        with self.folder() as top:
            return top.read(name, largest)

    def write(self, name: str, data: bytes, durable: bool = False) -> None:
        """Put a file into the run, complete or not at all. Raises OSError."""
        with self.folder() as top:
            top.write(name, data, durable)

    def log_file(self) -> BinaryIO:
        """log.txt, to be written to at its end. Raises OSError."""
        with self.folder() as top:
            return os.fdopen(top.open("log.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab")

    def misplaced(self) -> str:
        """The first entry that is not what a run has there: "checkpoints is a symbolic link"; "" if there is none.

        What is absent is not misplaced.
        """
        with contextlib.suppress(OSError), self.folder() as top:
            for names, right in (((*FILES, *FILES_OF_START), "a file"), (FOLDERS, "a folder")):
                for name in names:
                    if (kind := top.kind(name)) not in ("", right):
                        return f"{name} is {kind}"
        return ""

    def require_own(self) -> None:
        """Raise LabError unless everything in it that a run has is what a run has there; before anything is written."""
        if wrong := self.misplaced():
            raise LabError(f"{self.path} is not written to: {wrong}, which no run of txlab has")

    @property
    def name(self) -> str:
        return self.path.name or self.path.resolve().name


class Unreadable(LabError):
    """run.json is absent or garbled; what else lies in the directory may still tell of the run."""


@dataclass
class RunInfo:
    """run.json: what the run is, who computes it, and how it ended. Times are Unix seconds; None = not yet."""

    name: str
    scenario: str = ""
    kind: str = ""
    title: str = ""
    status: str = "created"
    reason: str = ""
    pid: int | None = None
    host: str = ""
    user: str = ""
    created: float = 0.0
    started: float | None = None
    ended: float | None = None
    step: int = 0
    steps: int = 0
    device: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    command: list[str] = field(default_factory=list)
    git: dict[str, Any] = field(default_factory=dict)
    format: int = FORMAT

    @classmethod
    def load(cls, run: RunDirectory | str | Path) -> RunInfo:
        """Read run.json; keys that this version does not know are ignored, values of a wrong type fall to defaults.

        Raises Unreadable when there is none, or it is not a JSON object; LabError when its format is newer than this
        program's.
        """
        run = RunDirectory.of(run)
        try:
            found = orjson.loads(run.read("run.json", LARGEST_INFO))
        except OSError as error:
            raise Unreadable(f"{run.path} is not a run: run.json cannot be read ({error.strerror})") from None
        except orjson.JSONDecodeError:
            raise Unreadable(f"{run.run_file} is not valid JSON") from None
        if not isinstance(found, dict):
            raise Unreadable(f"{run.run_file} is not a JSON object")
        info = cls(name=run.name)
        for entry in fields(cls):
            if entry.name in found and _fits(entry.name, found[entry.name], getattr(info, entry.name)):
                setattr(info, entry.name, found[entry.name])
        if info.format > FORMAT:
            raise LabError(f"{run.run_file} has format {info.format}; this txlab reads up to {FORMAT}")
        return info

    @property
    def recorded(self) -> bool:
        """Whether another program's loop wrote it: what its metrics are called is then all that is known of them."""
        return self.kind == "recorded"

    def save(self, run: RunDirectory) -> None:
        run.write("run.json", self.encoded())

    def encoded(self) -> bytes:
        """The bytes of run.json: indented JSON, "format" first."""
        rest = asdict(self)
        for name in ("command", "git"):
            if not rest[name]:
                del rest[name]
        first = {"format": rest.pop("format")}
        return orjson.dumps(
            first | rest, default=str, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
        )


_OPTIONAL = {"pid": int, "started": float, "ended": float}


def _fits(name: str, value: object, default: object) -> bool:
    """Whether a value read from run.json has the type that the field promises."""
    kind = _OPTIONAL.get(name, type(default))
    if name in _OPTIONAL and value is None:
        return True
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


@dataclass(frozen=True)
class RunState:
    """What a reader concludes about a run.

    status         run.json's, or "lost" where it claims to be alive and is not
    heartbeat_age  seconds since the last heartbeat; None = there never was one, or a clock is wrong
    step           the newest step known from heartbeat or run.json
    reason         why it ended, or why it is taken for lost
    """

    status: str
    heartbeat_age: float | None
    step: int
    steps: int
    reason: str
    pid: int | None
    host: str


def state_of(run: RunDirectory | str | Path, info: RunInfo | None = None) -> RunState:
    """Derive the state from run.json, the heartbeat and, on the same host, the process. Raises LabError: not a run.

    Lost = status running or paused, and (the process is gone, on this host, or there has been no heartbeat for 30 s, or
    the last one is from the future, which tells nothing).
    """
    run = RunDirectory.of(run)
    info = info or RunInfo.load(run)
    beat = read_heartbeat(run)
    age = _age_of(run, beat) if beat else None
    step = max(info.step, beat["step"]) if beat and info.status in ALIVE else info.step
    status, reason = info.status, info.reason
    if status in ALIVE:
        ahead = beat is not None and age is None
        since = age if age is not None else max(0.0, time.time() - (info.started or info.created))
        if beat and beat["status"] in ALIVE:
            status = beat["status"]
        here = info.pid is not None and info.host == socket.gethostname()
        if here and not process_is_alive(info.pid or 0):
            status, reason = "lost", f"process {info.pid} is gone; last heartbeat {since:.0f} s ago"
        elif beat and ahead and not here:
            early = f"{beat['time'] - time.time():.0f} s in the future"
            status, reason = "lost", f"the last heartbeat from {info.host} is {early}: a clock is wrong"
        elif since > LOST_AFTER and not ahead:
            status, reason = "lost", f"no heartbeat from {info.host} for {since:.0f} s"
    return RunState(status, age, step, info.steps, reason, info.pid, info.host)


def read_heartbeat(run: RunDirectory) -> dict[str, Any] | None:
    """The last heartbeat {"time", "step", "status", "pid", "host"} and when it was "written", by the clock of the file
    system; None if there is none or it cannot be understood."""
    try:
        with run.folder() as top:
            written = top.stat("heartbeat").st_mtime
            beat = orjson.loads(top.read("heartbeat", LARGEST_HEARTBEAT))
        if abs(int(beat["step"])) > 2**62:  # no array of steps holds it
            return None
        return {
            "time": float(beat["time"]),
            "step": int(beat["step"]),
            "status": str(beat["status"]),
            "pid": int(beat["pid"]),
            "host": str(beat.get("host", "")),
            "written": written,
        }
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None


@dataclass
class _Watched:
    """A heartbeat as this process knows it; times of its own clock, which nobody sets.

    since   when it was first seen
    looked  when it was last seen
    fresh   whether it came while this process was watching, so that its age is known
    """

    mark: tuple[float, float]
    since: float
    looked: float
    fresh: bool


_watched: dict[Path, _Watched] = {}


def _age_of(run: RunDirectory, beat: Mapping[str, Any]) -> float | None:
    """Seconds since a heartbeat: as long as it has been watched, if it was seen to come; else by the clocks of whoever
    wrote it and of the file system, the older counts, but for one that is ahead; None where both are."""
    now, mark = time.monotonic(), (beat["time"], beat["written"])
    known = _watched.get(run.path)
    if known is None or known.mark != mark:
        fresh = known is not None and now - known.looked < LOST_AFTER
        known = _watched[run.path] = _Watched(mark, now, now, fresh)
    known.looked = now
    if known.fresh:
        return now - known.since
    ages = [age for then in mark if (age := time.time() - then) > -AHEAD]
    return max(now - known.since, *ages) if ages else None


def process_is_alive(pid: int) -> bool:
    """Whether this host has a process of that number that still runs (a zombie does not)."""
    import psutil

    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except (psutil.NoSuchProcess, ValueError, OverflowError):
        return False
    except psutil.AccessDenied:
        return True


def new_info(run: RunDirectory, scenario: str, kind: str, title: str = "", steps: int = 0) -> RunInfo:
    """The run.json of a run that nobody has started yet."""
    return RunInfo(
        name=run.name,
        scenario=scenario,
        kind=kind,
        title=title,
        steps=steps,
        created=time.time(),
        host=socket.gethostname(),
        user=user_name(),
    )


def user_name() -> str:
    """Who runs this; a number where the system has no name for it (containers)."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())


def info_of(run: RunDirectory) -> RunInfo:
    """run.json, or where that is lost what scenario.toml and the log say of the run; nothing is written.

    Raises LabError if there is nothing to put it together from, or its format is newer than this program's.
    """
    try:
        return RunInfo.load(run)
    except Unreadable as error:
        try:
            scenario, rows = tables_of(run), each_row(run.events)
            info = RunInfo(name=run.name, scenario=run.name, status="interrupted", reason="run.json was lost")
            info.kind, info.title = _text(scenario, "kind"), _text(scenario.get("about"), "title")
            train = scenario.get("train")
            if isinstance(train, dict) and isinstance(train.get("steps"), int):
                info.steps = train["steps"]
            for row, _ in rows:
                info.step = row["step"] if row["event"] == "rewind" else max(info.step, row["step"])
                if row["event"] == "start":
                    info.started = float(row["time"])
                    info.created = info.created or info.started
                    info.status, info.reason, info.ended = "interrupted", "run.json was lost", None
                elif row["event"] == "end" and row.get("status") in STATUSES:
                    info.status, info.reason, info.ended = row["status"], _text(row, "reason"), float(row["time"])
            return info
        except (OSError, LabError):
            raise error from None


def tables_of(run: RunDirectory) -> dict[str, Any]:
    """scenario.toml as plain tables. Raises LabError if it is absent or not TOML."""
    from txlab.runs.scenario import parse, read_text

    return parse(read_text(run.scenario_file, follow=False), run.scenario_file)


def _text(table: Any, key: str) -> str:
    """A text in a table that anybody may have written, or ""."""
    value = table.get(key) if isinstance(table, dict) else None
    return value if isinstance(value, str) else ""
