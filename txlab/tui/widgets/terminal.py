"""The capabilities of a widget's terminal: its number of colours, dark or light, box drawing or ASCII only.

The app's own settings (`app.ascii`, `app.colours`) come first, then Textual's console; an app without a terminal (a
test, a picture for the manual) is assumed to have all colours.
"""

from __future__ import annotations

from rich.style import Style
from textual.widget import Widget

from txlab.drawing.legibility import DESK, HALL, Legibility
from txlab.drawing.palette import RGB, Colours

DEPTHS: dict[str | None, Colours] = {"truecolor": "truecolor", "256": "256", "standard": "16", "windows": "16"}


def is_ascii(widget: Widget) -> bool:
    """Whether to draw with ASCII only."""
    return bool(getattr(widget.app, "ascii", False))


def is_dark(widget: Widget) -> bool:
    return bool(widget.app.current_theme.dark)


def legibility(widget: Widget) -> Legibility:
    """How large to draw: for the desk, or for the back row of a hall."""
    return HALL if getattr(widget.app, "hall", False) else DESK


def colours(widget: Widget) -> Colours:
    """The colour depth for which to choose ramps."""
    app = widget.app
    asked: Colours | None = getattr(app, "colours", None)
    if asked is not None:
        return asked
    if app.no_color:
        return "none"
    if app.is_headless:
        return "truecolor"
    return DEPTHS.get(app.console.color_system, "none")


def ink(colour: RGB | None, surface: Style, fill: RGB | None = None) -> Style:
    """Return the surface's style with another foreground and, where `fill` is given, another background."""
    if colour is None and fill is None:
        return surface
    parts = []
    if colour is not None:
        parts.append("#{:02x}{:02x}{:02x}".format(*colour))
    if fill is not None:
        parts.append("on #{:02x}{:02x}{:02x}".format(*fill))
    return surface + Style.parse(" ".join(parts))


def refresh_layout(widget: Widget) -> None:
    """Repaint a widget of another size, and lay its screen out again, now or as soon as the widget is mounted.

    Textual 8.2.8 measures a widget before it counts as mounted, and in between `refresh` leaves what it measured as it
    is. Only widgets whose height follows from what they render need this.
    """
    if widget.is_mounted:
        widget.refresh(layout=True)
    else:
        widget.call_later(widget.refresh, layout=True)
