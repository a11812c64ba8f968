"""How large and how many the signs of a drawing are: for a reader at the desk, or at the back of a lecture hall.

A drawing takes a `Legibility`, as it takes colours, and asks for what it needs: the size of its dots, the length of
dashes, the number of labels. There is no other notion of hall mode below the screens.

Notable: in a picture of the screen reduced to a third (0.3 of a cell a dot), a braille line keeps a sixth of its
contrast, and dashes of three dots look like a solid line. A quadrant (half a cell by half a cell) is filled to its
edges, so that a line of them stays a line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Dash(NamedTuple):
    """The dots of a dashed line that are drawn, and those that are left out."""

    drawn: int
    left_out: int


FINE = Dash(3, 3)


@dataclass(frozen=True)
class Legibility:
    """thick    whether dots, 2 × 4 in a cell, are drawn as quadrants instead of braille
    dash        of dashed lines       apart  the least distance of two points of a dotted line, in dots; 0 = all
    ticks       the share of labels of an axis that is written
    ends        whether a curve has its name at its end; otherwise only in the legend
    strokes     the signs in a legend of a solid, a dashed and a dotted line
    digits      the most digits of a number in a picture
    """

    thick: bool = False
    dash: Dash = FINE
    apart: int = 0
    ticks: float = 1.0
    ends: bool = False
    strokes: tuple[str, str, str] = ("──", "╌╌", "••")
    digits: int = 15

    def labels(self, most: int) -> int:
        """Return how many labels to write on an axis that has room for `most`: at least two, four if there is room."""
        return max(2, min(most, 4), int(most * self.ticks))


DESK = Legibility()
HALL = Legibility(
    thick=True,
    dash=Dash(8, 6),
    apart=6,
    ticks=0.5,
    ends=True,
    strokes=("━━", "╸╺", "▪▪"),
    digits=2,
)
