"""The bottom line: the keys that work here, as many as fit, `^q quit` and `? help` always.

Notable: it is one widget with one cached line. A footer with a widget for each key is rebuilt whenever the focus
moves.
"""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from txlab.tui.bindings import active_keys

LAST = ("app.quit", "screen.help")


class KeyLine(Widget, can_focus=False):
    """Shows the active bindings that have `show`; a click presses the key."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES = {"keyline--key", "keyline--word", "keyline--glowing"}
    DEFAULT_CSS = """
    KeyLine { height: 1; }
    KeyLine > .keyline--key { color: $accent; text-style: bold; }
    KeyLine > .keyline--word { color: $quiet; }
    KeyLine > .keyline--glowing { color: $background; background: $accent; text-style: bold; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.places: list[tuple[int, int, str]] = []  # first column, end, key
        self.rows: list[tuple[str, str, str]] = []  # as last drawn
        self.glowing = ""  # the key that a lecture asks for; it comes first

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.refresh())

    def glow(self, key: str) -> None:
        if key != self.glowing:
            self.glowing = key
            self.refresh()

    def shown_keys(self) -> list[tuple[str, str, str]]:
        """Return (key, display text, description) for each action: the screen's own first, in order, quit and
        help last."""
        rows: dict[str, tuple[str, str, str]] = {}
        last: dict[str, tuple[str, str, str]] = {}
        keys = active_keys(self.screen)
        if (focused := self.screen.focused) is not None and focused.check_consume_key("a", "a"):  # letters are typed
            keys = [key for key in keys if not all(len(each) == 1 and each.isascii() for each in key.display.split())]
        for key in keys:
            if key.binding.key == self.glowing:  # has no label if another key is named for both
                rows[key.binding.action] = (self.glowing, key.display, key.label or key.sentence)
            elif key.binding.show and key.label:
                row = (key.binding.key, key.display, key.label)
                if key.binding.id in LAST:
                    last[key.binding.id] = row
                else:
                    rows.setdefault(key.binding.action, row)
        found = sorted(rows.values(), key=lambda row: row[0] != self.glowing)
        return [*found, *(last[ident] for ident in LAST if ident in last)]

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        key_style = self.get_component_rich_style("keyline--key")
        word_style = self.get_component_rich_style("keyline--word")
        glowing_style = self.get_component_rich_style("keyline--glowing")
        plain: Style = self.rich_style
        rows = self.rows = self.shown_keys() if y == 0 else []
        lengths = [cell_len(shown) + 1 + cell_len(word) for _, shown, word in rows]
        last = sum(length + 2 for length in lengths[-len(LAST) :])
        segments = [Segment(" ", plain)]
        column = 1
        self.places = []
        for index, ((key, shown, word), length) in enumerate(zip(rows, lengths, strict=True)):
            final = index >= len(rows) - len(LAST)
            if not final and column + length + 2 + last > width:
                continue
            self.places.append((column, column + length, key))
            if key == self.glowing:
                segments += [Segment(f"{shown} {word}", glowing_style), Segment("  ", plain)]
            else:
                segments += [Segment(shown, key_style), Segment(" " + word, word_style), Segment("  ", plain)]
            column += length + 2
        return Strip(segments).adjust_cell_length(width, plain)

    def on_click(self, event: events.Click) -> None:
        for first, end, key in self.places:
            if first <= event.x < end:
                self.app.simulate_key(key)
