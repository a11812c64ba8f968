"""Where the cells of a labelled matrix lie on the screen: how large they are, what is seen, what is under a place.

Notable: cells grow with the room (from 2 × 1 characters to 8 × 4), so that a short text fills the screen; where even
the smallest do not fit, the view follows the cursor.
"""

from __future__ import annotations

from dataclasses import dataclass

# Width and height of a cell, the largest first; about square, since a character is twice as high as wide.
CELLS = ((8, 4), (6, 3), (5, 2), (4, 2), (5, 1), (4, 1), (3, 1), (2, 1))
UPRIGHT = 4  # from this width on, the labels of columns are written along the line; below it, downwards
DEEPEST = 8  # lines that labels written downwards may take
LONGEST = 14  # cells that the labels of rows may take
SUM, WEIGHT = 10, 7  # cells at the right of a row: for the row's sum, or only for the weight under the cursor


@dataclass(frozen=True)
class Plan:
    """`wide` × `tall` is a cell; `header` lines and `left` cells belong to the labels, `trailer` cells to what stands
    at the right; `rows` × `columns` of the matrix are seen of the `all_rows` × `all_columns` it has."""

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
        """The line of a cell that has its label and its number."""
        return (self.tall - 1) // 2

    @property
    def upright(self) -> bool:
        return self.wide >= UPRIGHT

    @property
    def whole(self) -> bool:
        """Whether all of the matrix is seen."""
        return self.rows == self.all_rows and self.columns == self.all_columns

    def follow(self, origin: tuple[int, int], cursor: tuple[int, int]) -> tuple[int, int]:
        """The first row and column to be seen, moved from `origin` only as far as the cursor asks."""
        top, left = origin
        row, column = cursor
        top = max(0, min(max(min(top, row), row - self.rows + 1), self.all_rows - self.rows))
        left = max(0, min(max(min(left, column), column - self.columns + 1), self.all_columns - self.columns))
        return top, left

    def at(self, x: int, y: int, origin: tuple[int, int]) -> tuple[int, int] | None:
        """The row and column under a place, None for the labels and beyond."""
        if y < self.header or x < self.left:
            return None
        row, column = (y - self.header) // self.tall, (x - self.left) // self.wide
        return (row + origin[0], column + origin[1]) if row < self.rows and column < self.columns else None


def plan(
    row_label: int, column_label: int, rows: int, columns: int, width: int, height: int, sums: bool = False
) -> Plan:
    """The plan with the largest cells that show all of the matrix in `width` × `height`; `row_label` and `column_label`
    are the widths of the longest labels. A cell with room for its own number needs nothing at the right of the row,
    unless sums are to stand there."""
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
    return Plan(wide, tall, header, left, trailer, seen_rows, seen_columns, rows, columns)
