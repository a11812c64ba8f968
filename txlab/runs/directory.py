"""One run on disk: the places in its directory, what its run.json says, and whether somebody computes it.

Notable: whether a run is alive is a reader's conclusion (pid, age of the heartbeat), not a file.
"""

from __future__ import annotations

import getpass
import os
import socket
import time
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import orjson

from txlab.errors import LabError
from txlab.runs.atomic import atomic_write

FORMAT = 1
STATUSES = ("created", "running", "paused", "done", "stopped", "interrupted", "failed")
ALIVE = ("running", "paused")
LOST_AFTER = 30.0  # seconds; fifteen missed heartbeats, longer than a network file system keeps a stale attribute


@dataclass(frozen=True)
class RunDirectory:
    """The places inside one run. Making this object touches nothing."""

    path: Path

    def __init__(self, path: str | Path) -> None:
        object.__setattr__(self, "path", Path(path))

    @property
    def name(self) -> str:
        return self.path.name or self.path.resolve().name

    @property
    def scenario_file(self) -> Path:
        return self.path / "scenario.toml"

    @property
    def run_file(self) -> Path:
        return self.path / "run.json"

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def heartbeat(self) -> Path:
        return self.path / "heartbeat"

    @property
    def frames(self) -> Path:
        return self.path / "frames"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def inbox(self) -> Path:
        return self.path / "inbox"

    @property
    def log(self) -> Path:
        return self.path / "log.txt"

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def reserve(self) -> Path:
        """A little disk kept back, so that a run on a full disk can still say how it ended."""
        return self.path / ".reserve"


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
    format: int = FORMAT

    @classmethod
    def load(cls, run: RunDirectory | str | Path) -> RunInfo:
        """Read run.json; keys that this version does not know are ignored, values of a wrong type fall to defaults.

        Raises Unreadable when there is none, or it is not a JSON object; LabError when its format is newer than this
        program's.
        """
        run = run if isinstance(run, RunDirectory) else RunDirectory(run)
        try:
            found = orjson.loads(run.run_file.read_bytes())
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

    def save(self, run: RunDirectory) -> None:
        atomic_write(run.run_file, self.encoded())

    def encoded(self) -> bytes:
        """The bytes of run.json: indented JSON, "format" first."""
        rest = asdict(self)
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
class State:
    """What a reader concludes about a run.

    status         run.json's, or "lost" where it claims to be alive and is not
    heartbeat_age  seconds since the last heartbeat; None = there never was one
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


def state_of(run: RunDirectory | str | Path, info: RunInfo | None = None) -> State:
    """Derive the state from run.json, the heartbeat and, on the same host, the process. Raises LabError: not a run.

    Lost = status running or paused, and (the process is gone, on this host, or the heartbeat is older than 30 s).
    """
    run = run if isinstance(run, RunDirectory) else RunDirectory(run)
    info = info or RunInfo.load(run)
    beat = read_heartbeat(run)
    age = max(0.0, time.time() - beat["time"]) if beat else None
    step = max(info.step, beat["step"]) if beat and info.status in ALIVE else info.step
    status, reason = info.status, info.reason
    if status in ALIVE:
        since = age if age is not None else max(0.0, time.time() - (info.started or info.created))
        if beat and beat["status"] in ALIVE:
            status = beat["status"]
        if info.pid is not None and info.host == socket.gethostname() and not process_is_alive(info.pid):
            status, reason = "lost", f"process {info.pid} is gone; last heartbeat {since:.0f} s ago"
        elif since > LOST_AFTER:
            status, reason = "lost", f"no heartbeat from {info.host} for {since:.0f} s"
    return State(status, age, step, info.steps, reason, info.pid, info.host)


def read_heartbeat(run: RunDirectory) -> dict[str, Any] | None:
    """The last heartbeat {"time", "step", "status", "pid"}, or None if there is none or it cannot be understood."""
    try:
        beat = orjson.loads(run.heartbeat.read_bytes())
        return {
            "time": float(beat["time"]),
            "step": int(beat["step"]),
            "status": str(beat["status"]),
            "pid": beat["pid"],
        }
    except (OSError, ValueError, KeyError, TypeError):
        return None


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
