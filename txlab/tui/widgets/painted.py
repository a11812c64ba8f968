"""A widget that draws its own lines, with styles that are looked up once and not for each line.

Notable: Textual recomputes `rich_style` at every call by walking up to the screen (0.1 to 0.5 ms, measured; it was half
of the time of a frame), so it is cached until Textual reports that the styles have changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.style import Style
from textual.filter import ANSIToTruecolor, LineFilter
from textual.widget import Widget

from txlab.drawing.palette import Colours
from txlab.tui.widgets.terminal import colours, is_ascii, is_dark


class Painted(Widget):
    """`surface` is the widget's own style, `part("label")` that of its component class `<widget>--label`."""

    ALLOW_SELECT = False

    def __init__(self, *args: Any, **named: Any) -> None:
        self.paints: dict[str, Any] = {}
        super().__init__(*args, **named)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.paints.clear()

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return the filters without the one that converts ANSI colours to RGB: nothing painted here has ANSI colours,
        and the filter costs as much as the painting. The filters for NO_COLOR and for dim text stay."""
        return [each for each in super().get_line_filters() if not isinstance(each, ANSIToTruecolor)]

    @property
    def surface(self) -> Style:
        found: Style | None = self.paints.get("surface")
        if found is None:
            found = self.paints["surface"] = self.rich_style
        return found

    def part(self, name: str) -> Style:
        """Return the style of a component class, whose prefix is the widget's name in lower case."""
        key = f"--{name}"
        found: Style | None = self.paints.get(key)
        if found is None:
            prefix = next(iter(sorted(self.COMPONENT_CLASSES))).split("--")[0]
            found = self.paints[key] = self.get_component_rich_style(f"{prefix}--{name}")
        return found

    @property
    def ascii(self) -> bool:
        return is_ascii(self)

    @property
    def colours(self) -> Colours:
        found: Colours | None = self.paints.get("colours")
        if found is None:
            found = self.paints["colours"] = colours(self)
        return found

    @property
    def dark(self) -> bool:
        found: bool | None = self.paints.get("dark")
        if found is None:
            found = self.paints["dark"] = is_dark(self)
        return found
