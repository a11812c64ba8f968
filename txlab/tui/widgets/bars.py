"""Labelled bars: the candidates for the next token and their probabilities.

The length of a bar is proportional to its value, not relative to the longest bar, so that a flat distribution looks
flat; eighths of a cell keep small differences visible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.strip import Strip

from txlab.drawing.formatting import plain, share
from txlab.drawing.spark import bar
from txlab.drawing.text import fit, label, width
from txlab.tui.bindings import MOVING, bind
from txlab.tui.widgets.painted import Painted

MOVED = 0.02  # a larger change of a probability is highlighted


class Bars(Painted, can_focus=True):
    """A title, then a line for each (label, value in [0, 1]); when focused, up and down choose one (`cursor`)."""

    COMPONENT_CLASSES = {"bars--title", "bars--label", "bars--value", "bars--bar", "bars--here"}
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("up", "move(-1)", "up", id="bars.up", heading=MOVING),
        bind("down", "move(1)", "down", id="bars.down", heading=MOVING),
    ]
    DEFAULT_CSS = """
    Bars { width: 1fr; height: auto; }
    Bars > .bars--title { color: $text-muted; }
    Bars > .bars--label { color: $foreground; }
    Bars > .bars--value { color: $foreground; text-style: bold; }
    Bars > .bars--bar { color: $secondary; }
    Bars > .bars--here { color: $accent; text-style: bold; }
    """

    def __init__(self, title: str = "", id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.heading = title
        self.bars: tuple[tuple[str, float], ...] = ()
        self.before: tuple[float, ...] = ()
        self.marked = -1
        self.cursor = 0

    def set_bars(
        self, title: str, bars: Sequence[tuple[str, float]], before: Sequence[float] = (), marked: int = -1
    ) -> None:
        """Show these bars. Labels are raw tokens, made visible here; the title is shown as it is. `before` holds the
        values before a change, shown in front of the new ones; the bar `marked` is highlighted, with or without the
        focus.
        """
        shown = tuple((text, float(value)) for text, value in bars)
        was = tuple(before) if len(before) == len(shown) else ()
        if (title, shown, was, marked) == (self.heading, self.bars, self.before, self.marked):
            return
        resized = len(shown) != len(self.bars)
        self.heading, self.bars, self.before, self.marked = title, shown, was, marked
        self.cursor = max(0, min(self.cursor, len(shown) - 1))
        self.refresh(layout=resized)

    def action_move(self, by: int) -> None:
        self.cursor = max(0, min(self.cursor + by, min(len(self.bars), self.size.height - 1) - 1))  # the visible ones
        self.refresh()

    def on_focus(self) -> None:
        self.refresh()

    on_blur = on_focus

    def on_click(self, event: events.Click) -> None:
        place = event.get_content_offset(self)
        if place is not None and 0 < place.y <= len(self.bars):
            self.cursor = place.y - 1
            self.refresh()

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return 1 + len(self.bars)

    def render_line(self, y: int) -> Strip:
        size, surface, ascii = self.size.width, self.surface, self.ascii
        ellipsis = "~" if ascii else "…"
        if y == 0:
            title = self.part("title")
            return Strip([Segment(fit(self.heading, size, ellipsis=ellipsis), title)], size)
        if y > len(self.bars) or size <= 0:
            return Strip.blank(size, surface)
        text, value = self.bars[y - 1]
        here = y - 1 == self.marked or (self.has_focus and y - 1 == self.cursor)
        numbers = 12 if self.before else 5  # `.31 → .08 `
        longest = max(width(label(each, ascii)) for each, _ in self.bars)
        room = max(1, min(longest, size - numbers - (9 if size > 24 else 2)))
        style = {part: self.part(part) for part in ("title", "label", "value", "bar", "here")}
        mark = (">" if ascii else "▸") if here else " "
        segments = [
            Segment(mark, style["here"]),
            Segment(fit(label(text, ascii), room, ellipsis=ellipsis), style["here" if here else "label"]),
            Segment(" ", surface),
        ]
        if self.before:
            arrow = "->" if ascii else "→ "
            segments.append(Segment(f"{fit(plain(share(self.before[y - 1])), 4, 'right')} {arrow}", style["title"]))
        moved = bool(self.before) and abs(value - self.before[y - 1]) >= MOVED
        cells = max(0, size - room - numbers - 2)
        drawn = bar(value, cells, ascii)
        segments += [
            Segment(fit(plain(share(value)), 4, "right"), style["here" if moved else "value"]),
            Segment(" ", surface),
            Segment(drawn, style["bar"]),
        ]
        if self.before and cells:  # the length of the bar before the change
            reach = round(max(0.0, min(1.0, self.before[y - 1])) * cells)
            segments.append(Segment(("." if ascii else "·") * max(0, reach - width(drawn)), style["title"]))
        return self.strip(segments)
