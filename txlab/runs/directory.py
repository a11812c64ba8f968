"""Where a run lives on disk, what its run.json says, and how a directory full of runs is searched.

Notable: every file that is not a log is written aside and renamed, so a reader on another machine sees the old or the
new one and never half of one. Whether a run is alive is a reader's conclusion (pid, age of the heartbeat), not a file.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import orjson

from txlab.errors import LabError, nearest

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


def atomic_write(path: Path, data: bytes | Iterable[bytes], durable: bool = False) -> None:
    """Write bytes, or pieces of them, beside `path` and rename onto it.

    `durable` also waits until file and directory are on the disk. After an OSError the old file is as it was.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            for piece in [data] if isinstance(data, bytes) else data:
                write_whole(descriptor, piece)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        aside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            aside.unlink()
        raise
    if durable:
        sync_directory(path.parent)


def write_whole(descriptor: int, data: bytes) -> None:
    """os.write until all of it is written: one call but for huge data and disks that fill up."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_directory(path: Path) -> None:
    """Make renames inside a directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def default_root() -> Path:
    """$TXLAB_RUNS, or ./runs."""
    return Path(os.environ.get("TXLAB_RUNS") or "runs")


def create_run_directory(root: Path | None, scenario_name: str, out: Path | None = None) -> RunDirectory:
    """Make `out`, or root/2026-11-20_143012_name (with -2, -3 … where two begin within a second), and its folders.

    Raises LabError if `out` exists and is not an empty directory, or a directory cannot be made.
    """
    try:
        if out is not None:
            if out.exists() and (not out.is_dir() or any(out.iterdir())):
                raise LabError(f"{out} exists already and is not an empty directory; name another one with --out")
            out.mkdir(parents=True, exist_ok=True)
            run = RunDirectory(out.resolve())
        else:
            run = RunDirectory(_unused(Path(root or default_root()).resolve(), scenario_name))
        for folder in (run.frames, run.checkpoints, run.inbox):
            folder.mkdir()
    except OSError as error:
        raise LabError(f"the run directory {error.filename} cannot be made: {error.strerror}") from None
    return run


def _unused(root: Path, scenario_name: str) -> Path:
    name = f"{time.strftime('%Y-%m-%d_%H%M%S')}_{_plain(scenario_name)}"
    root.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        path = root / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir()
            return path
        except FileExistsError:
            number += 1


def _plain(name: str) -> str:
    """A scenario's name as part of a file name: letters, digits, dot, dash; never empty, never hidden, never a path."""
    return re.sub(r"[^\w.-]+", "-", name).strip(".-")[:80] or "run"


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


def list_runs(root: Path | None = None) -> list[Path]:
    """The runs directly under `root`, the newest first; an absent root has none."""
    return [path for _, _, path in sorted(_dated(Path(root or default_root())), reverse=True)]


def _dated(root: Path) -> list[tuple[float, str, Path]]:
    """(created, name, path) of every run; one whose run.json is garbled is dated by its directory."""
    try:
        entries = [entry for entry in os.scandir(root) if entry.is_dir() and not entry.name.startswith(".")]
    except OSError:
        return []
    runs = []
    for entry in entries:
        path = Path(entry.path)
        if is_run(path):
            try:
                created = RunInfo.load(path).created
            except LabError:
                created = path.stat().st_mtime
            runs.append((created, entry.name, path))
    return runs


def is_run(path: Path) -> bool:
    """Whether a directory has what makes it a run; any string may be asked about."""
    try:
        return (path / "run.json").is_file() or (path / "events.jsonl").is_file()
    except (OSError, ValueError):  # a name that is too long, or has a NUL
        return False


def find_run(name_or_path: str | Path, root: Path | None = None) -> Path:
    """The run meant by a path, a directory name under `root`, "latest", or a scenario's name (its newest run).

    Raises LabError with the nearest name.
    """
    given = str(name_or_path)
    root = Path(root or default_root())
    if given and is_run(Path(given)):
        return Path(given).resolve()
    runs = list_runs(root)
    by_name: Mapping[str, Path] = {path.name: path for path in runs}
    if given in by_name:
        return by_name[given].resolve()
    if given == "latest" and runs:
        return runs[0].resolve()
    for path in runs:
        if re.fullmatch(rf"\d{{4}}-\d\d-\d\d_\d{{6}}_{re.escape(given)}(-\d+)?", path.name):
            return path.resolve()
    if not runs:
        raise LabError(f"there is no run {given!r}: no runs in {root.absolute()} yet; txlab run gpt-tiny makes one")
    raise LabError(f"there is no run {given!r} in {root}{nearest(given, [*by_name, 'latest'])}")
