"""The boards of games: the data to draw, and the lookup of a game's drawing.

A drawing is an object with the functions of `BoardDrawing`, usually a module, found by the game's name: ours in OURS,
other packages' as entry points of the group "txlab.boards". A game without one is shown as text (plain.py). Nothing is
conveyed by colour alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, TypeAlias, runtime_checkable

from txlab.drawing.formatting import minus, share
from txlab.drawing.text import width
from txlab.engine.games.game import CHANCE, FIRST, Game, Move, Position
from txlab.errors import LabError, one_line
from txlab.plugins import plugins

GROUP = "txlab.boards"

Kind: TypeAlias = str
"""The kind of a piece, which decides its colour:

first, second   signs and checkers of the players       won     the winning line
value           a number, or prominent words            quiet   secondary text
here            the cursor, a choice or a hint          wall    lines of the board
even, odd       the points of a board in two tones      hole    a free square of one
die, pip        dice and the points on them             ghost   a piece's former place
mark            on a sign or checker, or on a free square
"""


@dataclass(frozen=True)
class BoardView:
    """The data of a drawing.

    moves     made so far, of both sides, without throws
    last      the last move; before: the position in which it was made
    values    of the legal moves, the mover's view; {} = not shown
    notes     next to a value where there is room
    shares    0 … 1, of a search's visits to a move; {} = not shown
    hinted    suggested moves
    chosen    the places already chosen of a move that takes several
    numbered  whether free squares show their numbers, for typed moves
    cursor    a place
    bottom    the side at the bottom, whose home is at the right
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
    merit   −1 … 1: the value of a move there, for its colour; None = unknown
    ground  the kind behind it, or "" for the surface
    """

    text: str
    place: int | None
    kind: Kind
    merit: float | None = None
    ground: Kind = ""


class BoardDrawing(Protocol):
    """Draws the board of one game in cells."""

    def lines(self, view: BoardView, columns: int, rows: int, ascii: bool) -> list[list[BoardPiece]]:
        """The largest board that fits in this room, line by line; all lines have the same width."""

    def step(self, cursor: int, down: int, right: int, view: BoardView) -> int:
        """The next place of the cursor."""

    def first_place(self, view: BoardView) -> int:
        """The place of the cursor at the beginning of a choice."""

    def sentence(self, view: BoardView) -> str:
        """The board in words, for screen readers and pipes."""


@runtime_checkable
class NeedsColumns(Protocol):
    """LEAST_COLUMNS: with less room than that the board should have the screen alone."""

    LEAST_COLUMNS: int


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


def least_columns(drawing: BoardDrawing | None) -> int:
    """The columns that a board needs next to other things; 0 if any number will do."""
    return drawing.LEAST_COLUMNS if isinstance(drawing, NeedsColumns) else 0


def next_places(view: BoardView) -> dict[int, list[Move]]:
    """The places that can be chosen next, in order, and the moves that remain possible then."""
    have = len(view.chosen)
    moves: dict[int, list[Move]] = {}
    for places, move in view.game.ways(view.position).items():
        if places[:have] == view.chosen and len(places) > have:
            moves.setdefault(places[have], []).append(move)
    return dict(sorted(moves.items()))


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
        module: Any = import_module(OURS.get(name, "txlab.drawing.boards.plain")) if point is None else point.load()
    except ModuleNotFoundError:
        module = import_module("txlab.drawing.boards.plain")
    except Exception as error:  # any exception that another package raises while it is imported
        raise LabError(f"the board {name!r} cannot be imported: {one_line(error)}") from None
    drawing: BoardDrawing = module
    return drawing
