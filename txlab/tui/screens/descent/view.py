"""The drawing of the function as a widget: only lines that changed are painted; a click points at a cell."""

from __future__ import annotations

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from txlab.drawing.palette import contrast, lines
from txlab.drawing.plane import HERE, Piece, Sheet, Shows, axes_of, ground, sheet_lines
from txlab.drawing.plot import margin
from txlab.tui.widgets.painted import Painted

LABELS = 7  # cells for the labels at the left, unless some are longer

PARTS = {
    Shows.CURVE: "curve",
    Shows.AXIS: "axis",
    Shows.TANGENT: "tangent",
    Shows.CURSOR: "cursor",
    Shows.UNDEFINED: "axis",
    Shows.LABEL: "label",
    Shows.POINT: "curve",
}


class PlaneView(Painted):
    """`show(sheet, cursor)` draws it; `room` is the size in cells that a sheet should have."""

    COMPONENT_CLASSES = {f"planeview--{part}" for part in {*PARTS.values(), "shade"}}
    DEFAULT_CSS = """
    PlaneView { width: 1fr; height: 1fr; color: $foreground; }
    PlaneView > .planeview--curve { color: $foreground; }
    PlaneView > .planeview--axis { color: $rule; }
    PlaneView > .planeview--label { color: $text-muted; }
    PlaneView > .planeview--tangent { color: $accent; }
    PlaneView > .planeview--cursor { color: $foreground; text-style: bold reverse; }
    PlaneView > .planeview--shade { color: $text-muted; }
    """

    class Pointed(Message):
        """A click on a cell of the sheet."""

        def __init__(self, row: int, column: int) -> None:
            super().__init__()
            self.row, self.column = row, column

    class Resized(Message):
        """`room` has changed, so the drawing has to be made again."""

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.sheet: Sheet | None = None
        self.left = 2
        self.reserved = LABELS
        self.lines: list[list[Piece]] = []

    @property
    def room(self) -> tuple[int, int]:
        """(rows, columns) for a sheet, right of the labels and above the axis."""
        return max(1, self.size.height - 2), max(4, self.size.width - self.reserved)

    @property
    def fills(self) -> bool:
        return ground(self.colours, self.dark) is not None

    def show(self, sheet: Sheet | None, cursor: tuple[int, int] | None = None) -> None:
        self.sheet = sheet
        old = self.lines
        self.lines = sheet_lines(sheet, self.ascii, self.fills, cursor, self.legibility) if sheet is not None else []
        self.left = margin(axes_of(sheet, self.ascii, self.legibility)) if sheet is not None else 2
        self.reserved = max(self.reserved, self.left)  # the next sheet is narrower, if this one does not fit
        self.refresh_changed(old, self.lines)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.refresh()

    def on_resize(self) -> None:
        self.post_message(self.Resized())

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or self.sheet is None:
            return
        row, column = offset.y, offset.x - self.left
        if 0 <= row < self.sheet.rows and 0 <= column < self.sheet.columns:
            self.post_message(self.Pointed(row, column))

    def style_of(self, shows: int, upper: int, lower: int) -> Style:
        return self.get_cached(f"{shows} {upper} {lower}", lambda: self.make_style(shows, upper, lower))

    def make_style(self, shows: int, upper: int, lower: int) -> Style:
        """A half block has the upper half's colour on the lower half's; all other signs are on the lower half's."""
        fills = ground(self.colours, self.dark)
        if shows >= 0:
            known = lines(self.colours, self.dark)
            colour = known[shows % HERE % len(known)]
            if shows >= HERE:  # the letter, as a badge
                back = (
                    Style(color=Color.from_rgb(*contrast(colour)), bgcolor=Color.from_rgb(*colour)) if colour else None
                )
                return self.surface + (back or Style(reverse=True)) + Style(bold=True)
            style = self.surface + (Style(color=Color.from_rgb(*colour)) if colour else Style.null())
        elif shows == Shows.GROUND:
            style = self.part("shade") if lower >= 0 else self.surface
            if fills is not None and upper >= 0 and not self.ascii:
                style = self.surface + Style(color=Color.from_rgb(*fills[upper]))
        else:
            style = self.part(PARTS[Shows(shows)])
        if fills is not None and lower >= 0 and shows != Shows.CURSOR:
            style = style + Style(bgcolor=Color.from_rgb(*fills[lower]))
        return style

    def render_line(self, y: int) -> Strip:
        if y >= len(self.lines):
            return Strip.blank(self.size.width, self.surface)
        segments = [Segment(text, self.style_of(*rest)) for text, *rest in self.lines[y]]
        return Strip(segments).adjust_cell_length(self.size.width, self.surface)
