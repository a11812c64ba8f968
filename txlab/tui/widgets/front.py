"""A screen in front of another one, which stays behind it: dim, and as it was when the question was asked.

Notable: Textual tints what is behind a modal segment by segment at every change, 20 ms for 120 × 40 cells. Here the
picture is taken once, with one look-up a style, and a run that goes on behind a question sends nothing to the terminal.
"""

from __future__ import annotations

from typing import Any, TypeVar

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.color import Color
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual
from textual.widget import Widget

from txlab.tui.widgets.settled import Settled

Answer = TypeVar("Answer")


class Behind(Visual):
    """Lines of a screen as they were."""

    def __init__(self, strips: list[Strip]) -> None:
        self.strips = strips

    def render_strips(self, width: int, height: int | None, style: Style, options: RenderOptions) -> list[Strip]:
        return self.strips if height is None else self.strips[:height]

    def get_optimal_width(self, rules: Any, container_width: int) -> int:
        return container_width

    def get_height(self, rules: Any, width: int) -> int:
        return len(self.strips)


class Front(ModalScreen[Answer], Settled[Answer]):
    """A modal screen whose background is drawn once for each size and theme."""

    # A dialog looks the same at every size; one that does not says so.
    HORIZONTAL_BREAKPOINTS: list[tuple[int, str]] | None = []
    VERTICAL_BREAKPOINTS: list[tuple[int, str]] | None = []
    behind: Behind | None = None
    taken: tuple[object, ...] = ()

    def render(self) -> Any:
        drawn = super().render()
        if not isinstance(drawn, BackgroundScreen):
            return drawn
        now = (self.app.size, self.app.theme, drawn.screen)
        if self.behind is None or now != self.taken:
            strips = [dimmed(strip, drawn.color, {}) for strip in drawn.screen._compositor.render_strips()]
            self.behind, self.taken = Behind(strips), now
        return self.behind

    def on_screen_suspend(self) -> None:
        """Let go of the picture of what was behind; and, unless it is kept, of all that was painted: Textual keeps the
        style caches of up to a thousand widgets that are no more (it remembers a method's results, and with them whose
        they are), 5 000 objects for each dialog that was opened."""
        self.behind = None
        if self.app.is_screen_installed(self):
            return
        for widget in self.walk_children(Widget, with_self=True):
            for each in (widget, *widget._get_virtual_dom()):  # the bars at its sides
                each._styles_cache.clear()


def dimmed(strip: Strip, tint: Color, known: dict[RichStyle, RichStyle]) -> Strip:
    """A line with every colour mixed with `tint`; `known` remembers what became of a style."""
    segments = []
    for text, style, _ in strip:
        style = style or RichStyle.null()
        if style not in known:
            known[style] = style.clear_meta_and_links() + RichStyle.from_color(
                mixed(style.color, tint), mixed(style.bgcolor, tint)
            )
        segments.append(Segment(text, known[style]))
    return Strip(Segment.simplify(segments), strip.cell_length)


def mixed(colour: RichColor | None, tint: Color) -> RichColor | None:
    return (Color.from_rich_color(colour) + tint).rich_color if colour is not None else None
