"""Curves over steps: axes, legend, smoothing, log scales, zoom, a cursor that reads values, the time line's step.

Notable: a chart is drawn to characters once per change (txlab/drawing/curve.py) and only lines that differ are sent. A
long series is drawn in a thread, and redrawing for new data is throttled to at most a twentieth of the time; key
presses are drawn immediately. Without colours, curves are distinguished by marks and dashes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, get_args

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from txlab.drawing import curve
from txlab.drawing.axis import Window
from txlab.drawing.palette import lines
from txlab.drawing.plot import (
    Furniture,
    Pieces,
    Role,
    as_curve,
    lines_of_legend,
    margin,
    plot_lines,
    room_for_ends,
    value_at,
)
from txlab.drawing.text import fit
from txlab.drawing.thinning import smooth
from txlab.tui.bindings import MOVING, bind
from txlab.tui.key_order import run_in_thread
from txlab.tui.widgets.painted import Painted
from txlab.tui.widgets.terminal import ink

AT_ONCE = 50_000  # up to this many points are drawn on the event loop: about 2 ms for 100 × 25 cells
SHARE = 20  # drawing may take 1 / SHARE of the time while data come in


@dataclass(frozen=True)
class ChartSeries:
    """A curve: `colour` is its index in the palette (None: its index in the list); `dim` is for dead branches and for
    curves shown only for comparison; `smoothed` says whether the chart's smoothing applies to it; a curve without a
    label is left out of the legend."""

    label: str
    steps: np.ndarray
    values: np.ndarray
    colour: int | None = None
    style: curve.Style = "line"
    dim: bool = False
    smoothed: bool = True


class Chart(Painted, can_focus=True):
    """See `set_series`. When focused, left and right move the cursor, z and Z zoom, < and > pan, escape resets both.

    The mouse wheel zooms at the pointer, a drag zooms into a range, a click places the cursor.
    """

    COMPONENT_CLASSES = {"chart--axis", "chart--unit", "chart--cursor", "chart--marker", "chart--dim"}
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("left", "cursor(-1)", "cursor left", id="chart.left", heading=MOVING),
        bind("right", "cursor(1)", "cursor right", id="chart.right", heading=MOVING),
        bind("shift+left", "cursor(-10)", "cursor far left", id="chart.far-left", heading=MOVING),
        bind("shift+right", "cursor(10)", "cursor far right", id="chart.far-right", heading=MOVING),
        bind("z,plus", "zoom(0.5)", "zoom in", id="chart.zoom-in", heading=MOVING),
        bind("Z,backspace", "zoom(2.0)", "zoom out", id="chart.zoom-out", heading=MOVING),
        bind("less_than_sign", "pan(-0.25)", "pan left", id="chart.pan-left", heading=MOVING),
        bind("greater_than_sign", "pan(0.25)", "pan right", id="chart.pan-right", heading=MOVING),
        bind("escape", "reset", "whole curve", id="chart.reset", heading=MOVING),
    ]
    DEFAULT_CSS = """
    Chart { width: 1fr; height: 1fr; }
    Chart > .chart--axis { color: $text-muted; }
    Chart > .chart--unit { color: $text-muted; }
    Chart > .chart--cursor { color: $foreground; text-style: bold; }
    Chart > .chart--marker { color: $accent; }
    Chart > .chart--dim { color: $text-muted 70%; }
    """

    smoothing: reactive[float] = reactive(0.0)
    """Span of the moving average in steps; 0 is none. The raw curve stays, faintly."""
    log_x: reactive[bool] = reactive(False)
    log_y: reactive[bool] = reactive(False)
    marker: reactive[int | None] = reactive(None)
    """The step of the time line; None for the live edge."""
    cursor: reactive[int | None] = reactive(None)
    """The step whose values the legend reads."""

    class CursorMoved(Message):
        """The cursor moved to another step, or was removed (None)."""

        def __init__(self, chart: Chart, step: int | None) -> None:
            super().__init__()
            self.chart, self.step = chart, step

        @property
        def control(self) -> Chart:
            return self.chart

    def __init__(self, waiting: str = "no numbers yet", id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.waiting, self.unit = waiting, ""
        self.across = "step"  # the unit of the x axis
        self.events: Sequence[tuple[int, str]] = ()  # (step, words) of the run's events
        self.series: tuple[ChartSeries, ...] = ()
        self.zoomed: tuple[float, float] | None = None
        self.chart: curve.Chart | None = None
        self.pieces: list[Pieces] = []
        self.above = 1  # lines above the plot
        self.right = 0  # cells right of it, for the names of curves
        self.roles: list[Role] = []  # of the drawn curves: the index of a series, or "dim"
        self.drag: tuple[int, int] | None = None
        self.drawing = self.again = self.postponed = False
        self.cost, self.drawn_at = 0.0, 0.0

    def set_series(self, series: Sequence[ChartSeries], unit: str = "", waiting: str | None = None) -> None:
        """Show these curves; `unit` is written above the y axis, `waiting` is shown while there is no data."""
        self.series, self.unit = tuple(series), unit
        self.waiting = self.waiting if waiting is None else waiting
        wait = self.drawn_at + SHARE * self.cost - time.monotonic()
        if wait <= 0 or self.cost < 0.01:
            self.redraw()
        elif not self.postponed:
            self.postponed = True
            self.set_timer(wait, self.after_waiting)

    def forget(self) -> None:
        """Show no curve, and neither cursor, mark nor zoom of the last one."""
        self.marker = self.cursor = self.zoomed = None
        self.series, self.events = (), ()
        self.redraw()

    def after_waiting(self) -> None:
        self.postponed = False
        self.redraw()

    # Drawing: curves to characters, here or in a thread; characters to lines, always on the event loop.

    def redraw(self) -> None:
        if not self.is_mounted or not self.size.width or not self.size.height:
            return
        if sum(len(each.steps) for each in self.series) <= AT_ONCE:
            self.take(*self.draw())
        elif self.drawing:
            self.again = True
        else:
            self.drawing = True
            run_in_thread(self, self.draw_in_thread, "chart", keys=False)

    def draw_in_thread(self) -> None:
        try:
            drawn = self.draw()
            self.app.call_from_thread(self.take, *drawn)
        finally:
            self.drawing = False
        if self.again:
            self.again = False
            self.app.call_from_thread(self.redraw)

    def draw(self) -> tuple[curve.Chart | None, list[Role], float]:
        """Return the chart for the current size, series and settings, the curves' roles, and the seconds it took."""
        begun = time.monotonic()
        bare = self.bare
        faint: list[tuple[curve.Curve, Role]] = []
        strong: list[tuple[curve.Curve, Role]] = []
        for index, each in enumerate(self.series):
            drawn = as_curve(each.label, each.steps, each.values, each.style)
            if each.dim:
                faint.append((drawn, "dim"))
            elif self.smoothing > 0 and each.smoothed:
                if not bare and not self.legibility.thick:
                    faint.append((drawn, "dim"))
                strong.append((replace(drawn, values=smooth(drawn.steps, drawn.values, self.smoothing)), index))
            else:
                strong.append((drawn, index))
        # The first series is the main one and is on top of the other lines. Dashed lines hide little, so they are on
        # top of all. Without colours the order is reversed: the others are then marks on the first.
        solid = [each for each in strong if each[0].style != "dashed"]
        dashed = [each for each in strong if each[0].style == "dashed"]
        strong = strong if bare else [*solid[::-1], *dashed]
        window = self.window([each for each, _ in [*faint, *strong]])
        chart = None
        if window is not None:
            named = [self.end_name(each.label, 0) for each in self.series if not each.dim and each.label]
            rows, ends = self.size.height - 3, self.legibility.ends and self.cursor is None
            self.right = room_for_ends(named, self.size.width, rows, self.ascii) if ends else 0
            furniture = Furniture(self.unit, legend=self.legend())
            legend = lines_of_legend(furniture, self.size.width, self.size.height, self.ascii)
            whole = self.size.width - self.right
            columns, rows = whole - 2, max(1, self.size.height - 2 - legend)
            draw = partial(curve.draw, window=window, ascii=self.ascii, legibility=self.legibility)
            for _ in range(2):  # the width of the y labels determines how many columns are left
                size = (max(1, columns), rows)
                chart = draw([each for each, _ in strong], *size, marks=bare)
                if chart is None or margin(chart) + columns == whole:
                    break
                columns = whole - margin(chart)
            below = draw([each for each, _ in faint], *size)
            if chart is not None and below is not None:
                chart = lay_over(chart, below, len(strong))
        return chart, [role for _, role in [*strong, *faint]], time.monotonic() - begun

    def window(self, curves: Sequence[curve.Curve]) -> Window | None:
        """Return the visible window: everything, or the zoomed range, as high as the curves in it."""
        left, right = self.zoomed or (None, None)
        window = curve.window_of(curves, self.log_x, self.log_y, left, right)
        if window is None and self.zoomed is not None:
            self.zoomed = None
            window = curve.window_of(curves, self.log_x, self.log_y)
        return window

    def take(self, chart: curve.Chart | None, roles: list[Role], cost: float) -> None:
        self.chart, self.roles, self.cost, self.drawn_at = chart, roles, cost, time.monotonic()
        self.compose_lines()

    def compose_lines(self) -> None:
        """Compose the current lines and redraw only those that differ from the screen."""
        old, ascii = self.pieces, self.ascii
        if self.chart is None:
            middle = max(0, self.size.height // 2 - 1)
            words = fit(self.waiting, self.size.width, "center", "~" if ascii else "…")
            self.pieces = [[] for _ in range(middle)] + [[(words, "unit")]]
        else:
            self.above = max(1, self.size.height - 2 - self.chart.characters.shape[0])
            furniture = Furniture(
                *(self.unit, self.cursor, self.marker, self.legend(), self.drag, self.across, self.events),
                *(min(2, self.above), self.ends(), self.right),
            )
            self.pieces = plot_lines(self.chart, furniture, ascii)[: self.size.height]
        self.refresh_changed(old, self.pieces)

    def ends(self) -> list[tuple[float, str, Role]]:
        """Return the last value in the window of each curve that has a name, and its place among those drawn."""
        found: list[tuple[float, str, Role]] = []
        if self.chart is None or not self.right:
            return found
        window = self.chart.window
        for place, role in enumerate(self.roles):
            each = self.series[role] if isinstance(role, int) and role < len(self.series) else None
            if each is not None and each.label:
                values = np.asarray(each.values, np.float64)
                if self.smoothing > 0 and each.smoothed:
                    values = smooth(each.steps, values, self.smoothing)
                inside = np.flatnonzero(np.isfinite(values) & (np.asarray(each.steps) <= window.right))
                if len(inside):
                    found.append((float(values[inside[-1]]), self.end_name(each.label, place), place))
        return found

    def end_name(self, label: str, place: int) -> str:
        """Return a label as it is written at the end of a curve: without what is said of it after a comma, and without
        colours with the mark of the curve."""
        name = label.partition(",")[0]
        return f"{self.mark(place)} {name}" if self.bare else name

    @property
    def bare(self) -> bool:
        """Whether curves are distinguished by marks instead of colours."""
        return self.colours == "none" or self.ascii

    def mark(self, place: int) -> str:
        known = curve.ASCII_MARKS if self.ascii else curve.MARKS
        return known[place % len(known)]

    def legend(self) -> list[tuple[str, str, Role, str]]:
        """Return the entries of the legend: of the curves that do not have their names at their ends."""
        if self.right:
            return []
        ascii, bare = self.ascii, self.bare
        names = dict(zip(get_args(curve.Style), self.legibility.strokes, strict=True))
        drawn = {role: place for place, role in enumerate(self.roles) if isinstance(role, int)}
        entries: list[tuple[str, str, Role, str]] = []
        for index, each in enumerate(self.series):
            if each.dim or not each.label:
                continue
            glyph = names[each.style]
            if bare and index in drawn:
                place = drawn[index]
                glyph = self.mark(place) * 2 if ascii or place else glyph
            value = value_at(each.steps, each.values, self.cursor) if self.cursor is not None else ""
            entries.append((glyph, each.label, index, value))
        return entries

    def role_style(self, role: Role) -> Style:
        """Return the style of a piece: a drawn curve (an index into `roles`) or a series in the legend."""
        if isinstance(role, int):
            each = self.series[role] if role < len(self.series) else None
            place = role if each is None or each.colour is None else each.colour
            known = lines(self.colours, self.dark)
            return ink(known[place % len(known)], self.surface) + Style(bold=self.legibility.thick)
        if role == "empty":
            return self.surface
        return self.part(role)

    def render_line(self, y: int) -> Strip:
        surface = self.surface
        if y >= len(self.pieces) or not self.size.width:
            return Strip.blank(self.size.width, surface)
        in_plot = self.chart is not None and 0 <= y - self.above < self.chart.characters.shape[0]
        segments = []
        for text, role in self.pieces[y]:
            if isinstance(role, int) and in_plot:
                role = self.roles[role] if role < len(self.roles) else "dim"
            segments.append(Segment(text, self.role_style(role)))
        return self.strip(segments)

    def on_resize(self) -> None:
        self.pieces = []
        self.redraw()
        self.refresh()

    def watch_smoothing(self) -> None:
        self.redraw()

    def watch_log_x(self) -> None:
        self.zoomed = None
        self.redraw()

    def watch_log_y(self) -> None:
        self.redraw()

    def watch_marker(self) -> None:
        if self.is_mounted:
            self.compose_lines()

    def watch_cursor(self, before: int | None, now: int | None) -> None:
        if self.is_mounted:
            if self.legibility.ends and (before is None) != (now is None):
                self.redraw()  # the names move between the ends and the legend
            self.compose_lines()
            self.post_message(self.CursorMoved(self, self.cursor))

    # Keys and mouse.

    def action_cursor(self, by: int) -> None:
        """Move the cursor by columns; the first key puts it at the marker, else at the right edge."""
        if self.chart is None:
            return
        columns = self.chart.characters.shape[1]
        if self.cursor is None or (column := self.chart.column_of(self.cursor)) is None:
            start = None if self.marker is None else self.chart.column_of(self.marker)
            column = columns - 1 if start is None else start
        else:
            column = max(0, min(columns - 1, column + by))
        self.cursor = round(self.chart.step_at(column))

    def action_zoom(self, factor: float) -> None:
        """Zoom to `factor` of the visible range, around the cursor if there is one; never beyond the whole curve."""
        centre = 0.5
        if self.chart is not None and self.cursor is not None:
            place = float(self.chart.window.across(self.cursor))
            centre = place if 0 <= place <= 1 else 0.5
        self.zoom_at(factor, centre)

    def zoom_at(self, factor: float, centre: float) -> None:
        if self.chart is not None:
            self.show_stretch(self.chart.window.zoom(factor, centre))

    def action_pan(self, part: float) -> None:
        """Pan by a fraction of the visible range, no further than the ends of the curve."""
        whole = self.whole()
        if self.chart is None or self.zoomed is None or whole is None:
            return
        window = self.chart.window
        least, most = float(window.across(whole.left)), float(window.across(whole.right)) - 1
        if least < most:
            self.show_stretch(window.move(min(max(part, least), most)))

    def whole(self) -> Window | None:
        """Return the window that holds all curves."""
        return curve.window_of([as_curve("", s.steps, s.values, s.style) for s in self.series], self.log_x, self.log_y)

    def show_stretch(self, window: Window) -> None:
        """Zoom to the range of a window, clipped to the data and at least two steps wide."""
        whole = self.whole()
        if whole is None:
            return
        left, right = max(window.left, whole.left), min(window.right, whole.right)
        if left <= whole.left and right >= whole.right:
            self.zoomed = None
        elif right - left >= 2:
            self.zoomed = (left, right)
        self.redraw()

    def action_reset(self) -> None:
        """Remove the cursor and show the whole curve."""
        self.cursor, self.zoomed = None, None
        self.redraw()

    def column_at(self, event: events.MouseEvent) -> int | None:
        """Return the column of the plot under the mouse."""
        if self.chart is None:
            return None
        column: int = event.x - self.gutter.left - margin(self.chart)
        return max(0, min(column, int(self.chart.characters.shape[1]) - 1))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        column = self.column_at(event)
        if column is not None and event.button == 1:
            self.capture_mouse()
            self.drag = (column, column)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        column = self.column_at(event)
        if self.drag is not None and column is not None:
            self.drag = (self.drag[0], column)
            self.compose_lines()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self.drag is None:
            return
        self.release_mouse()
        low, high = sorted(self.drag)
        self.drag = None
        if self.chart is None:
            return
        if high - low < 2:
            self.cursor = round(self.chart.step_at(low))
            self.compose_lines()
        else:
            left, right = self.chart.step_at(low), self.chart.step_at(high)
            self.show_stretch(replace(self.chart.window, left=left, right=right))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.wheel(event, 0.8)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.wheel(event, 1.25)

    def wheel(self, event: events.MouseEvent, factor: float) -> None:
        column = self.column_at(event)
        if self.chart is not None and column is not None:
            self.zoom_at(factor, (column + 0.5) / self.chart.characters.shape[1])


def lay_over(chart: curve.Chart, below: curve.Chart, first: int) -> curve.Chart:
    """Return `chart` with `below` in its empty cells; the curves of `below` are numbered from `first` on. So a smooth
    curve stays a thin line over its own noise: dots of both in one cell would share one colour."""
    empty = chart.series == -1
    return replace(
        chart,
        characters=np.where(empty, below.characters, chart.characters),
        series=np.where(empty & (below.series >= 0), below.series + first, chart.series).astype(np.int16),
        dropped=chart.dropped + below.dropped,
    )
