"""Curves as characters: braille dots, eight to a cell, quadrants, four to a cell, or ASCII marks.

Nothing here depends on colours. A chart is an array of characters and an array with the curve each belongs to; a widget
colours it, a shell prints it. 100 000 points become a 100 × 25 chart in about 2 ms (benchmarks/scale.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from txlab.drawing.axis import Floats, Tick, Window, ticks
from txlab.drawing.legibility import DESK, Dash, Legibility
from txlab.drawing.thinning import decimate, smooth

Style = Literal["line", "dashed", "points"]
Integers = npt.NDArray[np.int64]
Bits = npt.NDArray[np.bool_]

DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], np.uint32)  # Unicode: Braille Patterns
QUADRANTS = np.array(list(" ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"))  # bits 1, 2: above; 4, 8: below
ASCII_MARKS = "*+ox#@%&$=~^?!"
MARKS = "•+×○□△◇●■▲◆▽"
"""One for each curve of a chart: three learners of the Arena have twelve, with their bands."""


@dataclass(frozen=True)
class Curve:
    """A curve: `steps` ascending, `values` of the same length; a non-finite value is a gap in the line."""

    name: str
    steps: npt.NDArray[Any]
    values: npt.NDArray[Any]
    style: Style = "line"


@dataclass(frozen=True)
class Chart:
    """A drawing of (rows, columns) cells.

    characters  (rows, columns) of one character each, " " if empty
    series      (rows, columns) int16: the curve a cell belongs to (the topmost, i.e. the last in the list), −1 none
    window      the visible range
    dropped     the number of points that a logarithmic axis cannot show, because they are not positive
    """

    characters: npt.NDArray[np.str_]
    series: npt.NDArray[np.int16]
    window: Window
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    dropped: int = 0
    names: Sequence[str] = field(default_factory=tuple)

    def step_at(self, column: float) -> float:
        """Return the step in the middle of a column."""
        return self.window.x_at((column + 0.5) / self.characters.shape[1])

    def column_of(self, step: float) -> int | None:
        """Return the column of a step; None if it is not in the window."""
        place = float(self.window.across(step))
        return int(min(place, 1 - 1e-12) * self.characters.shape[1]) if 0 <= place <= 1 else None

    def row_of(self, value: float) -> int | None:
        """Return the row of a value, 0 at the top; None if it is not in the window."""
        place, rows = float(self.window.up(value)), self.characters.shape[0]
        return rows - 1 - int(min(place, 1 - 1e-12) * rows) if 0 <= place <= 1 else None


def window_of(
    curves: Sequence[Curve],
    log_x: bool = False,
    log_y: bool = False,
    left: float | None = None,
    right: float | None = None,
) -> Window | None:
    """Return the window that holds every finite point between left and right; None if there is none."""
    ranges: list[tuple[float, float, float, float]] = []
    for curve in curves:
        steps, values = np.asarray(curve.steps), np.asarray(curve.values, np.float64)
        begin = 0 if left is None else int(np.searchsorted(steps, left, "left"))
        end = len(steps) if right is None else int(np.searchsorted(steps, right, "right"))
        if log_x:
            begin = max(begin, int(np.searchsorted(steps, 0, "right")))
        steps, values = steps[begin:end], values[begin:end]
        shown = np.isfinite(values) if not log_y else np.isfinite(values) & (values >= TINY)
        if shown.any():
            first, last = int(shown.argmax()), len(shown) - 1 - int(shown[::-1].argmax())
            low = float(values.min(where=shown, initial=np.inf))
            high = float(values.max(where=shown, initial=-np.inf))
            ranges.append((float(steps[first]), float(steps[last]), low, high))
    if not ranges:
        return None
    starts, stops, lows, highs = zip(*ranges, strict=True)
    left, right = (min(starts) if left is None else left), (max(stops) if right is None else right)
    if left == right and not log_x:  # a single step, which an axis counts from 0
        left, right = (min(left, 0.0), max(right, 0.0)) if left else (0.0, 1.0)
    left, right = apart(left, right, log_x)
    low, high = apart(min(lows), max(highs), log_y)
    return Window(left, right, low, high, log_x, log_y)


def without_the_beginning(curves: Sequence[Curve], share: float = 0.1) -> Window | None:
    """Return the window of all steps, with the height of the points after the first `share` of them.

    For curves that start far off (the returns of an untrained learner) and would otherwise be flat along one edge.
    """
    whole = window_of(curves)
    if whole is None:
        return None
    rest = window_of(curves, left=whole.left + share * (whole.right - whole.left), right=whole.right)
    return whole if rest is None else replace(whole, low=rest.low, high=rest.high)


TINY = 1e-300  # smaller numbers count as 0: below 2.2e-308 they lose digits, and their halves underflow


def apart(low: float, high: float, log: bool) -> tuple[float, float]:
    """Return two bounds that differ, widened around the value if they are equal."""
    if log:
        low, high = max(low, TINY), max(high, TINY)
        return (low, high) if low < high else (low / 2, low * 2)
    if high / 2 - low / 2 > TINY:
        return low, high
    margin = abs(low) / 2 if abs(low) > TINY else 0.5
    return low - margin, low + margin


def trace(xs: Floats, ys: Floats, rows: int, columns: int, style: Style, legibility: Legibility = DESK) -> Bits:
    """Return the dots of one curve on a grid of (rows, columns); xs and ys in dots, NaN = gap, row 0 at the bottom."""
    grid = np.zeros((rows, columns), np.bool_)
    finite = np.isfinite(xs) & np.isfinite(ys)
    x, y = np.rint(np.where(finite, xs, -9)).astype(np.int64), np.rint(np.clip(np.where(finite, ys, -9), -2, rows + 1))
    y = y.astype(np.int64)

    def put(px: Integers, py: Integers) -> None:
        inside = (px >= 0) & (px < columns) & (py >= 0) & (py < rows)
        grid[py[inside], px[inside]] = True

    shown = far_apart(x, finite, legibility.apart) if style == "points" else finite
    joined = finite[1:] & finite[:-1]
    if style == "dashed":  # its points would fill the gaps, except those that are joined to no other
        shown = finite & ~np.append(joined, False) & ~np.insert(joined, 0, False)
    put(x[shown], y[shown])
    if style == "points" or len(x) < 2:
        return grid
    x0, y0, x1, y1 = x[:-1][joined], y[:-1][joined], x[1:][joined], y[1:][joined]
    length = np.maximum(np.maximum(abs(x1 - x0), abs(y1 - y0)), 1)
    which = np.repeat(np.arange(len(length)), length)
    along = (np.arange(len(which)) - np.repeat(np.cumsum(length) - length, length)) / length[which]
    px = np.rint(x0[which] + (x1 - x0)[which] * along).astype(np.int64)
    py = np.rint(y0[which] + (y1 - y0)[which] * along).astype(np.int64)
    if style == "dashed":
        seen = dashes(px, py, legibility.dash)
        px, py = px[seen], py[seen]
    put(px, py)
    return grid


def dashes(x: Integers, y: Integers, dash: Dash) -> Bits:
    """Return which dots of a line are drawn if it is dashed, by the way along it: a dash is as long on a slope, and a
    line that goes up and down within a column has gaps too."""
    way = np.maximum(abs(np.diff(x, prepend=x[:1])), abs(np.diff(y, prepend=y[:1])))
    seen: Bits = np.cumsum(way) % sum(dash) < dash.drawn
    return seen


def far_apart(x: Integers, finite: Bits, least: int) -> Bits:
    """Return which points to draw so that two have at least this distance across, in dots; 0 = all."""
    if not least:
        return finite
    kept, last = np.zeros_like(finite), -least
    for at in np.flatnonzero(finite).tolist():
        if x[at] - last >= least:
            kept[at], last = True, int(x[at])
    return kept


def signs_of(grid: Bits, legibility: Legibility = DESK) -> npt.NDArray[np.str_]:
    """Turn dots (4 · rows, 2 · columns), row 0 at the top, into (rows, columns) characters; " " if empty."""
    if not legibility.thick:
        return braille(grid)
    halves = cells_of(grid[::2] | grid[1::2], 2)
    signs: npt.NDArray[np.str_] = QUADRANTS[(halves * [[1, 2], [4, 8]]).sum(axis=(2, 3))]
    return signs


def thicken(grid: Bits, legibility: Legibility) -> Bits:
    """Return the dots of a line that is as wide as high: a quadrant is half as wide, so each also fills the next."""
    if legibility.thick:
        grid = grid.copy()
        grid[:, 1:] |= grid[:, :-1]
    return grid


def cells_of(grid: Bits, down: int = 4) -> Bits:
    """Return dots by cell: (rows, columns, down, 2)."""
    rows, columns = grid.shape[0] // down, grid.shape[1] // 2
    return grid.reshape(rows, down, columns, 2).transpose(0, 2, 1, 3)


def braille(grid: Bits) -> npt.NDArray[np.str_]:
    """Turn dots (4 · rows, 2 · columns), row 0 at the top, into (rows, columns) braille characters; " " if empty."""
    codes = (cells_of(grid) * DOTS).sum(axis=(2, 3)).astype(np.uint32)
    return np.where(codes > 0, codes + 0x2800, 0x20).astype(np.uint32).view("<U1").reshape(codes.shape)


def draw(
    curves: Sequence[Curve],
    columns: int,
    rows: int,
    *,
    window: Window | None = None,
    log_x: bool = False,
    log_y: bool = False,
    smoothing: float = 0.0,
    ascii: bool = False,
    marks: bool = False,
    legibility: Legibility = DESK,
) -> Chart | None:
    """Draw a chart of `columns` × `rows` cells; None if there is nothing to show.

    `window` zooms (its log flags then apply); without it everything is shown. `smoothing` is the span of `smooth`, in
    steps. `ascii` draws each curve with its own mark at the resolution of cells; `marks` does so for all curves but the
    first, so that they can be distinguished without colours. `legibility` is the size of the dots.
    """
    if smoothing > 0:
        curves = [smooth_curve(curve, smoothing) for curve in curves]
    if window is None:
        window = window_of(curves, log_x, log_y)
    columns, rows = max(columns, 1), max(rows, 1)
    if window is None:
        return None
    dots = np.zeros((rows * 4, columns * 2), np.bool_)
    characters = np.full((rows, columns), " ", "<U1")
    owner = np.full((rows, columns), -1, np.int16)
    dropped = 0
    for index, curve in enumerate(curves):
        coarse = ascii or (marks and index > 0)
        height, breadth = (rows, columns) if coarse else (rows * 4, columns * 2)
        steps, values = visible_part(curve, window, breadth)
        dropped += unshowable(curve, window)
        xs, ys = window.across(steps) * (breadth - 1), window.up(values) * (height - 1)
        grid = trace(xs, ys, height, breadth, curve.style, legibility)[::-1]
        if coarse:
            known = ASCII_MARKS if ascii else MARKS
            characters[grid] = known[index % len(known)]
            owner[grid] = index
            dots[np.repeat(np.repeat(grid, 4, 0), 2, 1)] = False
        else:
            grid = thicken(grid, legibility)
            if legibility.thick:  # a wide line of one colour has none of the dots of those below it in its cells
                dots[np.repeat(np.repeat(cells_of(grid).any((2, 3)), 4, 0), 2, 1)] = False
            dots |= grid
            owner[cells_of(grid).any((2, 3))] = index
    drawn = signs_of(dots, legibility)
    characters = np.where((drawn != " ") & (characters == " "), drawn, characters)
    return Chart(
        characters,
        owner,
        window,
        ticks(
            *(window.left, window.right, legibility.labels(columns // 12), window.log_x, ascii),
            whole=all(bool((np.asarray(curve.steps) == np.rint(curve.steps)).all()) for curve in curves),
        ),
        ticks(window.low, window.high, legibility.labels(rows * 2 // 5), window.log_y, ascii),
        dropped,
        [curve.name for curve in curves],
    )


def smooth_curve(curve: Curve, span: float) -> Curve:
    """Return the smoothed curve; a curve drawn as points is never smoothed."""
    return curve if curve.style == "points" else replace(curve, values=smooth(curve.steps, curve.values, span))


def visible_part(curve: Curve, window: Window, columns: int) -> tuple[Floats, Floats]:
    """Return the thinned points in the window, and the nearest one beyond each side, so that lines reach the edge."""
    steps, values = np.asarray(curve.steps), np.asarray(curve.values, np.float64)
    begin, end = int(np.searchsorted(steps, window.left, "left")), int(np.searchsorted(steps, window.right, "right"))
    xs, ys = decimate(steps, values, columns, window.left, window.right, window.log_x)
    if curve.style == "points":
        return xs, ys
    for outside, inside, edge in ((begin - 1, begin, window.left), (end, end - 1, window.right)):
        if not (0 <= outside < len(steps) and 0 <= inside < len(steps)):
            continue
        (a, b), (at, there) = window.across(steps[[outside, inside]]), (values[outside], values[inside])
        here = float(window.across(edge))
        if not np.isfinite([a, b, at, there]).all() or a == b:
            continue
        height = window.up([at, there])
        crossing = window.y_at(float(height[0] + (height[1] - height[0]) * (here - a) / (b - a)))
        xs = np.append(xs, edge) if outside >= end else np.insert(xs, 0, edge)
        ys = np.append(ys, crossing) if outside >= end else np.insert(ys, 0, crossing)
    return xs, ys


def unshowable(curve: Curve, window: Window) -> int:
    """Return the number of points that a logarithmic axis cannot show."""
    bad = np.zeros(len(curve.steps), np.bool_)
    if window.log_x:
        bad |= np.asarray(curve.steps) <= 0
    if window.log_y:
        bad |= np.asarray(curve.values, np.float64) < TINY
    return int(bad.sum())
