"""A screen that lays itself out once for each size, and paints as a whole only when it has to.

Notable: Textual lays a new screen out when it comes to the front, again when it hears the size it has just been given
(with every screen behind it), and again when it comes back; it paints all of it each time, and at every move of the
focus too. At 120 × 40 each of these is 3 to 15 ms of the 20 to 50 that a key may take.
"""

from __future__ import annotations

from typing import TypeVar

from textual import events
from textual.geometry import Offset, Size
from textual.reactive import Reactive
from textual.screen import Screen
from textual.widget import Widget

Answer = TypeVar("Answer")


class Settled(Screen[Answer]):
    """Any screen of the console, behind or in front."""

    # The widgets that lose and get the focus paint themselves; the rest of the screen stays as it is.
    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
    laid_out: Size | None = None

    def _refresh_layout(self, size: Size | None = None, scroll: bool = False) -> None:
        self.laid_out = size or self.laid_out
        super()._refresh_layout(size, scroll)

    def _screen_resized(self, size: Size) -> None:
        """Only a size that is another one; what else asks for a layout asks for it by itself."""
        if size != self.laid_out:
            super()._screen_resized(size)

    def _on_screen_resume(self, event: events.ScreenResume) -> None:
        """Come (back) to the front without matching every style again, 20 ms of the 40 that a switch took: nothing
        that a style depends on changes while a screen is away (a theme or a size that did is seen to by the app and
        the layout), and a new one has only just been styled."""
        event.refresh_styles = False

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """What a press or a drag of the mouse selects from; nothing where a widget has gone since the last layout.

        Textual 8.2.8 takes the parent of what it finds here for granted (Screen._forward_event), so a press on a widget
        that had just been removed ended the program. Where a later version does not ask here, this does nothing.
        """
        widget, offset = super().get_widget_and_offset_at(x, y)
        return (widget, offset) if widget is None or widget is self or widget.is_attached else (None, None)
