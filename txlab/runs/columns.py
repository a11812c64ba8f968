"""Metric rows as columns: one table for each set of names that are logged together.

Notable: rows that name the same metrics share one column of steps and one of times, so ten million values in two
million rows cost 112 MB and not 240. A column grows by half when it is full (amortised), and dropping rows makes a new
array: a view handed to a screen earlier never changes under it.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]


class Column:
    """A typed array that grows at its end."""

    def __init__(self, dtype: npt.DTypeLike, content: Array | None = None) -> None:
        self._data = np.empty(0, dtype) if content is None else content
        self.length = 0 if content is None else len(content)

    def extend(self, values: Array) -> None:
        needed = self.length + len(values)
        if needed > len(self._data):
            grown = np.empty(max(needed, len(self._data) + len(self._data) // 2), self._data.dtype)
            grown[: self.length] = self._data[: self.length]
            self._data = grown
        self._data[self.length : needed] = values
        self.length = needed

    def view(self) -> Array:
        """The content, read-only; stays as it is whatever happens to the column."""
        view = self._data[: self.length]
        view.flags.writeable = False
        return view

    def last(self) -> Any:
        return self._data[self.length - 1]

    def keep(self, which: Array) -> None:
        self._data = self._data[: self.length][which].copy()
        self.length = len(self._data)


class Table:
    """The rows of one event ("metrics" or "machine") that carry exactly these names."""

    def __init__(self, event: str, names: Sequence[str]) -> None:
        self.event, self.names = event, tuple(names)
        self.steps, self.times = Column(np.int64), Column(np.float64)
        self.places = self.steps  # where rewinds count from; a column of its own where metrics have steps of their own
        self.values = [Column(np.float64) for _ in self.names]
        self.ascending = True  # but where threads were at different steps

    def __len__(self) -> int:
        return self.steps.length

    def column(self, name: str) -> Array:
        return self.values[self.names.index(name)].view()

    def last(self, name: str) -> tuple[int, float, float]:
        """Step, time and value of the greatest step; of several rows of it, the last one."""
        at = len(self) - 1 if self.ascending else len(self) - 1 - int(self.steps.view()[::-1].argmax())
        return int(self.steps.view()[at]), float(self.times.view()[at]), float(self.column(name)[at])

    def extend(
        self, steps: Sequence[int], places: Sequence[int], times: Sequence[float], values: Sequence[Any]
    ) -> None:
        """Append rows; `values` holds those of the first row, then those of the second …"""
        fresh = np.array(steps, np.int64)
        if (len(self) and fresh[0] < self.steps.last()) or (fresh[1:] < fresh[:-1]).any():
            self.ascending = False
        if self.places is self.steps and places != steps:
            self.places = Column(np.int64, self.steps.view().copy())
        self.steps.extend(fresh)
        if self.places is not self.steps:
            self.places.extend(np.array(places, np.int64))
        self.times.extend(np.array(times, np.float64))
        try:
            block = np.array(values, np.float64)  # also reads "NaN" and "Infinity"; None becomes NaN
        except (ValueError, TypeError, OverflowError):
            block = np.empty(0)
        if block.shape != (len(values),):  # a value that is no number: a list, an object, a text
            block = np.array([number(value) for value in values], np.float64)
        for column, part in zip(self.values, block.reshape(len(steps), len(self.names)).T, strict=True):
            column.extend(part)

    def drop_after(self, step: int) -> "Table | None":
        """Remove the rows of places > `step`; what was removed, or None."""
        gone = self.places.view() > step
        if not gone.any():
            return None
        dead = Table(self.event, self.names)
        dead.ascending = self.ascending
        if self.places is not self.steps:
            dead.places = Column(np.int64)
        for column, part in zip(self.columns(), dead.columns(), strict=True):
            part.extend(column.view()[gone])
            column.keep(~gone)
        return dead

    def columns(self) -> list[Column]:
        own = [] if self.places is self.steps else [self.places]
        return [self.steps, *own, self.times, *self.values]


def number(value: Any) -> float:
    """A logged value as a float; what is not a number is NaN."""
    try:
        return float(value)
    except (ValueError, TypeError, OverflowError):
        return float("nan")


def merge(tables: Iterable[Table], name: str) -> tuple[Array, Array, Array]:
    """Steps, values and times of a name over all tables that have it, by step, and by time within a step."""
    parts = [table for table in tables if name in table.names and len(table)]
    if not parts:
        empty = np.empty(0)
        return np.empty(0, np.int64), empty, empty
    if len(parts) == 1:
        steps, values, times = parts[0].steps.view(), parts[0].column(name), parts[0].times.view()
        if parts[0].ascending:
            return steps, values, times
    else:
        steps = np.concatenate([part.steps.view() for part in parts])
        values = np.concatenate([part.column(name) for part in parts])
        times = np.concatenate([part.times.view() for part in parts])
    order = np.lexsort((times, steps))
    return steps[order], values[order], times[order]
