"""The part of a matrix that a heatmap has in hand: levels, values, sums and marks of a window into it.

Notable: a pattern of a thousand tokens has a million cells and a screen shows two thousand, so whoever knows the matrix
gives a window and the heatmap asks for the next one before its edge is seen. What lies outside is *not known yet*,
which is another thing than masked or zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from txlab.drawing.palette import Ramp

MASKED = 255  # may not be looked at
PENDING = 254  # not known yet
NEGATIVE = 128  # added to the level of a number below zero, in a picture of differences
LEAST = 32  # cells that a window reaches beyond what is seen


@dataclass(frozen=True)
class Window:
    """`values` (r, c) of the matrix from row and column `at` on; `blank` (r, c) cells are masked; `sums` (r) of rows;
    `marks` {(row, column): sign} of single cells, by their place in the matrix. `signed`: values in [−1, 1]."""

    values: np.ndarray
    levels: np.ndarray
    at: tuple[int, int] = (0, 0)
    blank: np.ndarray | None = None
    sums: np.ndarray | None = None
    marks: Mapping[tuple[int, int], str] = field(default_factory=dict)
    signed: bool = False

    def again(self, ramp: Ramp) -> Window:
        """The same in the levels of another ramp."""
        levels = levels_of(self.values, self.blank, ramp, self.signed)
        return Window(self.values, levels, self.at, self.blank, self.sums, self.marks, self.signed)

    def row(self, row: int, first: int, stop: int) -> np.ndarray:
        """Levels of columns first … stop − 1 of a row, PENDING where they are not in hand."""
        found = np.full(max(0, stop - first), PENDING, dtype=np.uint8)
        r, c = row - self.at[0], self.at[1]
        begin, end = max(first, c), min(stop, c + self.levels.shape[1])
        if 0 <= r < len(self.levels) and begin < end:
            found[begin - first : end - first] = self.levels[r, begin - c : end - c]
        return found

    def level(self, row: int, column: int) -> int:
        return int(self.row(row, column, column + 1)[0])

    def value(self, row: int, column: int) -> float:
        """NaN where it is masked or not in hand."""
        if self.level(row, column) >= PENDING:
            return float("nan")
        return float(self.values[row - self.at[0], column - self.at[1]])

    def total(self, row: int) -> float:
        """The sum of a row as it was given; NaN where it is not in hand."""
        r = row - self.at[0]
        return float(self.sums[r]) if self.sums is not None and 0 <= r < len(self.sums) else float("nan")

    def strongest(self, row: int) -> int:
        """The column with the largest value of a row, of those that are in hand and not masked; 0 where none is."""
        r = row - self.at[0]
        if not 0 <= r < len(self.levels) or not self.levels.shape[1]:
            return 0
        allowed = np.where(self.levels[r] == MASKED, -np.inf, self.values[r])
        return int(allowed.argmax()) + self.at[1] if np.isfinite(allowed).any() else 0

    def holds(self, rows: tuple[int, int], columns: tuple[int, int]) -> bool:
        """Whether these rows and columns (from, to) are all in hand."""
        top, left = self.at
        high, wide = self.levels.shape
        return (top <= rows[0] and rows[1] <= top + high and left <= columns[0] and columns[1] <= left + wide) or (
            rows[0] >= rows[1] or columns[0] >= columns[1]
        )


def levels_of(values: np.ndarray, blank: np.ndarray | None, ramp: Ramp, signed: bool = False) -> np.ndarray:
    """Levels of the ramp, MASKED where `blank` or NaN; with `signed` those of the sizes, NEGATIVE added below zero."""
    levels = ramp.level(np.abs(values) if signed else values)
    if signed:
        levels[(values < 0) & (levels > 0)] += NEGATIVE
    levels[np.isnan(values) if blank is None else blank | np.isnan(values)] = MASKED
    return levels


def window(
    values: np.ndarray,
    ramp: Ramp,
    at: tuple[int, int] = (0, 0),
    blank: np.ndarray | None = None,
    sums: np.ndarray | None = None,
    marks: Mapping[tuple[int, int], str] | None = None,
    signed: bool = False,
) -> Window:
    values = np.asarray(values, dtype=np.float32)
    return Window(values, levels_of(values, blank, ramp, signed), at, blank, sums, dict(marks or {}), signed)


def around(first: int, seen: int, all: int, times: float = 1.0) -> tuple[int, int]:
    """(from, to) of what is worth having when `seen` cells from `first` on are seen: as much again on both sides, and
    not less than LEAST cells.

    >>> around(100, 40, 1024), around(0, 40, 1024), around(1000, 20, 1024, 0.5)
    ((60, 180), (0, 80), (984, 1024))
    """
    margin = int(max(LEAST, seen) * times)
    return max(0, first - margin), min(all, first + seen + margin)
