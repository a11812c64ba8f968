"""A table of text: a heading, scrolling rows, right-aligned numbers.

Only visible rows are drawn; where space is short, the columns at the right are left out, the first one is shortened,
and a number is never cut. The heading is drawn only above a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.strip import Strip

from txlab.drawing.text import fit, formula, width
from txlab.tui.bindings import MOVING, bind
from txlab.tui.widgets.painted import Painted

GAP = 2
LEAST = 6  # minimum width of the first column, in cells


@dataclass(frozen=True)
class Column:
    """`right` aligns numbers to the right; `plain` uses the quiet colour."""

    title: str
    right: bool = True
    quiet: bool = False


class Table(Painted, can_focus=True):
    """`set_table(columns, rows)`: cells are visible text; `marked` rows are highlighted (the next merge, the chosen
    one).

    When focused, up and down choose a row (`cursor`)."""

    COMPONENT_CLASSES = {"table--title", "table--cell", "table--quiet", "table--here", "table--marked"}
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("up", "move(-1)", "row up", id="table.up", heading=MOVING),
        bind("down", "move(1)", "row down", id="table.down", heading=MOVING),
        bind("pageup", "page(-1)", "page up", id="table.page-up", heading=MOVING),
        bind("pagedown", "page(1)", "page down", id="table.page-down", heading=MOVING),
        bind("home", "move(-1000000)", "first row", id="table.home", heading=MOVING),
        bind("end", "move(1000000)", "last row", id="table.end", heading=MOVING),
    ]
    DEFAULT_CSS = """
    Table { width: 1fr; height: auto; color: $foreground; }
    Table > .table--title { color: $text-muted; }
    Table > .table--cell { color: $foreground; }
    Table > .table--quiet { color: $text-muted; }
    Table > .table--here { color: $accent; text-style: bold; }
    Table > .table--marked { color: $accent; }
    """

    class Chosen(Message):
        """The cursor moved to another row."""

        def __init__(self, table: Table, row: int) -> None:
            super().__init__()
            self.table, self.row = table, row

        @property
        def control(self) -> Table:
            return self.table

    def __init__(self, id: str | None = None, waiting: str = "") -> None:
        super().__init__(id=id)
        self.columns: tuple[Column, ...] = ()
        self.rows: tuple[tuple[str, ...], ...] = ()
        self.marked: frozenset[int] = frozenset()
        self.waiting = waiting
        self.cursor = self.top = 0
        self.widths: list[int] = []

    def set_table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]], marked: Sequence[int] = ()) -> None:
        cells = tuple(tuple(row) for row in rows)
        now = (tuple(columns), cells, frozenset(marked))
        if now == (self.columns, self.rows, self.marked):
            return
        resized = (len(cells), bool(columns)) != (len(self.rows), bool(self.columns))
        self.columns, self.rows, self.marked = now
        self.widths = [
            max([width(self.cell_text(column.title)), *(width(self.cell_text(row[at])) for row in cells)])
            for at, column in enumerate(self.columns)
        ]
        self.cursor = max(0, min(self.cursor, len(cells) - 1))
        self.keep_in_view()
        self.refresh(layout=resized)

    def cell_text(self, text: str) -> str:
        return formula(text, True) if self.ascii and not text.isascii() else text

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return 1 + len(self.rows)

    @property
    def room(self) -> int:
        """The number of visible rows."""
        return max(1, self.size.height - 1)

    @property
    def headed(self) -> bool:
        """Whether there is room for the heading above a row."""
        return self.size.height > 1

    def keep_in_view(self) -> None:
        self.top = max(0, min(self.top, self.cursor, len(self.rows) - self.room))
        if self.cursor >= self.top + self.room:
            self.top = self.cursor - self.room + 1

    def action_move(self, by: int) -> None:
        self.choose(self.cursor + by)

    def action_page(self, by: int) -> None:
        self.choose(self.cursor + by * self.room)

    def choose(self, row: int) -> None:
        row = max(0, min(row, len(self.rows) - 1))
        if self.rows and row != self.cursor:
            self.cursor = row
            self.keep_in_view()
            self.refresh()
            self.post_message(self.Chosen(self, row))

    def on_resize(self) -> None:
        self.keep_in_view()

    def on_focus(self) -> None:
        self.refresh()

    on_blur = on_focus

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None and self.headed <= offset.y < len(self.rows) - self.top + self.headed:
            self.choose(self.top + offset.y - self.headed)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.top = max(0, self.top - 3)
        self.refresh()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.top = max(0, min(self.top + 3, len(self.rows) - self.room))
        self.refresh()

    def shares(self) -> list[int]:
        """Return the widths of the columns that fit: the widest text is shortened first, numbers never are."""
        size = self.size.width - 2
        kept = list(self.widths)
        least = [min(cells, LEAST) if not self.columns[at].right else cells for at, cells in enumerate(kept)]
        while len(kept) > 1 and sum(least[: len(kept)]) + GAP * (len(kept) - 1) > size:
            kept.pop()
        while kept and (over := sum(kept) + GAP * (len(kept) - 1) - size) > 0:
            texts = [at for at in range(len(kept)) if not self.columns[at].right and kept[at] > 1] or [0]
            widest = max(texts, key=lambda at: kept[at])
            next_widest = max((kept[at] for at in texts if at != widest), default=1)
            kept[widest] = max(1, kept[widest] - min(over, max(1, kept[widest] - next_widest)))
            if kept == [1] * len(kept):
                break
        return kept

    def render_line(self, y: int) -> Strip:
        size, surface = self.size.width, self.surface
        if size <= 0 or not self.columns or not self.rows:
            words = (
                fit(self.cell_text(self.waiting), max(0, size), ellipsis="~" if self.ascii else "…") if not y else ""
            )
            return Strip([Segment(words, self.part("quiet"))]).adjust_cell_length(max(0, size), surface)
        y += 1 - self.headed
        at = self.top + y - 1
        if y and at >= len(self.rows):
            return Strip.blank(size, surface)
        row = self.rows[at] if y else tuple(column.title for column in self.columns)
        here = bool(y) and self.has_focus and at == self.cursor
        mark = (">" if self.ascii else "▸") if here else " "
        segments = [Segment(mark, self.part("here"))]
        for number, cells in enumerate(self.shares()):
            column = self.columns[number]
            part = "title" if not y else "here" if here else "marked" if at in self.marked else "cell"
            if part == "cell" and column.quiet:
                part = "quiet"
            text = fit(
                self.cell_text(row[number]), cells, "right" if column.right else "left", "~" if self.ascii else "…"
            )
            segments += [Segment(" " * GAP if number else "", surface), Segment(text, self.part(part))]
        return self.strip(segments)
