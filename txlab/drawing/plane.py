"""A function drawn: of two variables as a filled contour map with paths on it, of one as its graph with a tangent.

Nothing here depends on colours: a sheet is rows of cells, each with a character, what it shows, and the levels of the
two halves of its ground, which a widget fills, or writes as shades where there are too few colours.

Notable: the levels are of log(f − least), stretched between quantiles: a valley a thousand times shallower than its
walls are high is as visible as one next to a pole.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache

import numpy as np

from txlab.drawing.axis import Tick, Window, ticks
from txlab.drawing.curve import Chart, Style, apart, signs_of, thicken, trace
from txlab.drawing.legibility import DESK, Legibility
from txlab.drawing.palette import RGB, Colours, cube, smooth_ramp
from txlab.drawing.plot import margin, x_axis
from txlab.drawing.scatter import Camera
from txlab.drawing.text import fit

BANDS = 12
SHADES, ASCII_SHADES = "  ··░░░▒▒▒▓▓", "  ..::--==++"
HERE = 100  # added to the number of a path: the letter at its end


class Shows(IntEnum):
    """The content of a cell other than the path with the number ≥ 0, or its end (HERE + number)."""

    GROUND = -1
    CURVE = -2
    AXIS = -3
    TANGENT = -4
    CURSOR = -5
    UNDEFINED = -6
    LABEL = -7
    POINT = -8


@dataclass(frozen=True)
class Path:
    """points (n, 2), the last one now · letter of the method, and its name · number, which its colour and its cells
    have."""

    points: np.ndarray
    letter: str
    number: int
    name: str = ""


@dataclass(frozen=True)
class Sheet:
    """window · characters, shows (rows, columns) · levels (2 · rows, columns) of the ground, −1 = there is none ·
    bare: without axes around it, since places on it are not numbers."""

    window: Window
    characters: np.ndarray
    shows: np.ndarray
    levels: np.ndarray
    bare: bool = False

    @property
    def rows(self) -> int:
        return int(self.characters.shape[0])

    @property
    def columns(self) -> int:
        return int(self.characters.shape[1])

    def point_at(self, row: int, column: int) -> tuple[float, float]:
        """The point in the middle of a cell."""
        window = self.window
        return window.x_at((column + 0.5) / self.columns), window.y_at(1 - (row + 0.5) / self.rows)

    def cell_of(self, x: float, y: float) -> tuple[int, int]:
        """The (row, column) of a point; the nearest one if it is outside."""
        across, up = float(self.window.across(x)), float(self.window.up(y))
        column, row = (int(np.clip(part, 0, 1 - 1e-9) * n) for part, n in ((across, self.columns), (1 - up, self.rows)))
        return row, column


def window_of(camera: Camera, rows: int, columns: int) -> Window:
    """The window of a camera in rows × columns cells, where a dot is as wide as it is high."""
    size = max(camera.across / columns, camera.up / (2 * rows))  # half a cell's width
    across, up = size * columns, size * 2 * rows
    return Window(camera.x - across, camera.x + across, camera.y - up, camera.y + up)


def places(window: Window, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """x (columns) and y (2 · rows), the upper first: the middles of the halves of the cells."""
    x = window.left + (np.arange(columns) + 0.5) / columns * (window.right - window.left)
    y = window.high - (np.arange(2 * rows) + 0.5) / (2 * rows) * (window.high - window.low)
    return x, y


TIMES = 3.0  # of the height of what happens at the minima: how much of the graph is shown


def bands(values: np.ndarray) -> np.ndarray:
    """The level 0 … BANDS − 1 of each value (int8), −1 where it is not finite.

    level = ⌊BANDS · (log v − log v₀) / (log v₁ − log v₀)⌋, v = f − min f; v₀, v₁ its quantiles .01 and .99
    """
    finite = np.isfinite(values)
    levels = np.full(values.shape, -1, np.int8)
    if finite.any():
        above = np.clip(values[finite], -1e150, 1e150)
        above = above - above.min()
        low, high = np.quantile(above, [0.01, 0.99])
        low = max(float(low), float(high) * 1e-6, 1e-300)
        share = np.zeros(above.shape)
        if high > low:
            share = np.log(np.maximum(above, low) / low) / np.log(high / low)
        levels[finite] = np.clip(share * BANDS, 0, BANDS - 1).astype(np.int8)
    return levels


def empty(window: Window, rows: int, columns: int) -> Sheet:
    characters, shows = np.full((rows, columns), " ", "<U1"), np.full((rows, columns), Shows.GROUND, np.int16)
    return Sheet(window, characters, shows, np.full((2 * rows, columns), -1, np.int8))


def contours(
    window: Window, values: np.ndarray, paths: Sequence[Path], ascii: bool, legibility: Legibility = DESK
) -> Sheet:
    """A map of values (2 · rows, columns), see `places`, with paths on it; the last path is on top."""
    levels = bands(values)
    sheet = empty(window, values.shape[0] // 2, values.shape[1])
    half = np.maximum(levels[::2], levels[1::2])  # of a cell of which f is undefined in one half
    sheet.levels[::2], sheet.levels[1::2] = (np.where(part < 0, half, part) for part in (levels[::2], levels[1::2]))
    undefined = half < 0
    sheet.characters[undefined], sheet.shows[undefined] = "/" if ascii else "╱", Shows.UNDEFINED
    for path in paths:
        stamp(sheet, path.points, path.number, path.letter.lower(), ascii, legibility=legibility)
    ends(sheet, paths, legibility)
    return sheet


@dataclass(frozen=True)
class Graph:
    """The drawing of a function of one variable: its values y at x, both (n).

    line, parabola   (slope, curvature) at `at`, a point (x, f): the tangent, and optionally the parabola
    """

    x: np.ndarray
    y: np.ndarray
    at: tuple[float, float] | None = None
    slope: float = 0.0
    curvature: float = 0.0


def heights(graph: Graph, points: Sequence[float], starts: Sequence[float] = ()) -> tuple[float, float]:
    """The visible range of y: of the graph without its poles, of the points, and the axis if near.

    A function that grows fast would be a flat line above its minima, so the range ends at a multiple (TIMES) of the
    height from the lowest minimum to the highest point between minima, or to where the methods began.
    """
    finite = np.clip(graph.y[np.isfinite(graph.y)], -1e150, 1e150)
    low, high = (float(each) for each in np.quantile(finite, [0.04, 0.96])) if len(finite) else (-1.0, 1.0)
    minima, maxima = extremes(without_poles(graph.y, high - low))
    if minima:
        low = min(low, *minima)
        between = [each for each in (*minima, *maxima, *starts) if low <= each <= high]
        if (height := max(between, default=low) - low) > 0.01 * (high - low):
            high = min(high, low + TIMES * height)
    inside = [
        each for each in points if np.isfinite(each) and low - 3 * (high - low) <= each <= high + 3 * (high - low)
    ]
    low, high = min([low, *inside]), max([high, *inside])
    if low > 0 and low < 0.6 * high:
        low = 0.0
    if high < 0 and high > 0.6 * low:
        high = 0.0
    low, high = apart(low, high, log=False)
    room = high - low
    return max(low - 0.08 * room, -1e300), min(high + 0.08 * room, 1e300)


def without_poles(y: np.ndarray, room: float) -> np.ndarray:
    """The graph with NaN at its poles, where it jumps to the other sign by more than twice the visible range."""
    y = y.copy()
    with np.errstate(all="ignore"):
        far = np.abs(np.diff(y)) > 2 * room
        y[1:][far & (np.sign(y[1:]) != np.sign(y[:-1]))] = np.nan
    return y


def extremes(y: np.ndarray) -> tuple[list[float], list[float]]:
    """The values of a graph at its minima, and at the maxima between them.

    >>> extremes(np.array([9.0, 1.0, 4.0, 0.0, 9.0, 2.0]))
    ([1.0, 0.0], [4.0])
    """
    inner, before, after = y[1:-1], y[:-2], y[2:]
    with np.errstate(invalid="ignore"):
        low = np.flatnonzero((inner < before) & (inner <= after))
        high = np.flatnonzero((inner > before) & (inner >= after))
    if not len(low):
        return [], []
    high = high[(high > low[0]) & (high < low[-1])]
    return inner[low].tolist(), inner[high].tolist()


def graph_sheet(
    window: Window, graph: Graph, paths: Sequence[Path], rows: int, columns: int, ascii: bool,
    legibility: Legibility = DESK,
) -> Sheet:  # fmt: skip
    """The graph of a function with its axis y = 0, a tangent, and the points of the methods on it."""
    sheet = empty(window, rows, columns)
    across = np.array([window.left, window.right])
    stamp(sheet, np.stack([across, np.zeros(2)], 1), Shows.AXIS, "-", ascii)
    y = without_poles(graph.y, window.high - window.low)  # it does not join the two sides of a pole
    stamp(sheet, np.stack([graph.x, y], 1), Shows.CURVE, "*", ascii, legibility=legibility)
    if graph.at is not None:
        (x0, y0), x = graph.at, np.linspace(window.left, window.right, 2 * columns)
        with np.errstate(all="ignore"):
            bent = y0 + graph.slope * (x - x0) + graph.curvature / 2 * (x - x0) ** 2
        stamp(sheet, np.stack([x, bent], 1), Shows.TANGENT, "+", ascii, "dashed", legibility)
    for path in paths:
        for x, y in path.points[-200:].tolist():
            if 0 <= window.across(x) <= 1 and 0 <= window.up(y) <= 1:
                cell = sheet.cell_of(x, y)
                sheet.characters[cell], sheet.shows[cell] = path.letter.lower() if ascii else "●", path.number
    ends(sheet, paths, legibility)
    return sheet


def stamp(
    sheet: Sheet, points: np.ndarray, shows: int, mark: str, ascii: bool, style: Style = "line",
    legibility: Legibility = DESK,
) -> None:  # fmt: skip
    """Draw the line through points (n, 2) on top: in dots, or with marks."""
    height, breadth = (sheet.rows, sheet.columns) if ascii else (4 * sheet.rows, 2 * sheet.columns)
    window = sheet.window
    dots = np.stack([window.across(points[:, 0]) * breadth, window.up(points[:, 1]) * height], 1) - 0.5
    lines = clip_line(dots, breadth, height)
    grid = trace(lines[:, 0], lines[:, 1], height, breadth, style, legibility)[::-1]
    if ascii:
        sheet.characters[grid], sheet.shows[grid] = mark, shows
        return
    drawn = signs_of(thicken(grid, legibility), legibility)
    cells = drawn != " "
    sheet.shows[cells] = shows
    if legibility.thick:
        sheet.characters[cells] = drawn[cells]
        return
    there, new = sheet.characters[cells], drawn[cells]
    both = np.char.greater_equal(there, "\u2800") & np.char.less_equal(there, "\u28ff")
    joined = np.ascontiguousarray(new).view(np.uint32) | np.ascontiguousarray(there).view(np.uint32) & 0xFF
    sheet.characters[cells] = np.where(both, joined.view("<U1"), new)


def clip_line(dots: np.ndarray, breadth: int, height: int) -> np.ndarray:
    """The parts of a line through dots (n, 2) within (−1 … breadth, −1 … height), with NaN between them (Liang
    and Barsky 1984). A single dot is a line to itself."""
    if len(dots) < 2:
        dots = np.concatenate([dots, dots])
    moved = np.concatenate([[True], (np.rint(dots[1:]) != np.rint(dots[:-1])).any(1)])
    moved[-1] = True
    dots = dots[moved] if moved.sum() > 1 else dots[:2]
    with np.errstate(all="ignore"):
        start, way = dots[:-1], np.diff(dots, axis=0)
        one, other = (-1.0 - start) / way, (np.array([breadth, height]) - start) / way
        enters, leaves = np.minimum(one, other), np.maximum(one, other)
        inside = (start >= -1) & (start <= [breadth, height])
        enters = np.where(way == 0, np.where(inside, -np.inf, np.inf), enters).max(1).clip(0)
        leaves = np.where(way == 0, np.inf, leaves).min(1).clip(max=1)
        kept = np.isfinite(start).all(1) & np.isfinite(way).all(1) & (enters <= leaves)
        first, last = (start + part[:, None] * way for part in (enters, leaves))
    parts = np.full((int(kept.sum()), 3, 2), np.nan)
    parts[:, 0], parts[:, 1] = first[kept], last[kept]
    return parts.reshape(-1, 2)


def ends(sheet: Sheet, paths: Sequence[Path], legibility: Legibility = DESK) -> None:
    """Write each method's letter at its current place, or its name beside it: the last path's first, and the others
    where there is room near theirs."""
    for path in reversed(paths):
        x, y = path.points[-1].tolist()
        if not np.isfinite([x, y]).all():
            continue
        row, column = sheet.cell_of(x, y)
        if legibility.ends and path.name:
            text = f" {path.name} "[: sheet.columns]
            sides = (column + 1, column - len(text))
            wanted = [(row + aside, side) for aside in (0, 1, -1, 2, -2, 3, -3) for side in sides]
        else:
            text, wanted = path.letter, [(row, column + aside) for aside in (0, 1, -1, 2, -2, 3, -3, 4, 5)]
        for y, x in wanted:
            if 0 <= y < sheet.rows and x >= 0 and x + len(text) <= sheet.columns:
                cells = slice(x, x + len(text))
                if (sheet.shows[y, cells] < HERE).all():
                    sheet.characters[y, cells], sheet.shows[y, cells] = list(text), HERE + path.number
                    break


# As lines of text.

Piece = tuple[str, int, int, int]
"""text, what it shows, and the levels of the upper and the lower half"""


def sheet_lines(
    sheet: Sheet, ascii: bool, filled: bool, cursor: tuple[int, int] | None = None, legibility: Legibility = DESK
) -> list[list[Piece]]:
    """Each line from the axis at the left to the right edge, and two lines with the axis below; without fills, the
    ground is written in shades."""
    chart = axes_of(sheet, ascii, legibility)
    left = margin(chart)
    labels = {sheet.rows - 1 - round(tick.place * (sheet.rows - 1)): tick.label for tick in chart.y_ticks}
    bar, tee, corner, rule, notch = "     " if sheet.bare else "|++-+" if ascii else "│┤└─┬"
    shades = ASCII_SHADES if ascii else SHADES
    lines: list[list[Piece]] = []
    for row in range(sheet.rows):
        label = labels.get(row)
        line: list[Piece] = [
            (fit(label or "", left - 2, "right") + " " + (bar if label is None else tee), Shows.LABEL, -1, -1)
        ]
        upper, lower = sheet.levels[2 * row], sheet.levels[2 * row + 1]
        characters, shows = sheet.characters[row].copy(), sheet.shows[row].copy()
        ground = shows == Shows.GROUND
        if not filled or ascii:
            shaded = ground & (lower >= 0)
            characters[shaded] = np.array(list(shades))[lower[shaded]]
            upper = lower
        else:
            characters[ground & (upper != lower)] = "▀"
            upper = np.where(ground, upper, lower)
        if cursor is not None and cursor[0] == row:
            characters[cursor[1]], shows[cursor[1]] = "+" if ascii else "┼", Shows.CURSOR
        keys = np.stack([shows, upper, lower])
        cuts = [0, *(np.flatnonzero((np.diff(keys, axis=1) != 0).any(0)) + 1).tolist(), sheet.columns]
        for begin, end in itertools.pairwise(cuts):
            shown, top, bottom = keys[:, begin].tolist()
            line.append(("".join(characters[begin:end]), shown, top, bottom))
        lines.append(line)
    axis, numbers = x_axis(chart, rule, notch, "")
    lines.append([(" " * (left - 1) + corner + axis, Shows.LABEL, -1, -1)])
    lines.append([(" " * left + numbers, Shows.LABEL, -1, -1)])
    return lines


def axes_of(sheet: Sheet, ascii: bool, legibility: Legibility = DESK) -> Chart:
    """The ticks of a sheet, in the form of a chart."""
    window = sheet.window
    if sheet.bare:
        return Chart(sheet.characters, sheet.shows, window, (), ())
    across: Sequence[Tick] = ticks(window.left, window.right, legibility.labels(sheet.columns // 7), ascii=ascii)
    up: Sequence[Tick] = ticks(window.low, window.high, legibility.labels(sheet.rows // 4), window.log_y, ascii)
    return Chart(sheet.characters, sheet.shows, window, across, up)


# The colours of the ground: low is near the surface, so that paths are seen best where they end.

DARK_GROUND = [(0.19, 0.02, 265.0), (0.27, 0.06, 262.0), (0.36, 0.08, 250.0), (0.46, 0.09, 225.0)]
LIGHT_GROUND = [(0.975, 0.008, 100.0), (0.93, 0.03, 180.0), (0.86, 0.055, 215.0), (0.77, 0.08, 240.0)]
DARK_GROUND_256 = ["g01", "g01", "g03", "g03", "001", "001", "002", "011", "011", "012", "012", "022"]
LIGHT_GROUND_256 = ["555", "555", "455", "455", "355", "355", "345", "345", "245", "245", "234", "234"]


@cache
def ground(colours: Colours, dark: bool) -> tuple[RGB, ...] | None:
    """A background for each level; None where there are too few colours."""
    if colours == "truecolor":
        return tuple(smooth_ramp(DARK_GROUND if dark else LIGHT_GROUND, BANDS))
    if colours == "256":
        return tuple(cube(digits) for digits in (DARK_GROUND_256 if dark else LIGHT_GROUND_256))
    return None
