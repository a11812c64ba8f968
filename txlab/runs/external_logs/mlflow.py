"""MLflow's runs: the folders of its file store, and its SQLite database.

A folder has meta.yaml, `metrics/NAME` (lines of "milliseconds value step"), `params/NAME` and `tags/NAME`. The database
has them as the tables runs, metrics, params, tags and experiments.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from txlab.files import closing, open_regular, read_regular
from txlab.runs.events import Replaced
from txlab.runs.external_logs.databases import MOST_RUNS, as_text, open_database
from txlab.runs.external_logs.log import LONGEST_TEXT, SLICE, About, Logged, Names

MOST_FILES = 10_000
DEEPEST = 8  # of a metric's name with slashes, which are folders
LARGEST_PARAM = 64 * 1024
MOST_PARAMS = 2000
ENDED = {"FINISHED": "done", "FAILED": "failed", "KILLED": "failed", "3": "done", "4": "failed", "5": "failed"}


class _Run:
    """What both stores have in common."""

    def __init__(self, position: dict[str, Any] | None) -> None:
        self.about = About()
        self.position = position or {"files": {}, "row": 0, "step": 0}
        self.names = Names(self.about)

    def describe(self, name: str, status: Any, started: Any, experiment: Any) -> None:
        """Take what a run's row or meta.yaml says; times are in milliseconds."""
        about = self.about
        group = as_text(experiment or "")
        about.name = "/".join(part for part in (group if group != "Default" else "", name) if part)
        about.status = ENDED.get(as_text(status), "")
        about.reason = "killed" if as_text(status) in ("KILLED", "5") else ""
        about.started = float(started) / 1000 if str(started).isdecimal() else about.started

    def settle(self, rows: list[tuple[int, int, str, float]]) -> list[Logged]:
        """The rows of a slice, (milliseconds, step, name, value), in the order of their time."""
        logged: list[Logged] = []
        for when, step, name, value in sorted(rows, key=lambda row: row[:2]):
            if (known := self.names.take(name)) and self.about.usable(step, name):
                logged.append(("metrics", step, when / 1000, {known: value}))
                self.about.started = self.about.started or when / 1000
        return logged


class MLflowFolder(_Run):
    """One run of the file store; position {"files": {metric: offset}}."""

    def __init__(self, folder: Path, position: dict[str, Any] | None = None) -> None:
        super().__init__(position)
        self.folder = folder
        self.offsets: dict[str, int] = self.position["files"]

    def metrics(self) -> Iterator[tuple[str, os.stat_result]]:
        yield from islice_files(self.folder / "metrics", "", DEEPEST)

    def mark(self) -> object:
        meta = self.folder / "meta.yaml"
        listed = [("meta.yaml", meta.stat()), *self.metrics()]
        self.about.changed = max(about.st_mtime for _, about in listed)
        return tuple((name, about.st_size, about.st_mtime_ns) for name, about in listed)

    def read(self) -> list[Logged] | None:
        self.configure()
        rows: list[tuple[int, int, str, float]] = []
        taken = 0
        for name, about in self.metrics():
            offset = self.offsets.get(name, 0)
            if about.st_size < offset:
                raise Replaced(self.folder)
            if about.st_size == offset:
                continue
            with closing(open_regular(self.folder / "metrics" / name, follow=False)) as descriptor:
                block = os.pread(descriptor, SLICE, offset)
            end = block.rfind(b"\n") + 1
            if not end and len(block) == SLICE:
                end = SLICE
                self.about.leave_out("lines of more than 1 MiB", name)
            for line in block[:end].split(b"\n"):
                if line.strip() and (row := row_of(line)) is None:
                    self.about.leave_out("lines of MLflow that are no metrics", name)
                elif line.strip() and row is not None:
                    rows.append((row[0], row[1], name, row[2]))
            self.offsets[name] = offset + end
            if (taken := taken + end) > SLICE:
                break
        return self.settle(rows) if taken else None

    def configure(self) -> None:
        meta = plain_yaml(self.folder / "meta.yaml")
        group = plain_yaml(self.folder.parent / "meta.yaml").get("name", "")
        self.describe(meta.get("run_name") or self.folder.name[:8], meta.get("status"), meta.get("start_time"), group)
        config: dict[str, Any] = {}
        for name, about in islice_files(self.folder / "params", "", DEEPEST):
            if len(config) >= MOST_PARAMS:
                self.about.leave_out(f"settings beyond {MOST_PARAMS}", name)
            elif about.st_size <= LARGEST_PARAM:
                data = read_regular(self.folder / "params" / name, LARGEST_PARAM)
                config[name] = data.decode("utf-8", "replace").strip()
        self.about.config = config


def islice_files(
    folder: Path, under: str, deepest: int, left: list[int] | None = None
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield (name, stat) of the files in a folder and below it, at most MOST_FILES, in the order of their names."""
    left = [MOST_FILES] if left is None else left
    try:
        with os.scandir(folder) as listed:
            entries = sorted(entry.name for entry, _ in zip(listed, range(left[0]), strict=False))
    except OSError:
        return
    for name in entries:
        path = folder / name
        left[0] -= 1
        if left[0] < 0:
            return
        if path.is_symlink():
            continue
        if path.is_file():
            yield f"{under}{name}", path.stat()
        elif deepest and path.is_dir():
            yield from islice_files(path, f"{under}{name}/", deepest - 1, left)


def row_of(line: bytes) -> tuple[int, int, float] | None:
    """(milliseconds, step, value) of a line of a metric; None if it is none."""
    parts = line.split()
    try:
        return int(parts[0][:20]), int(parts[2][:20]) if len(parts) > 2 else 0, float(parts[1])
    except (ValueError, IndexError):
        return None


def plain_yaml(path: Path) -> dict[str, str]:
    """The entries of one line in a meta.yaml, which is flat; {} if it cannot be read."""
    try:
        text = read_regular(path, LARGEST_PARAM).decode("utf-8", "replace")
    except OSError:
        return {}
    pairs = (line.partition(": ") for line in text.splitlines() if not line.startswith((" ", "#", "-")))
    return {name.strip(): value.strip().strip("'\"")[:LONGEST_TEXT] for name, _, value in pairs}


def runs_of_mlflow(database: sqlite3.Connection) -> list[tuple[str, str, float]]:
    """(name, id, when it was last written) of the runs that are not deleted."""
    rows = database.execute(
        "SELECT runs.run_uuid, runs.name, max(metrics.timestamp) FROM runs JOIN metrics USING (run_uuid)"
        f" WHERE lifecycle_stage = 'active' GROUP BY 1 ORDER BY 3 DESC LIMIT {MOST_RUNS}"
    )
    return [
        (as_text(name or key)[:200], as_text(key), when / 1000 if isinstance(when, int) else 0.0)
        for key, name, when in rows
    ]


class MLflowDatabase(_Run):
    """One run of a database; position {"row": the last row that was read}."""

    def __init__(self, path: Path, part: str, position: dict[str, Any] | None = None) -> None:
        super().__init__(position)
        self.path, self.part = path, part
        self.key = ""

    def mark(self) -> tuple[int, ...]:
        about = self.path.stat()
        self.about.changed = max(self.about.changed, about.st_mtime)
        return about.st_size, about.st_mtime_ns, about.st_ino

    def read(self) -> list[Logged] | None:
        with open_database(self.path) as database:
            database.execute("BEGIN")
            if not self.key:
                self.configure(database)
            query = (
                "SELECT rowid, key, value, timestamp, step, is_nan FROM metrics WHERE rowid > ? AND run_uuid = ?"
                " ORDER BY rowid LIMIT 10000"
            )
            rows: list[tuple[int, int, str, float]] = []
            first = last = self.position["row"]
            for row, name, value, when, step, is_nan in database.execute(query, (first, self.key)):
                last = row
                numbers = isinstance(value, (int, float)) and isinstance(when, int) and isinstance(step, int)
                if not numbers:
                    self.about.leave_out("rows of MLflow that are no metrics", as_text(name))
                    continue
                rows.append((when, step, as_text(name), float("nan") if is_nan else float(value)))
            if last == first:
                return None
            self.position["row"] = last
            self.describe_run(database)
            return self.settle(rows)

    def configure(self, database: sqlite3.Connection) -> None:
        for name, key, _ in runs_of_mlflow(database):
            if self.part in (name, f"{name} {key[:8]}"):
                self.key = key
        if not self.key:
            raise OSError(0, f"it has no run {self.part!r}", str(self.path))
        query = f"SELECT key, value FROM params WHERE run_uuid = ? LIMIT {MOST_PARAMS}"
        self.about.config = {as_text(name): as_text(value) for name, value in database.execute(query, (self.key,))}

    def describe_run(self, database: sqlite3.Connection) -> None:
        query = (
            "SELECT runs.name, status, start_time, experiments.name FROM runs"
            " LEFT JOIN experiments USING (experiment_id) WHERE run_uuid = ?"
        )
        for name, status, started, experiment in database.execute(query, (self.key,)):
            self.describe(as_text(name or self.key[:8]), status, started, experiment)
