"""A widget that draws its own lines, with styles that are looked up once and not for each line.

Notable: Textual recomputes `rich_style` at every call by walking up to the screen (0.1 to 0.5 ms, measured; it was half
of the time of a frame), so it is cached until Textual reports that the styles have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual.filter import ANSIToTruecolor, LineFilter
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from txlab.drawing.legibility import Legibility
from txlab.drawing.palette import Colours
from txlab.drawing.text import cut, width
from txlab.tui.widgets.terminal import colours, is_ascii, is_dark, legibility

Found = TypeVar("Found")


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
        return self.get_cached("surface", lambda: self.rich_style)

    def get_cached(self, name: str, find: Callable[[], Found]) -> Found:
        """Return what `find` found, looked up once until the styles change."""
        if name not in self.paints:
            self.paints[name] = find()
        value: Found = self.paints[name]
        return value

    def strip(self, segments: Sequence[Segment]) -> Strip:
        """Return a line as wide as the widget: padded, or cropped before a number that does not fit."""
        size, line = self.size.width, Strip(segments)
        if line.cell_length > size:
            line = line.crop(0, width(cut(line.text, size)))
        return line.adjust_cell_length(size, self.surface)

    def part(self, name: str) -> Style:
        """Return the style of a component class, whose prefix is the widget's name in lower case."""
        prefix = min(self.COMPONENT_CLASSES).split("--")[0]
        return self.get_cached(f"--{name}", lambda: self.get_component_rich_style(f"{prefix}--{name}"))

    def refresh_changed(self, old: Sequence[object], new: Sequence[object], first: int = 0) -> None:
        """Redraw only the lines that differ; `first` is the line of the widget that shows the first of them."""
        left, top, size = self.gutter.left, self.gutter.top + first, self.size.width
        pairs = enumerate(zip_longest(old, new))
        if regions := [Region(left, top + y, size, 1) for y, (before, now) in pairs if before != now]:
            self.refresh(*regions)

    @property
    def ascii(self) -> bool:
        return is_ascii(self)

    @property
    def legibility(self) -> Legibility:
        return legibility(self)

    @property
    def colours(self) -> Colours:
        return self.get_cached("colours", lambda: colours(self))

    @property
    def dark(self) -> bool:
        return self.get_cached("dark", lambda: is_dark(self))
