"""One run on disk: the layout of its directory, its run.json, and whether a process is computing it.

Notable: whether a run is alive is a reader's conclusion (pid, age of the heartbeat), not a file. The process that
writes a run holds its directory open and never leaves it (OpenFolder); paths are for reading and for people. run.json
is a summary: a run can continue without it, so a garbled one is rebuilt from scenario.toml, which says what runs, and
the log, which says how far it got and how it ended.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shlex
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from txlab.errors import LabError, convert_os_errors
from txlab.files import OpenFolder
from txlab.runs.as_json import encode_json
from txlab.runs.events import each_row
from txlab.runs.former_names import current_key, current_kind, current_table, current_tables
from txlab.runs.remote.state import RemoteState, remote_state
from txlab.runs.scenario_errors import quiet, quote

FORMAT = 1
STATUSES = ("created", "running", "paused", "done", "stopped", "interrupted", "failed")
ALIVE = ("running", "paused")
LOST_AFTER = 30.0  # seconds; fifteen missed heartbeats, longer than a network file system keeps a stale attribute
SILENT_AFTER = 60.0  # seconds without news after which it is unknown whether another program still logs
AHEAD = 5.0  # seconds that the clocks of hosts may differ; a heartbeat further in the future is not trusted
LARGEST_INFO = 4 << 20  # bytes of run.json; parsing may take 25 times as much memory
LARGEST_HEARTBEAT = 4096
SOURCE = ("program", "path", "part")
LONGEST_TEXT, MOST_TEXTS = 4000, 1000  # characters of a text of run.json, and texts of a list

# The entries of a run directory; nothing else may have these names.
FILES = (
    "run.json",
    "far.json",
    "scenario.toml",
    "label.json",
    "events.jsonl",
    "heartbeat",
    "lock",
    "log.txt",
    ".reserve",
)
FILES_OF_START = ("start.safetensors", "start-tokenizer.json")
FILES_OF_PEOPLE = ("questions.jsonl", "preferences.jsonl", "comparisons.jsonl")
FOLDERS = ("checkpoints", "frames", "inbox")


class RunDirectory:
    """The paths inside one run. Creating this object does not touch the disk.

    top      its directory, if held open: by the process that writes the run
    reserve  a little disk space set aside, so that a run on a full disk can still record how it ended
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

    def hold_open(self) -> RunDirectory:
        """The same run with its directory held open: even if it is renamed, nothing is written anywhere else.

        Raises LabError if the directory does not exist.
        """
        path = self.path.resolve()
        with convert_os_errors(f"{path} is not a run"):
            return RunDirectory(path, OpenFolder.at(path))

    def folder(self, *names: str, make: bool = False) -> OpenFolder:
        """Open the directory, or one inside it; the caller closes it. `make` creates it if missing. Raises OSError."""
        place = self.top.again() if self.top is not None else OpenFolder.at(self.path, follow=True)
        for name in names:
            with place as outer:
                place = outer.folder(name, make=make)
        return place

    def read(self, name: str, largest: int) -> bytes:
        """Read a file directly in the run, of at most `largest` bytes. Raises OSError."""
        with self.folder() as top:
            return top.read(name, largest)

    def write(self, name: str, data: bytes, durable: bool = False) -> None:
        """Write a file into the run atomically. Raises OSError."""
        with self.folder() as top:
            top.write(name, data, durable)

    def log_file(self) -> BinaryIO:
        """Open log.txt for appending. Raises OSError."""
        with self.folder() as top:
            return os.fdopen(top.open("log.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab")

    def find_misplaced(self) -> str:
        """The first entry of the wrong kind, as in "checkpoints is a symbolic link"; "" if there is none.

        An absent entry is not misplaced.
        """
        with contextlib.suppress(OSError), self.folder() as top:
            for names, right in (((*FILES, *FILES_OF_START, *FILES_OF_PEOPLE), "a file"), (FOLDERS, "a folder")):
                for name in names:
                    if (kind := top.kind(name)) not in ("", right):
                        return f"{name} is {kind}"
        return ""

    def require_own(self) -> None:
        """Raise LabError if any entry of the run is of the wrong kind; call this before anything is written."""
        if wrong := self.find_misplaced():
            raise LabError(f"{self.path} is not written to: {wrong}, which no run of txlab has")

    def require_here(self) -> None:
        """Raise LabError if this is the mirror of a run on another machine, where alone it can be computed."""
        if (far := remote_state(self.path)) is not None:
            # Two shells read the path, which the other machine has named: ours, and the one there.
            path = f"{far.root}/{self.name}"
            there = shlex.join(["ssh", far.host, "txlab", "resume", shlex.quote(path)])
            if not far.root or not path.isprintable():
                there = f"txlab there, on {far.host}"
            raise LabError(f"{self.name} is a run of {far.host}, and this is its mirror; {there} continues it")

    @property
    def name(self) -> str:
        return self.path.name or self.path.resolve().name


class Unreadable(LabError):
    """run.json is absent or garbled; other files in the directory may still describe the run."""


@dataclass
class RunInfo:
    """run.json: what the run is, which process computes it, how it ended. Times are Unix seconds; None = not yet.

    changes   dotted key → value of the settings that differ from the scenario's file
    spent     seconds that earlier processes computed it; see `seconds`
    branched  {"run", "step"}: the run and the checkpoint that it continues from
    config    of a recorded run: dotted key → value of its configuration
    tags, group  words for searching and grouping lists of runs
    alerts    {"count", "level", "title", "step", "time"}: how many there were, the worst level, and the last of them
    launch    names the torchrun that began it
    """

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
    spent: float = 0.0
    step: int = 0
    steps: int = 0
    device: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)
    command: list[str] = field(default_factory=list)
    git: dict[str, Any] = field(default_factory=dict)
    branched: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    group: str = ""
    alerts: dict[str, Any] = field(default_factory=dict)
    launch: str = ""
    format: int = FORMAT

    @classmethod
    def load(cls, run: RunDirectory | str | Path) -> RunInfo:
        """Read run.json; unknown keys are ignored, and values of the wrong type fall back to their defaults.

        An unknown status becomes "unreadable"; texts are cut, and control characters of terminals escaped.

        Raises Unreadable if it is missing or not a JSON object, LabError if its format is newer than this program's.
        """
        run = RunDirectory.of(run)
        try:
            content = orjson.loads(run.read("run.json", LARGEST_INFO))
        except OSError as error:
            raise Unreadable(f"{run.path} is not a run: run.json cannot be read ({error.strerror})") from None
        except orjson.JSONDecodeError:
            raise Unreadable(f"{run.run_file} is not valid JSON") from None
        if not isinstance(content, dict):
            raise Unreadable(f"{run.run_file} is not a JSON object")
        info = cls(name=run.name)
        for entry in fields(cls):
            if entry.name in content and _fits(entry.name, content[entry.name], getattr(info, entry.name)):
                setattr(info, entry.name, _make_printable(entry.name, content[entry.name]))
        if not info.recorded:
            info.kind = current_kind(info.kind)
            info.changes = {current_key(key): value for key, value in info.changes.items()}
            if isinstance(compute := info.facts.get("compute"), dict):
                info.facts["compute"] = current_table("compute", compute)
        if info.status not in STATUSES:
            info.status, info.reason = "unreadable", f"{run.run_file} has the status {quote(info.status)}"
        if info.format > FORMAT:
            raise LabError(f"{run.run_file} has format {info.format}; this txlab reads up to {FORMAT}")
        return info

    @property
    def recorded(self) -> bool:
        """Whether another program's loop wrote the run; then only the names of its metrics are known."""
        return self.kind == "recorded"

    @property
    def takes(self) -> tuple[str, ...]:
        """The requests that another program's loop has declared; () if it has never polled."""
        names = self.facts.get("takes")
        return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()

    @property
    def source(self) -> dict[str, str]:
        """{"program", "path", "part"} of the log of another program that the run mirrors; {} if it is a run itself."""
        source = self.facts.get("source")
        known = source if isinstance(source, dict) else {}
        return {key: quiet(str(known.get(key, "")), LONGEST_TEXT) for key in SOURCE} if known else {}

    def seconds(self, until: float | None = None) -> float:
        """The time it has been computed by all its processes; `until` is used as the end of one that has not ended."""
        end = self.ended if self.ended is not None else until
        now = max(0.0, end - self.started) if self.started is not None and end is not None else 0.0
        return self.spent + now

    def save(self, run: RunDirectory) -> None:
        run.write("run.json", self.to_json())

    def to_json(self) -> bytes:
        """The bytes of run.json: indented JSON, "format" first."""
        rest = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        for name in ("changes", "command", "git", "branched", "config", "tags", "group", "alerts", "launch"):
            if not rest[name]:
                del rest[name]
        first = {"format": rest.pop("format")}
        return encode_json(first | rest, orjson.OPT_INDENT_2)


def _make_printable(name: str, value: Any) -> Any:
    """A value of run.json as lists and screens may show it; `facts`, `changes` and `config` are for their readers."""
    if isinstance(value, str):
        return quiet(value, LONGEST_TEXT)
    if isinstance(value, list):
        return [quiet(entry, LONGEST_TEXT) for entry in value[:MOST_TEXTS]]
    if isinstance(value, dict) and name not in ("facts", "changes", "config"):
        return {quiet(key, 100): _make_printable(name, entry) for key, entry in list(value.items())[:MOST_TEXTS]}
    return value


_OPTIONAL = {"pid": int, "started": float, "ended": float}


def _fits(name: str, value: object, default: object) -> bool:
    """Whether a value read from run.json has the type declared for the field."""
    kind = _OPTIONAL.get(name, type(default))
    if name in _OPTIONAL and value is None:
        return True
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is list:
        return isinstance(value, list) and all(isinstance(entry, str) for entry in value)
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


@dataclass(frozen=True)
class RunState:
    """What a reader concludes about a run.

    status         that of run.json, or "lost" if it claims to be alive and is not; "silent" if it mirrors the log of
                   another program, which has not been written for a minute
    heartbeat_age  seconds since the last heartbeat; None = there never was one, or a clock is wrong
    step           the latest step known from the heartbeat or run.json
    reason         why it ended, or why it is considered lost
    remote         of a mirror: the machine that has the run, and whether it is connected
    """

    status: str
    heartbeat_age: float | None
    step: int
    steps: int
    reason: str
    pid: int | None
    host: str
    remote: RemoteState | None = None


def state_of(run: RunDirectory | str | Path, info: RunInfo | None = None) -> RunState:
    """Derive the state from run.json, the heartbeat and, on the same host, the process. LabError if it is not a run.

    Lost = status running or paused, and either the process is gone (on this host), or there has been no heartbeat for
    30 s, or the last one is from the future, which says nothing. A mirror has the state that its machine last reported.
    """
    run = RunDirectory.of(run)
    info = info or RunInfo.load(run)
    beat = read_heartbeat(run)
    age = _age_of(run, beat) if beat else None
    far = remote_state(run.path)
    old = max(0.0, time.time() - far.seen) if far is not None else 0.0
    step = max(info.step, beat["step"]) if beat and info.status in ALIVE else info.step
    status, reason = info.status, info.reason
    if status in ALIVE:
        ahead = beat is not None and age is None
        since = age if age is not None else max(0.0, time.time() - (info.started or info.created))
        if beat and beat["status"] in ALIVE:
            status = beat["status"]
        since = max(0.0, since - old)
        here = far is None and info.pid is not None and info.host == socket.gethostname()
        if info.source:  # no process is known, and the heartbeat is when the log was last written
            age = since = max(0.0, time.time() - beat["time"]) if beat else since
            since = max(0.0, since - old)
            if since > SILENT_AFTER:
                status, reason = "silent", info.reason or "its log does not say whether the program still runs"
        elif here and not process_is_alive(info.pid or 0):
            status, reason = "lost", f"process {info.pid} is gone; last heartbeat {since:.0f} s ago"
        elif beat and ahead and not here:
            early = f"{beat['time'] - time.time():.0f} s in the future"
            status, reason = "lost", f"the last heartbeat from {info.host} is {early}: a clock is wrong"
        elif since > LOST_AFTER and not ahead:
            status, reason = "lost", f"no heartbeat from {info.host} for {since:.0f} s"
    return RunState(status, age, step, info.steps, reason, info.pid, info.host, far)


def read_heartbeat(run: RunDirectory) -> dict[str, Any] | None:
    """The last heartbeat {"time", "step", "status", "pid", "host"} and when it was "written", by the clock of the file
    system; None if there is none or it cannot be parsed."""
    try:
        with run.folder() as top:
            written = top.stat("heartbeat").st_mtime
            beat = orjson.loads(top.read("heartbeat", LARGEST_HEARTBEAT))
        if abs(int(beat["step"])) > 2**62:  # would not fit into an array of steps
            return None
        return {
            "time": float(beat["time"]),
            "step": int(beat["step"]),
            "status": str(beat["status"]),
            "pid": int(beat["pid"]),
            "host": quiet(str(beat.get("host", "")), 300),
            "written": written,
        }
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None


@dataclass
class _Watched:
    """A heartbeat as this process has seen it; times are by its monotonic clock.

    since   when it was first seen
    looked  when it was last seen
    fresh   whether it arrived while this process was watching, so that its age is known
    """

    mark: tuple[float, float]
    since: float
    looked: float
    fresh: bool


_watched: dict[Path, _Watched] = {}


def _age_of(run: RunDirectory, beat: Mapping[str, Any]) -> float | None:
    """Seconds since a heartbeat: since it was first seen, if this process saw it arrive; otherwise the greater age by
    the clocks of its writer and of the file system, ignoring a clock that is ahead; None if both are ahead."""
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
    """Whether a process with this id is running on this host (a zombie is not)."""
    import psutil

    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except (psutil.NoSuchProcess, ValueError, OverflowError):
        return False
    except psutil.AccessDenied:
        return True


def new_info(run: RunDirectory, scenario: str, kind: str, title: str = "", steps: int = 0) -> RunInfo:
    """The run.json of a run that has not been started yet."""
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
    """The name of the current user, or the user id if the system has no name for it (containers)."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())


def info_of(run: RunDirectory) -> RunInfo:
    """Read run.json or, if that is lost, rebuild it from scenario.toml and the log; nothing is written.

    Raises LabError if there is nothing to rebuild it from, its format is newer than this program's, or no process has
    ever written it: it is then an interrupted copy, whose log is that of another run.
    """
    try:
        return RunInfo.load(run)
    except Unreadable as error:
        with contextlib.suppress(OSError), run.folder() as top:
            if top.kind("inbox") and not any(map(top.kind, ("run.json", "lock", "heartbeat", "log.txt"))):
                raise LabError(f"{run.path} is not a run: it is what is left of a copy that was interrupted") from None
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
    """Read scenario.toml as plain tables, under current names. Raises LabError if it is absent or not TOML."""
    from txlab.runs.scenario import parse, read_text

    return current_tables(parse(read_text(run.scenario_file, follow=False), run.scenario_file))


def _text(table: Any, key: str) -> str:
    """The string under `key` in an untrusted table, or ""."""
    value = table.get(key) if isinstance(table, dict) else None
    return value if isinstance(value, str) else ""
