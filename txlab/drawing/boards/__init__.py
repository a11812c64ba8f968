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

from txlab.drawing.formatting import minus, share
from txlab.drawing.text import width
from txlab.engine.games.game import CHANCE, FIRST, Game, Move, Position
from txlab.errors import LabError, one_line
from txlab.plugins import plugins

GROUP = "txlab.boards"

Kind: TypeAlias = str
"""What a piece is, which decides its colour:

first, second   signs and checkers of the players       won          what has won
value           a number, or words to be read first     quiet        what may be overlooked
here            the cursor, what is chosen or hinted    wall         lines of the board
even, odd       the points of a board in two tones      hole         a free square of one
die, pip        dice and the points on them             ghost        where a piece was
mark            on a sign or checker, or on a free square
"""


@dataclass(frozen=True)
class BoardView:
    """What is to be drawn.

    moves    made so far, of both sides; throws are not among them        last, before   the last one, and the position
                                                                                         it was made in
    values   of the legal moves, the mover's view; {} = not shown          notes          beside a value where there is
                                                                                         room
    shares   0 … 1, of a search's visits that went to a move; {} = not shown
    hinted   suggested moves           chosen   the places already chosen of a move that takes several
    numbered whether free squares show their numbers, for those who type them
    cursor   a place                   bottom   the side that sits at the bottom, and moves towards home at the right
    """

    game: Game
    position: Position
    moves: Sequence[Move] = ()
    values: Mapping[Move, float] = field(default_factory=dict)
    notes: Mapping[Move, str] = field(default_factory=dict)
    shares: Mapping[Move, float] = field(default_factory=dict)
    hinted: Collection[Move] = ()
    last: Move | None = None
    before: Position | None = None
    chosen: tuple[int, ...] = ()
    numbered: bool = False
    cursor: int = 0
    bottom: int = FIRST


@dataclass(frozen=True)
class BoardPiece:
    """A piece of a line.

    place   the place of the board it belongs to; None = none
    merit   −1 … 1: how good it is to move there, for its colour; None = unknown
    ground  what is seen behind it: a kind, or "" for the surface
    """

    text: str
    place: int | None
    kind: Kind
    merit: float | None = None
    ground: Kind = ""


class BoardDrawing(Protocol):
    """Draws the board of one game in cells. Below `LEAST_COLUMNS`, if it has that, it should have the screen alone."""

    def lines(self, view: BoardView, columns: int, rows: int, ascii: bool) -> list[list[BoardPiece]]:
        """The largest board that fits in this room, line by line; all lines are of one width."""

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


def place_at(lines: Sequence[Sequence[BoardPiece]], x: int, y: int) -> int | None:
    """The place that a cell of a drawn board belongs to; None if there is none."""
    if 0 <= y < len(lines) and x >= 0:
        for piece in lines[y]:
            x -= width(piece.text)
            if x < 0:
                return piece.place
    return None


def next_places(view: BoardView) -> dict[int, list[Move]]:
    """The places that can be chosen next, in order, and the moves that remain possible then."""
    have = len(view.chosen)
    found: dict[int, list[Move]] = {}
    for places, move in view.game.ways(view.position).items():
        if places[:have] == view.chosen and len(places) > have:
            found.setdefault(places[have], []).append(move)
    return dict(sorted(found.items()))


def value_text(value: float, digits: int = 2) -> str:
    """Format a value with its sign: "+.62", "−.31", ".00", "+1", "+1.25"."""
    if abs(abs(value) - 1) < 5 * 10 ** -(digits + 2 if digits > 1 else 2):
        return minus(f"{value:+.0f}")
    text = share(value, digits)
    if not text.strip("−.0"):
        return text.lstrip("−")
    return text if text.startswith("−") else f"+{text}"


def sign_of(game: Game, side: int) -> str:
    return game.SIGNS[0 if side == FIRST else 1]


def turn_words(view: BoardView) -> str:
    """ "X to move", "X has won", "drawn" """
    result, mover = view.game.outcome(view.position), view.game.mover(view.position)
    if result is not None:
        return f"{sign_of(view.game, result)} has won" if result else "drawn"
    return f"{sign_of(view.game, mover)} to move" if mover != CHANCE else "the dice are to be thrown"


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
