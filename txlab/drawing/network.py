"""A network as columns of small pictures with wires between them: the layout, and the wires as dots.

Nothing here depends on colours. A wire's cell has the strength and the sign of its weight; negative ones are dashed, so
that the sign is visible without colour too. Where wires cross, the strongest is drawn on top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from txlab.drawing.curve import signs_of
from txlab.drawing.legibility import DESK, Legibility

LARGEST = 6  # lines of a picture
GAP = 5  # cells between two columns, at least, if pictures can be larger than a line
STRONG = 0.35  # of the largest weight: above it a double line
FAINT = {1: 9.0, 2: STRONG}  # below this share nothing is drawn, by the pitch: with less room, fewer wires
LEAST = 0.04  # where there is room, and of the chosen wires
DASH = 6  # dots of a dash and the space after it


@dataclass(frozen=True)
class Plan:
    """pitch   lines from one picture to the next in a column: 2 · pitch − 1 pixels, and one of air; 1: two pixels
    wide    cells of a picture, as many as it has pixels downwards
    places  name → (line, cell) of the upper left corner; names that do not fit are left out
    size    (lines, cells) of the whole
    """

    pitch: int
    wide: int
    places: Mapping[str, tuple[int, int]]
    size: tuple[int, int]

    @property
    def pixels(self) -> int:
        return max(2, 2 * self.pitch - 1)


def plan(columns: Sequence[Sequence[str]], lines: int, cells: int, label: int, keep: str = "") -> Plan:
    """The largest pictures with which all columns fit; of a column that never fits, a part, around `keep` if present.

    label   cells left of the first column, for its names
    """
    most, count = max((len(column) for column in columns), default=1), len(columns)
    pitch = 1
    for size in range(LARGEST, 1, -1):
        if most * size <= lines and label + count * (2 * size - 1 + GAP) <= cells:
            pitch = size
            break
    wide = max(2, 2 * pitch - 1)
    room = max(1, lines // pitch)
    stride = max(wide + 1, (cells - label) // max(1, count))
    places: dict[str, tuple[int, int]] = {}
    for number, column in enumerate(columns):
        shown = list(column)
        if len(shown) > room:
            at = shown.index(keep) if keep in shown else 0
            first = max(0, min(at - room // 2, len(shown) - room))
            shown = shown[first : first + room]
        top = max(0, (lines - len(shown) * pitch) // 2)
        left = label + number * stride
        if left + wide < cells:
            places |= {name: (top + row * pitch, left) for row, name in enumerate(shown)}
    return Plan(pitch, wide, places, (lines, cells))


class Wires:
    """The wires of a plan. `draw` is called for each picture, the rest is computed once."""

    def __init__(self, plan: Plan, edges: Sequence[tuple[str, str]], middle: int) -> None:
        """edges    (from, to); an end that is not in the plan is the answer, at the right in line `middle`"""
        self.lines, self.cells = plan.size
        self.faint = FAINT.get(plan.pitch, LEAST)
        middle_of = plan.pixels  # dots from a picture's top to its middle
        number, phase, across, down = [], [], [], []
        for edge, (source, target) in enumerate(edges):
            if source not in plan.places:
                continue
            top, left = plan.places[source]
            start = np.array([2 * (left + plan.wide), 4 * top + middle_of])
            if target in plan.places:
                top, left = plan.places[target]
                end = np.array([2 * left - 1, 4 * top + middle_of])
            else:
                end = np.array([2 * self.cells - 1, 4 * middle + 2])
            dots = int(max(abs(end - start).max(), 1)) + 1
            part = np.linspace(0, 1, dots)
            number.append(np.full(dots, edge))
            phase.append(np.arange(dots))
            across.append(np.rint(start[0] + part * (end[0] - start[0])))
            down.append(np.rint(start[1] + part * (end[1] - start[1])))

        def join(parts: list[np.ndarray]) -> np.ndarray:
            whole: np.ndarray = np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64)
            return whole

        self.number, self.phase, self.x, self.y = join(number), join(phase), join(across), join(down)

    def draw(
        self, weights: np.ndarray, chosen: np.ndarray, ascii: bool = False, legibility: Legibility = DESK
    ) -> tuple[np.ndarray, np.ndarray]:
        """characters and roles (lines, cells): ±1 a weak wire, ±2 a strong one, ±3 one of `chosen`; 0 none.

        weights   of the edges
        chosen    edges drawn in front; in ASCII, where signs would hide each other, the only ones
        """
        grid = np.zeros((4 * self.lines, 2 * self.cells), bool)
        roles = np.zeros((self.lines, self.cells), np.int8)
        size = np.nan_to_num(np.abs(weights))
        share = size / max(float(size.max(initial=0.0)), 1e-9)
        role = np.where(chosen, 3, np.where(share >= STRONG, 2, 1)) * np.where(weights < 0, -1, 1)
        seen = (share >= np.where(chosen, LEAST, STRONG if legibility.thick else self.faint))[self.number] & (
            (weights >= 0)[self.number] | (self.phase % DASH < DASH - 2)
        )
        seen &= (self.x >= 0) & (self.x < 2 * self.cells) & (self.y >= 0) & (self.y < 4 * self.lines)
        rank = np.argsort(np.argsort(share + 2.0 * chosen))
        dots = np.flatnonzero(seen)
        dots = dots[np.argsort(rank[self.number[dots]], kind="stable")]
        x, y, owner = self.x[dots], self.y[dots], self.number[dots]
        grid[y, x] = True
        thick = share[owner] >= STRONG
        below = np.minimum(y[thick] + 1, 4 * self.lines - 1)
        grid[below, x[thick]] = True
        roles[below // 4, x[thick] // 2] = role[owner[thick]]
        roles[y // 4, x // 2] = role[owner]
        if not ascii:
            return signs_of(grid, legibility), roles
        return np.where(roles == 3, "+", np.where(roles == -3, "-", " ")), roles
