"""A board in characters: texts and shapes are put on cells, which are then read as pieces.

A shape is a region of the plane, not a bitmap, so it is as sharp as the cells allow: four quarter blocks a cell, or a
letter in ASCII. A thing put on a shape, such as a point of a backgammon board, keeps it as its ground.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import groupby, product
from math import atan2, hypot, pi

from txlab.drawing.boards import BoardPiece, Kind

# The bits of a mask: 1 upper left, 2 upper right, 4 lower left, 8 lower right.
QUARTERS = " ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"
ROUND = 0.97  # of the radius: at 1 the ends of a small disc would be flat
DASHES = 4
STROKE = {"cross": 0.27, "ring": 0.42}  # relative to half the shape; chosen by eye for 2 to 15 rows


def ring(x: float, y: float) -> bool:
    return 1 - STROKE["ring"] <= hypot(x, y) <= ROUND


SHAPES: dict[str, Callable[[float, float], bool]] = {
    "disc": lambda x, y: hypot(x, y) <= ROUND,
    "ring": ring,
    "cross": lambda x, y: abs(abs(x) - abs(y)) <= STROKE["cross"],
    "down": lambda x, y: abs(x) <= (1 - y) / 2,  # a triangle that points down
    "up": lambda x, y: abs(x) <= (1 + y) / 2,
    "diamond": lambda x, y: abs(x) + abs(y) <= 1,
    "dashes": lambda x, y: ring(x, y) and int(atan2(y, x) * DASHES / pi + 2 * DASHES) % 2 == 0,
    "box": lambda x, y: True,
}


@cache
def masks(shape: str, wide: int, high: int, right: int, down: int) -> tuple[tuple[int, ...], ...]:
    """The masks of the cells of a shape that is `wide` × `high` half cells large, `right` and `down` half cells from
    the corner of its first cell.

    >>> ["".join(QUARTERS[mask] for mask in row) for row in masks("disc", 10, 4, 0, 0)]
    ['▄███▄', '▀███▀']
    """
    inside = SHAPES[shape]
    rows = [[0] * ((wide + right + 1) // 2) for _ in range((high + down + 1) // 2)]
    for x, y in product(range(wide), range(high)):
        if inside((2 * x + 1) / wide - 1, (2 * y + 1) / high - 1):
            rows[(y + down) // 2][(x + right) // 2] |= 1 << (2 * ((y + down) % 2) + (x + right) % 2)
    return tuple(map(tuple, rows))


@cache
def letters(shape: str, wide: int, high: int) -> tuple[tuple[int, ...], ...]:
    """The same in whole cells: 15 inside, 0 outside."""
    inside = SHAPES[shape]
    return tuple(
        tuple(15 * inside((2 * x + 1) / wide - 1, (2 * y + 1) / high - 1) for x in range(wide)) for y in range(high)
    )


def mark_size(size: int, ring: bool = False) -> int:
    """About a third of a shape's size, or a quarter to fit in a ring, so that it can be centred in it.

    >>> [mark_size(size) for size in (5, 6, 7, 9)], mark_size(8, ring=True)
    ([1, 2, 3, 3], 2)
    """
    part = size // (4 if ring else 3)
    return part + (size - part) % 2


@dataclass(slots=True)
class Cell:
    sign: str = " "
    kind: Kind = "blank"
    ground: Kind = ""
    place: int | None = None
    merit: float | None = None
    mask: int = 0


class Canvas:
    """The cells of a board. Shapes are placed in units: half a cell in both directions, or a cell in ASCII."""

    def __init__(self, columns: int, rows: int, ascii: bool) -> None:
        self.ascii, self.units = ascii, 1 if ascii else 2
        self.cells = [[Cell() for _ in range(columns)] for _ in range(rows)]

    def area(self, top: int, left: int, high: int, wide: int, place: int, merit: float | None = None) -> None:
        """Assign these cells to a place."""
        for row in self.cells[max(0, top) : top + high]:
            for cell in row[max(0, left) : left + wide]:
                cell.place, cell.merit = place, merit

    def shape(self, name: str, top: int, left: int, high: int, wide: int, kind: Kind, letter: str) -> None:
        """Draw a shape at these units."""
        (row, down), (column, right) = divmod(top, self.units), divmod(left, self.units)
        drawn = letters(name, wide, high) if self.ascii else masks(name, wide, high, right, down)
        for y, line in enumerate(drawn, row):
            for x, mask in enumerate(line, column):
                if mask and 0 <= y < len(self.cells) and 0 <= x < len(self.cells[y]):
                    cell = self.cells[y][x]
                    if cell.kind == kind:
                        mask |= cell.mask
                    elif cell.mask & ~mask or mask == 15:  # not just another colour of the same edge
                        cell.ground = self.ground(cell)
                    cell.sign, cell.kind, cell.mask = letter if self.ascii else QUARTERS[mask], kind, mask

    def ground(self, cell: Cell) -> Kind:
        """The ground behind a thing on this cell; none in ASCII, where a shape consists of letters."""
        return cell.kind if cell.mask.bit_count() > 1 and not self.ascii else ""

    def write(self, text: str, row: int, column: int, kind: Kind, whole: bool = True) -> None:
        """Write a text if it fits, or without `whole` as much as fits. Its blanks are transparent."""
        if not 0 <= row < len(self.cells) or (whole and not 0 <= column <= len(self.cells[row]) - len(text)):
            return
        for at, sign in enumerate(text, column):
            if sign != " " and 0 <= at < len(self.cells[row]):
                cell = self.cells[row][at]
                if cell.mask:
                    cell.ground = self.ground(cell)
                cell.sign, cell.kind, cell.mask = sign, kind, 0

    def centre(self, text: str, row: int, column: int, wide: int, kind: Kind) -> None:
        """Write a text in the middle of `wide` cells; nothing if it does not fit in them."""
        if len(text) <= wide:
            self.write(text, row, column + (wide - len(text) + 1) // 2, kind)

    def lines(self) -> list[list[BoardPiece]]:
        """The pieces of each line: neighbours of one kind, ground and place are one piece."""
        return [pieces(row) for row in self.cells]


def pieces(row: list[Cell]) -> list[BoardPiece]:
    def look(cell: Cell) -> tuple[int | None, Kind, float | None, Kind]:
        return cell.place, cell.kind, cell.merit, cell.ground

    return [BoardPiece("".join(cell.sign for cell in run), *shared) for shared, run in groupby(row, look)]
