"""A scrolling text: a page of Content with its own scroll bar in the last column.

Notable: a container with a text in it causes a new layout of the whole screen whenever the height of the text changes
(15 ms at 120 × 40); a page that wraps and scrolls its text itself only draws its own lines.
"""

from __future__ import annotations

from rich.segment import Segment
from textual import events
from textual.content import Content
from textual.message import Message
from textual.strip import Strip
from textual.visual import Visual

from txlab.tui.widgets.painted import Painted

BESIDE = 2  # columns to the right of the text: a blank one and the scroll bar


class Page(Painted, can_focus=False):
    """`say(content)` shows another text; `scroll_lines(by)` moves through it."""

    COMPONENT_CLASSES = {"page--bar", "page--rest"}
    DEFAULT_CSS = """
    Page { width: 1fr; height: 1fr; color: $foreground; }
    Page > .page--bar { color: $rule; }
    Page > .page--rest { color: $foreground; }
    """
    MOST = 84
    """The longest line; longer ones are hard to read."""

    class Widened(Message):
        """The width available to the text has changed: a text that was folded for it must be folded again."""

        def __init__(self, page: Page) -> None:
            super().__init__()
            self.page = page

        @property
        def control(self) -> Page:
            return self.page

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.text = Content("")
        self.strips: list[Strip] = []
        self.top = 0
        self.folded_at = self.announced = -1

    @property
    def cells(self) -> int:
        """The width available to the text."""
        return max(1, min(self.MOST, (self.size.width or self.MOST + BESIDE) - BESIDE))

    def on_resize(self) -> None:
        if self.announced != self.cells:
            self.announced = self.cells
            self.post_message(self.Widened(self))

    def say(self, text: Content | str, home: bool = False) -> None:
        """Show a text; `home` scrolls to its first line, for a text about something else."""
        content = Content(text) if isinstance(text, str) else text
        if home:
            self.top = 0
        if content == self.text and content.spans == self.text.spans and not home:
            return
        before, self.text, self.folded_at = list(self.lines()), content, -1
        seen = range(self.size.height)
        self.refresh_changed([self.line(before, y) for y in seen], [self.line(self.lines(), y) for y in seen])

    def lines(self) -> list[Strip]:
        """The text wrapped to the current width."""
        if self.folded_at != self.cells and self.is_attached:
            self.folded_at = self.cells
            self.strips = Visual.to_strips(self, self.text, self.cells, None, self.visual_style, apply_selection=False)
            self.top = max(0, min(self.top, len(self.strips) - self.size.height))
        return self.strips

    def line(self, lines: list[Strip], y: int) -> list[Segment]:
        """Return visible line `y` with its piece of the scroll bar."""
        at, height, width, surface = self.top + y, self.size.height, self.size.width, self.surface
        text = lines[at] if at < len(lines) else Strip([])
        segments = list(text.adjust_cell_length(max(0, width - 1), surface))
        bar = Segment(" ", surface)
        if len(lines) > height > 0:
            long = max(1, round(height * height / len(lines)))
            first = round((height - long) * self.top / (len(lines) - height))
            if first <= y < first + long:
                bar = Segment("|" if self.ascii else "▐", self.part("bar"))
        return [*segments, bar]

    def render_line(self, y: int) -> Strip:
        return Strip(self.line(self.lines(), y), self.size.width)

    @property
    def overflows(self) -> bool:
        return len(self.lines()) > self.size.height

    def scroll_lines(self, by: int) -> None:
        top = max(0, min(self.top + by, len(self.lines()) - self.size.height))
        if top != self.top:
            self.top = top
            self.refresh()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.folded_at = -1

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_lines(-3)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_lines(3)
