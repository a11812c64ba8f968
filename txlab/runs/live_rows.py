"""The live branch of a run's rows: what remains after applying every rewind, with its measurements as columns.

This is a plain fold over rows in file order. A rewind to step s drops the rows with a place after s; they
become a dead branch, which a screen can draw faintly. Rows that name the same metrics share one column of steps and
one of times, so ten million values in two million rows take 112 MB instead of 240. Dropping rows creates new arrays:
an array handed to a screen earlier never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson

from txlab.runs.events import LARGEST_STEP, Row, decode_row, place_of

Array: TypeAlias = npt.NDArray[Any]
Key: TypeAlias = tuple[str, tuple[str, ...]]  # event and names of a table
Waiting: TypeAlias = dict[Key, tuple[list[int], list[int], list[float], list[Any]]]  # values of all rows in one list

MEASURED = ("metrics", "machine")  # events whose values become columns; all others are kept as rows


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
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if type(row) is not dict or type(row.get("step")) is not int or not -1 <= row["step"] <= LARGEST_STEP:
        return None
    if row.get("event") not in MEASURED:  # few, so full decoding is affordable
        return decode_row(line)
    return row if type(row.get("values")) is dict and type(row.get("time")) in (float, int) else None


class Branch:
    """The fold. `rows` are the live rows that are not measurements, `skipped` counts lines that were not rows."""

    def __init__(self) -> None:
        self.tables: dict[Key, MetricTable] = {}
        self.rows: list[Row] = []
        self.dead: list[list[MetricTable]] = []  # for each rewind that dropped measurements, what it dropped
        self.dead_rows: list[Row] = []
        self.skipped = 0
        self._held, self._furthest = 0, -1  # how many rows the last rewind kept, and the furthest place among them

    def add_lines(self, lines: Iterable[bytes]) -> None:
        self.add(map(parse, lines))  # one row at a time: keeping them would double the cost, in garbage collection

    def add(self, rows: Iterable[Row | None]) -> None:
        """Add the rows that come next in the file; None stands for a line that was not a row."""
        waiting: Waiting = {}
        for row in rows:
            if row is None:
                self.skipped += 1
                continue
            event, step = row["event"], row["step"]
            if event in MEASURED:
                values = row["values"]
                key = (event, tuple(values))
                group = waiting.get(key)
                if group is None:
                    group = waiting[key] = ([], [], [], [])
                group[0].append(step)
                group[1].append(place_of(row) if "at" in row else step)
                group[2].append(row["time"])
                group[3].extend(values.values())
            else:
                if event == "rewind":
                    self._settle(waiting)
                    self._rewind(step)
                self.rows.append(row)
        self._settle(waiting)

    def _settle(self, waiting: Waiting) -> None:
        for key, columns in waiting.items():
            if key not in self.tables:
                self.tables[key] = MetricTable(*key)
            self.tables[key].extend(*columns)
        waiting.clear()

    def _rewind(self, step: int) -> None:
        dropped = [dead for table in self.tables.values() if (dead := table.drop_after(step)) is not None]
        if dropped:
            self.dead.append(dropped)
        # There may be many rewinds: rows that survived the last one are only filtered again if this one goes further.
        begin = self._held if self._furthest <= step else 0
        beyond = self.rows[begin:]
        del self.rows[begin:]
        self.dead_rows += [row for row in beyond if place_of(row) > step]
        self.rows += [row for row in beyond if place_of(row) <= step]
        if begin == 0:
            self._furthest = -1
        self._furthest = max([self._furthest, *map(place_of, self.rows[begin:])])
        self._held = len(self.rows)

    def names(self, event: str | None = None) -> list[str]:
        """The metrics of the live branch in order of first appearance; only those of `event`, if given."""
        found: dict[str, None] = {}
        for wanted in MEASURED:
            for table in self.tables.values():
                if table.event == wanted and event in (None, wanted) and len(table):
                    found.update(dict.fromkeys(table.names))
        return list(found)

    def series(self, name: str) -> Series:
        """A metric on the live branch; empty if it was never logged."""
        return merged(name, self.tables.values())

    def dead_series(self, name: str) -> list[Series]:
        """The branches of a metric that rewinds dropped, oldest rewind first."""
        return [series for tables in self.dead if len(series := merged(name, tables))]

    def latest(self, name: str) -> float | None:
        """The value at the last step of the live branch; of several at that step, the one logged last."""
        found = [table.last(name) for table in self.tables.values() if name in table.names and len(table)]
        return max(found, key=lambda last: last[:2])[2] if found else None


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
        self.places = self.steps  # what rewinds go by; a separate array if the metrics have steps of their own
        self.values = [GrowingArray(np.float64) for _ in self.names]
        self.ascending = True  # unless threads were at different steps

    def __len__(self) -> int:
        return self.steps.length

    def column(self, name: str) -> Array:
        return self.values[self.names.index(name)].view()

    def last(self, name: str) -> tuple[int, float, float]:
        """Step, time and value at the greatest step; of several rows at that step, the last one."""
        at = len(self) - 1 if self.ascending else len(self) - 1 - int(self.steps.view()[::-1].argmax())
        return int(self.steps.view()[at]), float(self.times.view()[at]), float(self.column(name)[at])

    def extend(
        self, steps: Sequence[int], places: Sequence[int], times: Sequence[float], values: Sequence[Any]
    ) -> None:
        """Append rows; `values` holds the values of the first row, then those of the second …"""
        fresh = np.array(steps, np.int64)
        if (len(self) and fresh[0] < self.steps.view()[-1]) or (fresh[1:] < fresh[:-1]).any():
            self.ascending = False
        if self.places is self.steps and places != steps:
            self.places = GrowingArray(np.int64, self.steps.view().copy())
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


def as_number(value: Any) -> float:
    """A logged value as a float; NaN if it is not a number."""
    try:
        return float(value)
    except (ValueError, TypeError, OverflowError):
        return float("nan")


def merged(name: str, tables: Iterable[MetricTable]) -> Series:
    """Merge a metric from all tables that have it, by step, and by time within a step; read-only."""
    parts = [table for table in tables if name in table.names and len(table)]
    if len(parts) == 1 and parts[0].ascending:
        return Series(name, parts[0].steps.view(), parts[0].column(name), parts[0].times.view())
    steps = np.concatenate([np.empty(0, np.int64), *(part.steps.view() for part in parts)])
    values = np.concatenate([np.empty(0), *(part.column(name) for part in parts)])
    times = np.concatenate([np.empty(0), *(part.times.view() for part in parts)])
    order = np.lexsort((times, steps))
    found = Series(name, steps[order], values[order], times[order])
    for array in (found.steps, found.values, found.times):
        array.flags.writeable = False
    return found
