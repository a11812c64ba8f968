"""The bottom line: the keys that work here, as many as fit, `^q quit` and `? help` always.

Notable: it is one widget with one cached line. A footer with a widget for each key is rebuilt whenever the focus
moves.
"""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding
from textual.strip import Strip
from textual.widget import Widget

LAST = ("app.quit", "screen.help")


class KeyLine(Widget, can_focus=False):
    """Shows the active bindings that have `show`; a click presses the key."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES = {"keyline--key", "keyline--word"}
    DEFAULT_CSS = """
    KeyLine { height: 1; }
    KeyLine > .keyline--key { color: $accent; text-style: bold; }
    KeyLine > .keyline--word { color: $quiet; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.places: list[tuple[int, int, str]] = []  # first column, end, key
        self.rows: list[tuple[str, str, str]] = []  # as last drawn

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.refresh())

    def shown(self) -> list[tuple[str, str, str]]:
        """Return (key, how it is written, what it does) for each action: the screen's own first, in order, quit and
        help last."""
        own = [binding.id for binding in type(self.screen).__dict__.get("BINDINGS", [])]
        said = getattr(self.screen, "word_for", None)
        rows: dict[str, tuple[str, str, str]] = {}
        places: dict[str, int] = {}
        last: dict[str | None, tuple[str, str, str]] = {}
        for key, active in self.screen.active_bindings.items():
            binding: Binding = active.binding
            if not binding.show or not binding.description or not active.enabled:
                continue
            word = said(binding) if said else binding.description
            if not word:  # it works, but is not worth a place here
                continue
            row = (key, binding.key_display or self.app.get_key_display(binding), word)
            if binding.id in LAST:
                last[binding.id] = row
            else:
                rows.setdefault(binding.action, row)
                places.setdefault(binding.action, own.index(binding.id) if binding.id in own else len(own))
        ends = [last[ident] for ident in LAST if ident in last]
        return [*(rows[action] for action in sorted(rows, key=places.__getitem__)), *ends]

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        key_style = self.get_component_rich_style("keyline--key")
        word_style = self.get_component_rich_style("keyline--word")
        plain: Style = self.rich_style
        rows = self.rows = self.shown() if y == 0 else []
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
            segments += [Segment(shown, key_style), Segment(" " + word, word_style), Segment("  ", plain)]
            column += length + 2
        return Strip(segments).adjust_cell_length(width, plain)

    def on_click(self, event: events.Click) -> None:
        for first, end, key in self.places:
            if first <= event.x < end:
                self.app.simulate_key(key)
