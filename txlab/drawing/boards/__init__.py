"""The boards of games: what is to be drawn, and how the drawing of a game is found.

A drawing is an object with the functions of `BoardDrawing`, a module as a rule, found by the game's name: ours in OURS,
those of other packages as entry points of the group "txlab.boards". A game without one is shown as text (plain.py).
Whatever a colour says is also said without it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, TypeAlias

from txlab.engine.games.game import FIRST, Game, Move, Position
from txlab.errors import LabError, one_line
from txlab.plugins import plugins

GROUP = "txlab.boards"

Kind: TypeAlias = str
"""What a piece is, which decides its colour: "wall", "blank", "corner", "first" and "second" for the signs and
checkers of the players, "won", "under", "number", "note", "hint", "order", "last", "dice", "chosen"."""


@dataclass(frozen=True)
class BoardView:
    """What is to be drawn.

    moves    made so far, of both sides; throws are not among them        last, before   the last one, and the position
                                                                                         it was made in
    values   of the legal moves, the mover's view; {} = not shown          notes          beside a value where there is
                                                                                         room
    hinted   suggested moves           chosen   the places already chosen of a move that takes several
    cursor   a place                   bottom   the side that sits at the bottom, and moves towards home at the right
    """

    game: Game
    position: Position
    moves: Sequence[Move] = ()
    values: Mapping[Move, float] = field(default_factory=dict)
    notes: Mapping[Move, str] = field(default_factory=dict)
    hinted: Collection[Move] = ()
    last: Move | None = None
    before: Position | None = None
    chosen: tuple[int, ...] = ()
    cursor: int = 0
    bottom: int = FIRST


@dataclass(frozen=True)
class BoardPiece:
    """A piece of a line.

    place   the place of the board it belongs to; None = none
    merit   −1 … 1: how good it is to move there, for its colour; None = unknown
    """

    text: str
    place: int | None
    kind: Kind
    merit: float | None = None


class BoardDrawing(Protocol):
    """Draws the board of one game in cells."""

    def size(self, columns: int, rows: int) -> tuple[int, int]:
        """The cells used of this room: the largest board that fits."""

    def lines(self, view: BoardView, columns: int, rows: int, ascii: bool) -> list[list[BoardPiece]]:
        """The board in this room, line by line."""

    def place_at(self, x: int, y: int, columns: int, rows: int, bottom: int) -> int | None:
        """The place at a cell of `lines`, for clicks; None if there is none."""

    def step(self, cursor: int, down: int, right: int, view: BoardView) -> int:
        """Where the cursor goes."""

    def first_place(self, view: BoardView) -> int:
        """Where the cursor is in the beginning of a choice."""

    def sentence(self, view: BoardView) -> str:
        """The board in words, for screen readers and pipes."""


OURS = {
    "tictactoe": "txlab.drawing.boards.tictactoe",
    "connect-four": "txlab.drawing.boards.connect_four",
    "backgammon": "txlab.drawing.boards.backgammon",
}


def board_of(name: str) -> BoardDrawing:
    """The drawing of the game of that name, or the plain one. LabError if another package's cannot be imported."""
    point = None if name in OURS else plugins(GROUP).get(name)
    try:
        found: Any = import_module(OURS.get(name, "txlab.drawing.boards.plain")) if point is None else point.load()
    except ModuleNotFoundError:
        found = import_module("txlab.drawing.boards.plain")
    except Exception as error:  # any exception that another package raises while it is imported
        raise LabError(f"the board {name!r} cannot be imported: {one_line(error)}") from None
    drawing: BoardDrawing = found
    return drawing
