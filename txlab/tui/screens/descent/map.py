"""The map or the graph, and the keys that move its cursor, begin there, and come closer."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding

from txlab.drawing.plane import Sheet
from txlab.drawing.text import formula
from txlab.tui.bindings import MOVING, bind
from txlab.tui.panel import Panel
from txlab.tui.screens.descent.shown import CLOSER, curves_sheet, data_sheet, plane_sheet, sheet_of, value_at
from txlab.tui.screens.descent.text import format_point, plane_words
from txlab.tui.screens.descent.view import PlaneView
from txlab.tui.screens.plain_text import Words

if TYPE_CHECKING:
    from txlab.tui.screens.descent.interface import Descent

View = Literal["map", "curves", "data", "plane"]
SMALLEST, LARGEST = 1e-9, 1e7  # half the height of a camera's view


class MapPanel(Panel):
    """`cursor` is a point in the plane, None = there is none; `follows`: the view moves back to see the methods."""

    KEYS: ClassVar = (
        bind("up,k", "move(-1, 0)", "cursor up", id="descent.up", heading=MOVING),
        bind("down,j", "move(1, 0)", "cursor down", id="descent.down", heading=MOVING),
        bind("left,h", "move(0, -1)", "cursor left", id="descent.left", heading=MOVING),
        bind("right,l", "move(0, 1)", "cursor right", id="descent.right", heading=MOVING),
        bind("enter", "begin", "let all methods begin under the cursor", "begin here", id="descent.begin"),
        bind(
            "z", "zoom(1)", "come closer with z, go back with Z", "closer, back", id="descent.closer", key_display="z Z"
        ),
        bind(
            "Z,upper_z",
            "zoom(-1)",
            "go back, to see more of the function",
            id="descent.further",
            synonyms="further",
            key_display="Z",
        ),
        bind(
            "v",
            "view",
            "show the map, f over the steps, the data, or the tangent plane",
            "view",
            id="descent.view",
            synonyms="tangent plane normal gradient triangle",
        ),
        bind("home", "whole", "go back to the view that one began with", id="descent.whole"),
    )

    def __init__(self, descent: Descent) -> None:
        super().__init__()
        self.descent = descent
        self.view = PlaneView(id="plane")
        self.cursor: tuple[float, float] | None = None
        self.follows = True
        self.looking: View = "map"
        self.drawn: tuple[tuple[object, ...], Sheet | None] | None = None  # its inputs, and the drawing

    def compose(self) -> ComposeResult:
        yield self.view
        yield Words(id="where")

    def word_for(self, binding: Binding) -> str:
        if binding.id == "descent.begin" and (self.cursor is None or not self.descent.playback.can_edit):
            return ""
        return binding.description

    def show(self) -> None:
        shown, ground, chosen = self.descent.shown, self.descent.ground, self.descent.chosen
        if shown is None or (self.looking == "map" and (ground is None or ground.key != shown.key)):
            return  # the drawing stays until f is known
        look = self.view.legibility
        wanted = (shown, ground, chosen, self.looking, self.view.room, look)
        if self.drawn is None or self.drawn[0] != wanted:
            if self.looking == "map" and ground is not None:
                sheet: Sheet | None = sheet_of(shown, ground, chosen, self.descent.ascii, look)
            else:
                _, sheet = self.sheet(self.looking, self.view.room)
            self.drawn = wanted, sheet
        sheet, cell = self.drawn[1], None
        if self.cursor is not None and sheet is not None and ground is not None:
            x, y = self.cursor
            cell = sheet.cell_of(x, value_at(ground, x, 0.0) if shown.one else y)
        self.view.show(sheet, cell)
        if sheet is not None and self.view.room != (sheet.rows, sheet.columns):
            self.descent.want_ground()
        self.show_where()

    def sheet(self, what: View, room: tuple[int, int]) -> tuple[str, Sheet | None]:
        """The title and the drawing of the view next to the map."""
        shown, chosen, ascii, look = self.descent.shown, self.descent.chosen, self.descent.ascii, self.view.legibility
        if shown is None or what == "map":
            return "", None
        if what == "plane":
            return plane_sheet(shown, chosen, room, ascii, look)
        if what == "data":
            return "the data, and the lines v = w·u + b", data_sheet(shown, chosen, room, ascii, look)
        return curves_sheet(shown, chosen, room, ascii, look)

    @property
    def views(self) -> list[View]:
        shown = self.descent.shown
        data: list[View] = ["data"] if shown is not None and shown.u is not None else []
        plane: list[View] = ["plane"] if shown is not None and not shown.one else []
        return ["map", *data, "curves", *plane]

    def other(self, room: tuple[int, int]) -> tuple[str, Sheet | None]:
        """The small view: the next one after the large view that is not the map."""
        views = self.views
        after = views[(views.index(self.looking) + 1) % len(views)] if self.looking in views else "curves"
        return self.sheet("curves" if after == "map" else after, room)

    def action_view(self) -> None:
        """The map, the data with the lines, f over the steps, and the tangent plane, one after the other."""
        views = self.views
        self.looking = views[(views.index(self.looking) + 1) % len(views)] if self.looking in views else "map"
        self.cursor = None
        self.descent.show_all()

    def show_where(self) -> None:
        """The line below: the cursor's point and f there, to half a cell; of the tangent plane, what it shows."""
        shown, ground, words = self.descent.shown, self.descent.ground, ""
        if self.looking == "plane" and shown is not None:
            words = plane_words(shown, self.descent.chosen, self.size.width - 2)
        if self.cursor is not None and shown is not None and ground is not None:
            where = format_point(self.cursor[: 1 if shown.one else 2], shown.names)
            about = f"cursor at {where}"
            words = f"{about}   enter begins there" if self.descent.playback.can_edit else about
        self.query_one("#where", Words).say(formula(words, self.descent.ascii))

    def action_move(self, down: int, right: int) -> None:
        """Move the cursor by a cell; it starts where the methods do."""
        sheet, shown = self.view.sheet, self.descent.shown
        if sheet is None or shown is None or self.looking != "map":
            return
        if self.cursor is None:
            x, *rest = shown.walkers[self.descent.chosen].path[0].tolist()
            row, column = sheet.cell_of(x, rest[0] if rest else 0.0)
        else:
            row, column = sheet.cell_of(*self.cursor)
            row, column = row + down, column + right
        self.put(row, column)

    def put(self, row: int, column: int) -> None:
        sheet, shown = self.view.sheet, self.descent.shown
        if sheet is None or shown is None or self.looking != "map":
            return
        row, column = max(0, min(row, sheet.rows - 1)), max(0, min(column, sheet.columns - 1))
        x, y = sheet.point_at(row, column)
        window, first = sheet.window, self.cursor is None
        width, height = (window.right - window.left) / sheet.columns, (window.high - window.low) / sheet.rows
        self.cursor = round_to_cell(x, width), 0.0 if shown.one else round_to_cell(y, height)
        self.show()
        if first:
            self.descent.refresh_bindings()

    @on(PlaneView.Resized)
    def fit_plane(self, event: PlaneView.Resized) -> None:
        event.stop()
        self.descent.want_ground()
        self.show()

    @on(PlaneView.Pointed)
    def follow_pointer(self, event: PlaneView.Pointed) -> None:
        event.stop()
        self.put(event.row, event.column)

    def action_begin(self) -> None:
        """Start all methods at the cursor, and run them."""
        shown, cursor = self.descent.shown, self.cursor
        if shown is None or cursor is None or not self.descent.playback.ready():
            return
        start = cursor[: 1 if shown.one else 2]
        self.cursor = None
        self.descent.begin(lambda old: old.again(start))
        self.descent.refresh_bindings()

    def action_zoom(self, by: int) -> None:
        """Zoom in on the cursor, or on the chosen method; or out."""
        screen, shown = self.descent, self.descent.shown
        if shown is None:
            return
        x, *rest = shown.walkers[screen.chosen].path[-1].tolist()
        point = self.cursor or (x, rest[0] if rest else 0.0)
        camera = screen.camera
        if by < 0:
            point = camera.x, camera.y
        factor = CLOSER**by
        if SMALLEST < camera.up / factor < LARGEST and SMALLEST < camera.across / factor < LARGEST:
            screen.camera = camera.zoom_at(factor, *point)
            self.follows = by < 0
            screen.want_ground()

    def action_whole(self) -> None:
        """The initial view."""
        self.descent.camera, self.follows = self.descent.home, True
        self.descent.want_ground()


def round_to_cell(value: float, cell: float) -> float:
    """The shortest number within half a cell of a value.

    >>> round_to_cell(0.4983, 0.05), round_to_cell(-1.234, 0.01)
    (0.5, -1.23)
    """
    for digits in range(-8, 16):
        short = round(value, digits)
        if abs(short - value) <= cell / 2:
            return short + 0.0
    return value
