"""Tables of any program: CSV, TSV and JSON lines, as Lightning's metrics.csv, with its hparams.yaml next to it.

The step is the column that the user names, else the one whose name counts steps (`rank_of`: a total of the training,
then steps, then anything else that is counted), else the epoch, else the first column if it is an index, else the
number of the row. All other columns of numbers are values; a column of Unix times dates the rows.

Notable: a file is rewritten when a column is added, and rows read before are then skipped. Rows without times get the
time when they were found. An empty cell has no value.
"""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from txlab.errors import LabError, nearest
from txlab.files import read_regular
from txlab.runs.as_json import as_json, read_json
from txlab.runs.counters import counter_in, rank_of
from txlab.runs.events import LineCursor, Replaced
from txlab.runs.external_logs.log import LONGEST_NAME, About, Logged, Names
from txlab.runs.external_logs.yaml_values import read_yaml
from txlab.runs.loop_values import flatten

LARGEST_SETTINGS = 256 * 1024
LONGEST_ROW = 1 << 20  # bytes; one of JSON takes some twenty times as much in memory
MOST_CELLS = 10_000
INDEXES = ("", "index", "unnamed: 0", "i", "n", "t", "round", "game", "generation", "trial")
TIMES = ("time", "timestamp", "wall time", "wall_time", "walltime", "ts", "date", "created", "unix_time")
_UNIX = range(10**9, 4 * 10**9)  # seconds that are a date


def step_column(names: Iterable[str]) -> str:
    """The name of the column that is the step; "" = none.

    >>> step_column(["epoch", "step", "loss"]), step_column(["time/iterations", "time/total_timesteps"])
    ('step', 'time/total_timesteps')
    >>> step_column(["epoch", "loss"]), step_column(["loss", "accuracy"])
    ('epoch', '')
    """
    best, found = 0.0, ""
    for name in names:
        last = re.split("[/.]", name)[-1].strip().lower().lstrip("_").replace(" ", "_")
        rank = rank_of(last) if counter_in(last) else 0.5 if last in ("epoch", "epochs") else 0.0
        if rank > best:
            best, found = rank, name
    return found


class TableLog:
    """One table.

    position  {"rows": how many have been read, "head": the columns, "time": when the last one was found}; this object
              continues at a byte of a file that it read from the start, another object counts the rows again
    x         the column that is the step; "" = chosen by its name
    """

    def __init__(self, path: Path, position: dict[str, Any] | None = None, x: str = "") -> None:
        self.path, self.about, self.x = path, About(), x
        self.position = position or {"rows": 0, "head": [], "time": 0.0, "step": -1}
        self.names = Names(self.about)
        self.begin()
        self.configure()

    def begin(self) -> None:
        self.cursor = LineCursor(self.path)
        self.head: list[str] = []
        self.separator = ""  # between cells; "{" = the lines are JSON
        self.columns: dict[str, None] = {}  # as far as they are known
        self.passed = 0  # rows since the start of the file

    def mark(self) -> tuple[int, int]:
        about = self.path.stat()
        self.about.changed = about.st_mtime
        return about.st_size, about.st_mtime_ns

    def read(self) -> list[Logged] | None:
        try:
            lines = self.cursor.read()
        except Replaced:  # a column was added, or it is another file with fewer rows
            self.begin()
            lines = self.cursor.read()
        if not lines:
            if self.passed < self.position["rows"] and self.cursor.reachable:
                raise Replaced(self.path)
            return None
        rows: list[Logged] = []
        for line in lines:
            if len(line) > LONGEST_ROW:
                self.about.leave_out(
                    f"lines of more than {LONGEST_ROW >> 20} MiB", line[:60].decode("utf-8", "replace")
                )
                continue
            text = line.decode("utf-8", "replace")
            self.separator = self.separator or separator_of(text)
            if (cells := self.cells_of(text)) is None:
                continue
            self.passed += 1
            if self.passed > self.position["rows"]:
                self.position["rows"] = self.passed
                self.take(cells, rows)
        return rows

    def cells_of(self, line: str) -> dict[str, Any] | None:
        """The cells of a line by their columns; None for the heading, a comment, and a line that is none."""
        if self.separator == "{":
            try:
                entries = read_json(line)
            except ValueError:
                entries = None
            if not isinstance(entries, dict):
                self.about.leave_out("lines that are not JSON objects", line[:60])
                return None
            return dict(islice(flatten(entries, deepest=8), MOST_CELLS))
        if line.startswith("#") and (self.head or line.startswith("#{")):
            return None
        try:
            cells = next(csv.reader([line.lstrip("#")], delimiter=self.separator or ",", skipinitialspace=True))
        except (csv.Error, StopIteration):
            self.about.leave_out("lines that are not CSV", line[:60])
            return None
        if cells[MOST_CELLS:]:
            self.about.leave_out(f"columns beyond {MOST_CELLS}", cells[MOST_CELLS])
            cells = cells[:MOST_CELLS]
        if not self.head:
            self.start([name.strip() for name in cells])
            return None
        return dict(zip(self.head, cells, strict=False))

    def start(self, names: list[str]) -> None:
        self.head = names
        if not set(self.position["head"]) <= set(names):
            raise Replaced(self.path)
        self.position["head"] = names

    def take(self, cells: Mapping[str, Any], rows: list[Logged]) -> None:
        if len(self.columns) < MOST_CELLS:
            self.columns.update(dict.fromkeys(name[:LONGEST_NAME] for name in cells))
        column = self.x or step_column(cells)
        if not column and self.head and self.head[0].lower() in INDEXES:
            column = self.head[0]
        values: dict[str, float] = {}
        step, when = float(self.position["step"] + 1) if not column else None, 0.0
        for name, cell in cells.items():
            value = number_in(cell)
            if value is None:
                if cell not in (None, "") and not (isinstance(cell, str) and not cell.strip()):
                    self.about.leave_out("cells that are no numbers", f"{name} = {cell}")
            elif name == column:
                step = value
            elif name.lower().lstrip("_") in TIMES and value == value and abs(value) < 1e10 and int(value) in _UNIX:
                when = value
            elif known := self.names.take(name):
                values[known] = value
        if not values:
            return
        if step is None and column == self.x:
            return  # a row without the column that the user named
        if step is None and cells.get(column) not in (None, ""):
            self.about.leave_out("rows without a step", f"{column} = {cells[column]}")
            return
        step = max(0, self.position["step"]) if step is None else step
        if step != step or abs(step) == float("inf"):
            self.about.leave_out("rows without a step", next(iter(values)))
        elif self.about.usable(int(step), next(iter(values))):
            now = min(self.about.changed or time.time(), time.time())
            self.position["time"] = when or max(self.position["time"], now)
            self.position["step"] = int(step)
            rows.append(("metrics", int(step), self.position["time"], values))

    def require(self) -> None:
        """Raise LabError if the column that the user named is not there."""
        if self.x and self.columns and self.x not in self.columns:
            names = list(islice(self.columns, 200))
            raise LabError(f"{self.path} has no column {self.x!r}{nearest(self.x, names)}")

    def configure(self) -> None:
        settings = self.path.with_name("hparams.yaml")
        try:
            settings_read = read_yaml(read_regular(settings, LARGEST_SETTINGS))
        except FileNotFoundError:
            return
        except ImportError:
            self.about.problem = f"{settings} is not read: PyYAML is not installed"
        except (OSError, ValueError, RecursionError) as error:
            why = getattr(error, "strerror", None) or "it is not YAML, has aliases, or is nested too deeply"
            self.about.problem = f"{settings} cannot be read: {why}"
        else:
            self.about.config = as_json(settings_read) if isinstance(settings_read, dict) else {}


def separator_of(line: str) -> str:
    """What separates the cells of a table whose first line this is: a tab, comma, semicolon or bar; "{" for JSON.

    >>> separator_of("step,loss"), separator_of("step\\tloss"), separator_of('{"step": 1}'), separator_of("# a comment")
    (',', '\\t', '{', '')
    """
    if line.lstrip().startswith("{"):
        return "{"
    counts = {sign: line.count(sign) for sign in "\t,;|"} if not line.startswith("#{") else {}
    return max(counts, key=lambda sign: counts[sign]) if any(counts.values()) else ""


def number_in(cell: Any) -> float | None:
    """The number in a cell; None if it is something else."""
    if isinstance(cell, bool) or not isinstance(cell, (int, float, str)):
        return None
    try:
        return float(cell)
    except (ValueError, OverflowError):
        return None


class TrainerLog:
    """The newest trainer_state.json of transformers' Trainer, in a folder or in its checkpoints; position {"rows"}."""

    def __init__(self, folder: Path, position: dict[str, Any] | None = None) -> None:
        self.folder, self.about = folder, About()
        self.position = position or {"rows": 0, "step": 0, "time": 0.0}
        self.names = Names(self.about)

    def mark(self) -> tuple[str, int, int]:
        path = newest_state(self.folder)
        if path is None:
            raise FileNotFoundError(2, "it has no trainer_state.json", str(self.folder))
        about = path.stat()
        self.about.changed = about.st_mtime
        return str(path), about.st_size, about.st_mtime_ns

    def read(self) -> list[Logged] | None:
        path = newest_state(self.folder)
        if path is None:
            raise FileNotFoundError(2, "it has no trainer_state.json", str(self.folder))
        try:
            data = read_regular(path, LARGEST_STATE)
            if data.count(b",") + data.count(b"[") + data.count(b"{") > MOST_VALUES:
                self.about.problem = f"{path} is not read: it has more than {MOST_VALUES} values"
                return None
            state = read_json(data)
            history = [entry for entry in state["log_history"] if isinstance(entry, dict)]
        except (ValueError, KeyError, TypeError):  # perhaps it is being written
            self.about.problem = f"{path} is not a state of the Trainer"
            return None
        self.about.problem = ""
        self.about.config = as_json({name: value for name, value in state.items() if name in SETTINGS})
        if len(history) < self.position["rows"]:
            raise Replaced(path)
        rows: list[Logged] = []
        when = max(self.position["time"], self.about.changed)
        for entry in history[self.position["rows"] :]:
            step = entry.get("step")
            values = {
                known: number
                for name, value in entry.items()
                if name != "step" and (number := number_in(value)) is not None and (known := self.names.take(name))
            }
            if isinstance(step, int) and not isinstance(step, bool) and self.about.usable(step) and values:
                rows.append(("metrics", step, when, values))
        self.position |= {"rows": len(history), "time": when}
        return rows or None


LARGEST_STATE = 64 << 20
MOST_VALUES = 4_000_000  # of a state; each takes up to 100 bytes in memory
SETTINGS = ("max_steps", "num_train_epochs", "train_batch_size", "logging_steps", "eval_steps", "save_steps")


def newest_state(folder: Path) -> Path | None:
    """The last written trainer_state.json in a folder, or in its checkpoints; None if there is none."""
    found: list[tuple[float, Path]] = []
    for path in (folder, *islice(folder.glob("checkpoint-*"), 1000)):
        state = path / "trainer_state.json"
        if state.is_file():
            found.append((state.stat().st_mtime, state))
    return max(found, default=(0.0, None))[1]
