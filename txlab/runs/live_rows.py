"""The live branch of a run's rows: what is left when every rewind has been followed.

Notable: this is a fold over rows in the order of the file, and nothing else. A rewind to step s drops what had been
kept with a place after s; what is dropped is not forgotten but becomes a dead branch, so that a screen can draw it
faintly.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

from txlab.runs.columns import Array, Table, merge
from txlab.runs.events import LARGEST_STEP, Row, decode_row, place_of

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
    """One row, or None if these bytes are not a row.

    >>> parse(b'{"event":"note","time":1.0,"step":3,"text":"hello"}')["text"]
    'hello'
    """
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if type(row) is not dict or type(row.get("step")) is not int or not -1 <= row["step"] <= LARGEST_STEP:
        return None
    if row.get("event") not in MEASURED:  # few, so they can afford the full decoding
        return decode_row(line)
    return row if type(row.get("values")) is dict and type(row.get("time")) in (float, int) else None


class Branch:
    """The fold. `rows` are the live rows that are not measurements, `skipped` counts lines that were no rows."""

    def __init__(self) -> None:
        self.tables: dict[Key, Table] = {}
        self.rows: list[Row] = []
        self.dead: list[list[Table]] = []  # for each rewind that dropped measurements, what it dropped
        self.dead_rows: list[Row] = []
        self.skipped = 0
        self._held, self._furthest = 0, -1  # how many rows the last rewind left, and the furthest place among them

    def add_lines(self, lines: Iterable[bytes]) -> None:
        self.add(map(parse, lines))  # one row at a time: to keep them would cost as much again in garbage collection

    def add(self, rows: Iterable[Row | None]) -> None:
        """Follow these rows, which come next in the file; None is a line that was no row."""
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
        for key, (steps, places, times, values) in waiting.items():
            table = self.tables.get(key)
            if table is None:
                table = self.tables[key] = Table(*key)
            table.extend(steps, places, times, values)
        waiting.clear()

    def _rewind(self, step: int) -> None:
        dropped = [dead for table in self.tables.values() if (dead := table.drop_after(step)) is not None]
        if dropped:
            self.dead.append(dropped)
        # What the last rewind left is gone through again only if this one goes back further: rewinds may be many.
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
        """The metrics of the live branch in the order in which they first appeared; of one event, if given."""
        found: dict[str, None] = {}
        for wanted in MEASURED:
            for table in self.tables.values():
                if table.event == wanted and event in (None, wanted) and len(table):
                    found.update(dict.fromkeys(table.names))
        return list(found)

    def series(self, name: str) -> Series:
        """The live branch of a metric; empty if it was never logged."""
        return sealed(name, self.tables.values())

    def dead_series(self, name: str) -> list[Series]:
        """What rewinds took away from a metric, oldest rewind first."""
        found = [sealed(name, tables) for tables in self.dead]
        return [series for series in found if len(series)]

    def latest(self, name: str) -> float | None:
        """The value of the last step on the live branch; of several for that step, the one logged last."""
        found = [table.last(name) for table in self.tables.values() if name in table.names and len(table)]
        return max(found, key=lambda last: last[:2])[2] if found else None


def sealed(name: str, tables: Iterable[Table]) -> Series:
    steps, values, times = merge(tables, name)
    for array in (steps, values, times):
        array.flags.writeable = False
    return Series(name, steps, values, times)
