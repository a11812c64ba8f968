"""A heatmap's view of a matrix: the layout of its cells on the screen, and the loaded window.

Notable: cells grow with the space available (from 2 × 1 characters to 8 × 4), so that a short text fills the screen;
if even the smallest do not fit, the view follows the cursor. A pattern of a thousand tokens has a million cells and
a screen shows two thousand, so the owner of the matrix provides a window, and the heatmap asks for the next one before
its edge comes into view. Cells outside are *not known yet*, which is different from masked or zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from txlab.drawing.palette import Ramp

# Width and height of a cell, the largest first; about square, since a character is twice as high as wide.
CELLS = ((8, 4), (6, 3), (5, 2), (4, 2), (5, 1), (4, 1), (3, 1), (2, 1))
UPRIGHT = 4  # from this width on, column labels are written horizontally; below it, vertically
DEEPEST = 8  # lines that vertical labels may take
LONGEST = 14  # cells that row labels may take
SUM, WEIGHT = 10, 7  # cells to the right of a row: for its sum, or only for the weight under the cursor
MASKED = 255  # hidden by the attention mask
PENDING = 254  # not known yet
NEGATIVE = 128  # added to the level of a negative number in a heatmap of differences
LEAST = 32  # cells by which a window extends beyond the visible part


@dataclass(frozen=True)
class MatrixLayout:
    """A cell is `wide` × `tall`; `header` lines and `left` cells hold the labels, `trailer` cells the text at the right
    of a row; `rows` × `columns` of the matrix's `all_rows` × `all_columns` are visible."""

    wide: int
    tall: int
    header: int
    left: int
    trailer: int
    rows: int
    columns: int
    all_rows: int
    all_columns: int

    @property
    def middle(self) -> int:
        """The line of a cell that carries its label and its number."""
        return (self.tall - 1) // 2

    @property
    def upright(self) -> bool:
        return self.wide >= UPRIGHT

    @property
    def whole(self) -> bool:
        """Whether the whole matrix is visible."""
        return self.rows == self.all_rows and self.columns == self.all_columns

    def follow(self, origin: tuple[int, int], cursor: tuple[int, int]) -> tuple[int, int]:
        """Return the first visible row and column, moved from `origin` only as far as the cursor requires."""
        top, left = origin
        row, column = cursor
        top = max(0, min(max(min(top, row), row - self.rows + 1), self.all_rows - self.rows))
        left = max(0, min(max(min(left, column), column - self.columns + 1), self.all_columns - self.columns))
        return top, left

    def at(self, x: int, y: int, origin: tuple[int, int]) -> tuple[int, int] | None:
        """Return the row and column at a position in the widget; None for the labels and beyond."""
        if y < self.header or x < self.left:
            return None
        row, column = (y - self.header) // self.tall, (x - self.left) // self.wide
        return (row + origin[0], column + origin[1]) if row < self.rows and column < self.columns else None


def layout_of(
    row_label: int, column_label: int, rows: int, columns: int, width: int, height: int, sums: bool = False
) -> MatrixLayout:
    """Return the layout with the largest cells that fit the whole matrix into `width` × `height`; `row_label` and
    `column_label` are the widths of the longest labels. Cells that can hold their own number need no space at the right
    of the row, unless sums are shown there."""
    left = max(1, min(row_label, LONGEST, width // 4)) + 3
    beside = 0 if width < 40 else SUM if sums else WEIGHT
    deep = max(1, min(column_label, DEEPEST, height // 4))
    for wide, tall in CELLS:
        header = 1 if wide >= UPRIGHT else deep
        trailer = beside if sums or wide < UPRIGHT else 0
        if left + columns * wide + trailer <= width and header + rows * tall <= height:
            break
    header = min(header, max(0, height - 1))
    seen_rows, seen_columns = max(1, (height - header) // tall), max(1, (width - left - trailer) // wide)
    seen_rows, seen_columns = min(rows, seen_rows), min(columns, seen_columns)
    if left + seen_columns * wide + beside <= width:
        trailer = beside
    return MatrixLayout(wide, tall, header, left, trailer, seen_rows, seen_columns, rows, columns)


@dataclass(frozen=True)
class MatrixWindow:
    """`values` (r, c) of the matrix from row and column `at` on; `blank` (r, c) cells are masked; `sums` (r) of rows;
    `marks` {(row, column): sign} of single cells, by their place in the matrix. `signed`: values in [−1, 1]."""

    values: np.ndarray
    levels: np.ndarray
    at: tuple[int, int] = (0, 0)
    blank: np.ndarray | None = None
    sums: np.ndarray | None = None
    marks: Mapping[tuple[int, int], str] = field(default_factory=dict)
    signed: bool = False

    def again(self, ramp: Ramp) -> MatrixWindow:
        """Return the same window in the levels of another ramp."""
        levels = levels_of(self.values, self.blank, ramp, self.signed)
        return MatrixWindow(self.values, levels, self.at, self.blank, self.sums, self.marks, self.signed)

    def row(self, row: int, first: int, stop: int) -> np.ndarray:
        """Return the levels of columns first … stop − 1 of a row, PENDING outside the window."""
        levels = np.full(max(0, stop - first), PENDING, dtype=np.uint8)
        r, c = row - self.at[0], self.at[1]
        begin, end = max(first, c), min(stop, c + self.levels.shape[1])
        if 0 <= r < len(self.levels) and begin < end:
            levels[begin - first : end - first] = self.levels[r, begin - c : end - c]
        return levels

    def level(self, row: int, column: int) -> int:
        return int(self.row(row, column, column + 1)[0])

    def value(self, row: int, column: int) -> float:
        """Return the value of a cell; NaN where it is masked or outside the window."""
        if self.level(row, column) >= PENDING:
            return float("nan")
        return float(self.values[row - self.at[0], column - self.at[1]])

    def row_values(self, row: int, columns: int) -> np.ndarray:
        """Return the values of a row of so many columns, NaN where masked; () unless all are in the window."""
        levels = self.row(row, 0, columns)
        if not columns or (levels == PENDING).any() or self.at[1]:
            return np.zeros(0)
        return np.where(levels == MASKED, np.nan, self.values[row - self.at[0], :columns])

    def total(self, row: int) -> float:
        """Return the given sum of a row; NaN outside the window."""
        r = row - self.at[0]
        return float(self.sums[r]) if self.sums is not None and 0 <= r < len(self.sums) else float("nan")

    def strongest(self, row: int) -> int:
        """Return the column with the largest value of a row, among those in the window and not masked; 0 if none is."""
        r = row - self.at[0]
        if not 0 <= r < len(self.levels) or not self.levels.shape[1]:
            return 0
        allowed = np.where(self.levels[r] == MASKED, -np.inf, self.values[r])
        return int(allowed.argmax()) + self.at[1] if np.isfinite(allowed).any() else 0

    def holds(self, rows: tuple[int, int], columns: tuple[int, int]) -> bool:
        """Whether the window covers all of these rows and columns (from, to)."""
        top, left = self.at
        high, wide = self.levels.shape
        return (top <= rows[0] and rows[1] <= top + high and left <= columns[0] and columns[1] <= left + wide) or (
            rows[0] >= rows[1] or columns[0] >= columns[1]
        )


def levels_of(values: np.ndarray, blank: np.ndarray | None, ramp: Ramp, signed: bool = False) -> np.ndarray:
    """Return levels, MASKED where `blank` or NaN; with `signed`, levels of |values|, plus NEGATIVE below zero."""
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
) -> MatrixWindow:
    values = np.asarray(values, dtype=np.float32)
    return MatrixWindow(values, levels_of(values, blank, ramp, signed), at, blank, sums, dict(marks or {}), signed)


def around(first: int, seen: int, all: int, times: float = 1.0) -> tuple[int, int]:
    """Return the (from, to) worth loading when `seen` cells from `first` on are visible: `times` as much again on both
    sides, and at least LEAST cells.

    >>> around(100, 40, 1024), around(0, 40, 1024), around(1000, 20, 1024, 0.5)
    ((60, 180), (0, 80), (984, 1024))
    """
    margin = int(max(LEAST, seen) * times)
    return max(0, first - margin), min(all, first + seen + margin)
