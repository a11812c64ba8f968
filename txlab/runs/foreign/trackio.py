"""trackio's databases: one SQLite file a project, whose table `metrics` has a row (run, step, JSON) for each call.

Notable: SQLite itself would create files beside a database that it only reads, so one without a write-ahead log is
opened as immutable, and one that has a log uses the shared memory of its writer without writing to it. A schema of
somebody else's is not trusted, and a query that takes too long is given up.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from txlab.runs.as_json import as_json, read_json, text_of, unused
from txlab.runs.events import Replaced
from txlab.runs.foreign.log import LARGEST_RECORD, LONGEST_TEXT, SLICE, About, ForeignLog, Logged, Names

MOST_RUNS = 500
PATIENCE = 5.0  # seconds that a query may take
_NAMED = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def home() -> Path:
    """Where trackio keeps its databases: $TRACKIO_DIR, or `trackio` in the cache of Hugging Face."""
    if named := os.environ.get("TRACKIO_DIR"):
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get("HF_HOME") or Path(cache) / "huggingface").expanduser() / "trackio"


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The database, opened for reading. Raises OSError if it is not one of trackio, is busy, or is damaged."""
    log, memory = (path.with_name(path.name + end) for end in ("-wal", "-shm"))
    with_log = log.exists() and log.stat().st_size > 0 and memory.exists()
    how = "mode=ro&readonly_shm=1" if with_log else "mode=ro&immutable=1"
    try:
        found = sqlite3.connect(f"file:{quote(str(path))}?{how}", uri=True, timeout=0.2, isolation_level=None)
        try:
            until = time.monotonic() + PATIENCE
            found.set_progress_handler(lambda: time.monotonic() > until, 100_000)
            found.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_RECORD)
            for setting in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON", "mmap_size = 0"):
                found.execute(f"PRAGMA {setting}")
            kinds = dict(found.execute("SELECT name, type FROM sqlite_master WHERE name IN ('metrics', 'configs')"))
            if kinds.get("metrics") != "table":
                raise OSError(0, "it has no table of metrics", str(path))
            yield found
        finally:
            found.close()
    except (sqlite3.Error, sqlite3.Warning, UnicodeError, OverflowError) as error:
        raise OSError(0, f"it is not a database of trackio, or it is busy ({error})", str(path)) from None


def runs_in(path: Path) -> list[tuple[str, str, float]]:
    """(name, its id or "", when it was last written) of the runs of a database. Raises OSError."""
    with opened(path) as database:
        has_id = "run_id" in columns(database)
        which = "run_id" if has_id else "''"
        rows = database.execute(
            f"SELECT run_name, {which}, max(timestamp) FROM metrics GROUP BY 2, 1 ORDER BY 3 DESC LIMIT {MOST_RUNS}"
        )
        return [(as_text(name), as_text(key), unix_time(when)) for name, key, when in rows]


def columns(database: sqlite3.Connection) -> set[str]:
    return {str(row[1]) for row in database.execute("PRAGMA table_info(metrics)")}


def logs_in(path: Path) -> list[ForeignLog]:
    """The runs of a database; one whose name another one has too is told apart by its id. Raises OSError."""
    found = runs_in(path)
    names = [name for name, _, _ in found]
    return [
        ForeignLog("trackio", path.resolve(), name if names.count(name) == 1 else f"{name} {key[:8]}", changed)
        for name, key, changed in found
    ]


class TrackioLog:
    """One run of a database.

    position  {"id": of the last row, "system": of the last one of the machine, "step", "time"}
    """

    def __init__(self, path: Path, part: str, position: dict[str, Any] | None = None) -> None:
        self.path, self.part, self.about = path, part, About(name=f"{path.stem}/{part}")
        self.position = position or {"id": 0, "system": 0, "step": 0, "time": 0.0}
        self.names = Names(self.about)
        self.where: tuple[str, str] | None = None  # the condition that selects the run, and its value

    def mark(self) -> tuple[int, ...]:
        found: list[int] = []
        for name in (self.path.name, self.path.name + "-wal"):
            with contextlib.suppress(FileNotFoundError):
                about = self.path.with_name(name).stat()
                found += [about.st_size, about.st_mtime_ns, about.st_ino]
        if not found:
            raise FileNotFoundError(2, "it is gone", str(self.path))
        return tuple(found)

    def select(self, database: sqlite3.Connection) -> tuple[str, str]:
        """Find the run by its name, or by name and the beginning of its id."""
        if "run_id" not in columns(database):
            return "run_name = ?", self.part
        for name, key in database.execute(f"SELECT run_name, run_id FROM metrics GROUP BY 2, 1 LIMIT {MOST_RUNS * 20}"):
            if self.part in (as_text(name), f"{as_text(name)} {as_text(key)[:8]}"):
                return "run_id = ?", as_text(key)
        raise OSError(0, f"it has no run {self.part!r}", str(self.path))

    def read(self) -> list[Logged] | None:
        before = dict(self.position)
        try:
            with opened(self.path) as database:
                database.execute("BEGIN")  # one state of the database, although somebody is writing it
                return self.rows(database)
        except OSError:
            self.position.update(before)
            raise

    def rows(self, database: sqlite3.Connection) -> list[Logged] | None:
        if self.where is None:
            self.where = self.select(database)
            self.configure(database)
        condition, value = self.where
        found: list[Logged] = []
        (newest,) = database.execute("SELECT max(id) FROM metrics").fetchone()
        if not isinstance(newest, int) or newest < self.position["id"]:
            raise Replaced(self.path)
        query = f"SELECT id, step, timestamp, metrics FROM metrics WHERE id > ? AND {condition} ORDER BY id"
        taken = 0
        for number, step, when, said in database.execute(query, (self.position["id"], value)):
            if not self.position["id"] < number <= newest:
                raise OSError(0, "its rows are not in order: it is damaged", str(self.path))
            self.position["id"] = number
            if type(step) is not int:
                self.about.leave_out("rows of trackio without a step", as_text(step))
            elif self.about.usable(step):
                self.take("metrics", step, unix_time(when), said, found)
                self.position["step"] = step
            if (taken := taken + 100 + len(str(said or ""))) > SLICE:
                return found
        self.position["id"] = newest
        self.machine(database, found)
        return found if found or taken else None

    def machine(self, database: sqlite3.Connection, found: list[Logged]) -> None:
        """Add what trackio measured of the machine; older versions have no table of it."""
        assert self.where is not None
        condition, value = self.where
        query = f"SELECT id, timestamp, metrics FROM system_metrics WHERE id > ? AND {condition} ORDER BY id LIMIT 1000"
        with contextlib.suppress(sqlite3.OperationalError):
            for number, when, said in database.execute(query, (self.position["system"], value)):
                if not self.position["system"] < number:
                    break
                self.position["system"] = number
                self.take("machine", self.position["step"], unix_time(when), said, found)

    def take(self, event: str, step: int, when: float, said: Any, found: list[Logged]) -> None:
        try:
            row = orjson.loads(said) if isinstance(said, str | bytes) else None
        except orjson.JSONDecodeError:
            row = None
        if not isinstance(row, dict):
            self.about.leave_out("rows of trackio that are not JSON", as_text(said))
            return
        self.position["time"] = self.about.changed = max(when, self.about.changed)
        self.about.started = self.about.started or when
        values: dict[str, float] = {}
        for name, value in flat(row):
            one = number_in(value)
            if one is None and value is not None:
                self.about.leave_out("values of trackio that are no numbers", name)
            elif one is not None and (known := self.names.take(name)):
                values[unused(known, values)] = one  # {"a.b": 1, "a": {"b": 2}} has two values
        if values:
            found.append((event, step, when, values))

    def configure(self, database: sqlite3.Connection) -> None:
        assert self.where is not None
        with contextlib.suppress(sqlite3.Error, TypeError, ValueError):
            condition, value = self.where
            row = database.execute(f"SELECT config FROM configs WHERE {condition} LIMIT 1", (value,)).fetchone()
            if isinstance(said := read_json(row[0]), dict):
                self.about.group = as_text(said.get("_Group") or "")
                self.about.config = as_json({key: value for key, value in said.items() if not key.startswith("_")})


def flat(row: dict[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of a row, of nested ones with their path: {"a": {"b": 1}} is a.b = 1."""
    for name, value in row.items():
        if isinstance(value, dict) and "_type" not in value and depth < 8:
            yield from flat(value, f"{prefix}{name}.", depth + 1)
        else:
            yield prefix + name, value


def number_in(value: Any) -> float | None:
    if isinstance(value, str):
        return _NAMED.get(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def unix_time(told: Any) -> float:
    """An ISO time as Unix seconds; 0 if it is not one."""
    try:
        when = datetime.datetime.fromisoformat(str(told))
        return (when if when.tzinfo else when.replace(tzinfo=datetime.UTC)).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def as_text(value: Any) -> str:
    return text_of(value, LONGEST_TEXT)
