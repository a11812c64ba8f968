"""trackio's databases: one SQLite file a project, whose table `metrics` has a row (run, step, JSON) for each call."""

from __future__ import annotations

import contextlib
import datetime
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from txlab.runs.as_json import as_json, read_json, unused_key
from txlab.runs.events import Replaced
from txlab.runs.external_logs.databases import MOST_RUNS, as_text, columns, open_database
from txlab.runs.external_logs.log import SLICE, About, Axes, Logged, Names

_NAMED = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def home() -> Path:
    """Where trackio keeps its databases: $TRACKIO_DIR, or `trackio` in the cache of Hugging Face."""
    if named := os.environ.get("TRACKIO_DIR"):
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get("HF_HOME") or Path(cache) / "huggingface").expanduser() / "trackio"


def runs_of_trackio(database: sqlite3.Connection) -> list[tuple[str, str, float]]:
    """(name, its id or "", when it was last written) of the runs of a database."""
    which = "run_id" if "run_id" in columns(database) else "''"
    rows = database.execute(
        f"SELECT run_name, {which}, max(timestamp) FROM metrics GROUP BY 2, 1 ORDER BY 3 DESC LIMIT {MOST_RUNS}"
    )
    return [(as_text(name), as_text(key), unix_time(when)) for name, key, when in rows]


class TrackioLog:
    """One run of a database.

    position  {"id": of the last row, "system": of the last one of the machine, "step", "time"}
    """

    def __init__(self, path: Path, part: str, position: dict[str, Any] | None = None) -> None:
        self.path, self.part, self.about = path, part, About(name=f"{path.stem}/{part}")
        self.position = position or {"id": 0, "system": 0, "step": 0, "time": 0.0}
        self.names = Names(self.about)
        self.axes = Axes(self.position)
        self.where: tuple[str, str] | None = None  # the condition that selects the run, and its value

    def mark(self) -> tuple[int, ...]:
        marks: list[int] = []
        for name in (self.path.name, self.path.name + "-wal"):
            with contextlib.suppress(FileNotFoundError):
                about = self.path.with_name(name).stat()
                marks += [about.st_size, about.st_mtime_ns, about.st_ino]
        if not marks:
            raise FileNotFoundError(2, "it is gone", str(self.path))
        return tuple(marks)

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
            with open_database(self.path) as database:
                database.execute("BEGIN")  # a consistent state, even while it is written
                return self.rows(database)
        except OSError:
            self.position.update(before)
            raise

    def rows(self, database: sqlite3.Connection) -> list[Logged] | None:
        if self.where is None:
            self.where = self.select(database)
            self.configure(database)
        condition, value = self.where
        rows: list[Logged] = []
        (newest,) = database.execute("SELECT max(id) FROM metrics").fetchone()
        if not isinstance(newest, int) or newest < self.position["id"]:
            raise Replaced(self.path)
        query = f"SELECT id, step, timestamp, metrics FROM metrics WHERE id > ? AND {condition} ORDER BY id"
        taken = 0
        for number, step, when, content in database.execute(query, (self.position["id"], value)):
            if not self.position["id"] < number <= newest:
                raise OSError(0, "its rows are not in order: it is damaged", str(self.path))
            self.position["id"] = number
            if type(step) is not int:
                self.about.leave_out("rows of trackio without a step", as_text(step))
            elif self.about.usable(step):
                self.position["step"] = step
                self.take("metrics", step, unix_time(when), content, rows)
            if (taken := taken + 100 + len(str(content or ""))) > SLICE:
                return rows
        self.position["id"] = newest
        self.machine(database, rows)
        return rows if rows or taken else None

    def machine(self, database: sqlite3.Connection, rows: list[Logged]) -> None:
        """Add trackio's measurements of the machine; older versions have no table for them."""
        assert self.where is not None
        condition, value = self.where
        query = f"SELECT id, timestamp, metrics FROM system_metrics WHERE id > ? AND {condition} ORDER BY id LIMIT 1000"
        with contextlib.suppress(sqlite3.OperationalError):
            for number, when, content in database.execute(query, (self.position["system"], value)):
                if not self.position["system"] < number:
                    break
                self.position["system"] = number
                self.take("machine", self.position["step"], unix_time(when), content, rows)

    def take(self, event: str, step: int, when: float, content: Any, rows: list[Logged]) -> None:
        try:
            row = orjson.loads(content) if isinstance(content, str | bytes) else None
        except orjson.JSONDecodeError:
            row = None
        if not isinstance(row, dict):
            self.about.leave_out("rows of trackio that are not JSON", as_text(content))
            return
        self.position["time"] = self.about.changed = max(when, self.about.changed)
        self.about.started = self.about.started or when
        values: dict[str, float] = {}
        for name, value in flat(row):
            one = number_in(value)
            if one is None and value is not None:
                self.about.leave_out("values of trackio that are no numbers", name)
            elif one is not None and (known := self.names.take(name)):
                values[unused_key(known, values)] = one  # {"a.b": 1, "a": {"b": 2}} has two values
        by_step = self.axes.rows(step, values) if event == "metrics" else [(step, values)]
        rows += [(event, at, when, part) for at, part in by_step if part]
        if event == "metrics" and by_step:
            self.position["step"] = by_step[-1][0]

    def configure(self, database: sqlite3.Connection) -> None:
        assert self.where is not None
        with contextlib.suppress(sqlite3.Error, TypeError, ValueError):
            condition, value = self.where
            row = database.execute(f"SELECT config FROM configs WHERE {condition} LIMIT 1", (value,)).fetchone()
            if isinstance(config := read_json(row[0]), dict):
                self.about.group = as_text(config.get("_Group") or "")
                self.about.config = as_json({key: value for key, value in config.items() if not key.startswith("_")})


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


def unix_time(text: Any) -> float:
    """An ISO time as Unix seconds; 0 if it is not one."""
    try:
        when = datetime.datetime.fromisoformat(str(text))
        return (when if when.tzinfo else when.replace(tzinfo=datetime.UTC)).timestamp()
    except (ValueError, OverflowError):
        return 0.0
