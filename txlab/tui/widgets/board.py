"""The board of any game, drawn by its drawing (drawing/boards), as large as fits.

The widget does not know the rules. It shows a view and reports the chosen place (`PlaceChosen`), which the screen
interprets.
"""

from __future__ import annotations

from dataclasses import replace

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from txlab.drawing.boards import BoardDrawing, BoardPiece, BoardView, board_of, place_at
from txlab.drawing.boards.colour import TEXTURE, texture_text, tint, tone
from txlab.drawing.palette import RGB, contrast
from txlab.drawing.text import width
from txlab.tui.widgets.painted import Painted
from txlab.tui.widgets.terminal import ink

# The kinds that the theme colours, and the component class of each.
PARTS = {kind: kind for kind in ("first", "won", "value", "quiet", "here", "wall")} | {"mark": "here"}
FEW = ("16", "none")  # colours: too few for quiet tones
SOLID = ("first", "second", "won", "die")  # grounds on which the ink is black or white


class Board(Painted, can_focus=False):
    """`show(view)`; `step` moves the cursor, `choose` or a click chooses a place. The screen binds the keys."""

    COMPONENT_CLASSES = {f"board--{part}" for part in PARTS.values()}
    DEFAULT_CSS = """
    Board { width: 1fr; height: 1fr; }
    Board > .board--wall { color: $rule; }
    Board > .board--first { color: $foreground; text-style: bold; }
    Board > .board--won { color: $accent; text-style: bold; }
    Board > .board--quiet { color: $text-muted; }
    Board > .board--here { color: $accent; text-style: bold; }
    Board > .board--value { color: $foreground; }
    """

    class PlaceChosen(Message):
        """A place was chosen, with enter or by a click."""

        def __init__(self, place: int) -> None:
            super().__init__()
            self.place = place

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.view: BoardView | None = None
        self.pieces: list[list[BoardPiece]] = []

    @property
    def drawing(self) -> BoardDrawing | None:
        return board_of(self.view.game.NAME) if self.view is not None else None

    @property
    def cursor(self) -> int:
        return self.view.cursor if self.view is not None else 0

    def show(self, view: BoardView) -> None:
        """Show a view with its cursor."""
        self.view = view
        self.compose_lines()

    def compose_lines(self) -> None:
        """Compose the current lines and redraw only those that differ from the screen."""
        if self.view is None or self.drawing is None or not self.size.width or not self.size.height:
            return
        fresh = self.drawing.lines(self.view, self.size.width, self.size.height, self.ascii)
        old, self.pieces = self.pieces, fresh
        if len(old) != len(fresh) or columns(old) != columns(fresh):
            self.refresh()
        else:
            self.refresh_changed(old, fresh, self.corner[1])

    @property
    def corner(self) -> tuple[int, int]:
        """(column, row) of the top left corner of the board, which is centred."""
        return max(0, (self.size.width - columns(self.pieces)) // 2), max(0, (self.size.height - len(self.pieces)) // 2)

    def on_resize(self) -> None:
        self.compose_lines()
        self.refresh()

    def step(self, down: int, right: int) -> None:
        if self.view is not None and self.drawing is not None:
            self.go(self.drawing.step(self.cursor, down, right, self.view))

    def go(self, place: int) -> None:
        if self.view is not None and place != self.cursor:
            self.show(replace(self.view, cursor=place))

    def choose(self) -> None:
        self.post_message(self.PlaceChosen(self.cursor))

    def on_click(self, event: events.Click) -> None:
        at, (left, top) = event.get_content_offset(self), self.corner
        place = None if at is None else place_at(self.pieces, at.x - left, at.y - top)
        if place is not None:
            self.go(place)
            self.post_message(self.PlaceChosen(place))

    def style_of(self, piece: BoardPiece) -> Style:
        key = f"{piece.kind}/{piece.ground}/{piece.merit}"
        return self.get_cached(key, lambda: self.make_style(piece))

    def make_style(self, piece: BoardPiece) -> Style:
        style = self.part(PARTS[piece.kind]) if piece.kind in PARTS else self.surface
        if piece.ground in SOLID and piece.kind in ("mark", "pip", piece.ground):
            fill = self.colour_of(piece.ground)
            return style + Style(reverse=True) if fill is None else ink(contrast(fill), style, fill)
        front = None if piece.kind in PARTS else tone(piece.kind, self.colours, self.dark)
        if piece.merit is None:
            return ink(front, style, self.colour_of(piece.ground))
        fill, readable = tint(piece.merit, self.colours, self.dark)
        return ink(front if piece.kind == "here" else readable, style, fill)

    def colour_of(self, kind: str) -> RGB | None:
        """The colour of a kind, as a ground."""
        if not kind or (kind in TEXTURE and self.colours in FEW):
            return None
        if kind not in PARTS:
            return tone(kind, self.colours, self.dark)
        colour = self.part(PARTS[kind]).color
        return None if colour is None or self.colours == "none" else tuple(colour.get_truecolor())  # type: ignore[return-value]

    def render_line(self, y: int) -> Strip:
        left, top = self.corner
        if not 0 <= y - top < len(self.pieces):
            return Strip.blank(self.size.width, self.surface)
        segments = [Segment(" " * left, self.surface)]
        for piece in self.pieces[y - top]:
            text = texture_text(piece) if self.colours in FEW else piece.text
            segments.append(Segment(text, self.style_of(piece)))
        return self.strip(segments)


def columns(lines: list[list[BoardPiece]]) -> int:
    return max((sum(width(piece.text) for piece in line) for line in lines), default=0)
