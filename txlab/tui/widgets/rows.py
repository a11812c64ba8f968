"""A scrollable list whose rows are drawn only when visible, so that a thousand cost as much as twenty.

Notable: the selected row is marked by a sign and by weight, not by a band of colour. Rows are drawn as pairs of text
and style name; the text must be safe to show.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Input

from txlab.tui.bindings import MOVING, bind

StyleName = Literal["plain", "strong", "quiet", "accent", "good", "error", "heading"]
Line = Sequence[tuple[str, StyleName]]


@dataclass(frozen=True)
class Item:
    """An entry of the list: `key` identifies it (None = a heading, which cannot be selected), `height` is in lines."""

    key: str | None
    text: str = ""
    height: int = 1


class Rows(ScrollView, can_focus=True):
    """`draw(item, width, chosen)` returns the lines of an item; `Highlighted` and `Chosen` report user actions."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"rows--{name}" for name in ("plain", "strong", "quiet", "accent", "good", "error", "heading")
    }
    DEFAULT_CSS = """
    Rows { height: 1fr; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0; }
    Rows > .rows--plain { color: $foreground; }
    Rows > .rows--strong { color: $foreground; text-style: bold; }
    Rows > .rows--quiet { color: $quiet; }
    Rows > .rows--accent { color: $accent; text-style: bold; }
    Rows > .rows--good { color: $success; }
    Rows > .rows--error { color: $error; }
    Rows > .rows--heading { color: $quiet; text-style: italic; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("up,k", "move(-1)", "up", id="list.up", heading=MOVING),
        bind("down,j", "move(1)", "down", id="list.down", heading=MOVING),
        bind("pageup", "page(-1)", "page up", id="list.page-up", heading=MOVING),
        bind("pagedown", "page(1)", "page down", id="list.page-down", heading=MOVING),
        bind("home", "edge(0)", "first", id="list.first", heading=MOVING),
        bind("end", "edge(-1)", "last", id="list.last", heading=MOVING),
    ]

    class Highlighted(Message):
        """The cursor is on another row."""

        def __init__(self, rows: Rows, key: str | None) -> None:
            super().__init__()
            self.rows, self.key = rows, key

        @property
        def control(self) -> Rows:
            return self.rows

    class Chosen(Highlighted):
        """The row was clicked a second time (enter is a binding of the screen)."""

    def __init__(
        self, draw: Callable[[Item, int, bool], Sequence[Line]], empty: str = "", id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self.draw, self.empty = draw, empty
        self.items: list[Item] = []
        self.tops: list[int] = []
        self.key: str | None = None
        self.lines: dict[int, list[Strip]] = {}

    def set_items(self, items: Sequence[Item]) -> None:
        """Replace the items; the selection stays on its key, or moves to the first selectable item."""
        before = self.key
        self.items = list(items)
        self.tops, top = [], 0
        for item in self.items:
            self.tops.append(top)
            top += item.height
        keys = self.selectable()
        if self.key not in keys:
            self.key = keys[0] if keys else None
        self.virtual_size = Size(0, top)
        self.redraw()
        if self.key != before:
            self.post_message(self.Highlighted(self, self.key))

    def redraw(self) -> None:
        """Redraw all rows."""
        self.lines.clear()
        self.refresh()

    def redraw_items(self, keys: set[str]) -> None:
        """Redraw these rows only: only their lines go to the terminal."""
        for index, item in enumerate(self.items):
            if item.key in keys:  # cached or not: Textual may keep lines on the screen that are no longer cached here
                self.lines.pop(index, None)
                self.refresh(self._region(index))

    def selectable(self) -> list[str]:
        return [item.key for item in self.items if item.key is not None]

    def visible_keys(self) -> list[str]:
        """Return the keys of the rows in view."""
        top = self.scroll_offset.y
        first = max(0, bisect_right(self.tops, top) - 1)
        last = bisect_right(self.tops, top + max(1, self.size.height) - 1)
        return [item.key for item in self.items[first:last] if item.key is not None]

    def select(self, key: str) -> None:
        if key == self.key or key not in self.selectable():
            return
        before, self.key = self.key, key
        self.redraw_items({key, before or ""})
        self.show_selected()
        self.post_message(self.Highlighted(self, key))

    def _index(self) -> int:
        return next((i for i, item in enumerate(self.items) if item.key == self.key and item.key is not None), 0)

    def _region(self, index: int) -> Region:
        return Region(0, self.tops[index] - self.scroll_offset.y, self.size.width, self.items[index].height)

    def show_selected(self) -> None:
        """Scroll to the selected row, including the headings above it if it is the first."""
        if not self.items:
            return
        index = self._index()
        if self.key == next(iter(self.selectable()), None):
            index_top, height = 0, self.tops[index] + self.items[index].height
        else:
            index_top, height = self.tops[index], self.items[index].height
        self.scroll_to_region(Region(0, index_top, 1, height), animate=False, force=True)

    def action_move(self, by: int) -> None:
        keys = self.selectable()
        if keys:
            at = keys.index(self.key) if self.key in keys else 0
            self.select(keys[max(0, min(at + by, len(keys) - 1))])

    def action_page(self, by: int) -> None:
        height = self.items[0].height if self.items else 1
        self.action_move(by * max(1, self.size.height // max(height, 1) - 1))

    def action_edge(self, at: int) -> None:
        if keys := self.selectable():
            self.select(keys[at])

    def on_click(self, event: events.Click) -> None:
        at = bisect_right(self.tops, event.y + self.scroll_offset.y) - 1
        if 0 <= at < len(self.items) and (key := self.items[at].key) is not None:
            if event.y + self.scroll_offset.y >= self.tops[at] + self.items[at].height:
                return
            if key == self.key:
                self.post_message(self.Chosen(self, key))
            else:
                self.select(key)

    def on_focus(self) -> None:
        self.redraw()

    def on_blur(self) -> None:
        self.redraw()

    def on_resize(self) -> None:
        self.redraw()
        self.call_after_refresh(self.show_selected)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.lines.clear()

    @property
    def room(self) -> int:
        """Cells of a row: there is a blank cell before the scrollbar."""
        return self.scrollable_content_region.width - self.show_vertical_scrollbar

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        y += self.scroll_offset.y
        at = bisect_right(self.tops, y) - 1
        if not self.items:
            text = self.empty if y == 0 else ""
            return self._strip([(text, "quiet")], width)
        if at < 0 or y >= self.tops[at] + self.items[at].height:
            return self._strip([], width)
        if at not in self.lines:
            item = self.items[at]
            chosen = item.key is not None and item.key == self.key
            drawn = list(self.draw(item, self.room, chosen))
            self.lines[at] = [self._strip(line, width) for line in drawn]
        lines = self.lines[at]
        row = y - self.tops[at]
        return lines[row] if row < len(lines) else self._strip([], width)

    def _strip(self, line: Line, width: int) -> Strip:
        styles = {style: self.get_component_rich_style(f"rows--{style}") for _, style in line}
        segments = [Segment(text, styles[style]) for text, style in line if text]
        return Strip(segments).adjust_cell_length(width, self.get_component_rich_style("rows--plain"))


class Filter(Input):
    """One line above a list, `rows`; the arrows and enter move on to it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape", "clear", "clear the filter", id="filter.clear"),
        bind("down,enter", "leave", "to the list", id="filter.leave"),
    ]

    def __init__(self, rows: Rows, placeholder: str, id: str) -> None:
        super().__init__(placeholder=placeholder, id=id, classes="filter")
        self.rows = rows

    def action_clear(self) -> None:
        self.value = ""
        self.action_leave()

    def action_leave(self) -> None:
        self.rows.focus()

    @property
    def words(self) -> list[str]:
        return self.value.lower().split()
