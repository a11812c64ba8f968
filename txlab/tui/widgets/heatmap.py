"""A heatmap with labels on both axes and a cursor: how strongly each position attends to the others.

Notable: it is built for speed, as measured: levels are uint8, each level's style is made once, equal neighbours form
one Segment, lines are cached and only the rows that differ are redrawn. A glyph on top of the colour keeps the heatmap
readable without colours. matrix.py defines the layout of the cells and the loaded window of a large matrix; the next
window is requested with `Wanted` before its edge comes into view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Region
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from txlab.drawing.formatting import share
from txlab.drawing.palette import Ramp, contrast, diverging, heat
from txlab.drawing.text import cut, fit, label, prefix, width
from txlab.tui.bindings import MOVING, bind
from txlab.tui.widgets.matrix import (
    MASKED,
    NEGATIVE,
    PENDING,
    SUM,
    UPRIGHT,
    WEIGHT,
    MatrixLayout,
    around,
    layout_of,
    window,
)
from txlab.tui.widgets.painted import Painted
from txlab.tui.widgets.terminal import ink


class Heatmap(Painted, can_focus=True):
    """Shows `values` (rows, columns) in [0, 1]; NaN and `masked` cells are blank. `cursor` is (row, column); `origin`
    is the first visible row and column."""

    numbers: reactive[bool] = reactive(False)
    """Print hundredths into the cells."""

    COMPONENT_CLASSES = {"heatmap--label", "heatmap--here", "heatmap--quiet"}
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("up", "move(-1, 0)", "up", id="heatmap.up", heading=MOVING),
        bind("down", "move(1, 0)", "down", id="heatmap.down", heading=MOVING),
        bind("left", "move(0, -1)", "left", id="heatmap.left", heading=MOVING),
        bind("right", "move(0, 1)", "right", id="heatmap.right", heading=MOVING),
        bind("pageup", "move(-8, 0)", "eight up", id="heatmap.page-up", heading=MOVING),
        bind("pagedown", "move(8, 0)", "eight down", id="heatmap.page-down", heading=MOVING),
        bind("home", "move(0, -9999)", "first column", id="heatmap.home", heading=MOVING),
        bind("end", "move(0, 9999)", "last column", id="heatmap.end", heading=MOVING),
    ]
    DEFAULT_CSS = """
    Heatmap { width: 1fr; height: 1fr; }
    Heatmap > .heatmap--label { color: $text-muted; }
    Heatmap > .heatmap--here { color: $accent; text-style: bold; }
    Heatmap > .heatmap--quiet { color: $text-muted; }
    """

    class CellMoved(Message):
        """The cursor moved to another cell."""

        def __init__(self, heatmap: Heatmap, row: int, column: int) -> None:
            super().__init__()
            self.heatmap, self.row, self.column = heatmap, row, column

        @property
        def control(self) -> Heatmap:
            return self.heatmap

    class Wanted(Message):
        """The view comes near the edge of the loaded window: a request for rows and columns (from, to)."""

        def __init__(self, heatmap: Heatmap, rows: tuple[int, int], columns: tuple[int, int]) -> None:
            super().__init__()
            self.heatmap, self.rows, self.columns = heatmap, rows, columns

        @property
        def control(self) -> Heatmap:
            return self.heatmap

    class CellAsked(CellMoved):
        """The cell was double-clicked: a request for its explanation."""

    def __init__(self, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.window = window(np.zeros((0, 0)), heat())
        self.rows: tuple[str, ...] = ()
        self.columns: tuple[str, ...] = ()
        self.cursor = self.gone_to = (0, 0)
        self.origin = (0, 0)
        self.asked: tuple[tuple[int, int], tuple[int, int]] | None = None
        self.planned = layout_of(1, 1, 0, 0, 1, 1)
        self.planned_for: tuple[object, ...] = ()
        self.strips: dict[int, Strip] = {}  # up-to-date lines of the widget
        self.inks: dict[int, Style] = {}  # by the code of a level
        self.inks_for: tuple[object, ...] = ()

    # Contents.

    def set_values(
        self,
        values: np.ndarray,
        rows: Sequence[str],
        columns: Sequence[str],
        masked: np.ndarray | None = None,
        sums: np.ndarray | None = None,
        *,
        at: tuple[int, int] = (0, 0),
        marks: Mapping[tuple[int, int], str] | None = None,
        signed: bool = False,
    ) -> None:
        """Show a matrix. `rows` and `columns` are all labels, raw (made visible here); `values` is the window from `at`
        on, by default the whole; `sums` (window's rows,) are shown at the right; `marks` are signs on single cells.
        `signed`: differences in [−1, 1], drawn by magnitude with a sign.

        The cursor is on the cell that it was moved to, or on the nearest existing one.
        """
        fresh, old = window(values, self.ramp(), at, masked, sums, marks, signed), self.window
        same = (tuple(rows), tuple(columns)) == (self.rows, self.columns)
        same = same and ((fresh.sums is None), signed) == ((old.sums is None), old.signed)
        self.asked = None
        if same:
            before = self.visible_state()
            self.window = fresh
            after = self.visible_state()
            self.redraw([row for row in after if before.get(row) != after[row]])
            return
        self.window = fresh
        self.rows, self.columns = tuple(rows), tuple(columns)
        self.cursor = self.nearest(*self.gone_to)
        self.follow_cursor()
        self.redraw(None)

    def expect(self, rows: Sequence[str], columns: Sequence[str]) -> None:
        """Prepare for another matrix with these labels: its layout is known, its values are not."""
        if (tuple(rows), tuple(columns)) != (self.rows, self.columns):
            self.set_values(np.zeros((0, 0), np.float32), rows, columns)

    def visible_state(self) -> dict[int, tuple[object, ...]]:
        """Return everything that the drawing of each visible row depends on."""
        shape, (top, left), now = self.plan(), self.origin, self.window
        rows: dict[int, tuple[object, ...]] = {}
        for row in range(top, top + shape.rows):
            levels = now.row(row, left, left + shape.columns)
            marks = tuple((place, sign) for place, sign in now.marks.items() if place[0] == row)
            total = None if now.sums is None else share(now.total(row))
            numbers: object = None
            if self.numbers:
                numbers = [round(100 * now.value(row, left + at)) for at in np.flatnonzero(levels < PENDING).tolist()]
            here = share(now.value(*self.cursor)) if row == self.cursor[0] else ""
            rows[row] = (levels.tobytes(), marks, total, numbers, here)
        return rows

    @property
    def values(self) -> np.ndarray:
        """The values of the loaded window."""
        return self.window.values

    @property
    def wanted(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The rows and columns (from, to) worth loading for the current view."""
        shape, (top, left) = self.plan(), self.origin
        return around(top, shape.rows, shape.all_rows), around(left, shape.columns, shape.all_columns)

    def row_values(self, row: int) -> np.ndarray:
        """Return all values of a row, NaN where masked; () unless the whole row is loaded."""
        return self.window.row_values(row, len(self.columns))

    def strongest(self, row: int) -> int:
        """Return the column with the largest value of a row, among those not masked; 0 if all are."""
        return self.window.strongest(row)

    def redraw(self, rows: Sequence[int] | np.ndarray | None) -> None:
        """Redraw these rows of the matrix, or everything for None."""
        if rows is None:
            self.strips.clear()
            self.refresh()
            return
        shape = self.plan()
        tall = shape.tall
        for row in rows:
            first = shape.header + (int(row) - self.origin[0]) * tall
            if shape.header <= first < self.size.height:
                for line in range(first, first + tall):
                    self.strips.pop(line, None)
                self.refresh(Region(self.gutter.left, self.gutter.top + first, self.size.width, tall))

    # Layout.

    def plan(self) -> MatrixLayout:
        """Return the layout for the current labels and size.

        The visible part of the matrix is decided here and nowhere else: a part chosen for another size, which may be
        replaced before a line is drawn, would be beyond the last row.
        """
        made_for = (self.rows, self.columns, self.window.sums is None, self.size, self.ascii)
        if made_for != self.planned_for:
            self.planned_for = made_for
            row_label, column_label = (
                max((width(label(text, self.ascii)) for text in labels), default=1)
                for labels in (self.rows, self.columns)
            )
            shape = (len(self.rows), len(self.columns), *self.size)
            self.planned = layout_of(row_label, column_label, *shape, sums=self.window.sums is not None)
            self.origin = self.planned.follow(self.origin, self.cursor)
            self.strips.clear()
            self.ask()
        return self.planned

    def follow_cursor(self) -> bool:
        """Move the view just far enough to contain the cursor; return whether it moved."""
        before = self.origin
        self.origin = self.plan().follow(self.origin, self.cursor)
        self.ask()
        return self.origin != before

    def ask(self) -> None:
        """Request another window unless the view and half of its surroundings are loaded."""
        if not self.rows or not self.columns:
            return
        shape, (top, left) = self.planned, self.origin
        near = around(top, shape.rows, shape.all_rows, 0.5), around(left, shape.columns, shape.all_columns, 0.5)
        if self.window.holds(*near) or not self.is_attached:
            return
        wanted = around(top, shape.rows, shape.all_rows), around(left, shape.columns, shape.all_columns)
        if wanted != self.asked:
            self.asked = wanted
            self.post_message(self.Wanted(self, *wanted))

    # The cursor.

    def action_move(self, down: int, right: int) -> None:
        self.move_to(self.cursor[0] + down, self.cursor[1] + right)

    def move_to(self, row: int, column: int) -> None:
        """Put the cursor on a cell (clipped into the matrix) and post `Moved`."""
        if not self.rows or not self.columns:
            return
        old = self.cursor
        self.cursor = self.gone_to = self.nearest(row, column)
        if self.cursor == old:
            return
        if self.follow_cursor():
            self.redraw(None)
        else:
            self.redraw([old[0], self.cursor[0]])
            if old[1] != self.cursor[1]:
                header = self.plan().header
                for line in range(header):
                    self.strips.pop(line, None)
                self.refresh(Region(self.gutter.left, self.gutter.top, self.size.width, header))
        self.post_message(self.CellMoved(self, *self.cursor))

    def nearest(self, row: int, column: int) -> tuple[int, int]:
        """Return the cell of the matrix that is nearest to this one."""
        return max(0, min(row, len(self.rows) - 1)), max(0, min(column, len(self.columns) - 1))

    def watch_numbers(self) -> None:
        self.redraw(None)

    def on_focus(self) -> None:
        self.redraw([self.cursor[0]])

    on_blur = on_focus

    def on_click(self, event: events.Click) -> None:
        place = event.get_content_offset(self)
        cell = self.plan().at(place.x, place.y, self.origin) if place is not None else None
        if cell is None:
            return
        self.move_to(*cell)
        if event.chain == 2:
            self.post_message(self.CellAsked(self, *cell))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.action_move(*((0, 1) if event.shift else (1, 0)))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.action_move(*((0, -1) if event.shift else (-1, 0)))

    # Drawing.

    @property
    def weight(self) -> float:
        """The value under the cursor; NaN where it is masked, not known yet, or there is none."""
        return self.window.value(*self.cursor)

    def ramp(self, code: int = 0) -> Ramp:
        """Return the ramp of a level's code: differences have one above zero and one below."""
        made_for = self.colours, self.dark, self.ascii
        return diverging(*made_for)[code >= NEGATIVE] if self.window.signed else heat(*made_for)

    def render_line(self, y: int) -> Strip:
        surface = self.surface
        made_for = (surface, self.colours, self.dark, self.ascii, self.size, self.window.signed)
        if made_for != self.inks_for:
            self.inks_for = made_for
            self.strips.clear()
            self.inks.clear()
            self.window = self.window.again(self.ramp())  # the number of levels depends on the ramp
        strip = self.strips.get(y)
        if strip is None:
            segments = self.draw_line(y) if self.size.width and self.size.height else []
            strip = self.strips[y] = Strip(segments).adjust_cell_length(self.size.width, surface)
        return strip

    def draw_line(self, y: int) -> list[Segment]:
        if not self.rows or not self.columns:
            return []
        shape = self.plan()
        if y < shape.header:
            return self.draw_header(y, shape)
        row, line = divmod(y - shape.header, shape.tall)
        return self.draw_row(self.origin[0] + row, line, shape) if row < shape.rows else []

    def draw_header(self, y: int, shape: MatrixLayout) -> list[Segment]:
        """Return a header line: column labels, horizontal or vertical; if not all are visible, their range is in the
        corner, or at the right where the corner is too narrow."""
        ascii = self.ascii
        plain = self.part("label")
        here = self.part("here")
        first = self.origin[1]
        corner = ""
        if y == 0 and shape.columns < shape.all_columns:
            corner = f"{'x' if ascii else '↔'}{first + 1}{'-' if ascii else '–'}{first + shape.columns}"
        elif y == shape.header - 1 and shape.rows < shape.all_rows:
            top = self.origin[0]
            corner = f"{'y' if ascii else '↕'}{top + 1}{'-' if ascii else '–'}{top + shape.rows}"
        beside = ""
        if width(corner) > shape.left - 1:
            corner, beside = "", corner
        segments = [Segment(fit(corner, shape.left, ellipsis=""), plain)]
        for column in range(first, first + shape.columns):
            text = label(self.columns[column], ascii)
            style = here if column == self.cursor[1] else plain
            if shape.upright:
                segments.append(Segment(fit(text, shape.wide - 1, ellipsis="") + " ", style))
            else:
                letters = downwards(text, shape.header)
                place = y - (shape.header - len(letters))
                segments.append(Segment(fit(letters[place] if place >= 0 else "", shape.wide), style))
        return [*segments, Segment(f" {beside}", plain)] if beside else segments

    def draw_row(self, row: int, line: int, shape: MatrixLayout) -> list[Segment]:
        """Return one line of a row; the middle line has its label, its numbers and the text at the right."""
        ascii = self.ascii
        on_cursor, middle = row == self.cursor[0], line == shape.middle
        label_style = self.part("here" if on_cursor else "label")
        mark = (">" if ascii else "▸") if on_cursor and middle else " "
        name = label(self.rows[row], ascii) if middle else ""
        name = f"{mark}{fit(name, shape.left - 3, 'right', '~' if ascii else '…')}  "
        segments = [Segment(name, label_style)]
        first, wide = self.origin[1], shape.wide
        levels = self.window.row(row, first, first + shape.columns)
        if self.numbers and middle:
            segments += [self.number_cell(row, first + i, level, wide) for i, level in enumerate(levels.tolist())]
        else:
            changes = np.flatnonzero(np.diff(levels)) + 1
            for begin, end in zip([0, *changes.tolist()], [*changes.tolist(), len(levels)], strict=True):
                segments.append(self.cells(int(levels[begin]), wide, end - begin, middle))
        if middle:
            for place, sign in self.window.marks.items():
                if place[0] == row and first <= place[1] < first + shape.columns:
                    here = Segment(fit(sign, wide, "center", ""), self.part("here"))
                    segments = replace_cell(segments, shape.left + (place[1] - first) * wide, here)
        if on_cursor and middle and first <= self.cursor[1] < first + shape.columns:
            segments = replace_cell(segments, shape.left + (self.cursor[1] - first) * wide, self.cursor_cell(wide))
        if middle and shape.trailer:
            segments += self.draw_trailer(row, on_cursor)
        return segments

    def cells(self, code: int, wide: int, count: int, middle: bool) -> Segment:
        """Return `count` cells of one level.

        A cell with almost no weight has one quiet dot; others have a texture, except where numbers are shown; the sign
        of a difference is in the middle of its cell.
        """
        if code >= PENDING:
            return Segment(" " * wide * count, self.surface)
        level = code % NEGATIVE
        fill, glyph = self.ramp(code).fill[level], self.ramp(code).glyphs[level]
        text = glyph * wide
        if level == 0:
            text = (glyph if middle else " ") + " " * (wide - 1)
        elif self.window.signed:
            sign = "-" if code >= NEGATIVE else "+"
            text = fit(sign if middle else "", wide, "center", "") if fill else sign * wide
        elif self.numbers and fill is not None:
            text = " " * wide
        readable = self.window.signed and level and fill is not None
        return Segment(
            text * count, ink(contrast(fill), self.surface, fill) if readable and fill else self.ink_of(code)
        )

    def ink_of(self, code: int) -> Style:
        """Return the style of a level, made once."""
        if code not in self.inks:
            ramp, level = self.ramp(code), code % NEGATIVE
            self.inks[code] = ink(ramp.ink[level], self.surface, ramp.fill[level])
        return self.inks[code]

    def number_cell(self, row: int, column: int, code: int, wide: int) -> Segment:
        """Return a cell with its value in hundredths; a dot for less than half a hundredth."""
        if code >= PENDING:
            return Segment(" " * wide, self.surface)
        hundredths = round(self.window.value(row, column) * 100)
        text = ("." if self.ascii else "·") if not hundredths else str(max(-99, min(hundredths, 100)))
        room = wide - (wide > 2)
        if len(text) > room:
            text = "1." if hundredths > 0 else "-"
        fill = self.ramp(code).fill[code % NEGATIVE]
        style = self.ink_of(code)
        if fill is not None and hundredths:
            style = ink(contrast(fill), self.surface, fill)
        return Segment(fit(text, room, "right") + " " * (wide - room), style)

    def cursor_cell(self, wide: int) -> Segment:
        """Return `[]`, with the weight in it where it fits."""
        weight = self.weight
        inside = " " * (wide - 2)
        if wide >= UPRIGHT and np.isfinite(weight):
            inside = fit(str(round(weight * 100)), wide - 2, "right" if wide < 6 else "center", "")
        mark = self.window.marks.get(self.cursor)
        if mark is not None and wide > 2 and not (weight > 0 and wide >= UPRIGHT):  # a cut edge has no weight to show
            inside = fit(mark, wide - 2, "center", "")
        code = self.window.level(*self.cursor)
        fill = None if code >= PENDING else self.ramp(code).fill[code % NEGATIVE]
        if fill is None:
            style = self.surface + Style(reverse=True, bold=True)
        else:
            style = ink(contrast(fill), self.surface, fill) + Style(bold=True)
        return Segment(cut(f"[{inside}]", wide), style)

    def draw_trailer(self, row: int, on_cursor: bool) -> list[Segment]:
        """Return the text at the right of a row: the weight under the cursor, or the sum of the row."""
        ascii = self.ascii
        if self.window.sums is not None and not on_cursor:
            text = f"{'sum' if ascii else 'Σ'} {share(self.window.total(row))}"
            return [Segment(fit(f"  {text}", SUM, ellipsis=""), self.part("quiet"))]
        if not on_cursor:
            return []
        masked = "mask" if self.window.level(*self.cursor) == MASKED else "..." if ascii else "…"
        weight = share(self.weight) if np.isfinite(self.weight) else masked
        arrow = self.window.marks.get(self.cursor, "←")
        text = f" {arrow} {weight}"
        return [Segment(fit(text, WEIGHT, ellipsis=""), self.part("here"))]


def replace_cell(segments: list[Segment], begin: int, cell: Segment) -> list[Segment]:
    """Return the line with `cell` replacing what is at column `begin`."""
    strip = Strip(segments)
    before, _, after = strip.divide([begin, begin + width(cell.text), strip.cell_length])
    return [*before, cell, *after]


def downwards(text: str, depth: int) -> list[str]:
    """Return the graphemes of a label for writing it vertically, at most `depth` of them; the mark of a leading space
    is left to the row labels.

    >>> downwards("·cats", 3)
    ['c', 'a', 't']
    """
    text = text[1:] if len(text) > 1 and text[0] in "·_" else text
    letters: list[str] = []
    while text and len(letters) < depth:
        letter = next((piece for size in (1, 2) if (piece := prefix(text, size))), text)
        letters.append(letter)
        text = text[len(letter) :]
    return letters
