"""The game board: nine squares as large as fit, a cursor, values as colour and number.

The widget knows no rules. It shows what it is given and reports the chosen square (`SquareChosen`); the screen decides
whether that move is legal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from txlab.drawing.tictactoe import SIDE, BoardPiece, Square, board_size, cell_size, lines_of_board, tint
from txlab.tui.widgets.painted import Painted
from txlab.tui.widgets.terminal import ink

CENTRE = 4


class Board(Painted, can_focus=False):
    """`set_squares(nine)`; `step` moves the cursor, `choose` or a click chooses a square. The screen binds the keys."""

    COMPONENT_CLASSES = {
        "board--wall", "board--x", "board--o", "board--won", "board--quiet", "board--here", "board--value",
    }  # fmt: skip
    DEFAULT_CSS = """
    Board { width: 1fr; height: 1fr; }
    Board > .board--wall { color: $rule; }
    Board > .board--x { color: $foreground; text-style: bold; }
    Board > .board--o { color: $secondary; text-style: bold; }
    Board > .board--won { color: $accent; text-style: bold; }
    Board > .board--quiet { color: $text-muted; }
    Board > .board--here { color: $accent; text-style: bold; }
    Board > .board--value { color: $foreground; }
    """

    class SquareChosen(Message):
        """A square was chosen, with enter or by a click."""

        def __init__(self, square: int) -> None:
            super().__init__()
            self.square = square

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.cursor = CENTRE
        self.squares: tuple[Square, ...] = (Square(),) * 9
        self.pieces: list[list[BoardPiece]] = []
        self.known: dict[tuple[object, ...], Style] = {}

    def set_squares(self, squares: Sequence[Square]) -> None:
        """Show these squares; the cursor stays where it is."""
        self.squares = tuple(squares)
        self.compose_lines()

    def compose_lines(self) -> None:
        """Compose the current lines and redraw only those that differ from what is on the screen."""
        if not self.size.width or not self.size.height:
            return
        shown = [replace(square, here=place == self.cursor) for place, square in enumerate(self.squares)]
        fresh = lines_of_board(shown, self.cell, self.ascii)
        old, self.pieces = (self.pieces, self.drawn), fresh
        self.drawn = tuple((square.merit, square.won, square.sign, square.last, square.hinted) for square in shown)
        if old[1] != self.drawn or len(old[0]) != len(fresh):
            self.refresh()
            return
        self.refresh_changed(old[0], fresh, self.corner[1])

    drawn: tuple[object, ...] = ()

    @property
    def cell(self) -> tuple[int, int]:
        return cell_size(self.size.width - 2, self.size.height)

    @property
    def corner(self) -> tuple[int, int]:
        """(column, row) of the top left corner of the board, which is centred."""
        columns, rows = board_size(self.cell)
        return max(0, (self.size.width - columns) // 2), max(0, (self.size.height - rows) // 2)

    def on_resize(self) -> None:
        self.compose_lines()
        self.refresh()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.known.clear()

    def step(self, down: int, right: int) -> None:
        row, column = divmod(self.cursor, SIDE)
        self.go(max(0, min(row + down, SIDE - 1)) * SIDE + max(0, min(column + right, SIDE - 1)))

    def go(self, square: int) -> None:
        if square != self.cursor:
            self.cursor = square
            self.compose_lines()

    def choose(self) -> None:
        self.post_message(self.SquareChosen(self.cursor))

    def square_at(self, column: int, row: int) -> int | None:
        """Return the square at a position in the widget; None for a grid line or outside the board."""
        left, top = self.corner
        wide, high = self.cell
        across, along = divmod(column - left, wide + 1)
        down, below = divmod(row - top, high + 1)
        if 0 <= across < SIDE and 0 <= down < SIDE and along < wide and below < high:
            return down * SIDE + across
        return None

    def on_click(self, event: events.Click) -> None:
        place = event.get_content_offset(self)
        square = None if place is None else self.square_at(place.x, place.y)
        if square is not None:
            self.go(square)
            self.post_message(self.SquareChosen(square))

    def style_of(self, piece: BoardPiece) -> Style:
        """Return the style of a piece, which depends on its kind and its square."""
        if piece.square < 0:
            return self.part("wall")
        square = self.squares[piece.square]
        key = (piece.kind, square.sign, square.won, square.last, square.hinted, square.merit)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self.painted(piece, square)
        return found

    def painted(self, piece: BoardPiece, square: Square) -> Style:
        if square.sign:
            if piece.kind in ("mark", "under") and square.won:
                return self.part("won")
            if piece.kind == "mark":
                return self.part(square.sign.lower())
            if piece.kind == "order":
                return self.part("here" if square.last else "quiet")
            return self.part("here") if piece.kind == "corner" else self.surface
        fill, front = (None, None) if square.merit is None else tint(square.merit, self.colours, self.dark)
        if piece.kind in ("corner", "hint"):
            base = self.part("here")
            return base if fill is None else ink(None, base, fill)
        if piece.kind == "number":
            return ink(front, self.part("value"), fill) + Style(bold=square.hinted)
        if piece.kind == "note":
            return ink(front, self.surface, fill) if fill is not None else self.part("quiet")
        return ink(None, self.surface, fill)

    def render_line(self, y: int) -> Strip:
        left, top = self.corner
        surface = self.surface
        if not 0 <= y - top < len(self.pieces):
            return Strip.blank(self.size.width, surface)
        segments = [Segment(" " * left, surface)]
        segments += [Segment(piece.text, self.style_of(piece)) for piece in self.pieces[y - top]]
        return self.strip(segments)
