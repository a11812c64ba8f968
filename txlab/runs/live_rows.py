"""The live branch of a run's rows: what remains after applying every rewind, with its measurements as columns.

This is a plain fold over rows in file order. A rewind to step s drops the rows with a place after s; they
become a dead branch, which a screen can draw faintly. Rows that name the same metrics share one column of steps and
one of times, so ten million values in two million rows take 112 MB instead of 240. Dropping rows creates new arrays:
an array handed to a screen earlier never changes. Everything that takes more memory than its bytes in the log is
bounded: columns, dead branches, and rows that are not measurements, of which the oldest are dropped first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson

from txlab.runs.events import LARGEST_STEP, Row, parse_line, place_of, restore_row

Array: TypeAlias = npt.NDArray[Any]
Key: TypeAlias = tuple[str, tuple[str, ...]]  # event and names of a table
Waiting: TypeAlias = dict[Key, tuple[list[int], list[int], list[float], list[Any]]]  # values of all rows in one list

MEASURED = ("metrics", "machine")  # events whose values become columns; all others are kept as rows
MOST_COLUMNS = 50_000  # about .5 to 1 kB each in addition to their values
MOST_TABLES = 10_000  # sets of names that occur together; a rewind goes through all of them
MOST_REWINDS = 5_000
MOST_HELD = 64 << 20  # bytes of rows that are not measurements, by `cost_of`


@dataclass(frozen=True)
class Series:
    """One metric over the steps of a branch: `steps` int64 ascending, `values` and `times` (Unix seconds) float64."""

    name: str
    steps: Array
    values: Array
    times: Array

    def __len__(self) -> int:
        return len(self.steps)


def parse(line: bytes) -> Row | None:
    """Parse one row; None if these bytes are not a row.

    >>> parse(b'{"event":"note","time":1.0,"step":3,"text":"hello"}')["text"]
    'hello'
    """
    try:
        row = parse_line(line)
    except orjson.JSONDecodeError:
        return None
    if type(row) is not dict or type(row.get("step")) is not int or not -1 <= row["step"] <= LARGEST_STEP:
        return None
    if row.get("event") not in MEASURED:
        return restore_row(row, line)
    return row if type(row.get("values")) is dict and type(row.get("time")) in (float, int) else None


def cost_of(row: Row) -> int:
    """The approximate bytes of memory of a row: each value in a list or an object takes 64 in addition to its text."""
    text = orjson.dumps(row)
    return len(text) + 64 * (text.count(b",") + text.count(b"[") + text.count(b"{"))


class Branch:
    """The fold.

    skipped   how many lines were not rows
    left_out  how many rows are not kept because the log has too many names, too many other rows, or too many rewinds,
              after which reading stops
    """

    def __init__(self) -> None:
        self.tables: dict[Key, MetricTable] = {}
        self._columns_of: dict[str, list[Column]] = {}
        self._rows: dict[int, Row] = {}  # rows that are not measurements, by number
        self._by_place: list[tuple[int, int]] = []  # a heap of their places and numbers, the furthest first
        self._number = self._rewinds = 0
        self.dead: deque[list[MetricTable]] = deque()  # for each rewind that dropped measurements, what it dropped
        self.skipped = self.left_out = 0
        self._columns = self._dead_columns = 0
        self._full = False  # no other names are kept
        self._cost = 0  # of `_rows`

    @property
    def rows(self) -> list[Row]:
        """The live rows that are not measurements, in file order."""
        return list(self._rows.values())

    def add_lines(self, lines: Iterable[bytes]) -> None:
        self.add(map(parse, lines))  # one row at a time: keeping them would double the cost, in garbage collection

    def add(self, rows: Iterable[Row | None]) -> None:
        """Add the rows that come next in the file; None stands for a line that was not a row."""
        waiting: Waiting = {}
        for row in rows:
            if row is None:
                self.skipped += 1
                continue
            if self._rewinds >= MOST_REWINDS:
                self.left_out += 1
                continue
            event, step = row["event"], row["step"]
            if event in MEASURED:
                values = row["values"]
                key = (event, tuple(values))
                group = waiting.get(key)
                if group is None:
                    if self._full and key not in self.tables:  # a log of many names costs no more than its parsing
                        self.left_out += 1
                        continue
                    group = waiting[key] = ([], [], [], [])
                group[0].append(step)
                group[1].append(place_of(row) if "at" in row else step)
                group[2].append(row["time"])
                group[3].extend(values.values())
            else:
                if event == "rewind":
                    self._settle(waiting)
                    self._rewind(step)
                self._number += 1
                self._rows[self._number] = row
                heappush(self._by_place, (-place_of(row), self._number))
                self._cost += cost_of(row)
                if self._cost > MOST_HELD:
                    self._leave_out_oldest()
        self._settle(waiting)

    def _settle(self, waiting: Waiting) -> None:
        for key, columns in waiting.items():
            if key not in self.tables:
                if self._columns + len(key[1]) > MOST_COLUMNS or len(self.tables) >= MOST_TABLES:
                    self._full = True
                    self.left_out += len(columns[0])
                    continue
                self._columns += len(key[1])
                table = self.tables[key] = MetricTable(*key)
                for at, name in enumerate(table.names):
                    self._columns_of.setdefault(name, []).append((table, at))
            self.tables[key].extend(*columns)
        waiting.clear()

    def _leave_out_oldest(self) -> None:
        """Drop the oldest rows until half of the memory is free; the first one, which says how the run began, stays."""
        first, *later = self._rows
        for number in [*later, first]:
            if self._cost <= MOST_HELD // 2:
                break
            self._cost -= cost_of(self._rows.pop(number))
            self.left_out += 1
        self._by_place = [(-place_of(row), number) for number, row in self._rows.items()]
        heapify(self._by_place)

    def _rewind(self, step: int) -> None:
        self._rewinds += 1
        far = [table for table in self.tables.values() if table.furthest > step]
        if dropped := [dead for table in far if (dead := table.drop_after(step)) is not None]:
            self.dead.append(dropped)
            self._dead_columns += sum(1 + len(table.names) for table in dropped)
            while self._dead_columns > MOST_COLUMNS and len(self.dead) > 1:
                self._dead_columns -= sum(1 + len(table.names) for table in self.dead.popleft())
        while self._by_place and -self._by_place[0][0] > step:
            self._cost -= cost_of(self._rows.pop(heappop(self._by_place)[1]))

    def names(self, event: str | None = None) -> list[str]:
        """The metrics of the live branch in order of first appearance; restricted to `event` if given."""
        names: dict[str, None] = {}
        for wanted in MEASURED:
            for table in self.tables.values():
                if table.event == wanted and event in (None, wanted) and len(table):
                    names.update(dict.fromkeys(table.names))
        return list(names)

    def series(self, name: str) -> Series:
        """A metric on the live branch; empty if it was never logged."""
        return merge_columns(name, self._columns_of.get(name, ()))

    def dead_series(self, name: str) -> list[Series]:
        """The branches of a metric that rewinds dropped, oldest rewind first."""
        dropped = (
            merge_columns(name, [(table, table.names.index(name)) for table in tables if name in table.names])
            for tables in self.dead
        )
        return [series for series in dropped if len(series)]

    def latest(self, name: str) -> float | None:
        """The value at the last step of the live branch; of several at that step, the one logged last."""
        lasts = [table.last(at) for table, at in self._columns_of.get(name, ()) if len(table)]
        return max(lasts, key=lambda last: last[:2])[2] if lasts else None


class GrowingArray:
    """A typed array for appending; its capacity grows by half when it is full."""

    def __init__(self, dtype: npt.DTypeLike, content: Array | None = None) -> None:
        self._data = np.empty(0, dtype) if content is None else content
        self.length = len(self._data)

    def extend(self, values: Array) -> None:
        needed = self.length + len(values)
        if needed > len(self._data):
            grown = np.empty(max(needed, len(self._data) + len(self._data) // 2), self._data.dtype)
            grown[: self.length] = self._data[: self.length]
            self._data = grown
        self._data[self.length : needed] = values
        self.length = needed

    def view(self) -> Array:
        """A read-only view of the content, which later changes do not affect."""
        view = self._data[: self.length]
        view.flags.writeable = False
        return view

    def keep(self, which: Array) -> None:
        self._data = self._data[: self.length][which].copy()
        self.length = len(self._data)


class MetricTable:
    """The rows of one event ("metrics" or "machine") that carry exactly these names."""

    def __init__(self, event: str, names: Sequence[str]) -> None:
        self.event, self.names = event, tuple(names)
        self.steps, self.times = GrowingArray(np.int64), GrowingArray(np.float64)
        self.places = self.steps  # compared with rewinds; a separate array if the metrics count other steps
        self.values = [GrowingArray(np.float64) for _ in self.names]
        self.ascending = True  # unless threads were at different steps
        self.furthest = -1  # no place is beyond it

    def __len__(self) -> int:
        return self.steps.length

    def last(self, column: int) -> tuple[int, float, float]:
        """Step, time and value at the greatest step; of several rows at that step, the last one."""
        at = len(self) - 1 if self.ascending else len(self) - 1 - int(self.steps.view()[::-1].argmax())
        return int(self.steps.view()[at]), float(self.times.view()[at]), float(self.values[column].view()[at])

    def extend(
        self, steps: Sequence[int], places: Sequence[int], times: Sequence[float], values: Sequence[Any]
    ) -> None:
        """Append rows; `values` holds the values of the first row, then of the second …"""
        fresh = np.array(steps, np.int64)
        if (len(self) and fresh[0] < self.steps.view()[-1]) or (fresh[1:] < fresh[:-1]).any():
            self.ascending = False
        if self.places is self.steps and places != steps:
            self.places = GrowingArray(np.int64, self.steps.view().copy())
        self.furthest = max(self.furthest, *places)
        self.steps.extend(fresh)
        if self.places is not self.steps:
            self.places.extend(np.array(places, np.int64))
        self.times.extend(np.array(times, np.float64))
        try:
            block = np.array(values, np.float64)  # also reads "NaN" and "Infinity"; None becomes NaN
        except (ValueError, TypeError, OverflowError):
            block = np.empty(0)
        if block.shape != (len(values),):  # some value is not a number: a list, an object, a string
            block = np.array([as_number(value) for value in values], np.float64)
        for column, part in zip(self.values, block.reshape(len(steps), len(self.names)).T, strict=True):
            column.extend(part)

    def drop_after(self, step: int) -> MetricTable | None:
        """Remove the rows with a place > `step` and return them, or None if there are none."""
        gone = self.places.view() > step
        self.furthest = min(self.furthest, step)
        if not gone.any():
            return None
        dead = MetricTable(self.event, self.names)
        dead.ascending = self.ascending
        for column, part in zip(
            (self.steps, self.times, *self.values), (dead.steps, dead.times, *dead.values), strict=True
        ):
            part.extend(column.view()[gone])
            column.keep(~gone)
        if self.places is not self.steps:
            self.places.keep(~gone)
        return dead


Column: TypeAlias = tuple[MetricTable, int]  # a table, and which of its columns


def as_number(value: Any) -> float:
    """A logged value as a float; NaN if it is not a number."""
    try:
        return float(value)
    except (ValueError, TypeError, OverflowError):
        return float("nan")


def merge_columns(name: str, columns: Iterable[Column]) -> Series:
    """Merge the columns of a metric, by step, and by time within a step; read-only."""
    parts = [(table, table.values[at].view()) for table, at in columns if len(table)]
    if len(parts) == 1 and parts[0][0].ascending:
        table, values = parts[0]
        return Series(name, table.steps.view(), values, table.times.view())
    steps = np.concatenate([np.empty(0, np.int64), *(table.steps.view() for table, _ in parts)])
    values = np.concatenate([np.empty(0), *(values for _, values in parts)])
    times = np.concatenate([np.empty(0), *(table.times.view() for table, _ in parts)])
    order = np.lexsort((times, steps))
    series = Series(name, steps[order], values[order], times[order])
    for array in (series.steps, series.values, series.times):
        array.flags.writeable = False
    return series
