"""How a heatmap is drawn: its header, its rows, the cells of a window, the cursor and what stands at the right.

Notable: a line is a few Segments, one for each run of equal cells, and is kept until something in it differs. What is
drawn is settled by the plan (matrix.py) and the window in hand (window.py); nothing here changes either.
"""

from __future__ import annotations

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual.reactive import reactive
from textual.strip import Strip

from txlab.drawing.formatting import share
from txlab.drawing.palette import Ramp, contrast, heat
from txlab.drawing.text import cut, fit, label, width
from txlab.tui.theme import plain_signs
from txlab.tui.widgets.matrix import SUM, UPRIGHT, WEIGHT, Plan
from txlab.tui.widgets.painted import Painted
from txlab.tui.widgets.terminal import ink
from txlab.tui.widgets.window import MASKED, NEGATIVE, PENDING, window


class HeatmapLines(Painted):
    """The lines of a matrix: labels `rows` and `columns`, the `window` in hand, the `cursor`, and from which row and
    column on (`origin`) it is seen."""

    numbers: reactive[bool] = reactive(False)
    """Print hundredths into the cells."""

    def __init__(self, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.waiting = ""
        self.window = window(np.zeros((0, 0)), heat())
        self.rows: tuple[str, ...] = ()
        self.columns: tuple[str, ...] = ()
        self.cursor = (0, 0)
        self.origin = (0, 0)
        self.strips: dict[int, Strip] = {}  # of the lines of the widget that are up to date
        self.made_for: tuple[object, ...] = ()
        self.inks: list[Style] = []

    def plan(self) -> Plan:
        """Where the cells lie, for the labels and the size of now."""
        raise NotImplementedError

    @property
    def weight(self) -> float:
        """The value under the cursor; NaN where it is masked, not known yet, or there is none."""
        return self.window.value(*self.cursor)

    def ramp(self) -> Ramp:
        return heat(self.colours, self.dark, self.ascii)

    def render_line(self, y: int) -> Strip:
        surface = self.surface
        made_for = (surface, self.colours, self.dark, self.ascii, self.size)
        if made_for != self.made_for:
            self.made_for = made_for
            self.strips.clear()
            ramp = self.ramp()
            self.inks = [ink(i, surface, f) for i, f in zip(ramp.ink, ramp.fill, strict=True)]
            self.window = self.window.again(ramp)  # another ramp has another number of levels
        strip = self.strips.get(y)
        if strip is None:
            segments = self.draw_line(y) if self.size.width and self.size.height else []
            strip = self.strips[y] = Strip(segments).adjust_cell_length(self.size.width, surface)
        return strip

    def draw_line(self, y: int) -> list[Segment]:
        quiet = self.part("quiet")
        if not self.rows or not self.columns:
            middle = max(0, self.size.height // 2 - 1)
            words = fit(self.waiting, self.size.width, "center", "~" if self.ascii else "…")
            return [Segment(words, quiet)] if y == middle else []
        shape = self.plan()
        if y < shape.header:
            return self.draw_header(y, shape)
        row, line = divmod(y - shape.header, shape.tall)
        return self.draw_row(self.origin[0] + row, line, shape) if row < shape.rows else []

    def draw_header(self, y: int, shape: Plan) -> list[Segment]:
        """The labels of the columns, along the line or downwards; which of them are seen, if not all, in the corner,
        or at the right where the corner is too narrow."""
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

    def draw_row(self, row: int, line: int, shape: Plan) -> list[Segment]:
        """A line of a row; the middle one has its label, its numbers and what stands at the right."""
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
                    here = Segment(fit(plain_signs(sign, ascii), wide, "center", ""), self.part("here"))
                    segments = replaced(segments, shape.left + (place[1] - first) * wide, here)
        if on_cursor and middle and first <= self.cursor[1] < first + shape.columns:
            segments = replaced(segments, shape.left + (self.cursor[1] - first) * wide, self.cursor_cell(wide))
        if middle and shape.trailer:
            segments += self.draw_trailer(row, on_cursor)
        return segments

    def cells(self, code: int, wide: int, count: int, middle: bool) -> Segment:
        """`count` cells of one level.

        One quiet dot a cell where there is almost nothing; a texture where there is something, but for numbers, which
        say it themselves; the sign of a difference in the middle of its cell.
        """
        if code >= PENDING:
            return Segment(" " * wide * count, self.surface)
        level = code % NEGATIVE
        glyph = self.ramp().glyphs[level]
        text = glyph * wide
        if level == 0:
            text = (glyph if middle else " ") + " " * (wide - 1)
        elif self.window.signed:
            sign = "-" if code >= NEGATIVE else "+"
            text = fit(sign if middle else "", wide, "center", "") if self.ramp().fill[level] else sign * wide
        elif self.numbers and self.ramp().fill[level] is not None:
            text = " " * wide
        fill = self.ramp().fill[level]
        readable = self.window.signed and level and fill is not None
        return Segment(text * count, ink(contrast(fill), self.surface, fill) if readable and fill else self.inks[level])

    def number_cell(self, row: int, column: int, code: int, wide: int) -> Segment:
        """Hundredths in a cell; a dot for what is less than half of one."""
        if code >= PENDING:
            return Segment(" " * wide, self.surface)
        level = code % NEGATIVE
        hundredths = round(self.window.value(row, column) * 100)
        text = ("." if self.ascii else "·") if not hundredths else str(max(-99, min(hundredths, 100)))
        room = wide - (wide > 2)
        if len(text) > room:
            text = "1." if hundredths > 0 else text[:room]
        fill = self.ramp().fill[level]
        style = self.inks[level]
        if fill is not None and hundredths:
            style = ink(contrast(fill), self.surface, fill)
        return Segment(fit(text, room, "right") + " " * (wide - room), style)

    def cursor_cell(self, wide: int) -> Segment:
        """`[]`, with the weight in it where there is room."""
        weight = self.weight
        inside = " " * (wide - 2)
        if wide >= UPRIGHT and np.isfinite(weight):
            inside = fit(str(round(weight * 100)), wide - 2, "right" if wide < 6 else "center", "")
        mark = self.window.marks.get(self.cursor)
        if mark is not None and wide > 2 and not (weight > 0 and wide >= UPRIGHT):  # a cut edge has no weight to show
            inside = fit(plain_signs(mark, self.ascii), wide - 2, "center", "")
        code = self.window.level(*self.cursor)
        fill = None if code >= PENDING else self.ramp().fill[code % NEGATIVE]
        if fill is None:
            style = self.surface + Style(reverse=True, bold=True)
        else:
            style = ink(contrast(fill), self.surface, fill) + Style(bold=True)
        return Segment(cut(f"[{inside}]", wide), style)

    def draw_trailer(self, row: int, on_cursor: bool) -> list[Segment]:
        """At the right of a row: the weight under the cursor, or the sum of what is shown."""
        ascii = self.ascii
        if self.window.sums is not None and not on_cursor:
            text = f"{'sum' if ascii else 'Σ'} {share(self.window.total(row))}"
            return [Segment(fit(f"  {text}", SUM, ellipsis=""), self.part("quiet"))]
        if not on_cursor:
            return []
        masked = "mask" if self.window.level(*self.cursor) == MASKED else "..." if ascii else "…"
        weight = share(self.weight) if np.isfinite(self.weight) else masked
        arrow = self.window.marks.get(self.cursor, "←")
        text = f" {plain_signs(arrow, ascii) if arrow != '←' else '<-' if ascii else arrow} {weight}"
        return [Segment(fit(text, WEIGHT, ellipsis=""), self.part("here"))]


def replaced(segments: list[Segment], begin: int, cell: Segment) -> list[Segment]:
    """A line with `cell` in the place of what stands at column `begin`."""
    strip = Strip(segments)
    before, _, after = strip.divide([begin, begin + width(cell.text), strip.cell_length])
    return [*before, cell, *after]


def downwards(text: str, depth: int) -> list[str]:
    """The graphemes of a label one below the other, at most `depth` of them; the mark of a leading space is left to
    the labels of the rows.

    >>> downwards("·cats", 3)
    ['c', 'a', 't']
    """
    text = text[1:] if len(text) > 1 and text[0] in "·_" else text
    letters: list[str] = []
    while text and len(letters) < depth:
        letter = next((piece for size in (1, 2) if (piece := cut(text, size))), text)
        letters.append(letter)
        text = text[len(letter) :]
    return letters
