"""Thousands of points as characters: braille dots by density, and as many labels as fit without touching.

Nothing here depends on colours or on the terminal: a scatter is rows of cells, each with a character, its kind, a
class, and whether it is dense. Distances are true: a dot is as wide as it is high.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from math import atan2, pi

import numpy as np

from txlab.drawing.curve import TINY, signs_of, thicken
from txlab.drawing.legibility import DESK, Legibility
from txlab.drawing.text import fit, visible_character, width

LONGEST = 24  # cells of a label
DOTS_ACROSS, DOTS_DOWN = 2, 4  # in a cell
MARGIN = 0.06  # of the picture, on each side
HEADS = "→↗↑↖←↙↓↘"


class Shows(IntEnum):
    """The kind of a cell."""

    NOTHING = 0
    POINTS = 1
    PATH = 2
    ARROW = 3
    LABEL = 4
    NEAR = 5
    MARKED = 6
    HERE = 7


@dataclass(frozen=True)
class Camera:
    """The visible part of the plane: its centre, and half the width and height that are sure to fit."""

    x: float
    y: float
    across: float
    up: float

    def zoom_at(self, factor: float, x: float, y: float) -> Camera:
        """Closer by `factor` > 1 with (x, y) in the middle."""
        return replace(self, x=x, y=y, across=self.across / factor, up=self.up / factor)


@dataclass(frozen=True)
class Label:
    """A word to be written next to point `index`, if there is room; earlier ones take precedence."""

    index: int
    text: str
    shows: Shows = Shows.LABEL


@dataclass(frozen=True)
class Scatter:
    """rows of cells: `characters[y][x]`, "" being the second half of a wide one; `shows` and `classes` (rows, columns).

    dense    (rows, columns) whether a cell has many points: more than the square root of the largest count
    places   index of a labelled point → its cell (row, column)
    inside   points in the picture
    """

    characters: list[list[str]]
    shows: np.ndarray
    classes: np.ndarray
    dense: np.ndarray
    places: dict[int, tuple[int, int]]
    inside: int


def whole(points: np.ndarray) -> Camera:
    """The camera that sees all finite points (n, 2), but for outliers beyond the 0.1 % at each end."""
    seen = np.asarray(points[np.isfinite(points).all(1)], np.float64)
    if not len(seen):
        return Camera(0.0, 0.0, 1.0, 1.0)
    low, high = np.quantile(seen.clip(-1e150, 1e150), [0.001, 0.999], axis=0)  # whose differences are finite
    across, up = (each if each > TINY else 0.0 for each in ((high - low) / 2 * (1 + MARGIN)).tolist())
    return Camera(float(low[0] + high[0]) / 2, float(low[1] + high[1]) / 2, across or up or 1.0, up or across or 1.0)


def dots_of(points: np.ndarray, camera: Camera, rows: int, columns: int) -> np.ndarray:
    """The dots of points (n, 2), (n, 2) int64, from the left and from the top; they may be outside."""
    across, down = columns * DOTS_ACROSS, rows * DOTS_DOWN
    scale = min((across - 1) / camera.across, (down - 1) / camera.up) / 2
    place = np.stack([(points[:, 0] - camera.x) * scale + across / 2, down / 2 - (points[:, 1] - camera.y) * scale], 1)
    dots: np.ndarray = np.floor(np.nan_to_num(place, nan=-1.0).clip(-1e6, 1e6)).astype(np.int64)
    return dots


@dataclass(frozen=True)
class Ground:
    """All points as dots, without labels: the part that does not change while a cursor moves.

    cells (n, 2) columns and rows, inside (n), classes (n) or None; grid (dots down, across); counts, kinds (rows,
    columns)
    """

    points: np.ndarray
    camera: Camera
    cells: np.ndarray
    inside: np.ndarray
    grid: np.ndarray
    counts: np.ndarray
    kinds: np.ndarray
    classes: np.ndarray | None = None


def ground(points: np.ndarray, camera: Camera, rows: int, columns: int, classes: np.ndarray | None = None) -> Ground:
    """Draw points (n, 2), the first of which are the most important, into rows × columns cells.

    classes  (n) small integers; a cell has that of its most important point
    """
    dots = dots_of(points, camera, rows, columns)
    shape = (rows * DOTS_DOWN, columns * DOTS_ACROSS)
    x, y = np.ascontiguousarray(dots.T)
    inside = (x >= 0) & (y >= 0) & (x < shape[1]) & (y < shape[0])
    seen = np.flatnonzero(inside)
    x, y = x[seen], y[seen]
    cell = y // DOTS_DOWN * columns + x // DOTS_ACROSS
    counts = np.bincount(cell, minlength=rows * columns).reshape(rows, columns)
    kinds = np.full(rows * columns, -1, np.int16)
    kinds[cell[::-1]] = 0 if classes is None else classes[seen[::-1]]
    grid = np.zeros(shape[0] * shape[1], bool)
    grid[y * shape[1] + x] = True
    cells = dots // (DOTS_ACROSS, DOTS_DOWN)
    return Ground(points, camera, cells, inside, grid.reshape(shape), counts, kinds.reshape(rows, columns), classes)


def scatter(
    base: Ground,
    *,
    labels: Sequence[Label] = (),
    path: np.ndarray | None = None,
    origin: str = "",
    arrows: Sequence[tuple[np.ndarray, np.ndarray]] = (),
    ascii: bool = False,
    legibility: Legibility = DESK,
) -> Scatter:
    """Write labels over the ground, and draw lines.

    labels   the most wanted first; a label that does not fit is left out
    path     (m, 2) points to be joined, from the oldest to the newest; `origin` is written at the oldest
    arrows   (from, to), each (2)
    """
    camera, inside, counts, grid = base.camera, base.inside, base.counts, base.grid.copy()
    rows, columns = counts.shape
    shape = grid.shape
    shows, kinds = np.where(counts > 0, Shows.POINTS, Shows.NOTHING).astype(np.int8), base.kinds.copy()
    dense = np.log1p(counts) > max(np.log1p(counts.max(initial=0)), 1.0) / 2
    lines = [] if path is None or len(path) < 2 else [(path, Shows.PATH)]
    lines += [(np.stack(ends), Shows.ARROW) for ends in arrows]
    for line, what in lines:
        drawn = along(dots_of(line, camera, rows, columns), shape)
        for row, column in {(y // DOTS_DOWN, x // DOTS_ACROSS) for x, y in drawn}:
            grid[row * DOTS_DOWN : (row + 1) * DOTS_DOWN, column * DOTS_ACROSS : (column + 1) * DOTS_ACROSS] = False
            shows[row, column] = what
        for x, y in drawn:
            grid[y, x] = True
    if ascii:
        signs = np.array([" ", ".", ":", "#"])[np.minimum(counts, 3)]
        signs = np.where((shows == Shows.PATH) | (shows == Shows.ARROW), "+", signs)
    else:
        signs = signs_of(thicken(grid, legibility), legibility)
    characters: list[list[str]] = signs.tolist()
    for start, end in arrows:
        tail, tip = dots_of(np.stack([start, end]), camera, rows, columns)
        head(characters, shows, tail, tip, ascii)
    begins = None
    if lines and lines[0][1] == Shows.PATH:
        (x, y), *_ = dots_of(lines[0][0][:1], camera, rows, columns).tolist()
        begins = (y // DOTS_DOWN, x // DOTS_ACROSS)
        begins = begins if 0 <= begins[0] < rows and 0 <= begins[1] < columns else None
    places = write_labels(base, characters, shows, kinds, labels, origin, begins, ascii)
    return Scatter(characters, shows, kinds, dense, places, int(inside.sum()))


def write_labels(
    base: Ground,
    characters: list[list[str]],
    shows: np.ndarray,
    kinds: np.ndarray,
    labels: Sequence[Label],
    origin: str,
    begins: tuple[int, int] | None,
    ascii: bool,
) -> dict[int, tuple[int, int]]:
    """Write the label of the cursor's point, then `origin` at the cell where a path `begins`, then the others as far as
    there is room; returns the places of the labelled points."""
    cells, places = base.cells, dict[int, tuple[int, int]]()
    taken, covered = np.zeros(shows.shape, bool), np.zeros(shows.shape, bool)  # covered: by the text of a label
    wanted = [label for label in labels if base.inside[label.index]]
    here = [label for label in wanted if label.shows == Shows.HERE]
    lined = (shows == Shows.PATH) | (shows == Shows.ARROW)

    def place(label: Label, row: int, column: int) -> None:
        if covered[row, column]:
            return
        for at, (y, x, long) in enumerate(write(characters, shows, taken, label, row, column, places, ascii)):
            covered[y, x : x + long] |= at == 0  # the text; the second is the point's sign
            if base.classes is not None and label.index >= 0:
                kinds[y, x : x + long] = base.classes[label.index]

    if begins is not None:
        taken[begins] = True
    for label in here:  # it has its room whatever is near it
        place(label, int(cells[label.index, 1]), int(cells[label.index, 0]))
    if begins is not None and begins not in places.values():
        taken[begins] = False
        place(Label(-1, origin, Shows.PATH), *begins)
        places.pop(-1, None)
        characters[begins[0]][begins[1]], shows[begins], taken[begins] = "O" if ascii else "○", Shows.PATH, True
    for label in wanted:  # no label covers the point of a more important one
        if label.shows > Shows.LABEL:
            taken[cells[label.index, 1], cells[label.index, 0]] = True
    for label in wanted:
        if label.shows <= Shows.LABEL:  # only labels that were asked for may hide a part of a line
            taken |= lined
        column, row = (int(each) for each in cells[label.index])
        if label.shows != Shows.HERE:
            place(label, row, column)
    return places


def write(
    characters: list[list[str]],
    shows: np.ndarray,
    taken: np.ndarray,
    label: Label,
    row: int,
    column: int,
    places: dict[int, tuple[int, int]],
    ascii: bool,
) -> list[tuple[int, int, int]]:
    """Write a label to the right of its point, or to the left, or above or below it; or nowhere. Returns (row, column,
    cells) of what was written."""
    signs = [visible_character(character, ascii) for character in label.text]
    text = fit("".join(signs), min(LONGEST, width("".join(signs))), ellipsis="~" if ascii else "…")
    long = width(text)
    rows, columns = shows.shape
    own = bool(taken[row, column]) and label.shows <= Shows.LABEL
    middle = max(0, min(column - long // 2, columns - long))
    for y, x in ((row, column + 2), (row, column - 1 - long), (row - 1, middle), (row + 1, middle)):
        if own or not (0 <= y < rows and x >= 0 and x + long <= columns):
            continue
        before, after = max(0, x - 1), min(columns, x + long + 1)  # a free cell on both sides
        held = taken[row, column] and y == row and before <= column < after
        if taken[y, before:after].sum() - held:
            continue
        cells: list[str] = []
        for character in text:
            if (cell := width(character)) == 0 and cells:
                cells[-1] += character
            else:
                cells += [character, *[""] * (cell - 1)]
        characters[y][before:after] = [" "] * (after - before)
        shows[y, before:after] = Shows.NOTHING
        characters[y][x : x + long] = cells
        shows[y, x : x + long] = label.shows
        written = [(y, x, long)]
        if (row, column) not in places.values():  # else it is the mark of a more wanted word
            characters[row][column] = "o" if ascii else "•"
            shows[row, column] = label.shows
            written.append((row, column, 1))
        taken[y, x : x + long] = taken[row, column] = True
        places[label.index] = (row, column)
        return written
    return []


def along(dots: np.ndarray, shape: tuple[int, int]) -> list[tuple[int, int]]:
    """The dots (x, y) of a line through `dots` (n, 2) within (down, across) = shape, each once."""
    dots_between: dict[tuple[int, int], None] = {}
    for (x0, y0), (x1, y1) in zip(dots.tolist(), dots[1:].tolist(), strict=False):
        steps = max(1, min(max(abs(x1 - x0), abs(y1 - y0)), 4 * max(shape)))
        for part in range(steps + 1):
            x, y = round(x0 + (x1 - x0) * part / steps), round(y0 + (y1 - y0) * part / steps)
            if 0 <= x < shape[1] and 0 <= y < shape[0]:
                dots_between[x, y] = None
    return list(dots_between)


def head(characters: list[list[str]], shows: np.ndarray, start: np.ndarray, end: np.ndarray, ascii: bool) -> None:
    """Draw an arrowhead in the last cell of its line before its end."""
    reached = along(np.stack([start, end]), (shows.shape[0] * DOTS_DOWN, shows.shape[1] * DOTS_ACROSS))
    cells = [(y // DOTS_DOWN, x // DOTS_ACROSS) for x, y in reached]
    before = [cell for cell in cells if cell != (end[1] // DOTS_DOWN, end[0] // DOTS_ACROSS)]
    if before:
        row, column = before[-1]
        angle = atan2(float(start[1] - end[1]), float(end[0] - start[0]))
        sign = HEADS[round(angle / (pi / 4)) % 8]
        characters[row][column] = {"→": ">", "←": "<", "↑": "^", "↓": "v"}.get(sign, "+") if ascii else sign
        shows[row, column] = Shows.ARROW
