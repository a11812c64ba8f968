"""A heatmap with labels on both axes and a cursor: who looks at whom, and how much.

Notable: it follows the measured shape for dynamic pixels: levels as uint8, a style a level made once, equal neighbours
as one Segment, strips kept, and only the rows that differ drawn again. Over the colour lies a glyph, so that the
picture can be read without colours (heatmap_lines.py); where the cells lie: matrix.py.
Of a large matrix it holds a window (window.py), and asks for the next one with `Wanted` before its edge is seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message

from txlab.drawing.formatting import share
from txlab.drawing.text import label, width
from txlab.tui.widgets.heatmap_lines import HeatmapLines
from txlab.tui.widgets.matrix import Plan, plan
from txlab.tui.widgets.window import PENDING, around, window


class Heatmap(HeatmapLines, can_focus=True):
    """Shows `values` (rows, columns) in [0, 1]; NaN and `masked` cells are blank. Row r, column c is `cursor`."""

    COMPONENT_CLASSES = {"heatmap--label", "heatmap--here", "heatmap--quiet"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1, 0)", "up", id="heatmap.up", show=False),
        Binding("down", "move(1, 0)", "down", id="heatmap.down", show=False),
        Binding("left", "move(0, -1)", "left", id="heatmap.left", show=False),
        Binding("right", "move(0, 1)", "right", id="heatmap.right", show=False),
        Binding("pageup", "move(-8, 0)", "eight up", id="heatmap.page-up", show=False),
        Binding("pagedown", "move(8, 0)", "eight down", id="heatmap.page-down", show=False),
        Binding("home", "move(0, -9999)", "first column", id="heatmap.home", show=False),
        Binding("end", "move(0, 9999)", "last column", id="heatmap.end", show=False),
    ]
    DEFAULT_CSS = """
    Heatmap { width: 1fr; height: 1fr; }
    Heatmap > .heatmap--label { color: $text-muted; }
    Heatmap > .heatmap--here { color: $accent; text-style: bold; }
    Heatmap > .heatmap--quiet { color: $text-muted; }
    """

    class CursorMoved(Message):
        """The cursor is on another cell."""

        def __init__(self, heatmap: Heatmap, row: int, column: int) -> None:
            super().__init__()
            self.heatmap, self.row, self.column = heatmap, row, column

        @property
        def control(self) -> Heatmap:
            return self.heatmap

    class Wanted(Message):
        """The edge of the window in hand comes near: rows and columns (from, to) that are worth having."""

        def __init__(self, heatmap: Heatmap, rows: tuple[int, int], columns: tuple[int, int]) -> None:
            super().__init__()
            self.heatmap, self.rows, self.columns = heatmap, rows, columns

        @property
        def control(self) -> Heatmap:
            return self.heatmap

    class Selected(CursorMoved):
        """The cell was clicked twice: why is it so?"""

    def __init__(self, id: str | None = None, classes: str | None = None, waiting: str = "") -> None:
        super().__init__(id=id, classes=classes)
        self.waiting = waiting
        self.asked: tuple[tuple[int, int], tuple[int, int]] | None = None
        self.planned_for: tuple[object, ...] = ()
        self.planned = plan(1, 1, 0, 0, 1, 1)

    # What is shown.

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
        """`rows` and `columns` are all labels as they are (made visible here); `values` is the window from `at` on, by
        itself the whole; `sums` (window's rows,) stand at the right if given; `marks` are signs on single cells.
        `signed`: differences in [−1, 1], drawn by their size with a sign.

        The cursor stays where it is if that cell still exists.
        """
        fresh, old = window(values, self.ramp(), at, masked, sums, marks, signed), self.window
        same = (tuple(rows), tuple(columns)) == (self.rows, self.columns)
        same = same and ((fresh.sums is None), signed) == ((old.sums is None), old.signed)
        self.asked = None
        if same:
            before = self.seen()
            self.window = fresh
            after = self.seen()
            self.redraw([row for row in after if before.get(row) != after[row]])
            return
        self.window = fresh
        self.rows, self.columns = tuple(rows), tuple(columns)
        self.cursor = (min(self.cursor[0], max(0, len(rows) - 1)), min(self.cursor[1], max(0, len(columns) - 1)))
        self.follow_cursor()
        self.redraw(None)

    def expect(self, rows: Sequence[str], columns: Sequence[str]) -> None:
        """Another matrix will come, with these labels: nothing of it is known yet, but what of it will be seen."""
        if (tuple(rows), tuple(columns)) != (self.rows, self.columns):
            self.set_values(np.zeros((0, 0), np.float32), rows, columns)

    def seen(self) -> dict[int, tuple[object, ...]]:
        """All that the picture of each row depends on, for the rows that are seen."""
        shape, (top, left), now = self.plan(), self.origin, self.window
        found: dict[int, tuple[object, ...]] = {}
        for row in range(top, top + shape.rows):
            levels = now.row(row, left, left + shape.columns)
            marks = tuple((place, sign) for place, sign in now.marks.items() if place[0] == row)
            total = None if now.sums is None else share(now.total(row))
            numbers: object = None
            if self.numbers:
                numbers = [round(100 * now.value(row, left + at)) for at in np.flatnonzero(levels < PENDING).tolist()]
            here = share(now.value(*self.cursor)) if row == self.cursor[0] else ""
            found[row] = (levels.tobytes(), marks, total, numbers, here)
        return found

    def clear(self, waiting: str) -> None:
        """Nothing to show; `waiting` says for what it waits."""
        self.waiting = waiting
        self.window = window(np.zeros((0, 0)), self.ramp())
        self.rows = self.columns = ()
        self.asked = None
        self.redraw(None)

    @property
    def values(self) -> np.ndarray:
        """Of the window in hand."""
        return self.window.values

    @property
    def levels(self) -> np.ndarray:
        return self.window.levels

    @property
    def wanted(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The rows and columns (from, to) that are worth having for what is seen now."""
        shape, (top, left) = self.plan(), self.origin
        return around(top, shape.rows, shape.all_rows), around(left, shape.columns, shape.all_columns)

    def strongest(self, row: int) -> int:
        """The column with the largest value of a row, of those that are not masked; 0 where all are."""
        return self.window.strongest(row)

    def redraw(self, rows: Sequence[int] | np.ndarray | None) -> None:
        """Draw these rows of the matrix again, or everything."""
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

    # How it is laid out.

    def plan(self) -> Plan:
        """For the labels and the size of now.

        What is seen of the matrix is settled here and nowhere else: a part chosen for another size, which may come
        and go without a single line being drawn, would lie beyond the last row.
        """
        made_for = (self.rows, self.columns, self.window.sums is None, self.size, self.ascii)
        if made_for != self.planned_for:
            self.planned_for = made_for
            row_label, column_label = (
                max((width(label(text, self.ascii)) for text in labels), default=1)
                for labels in (self.rows, self.columns)
            )
            shape = (len(self.rows), len(self.columns), *self.size)
            self.planned = plan(row_label, column_label, *shape, sums=self.window.sums is not None)
            self.origin = self.planned.follow(self.origin, self.cursor)
            self.strips.clear()
            self.ask()
        return self.planned

    def follow_cursor(self) -> bool:
        """Move the view so far that the cursor is in it; whether it moved."""
        before = self.origin
        self.origin = self.plan().follow(self.origin, self.cursor)
        self.ask()
        return self.origin != before

    def ask(self) -> None:
        """For another window, if what is seen and half of what lies around it is not in hand."""
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
        """Put the cursor on a cell (clipped into the matrix) and say so."""
        if not self.rows or not self.columns:
            return
        old = self.cursor
        self.cursor = (max(0, min(row, len(self.rows) - 1)), max(0, min(column, len(self.columns) - 1)))
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
        self.post_message(self.CursorMoved(self, *self.cursor))

    def watch_numbers(self) -> None:
        self.redraw(None)

    def on_focus(self) -> None:
        self.redraw([self.cursor[0]])

    on_blur = on_focus

    def on_click(self, event: events.Click) -> None:
        place = event.get_content_offset(self)
        found = self.plan().at(place.x, place.y, self.origin) if place is not None else None
        if found is None:
            return
        self.move_to(*found)
        if event.chain == 2:
            self.post_message(self.Selected(self, *found))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.action_move(*((0, 1) if event.shift else (1, 0)))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.action_move(*((0, -1) if event.shift else (-1, 0)))
