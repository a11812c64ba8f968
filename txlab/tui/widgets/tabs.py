"""A line of tabs; the chosen one determines the content below it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from textual import events
from textual.message import Message
from textual.strip import Strip

from txlab.drawing.text import width
from txlab.tui.widgets.painted import Painted


class TabLine(Painted, can_focus=False):
    """`heads  switched 2  lens  direct`: a click chooses; the screen binds the keys."""

    COMPONENT_CLASSES = {"tabline--word", "tabline--here"}
    DEFAULT_CSS = """
    TabLine { height: 1; width: 1fr; }
    TabLine > .tabline--word { color: $text-muted; }
    TabLine > .tabline--here { color: $accent; text-style: bold underline; }
    """

    class Chosen(Message):
        """Another tab was clicked."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.tabs: tuple[tuple[str, str], ...] = ()
        self.chosen = ""
        self.places: list[tuple[int, int, str]] = []

    def set_tabs(self, tabs: Sequence[tuple[str, str]], chosen: str) -> None:
        """Show these tabs, each as (name, text)."""
        now = (tuple(tabs), chosen)
        if now != (self.tabs, self.chosen):
            self.tabs, self.chosen = now
            self.refresh()

    def fitting(self) -> tuple[slice, int]:
        """Return the slice of tabs that fit, the chosen one among them, and the gap between them."""
        size, many = self.size.width, len(self.tabs)
        for gap in (2, 1):
            if sum(width(word) + gap for _, word in self.tabs) - gap <= size:
                return slice(0, many), gap
        here = next((at for at, (name, _) in enumerate(self.tabs) if name == self.chosen), 0)
        first, last = here, here + 1
        room = size - width(self.tabs[here][1]) - 4 if self.tabs else 0  # for a mark at either side
        while first and (room := room - width(self.tabs[first - 1][1]) - 1) >= 0:
            first -= 1
        while last < many and (room := room - width(self.tabs[last][1]) - 1) >= 0:
            last += 1
        return slice(first, last), 1

    def render_line(self, y: int) -> Strip:
        """Draw the tabs; if not all fit, a mark at either end stands for hidden ones."""
        segments: list[Segment] = []
        self.places = []
        column = 0
        seen, gap = self.fitting()
        words = [(name, word, "here" if name == self.chosen else "word") for name, word in self.tabs[seen]]
        before, after = ("<", ">") if self.ascii else ("‹", "›")
        if seen.start:
            words.insert(0, (self.tabs[seen.start - 1][0], before, "word"))
        if seen.stop < len(self.tabs):
            words.append((self.tabs[seen.stop][0], after, "word"))
        for name, word, part in words:
            segments += [Segment(word, self.part(part)), Segment(" " * gap, self.surface)]
            self.places.append((column, column + width(word), name))
            column += width(word) + gap
        return self.strip(segments)

    def on_click(self, event: events.Click) -> None:
        for first, end, name in self.places:
            if first <= event.x < end:
                self.post_message(self.Chosen(name))
