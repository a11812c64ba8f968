"""A line of words, one of which is chosen: what stands below it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from textual import events
from textual.message import Message
from textual.strip import Strip

from txlab.drawing.text import width
from txlab.tui.widgets.painted import Painted


class TabLine(Painted, can_focus=False):
    """`heads  switched 2  lens  direct`: a click chooses; keys are the screen's."""

    COMPONENT_CLASSES = {"tabline--word", "tabline--here"}
    DEFAULT_CSS = """
    TabLine { height: 1; width: 1fr; }
    TabLine > .tabline--word { color: $text-muted; }
    TabLine > .tabline--here { color: $accent; text-style: bold underline; }
    """

    class Chosen(Message):
        """Another word was clicked."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.tabs: tuple[tuple[str, str], ...] = ()
        self.chosen = ""
        self.places: list[tuple[int, int, str]] = []

    def set_tabs(self, tabs: Sequence[tuple[str, str]], chosen: str) -> None:
        """(name, how it is written) of each."""
        now = (tuple(tabs), chosen)
        if now != (self.tabs, self.chosen):
            self.tabs, self.chosen = now
            self.refresh()

    def render_line(self, y: int) -> Strip:
        segments: list[Segment] = []
        self.places = []
        column = 0
        gap = 2 if sum(width(word) + 2 for _, word in self.tabs) <= self.size.width + 2 else 1
        for name, word in self.tabs:
            segments += [Segment(word, self.part("here" if name == self.chosen else "word"))]
            segments.append(Segment(" " * gap, self.surface))
            self.places.append((column, column + width(word), name))
            column += width(word) + gap
        return Strip(segments).adjust_cell_length(self.size.width, self.surface)

    def on_click(self, event: events.Click) -> None:
        for first, end, name in self.places:
            if first <= event.x < end:
                self.post_message(self.Chosen(name))
