"""The protocol of a two-player game, used by players, searches, learners and ratings (MATH G).

A game is a *module* of plain functions: `tictactoe`, `connect_four.rules`, `backgammon.game`, or one of another
package (catalogue.py). A position is a tuple of plain values and a move any value that can be a key, so that both can
be compared, counted and stored. Results are from the view of the first player: +1, its points for winning; −1, those
of the second.

Dice: a position in which `mover` is CHANCE waits for a throw. `chances` lists the possible next positions and their
probabilities, and the throw is part of the next position, so that a game is the list of its positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from txlab.errors import LabError, nearest

Position: TypeAlias = tuple[Any, ...]
Move: TypeAlias = Any  # it is hashable

FIRST, SECOND, CHANCE = 1, -1, 0
MOST_NAMED = 12  # legal moves that are listed for one that is not


class Game(Protocol):
    """The rules of a game, implemented by a module.

    NAME, TITLE   the name in scenarios and on the command line, "tictactoe", and the name shown to people
    SIGNS         how the first and the second player are called on the board: ("X", "O")
    MOST_POINTS   the most that a game can be won by
    """

    NAME: str
    TITLE: str
    SIGNS: tuple[str, str]
    MOST_POINTS: int

    def __hash__(self) -> int: ...

    def start(self) -> Position:
        """The initial position."""

    def mover(self, position: Position) -> int:
        """Who moves next: +1 the first player, −1 the second, 0 a throw of dice."""

    def chances(self, position: Position) -> Sequence[tuple[Position, float]]:
        """The positions that a throw may lead to, with their probabilities; none where a player moves."""

    def legal(self, position: Position) -> Sequence[Move]:
        """The legal moves of the player to move, in order; none if the game has ended or dice are to be thrown."""

    def after(self, position: Position, move: Move) -> Position:
        """The position that the move leads to: its after-state. LabError if the move is not legal."""

    def outcome(self, position: Position) -> int | None:
        """The points that the first player has won, negative for the second, 0 a draw; None until the game ends."""

    def name_of_move(self, position: Position, move: Move) -> str:
        """The move as it is usually written: "centre", "4", "8/5 6/5"."""

    def ways(self, position: Position) -> Mapping[tuple[int, ...], Move]:
        """The legal moves by the places of the board that the user chooses in turn to make each; several
        sequences may make the same move."""

    def text(self, position: Position) -> str:
        """The position on one line, as `read` reads it."""

    def read(self, text: str) -> Position:
        """The position written on such a line; LabError if there is none."""


class SmallGame(Game, Protocol):
    """A game that can be searched to its end (graph.py): moves are numbers, nothing is left to chance.

    MOVES   the names of moves 0, 1, …
    """

    MOVES: tuple[str, ...]

    def images(self, position: Position) -> Iterable[Position]:
        """The position itself and its images under rotations and reflections."""


# Optional members, for games with special words or openings.


@runtime_checkable
class NamesThrows(Protocol):
    def name_of_throw(self, position: Position) -> str:
        """The throw as text: "3-1"."""


@runtime_checkable
class NamesPlaces(Protocol):
    def name_of_place(self, place: int) -> str:
        """How a place of the board is called: "24", "bar"."""


@runtime_checkable
class NumbersPlaces(Protocol):
    """Each place is a move: PLACE is its name, "square", and TAKEN the word for one that is not free, "taken"."""

    PLACE: str
    TAKEN: str


@runtime_checkable
class ReadsMoves(Protocol):
    def read_move(self, position: Position, text: str) -> Move:
        """The move that is written so, of a game whose moves can be written in several ways. LabError."""


@runtime_checkable
class SaysHow(Protocol):
    """HOW: how moves are written, shown to a new player."""

    HOW: str


@runtime_checkable
class NamesWins(Protocol):
    """WINS: how a win of 1, 2, … points is called: ("single game", "gammon", "backgammon")."""

    WINS: tuple[str, ...]


@runtime_checkable
class ShowsWin(Protocol):
    def how_won(self, position: Position) -> str:
        """How the game was won: "the top row"."""


@runtime_checkable
class OpensAtRandom(Protocol):
    """RANDOM_MOVES: how many first moves of a match are made at random."""

    RANDOM_MOVES: int


@runtime_checkable
class HasShowcase(Protocol):
    """SHOWCASE: moves to a position in which values change while the game is learnt, and what to look at there."""

    SHOWCASE: tuple[tuple[Move, ...], str]


def no_chances(position: Position) -> Sequence[tuple[Position, float]]:
    """`chances` of a game without dice."""
    return ()


def throw_dice(game: Game, position: Position, draw: float) -> Position:
    """The position that the dice lead to for `draw`, a uniform number in [0, 1)."""
    throws = game.chances(position)
    for reached, probability in throws:
        draw -= probability
        if draw < 0:
            return reached
    return throws[-1][0]  # rounding: the probabilities sum to 1 − 1e-16


def throw_words(game: Game, position: Position) -> str:
    """The throw, if the game has a name for it: "3-1"."""
    return game.name_of_throw(position) if isinstance(game, NamesThrows) and game.mover(position) != CHANCE else ""


def place_name(game: Game, position: Position, place: int) -> str:
    """The name of a place: the move that it makes alone, or the game's name for it: "24", "bar"."""
    move = game.ways(position).get((place,))
    if move is not None:
        return game.name_of_move(position, move)
    return game.name_of_place(place) if isinstance(game, NamesPlaces) else str(place + 1)


def read_move(game: Game, position: Position, text: str) -> Move:
    """The legal move with that name, in any case and spacing, or the number of its only place, counted from 1, unless
    the game reads moves itself. LabError with the nearest name."""
    if isinstance(game, ReadsMoves):
        return game.read_move(position, text)
    names = {game.name_of_move(position, move).casefold(): move for move in game.legal(position)}
    wanted = " ".join(text.split()).casefold()
    if wanted in names:
        return names[wanted]
    if wanted.isascii() and wanted.isdigit() and (place := (int(wanted[:4]) - 1,)) in (ways := game.ways(position)):
        return ways[place]
    if isinstance(game, NumbersPlaces):
        raise no_such_place(game, game.PLACE, game.TAKEN, position, text)
    raise no_such_move(text, list(names))


def no_such_place(game: Game, place: str, taken: str, position: Position, text: str) -> LabError:
    """What to say of a number that is not a move, in the words of the game."""
    free = " ".join(sorted(str(at + 1) for (at,) in game.ways(position))) or "none"
    text = " ".join(text.split())
    if not (text.isascii() and text.isdigit()):
        what = f"{text if len(text) <= 20 else f'{text[:20]}…'!r} is not a {place}" if text else "nothing was typed"
        return LabError(f"{what}; free are {free}")
    is_place = (int(text[:4]) - 1,) in game.ways(game.start())
    return LabError(f"{text[:20]} is {taken if is_place else f'not a {place}'}; free are {free}")


def no_such_move(text: str, names: Sequence[str]) -> LabError:
    """What to say of a move that is not legal: the nearest, or the legal ones as far as they are few."""
    text = " ".join(text.split())[:60]
    what = f"{text!r} is not a move here" if text else "nothing was typed"
    if not names:
        return LabError(f"{what}; there is none")
    close = nearest(text.casefold(), names)
    if close or len(names) > MOST_NAMED:
        return LabError(f"{what}{close or f'; {len(names)} moves are legal, such as {names[0]}'}")
    return LabError(f"{what}; allowed: {', '.join(names)}")


def showcase(game: Game) -> tuple[tuple[Move, ...], str]:
    """Moves from the start to a position whose values change during training, and what to look at there, from the
    game's SHOWCASE. Without one, there are no such moves and the start serves."""
    return game.SHOWCASE if isinstance(game, HasShowcase) else ((), "")


def number_of_move(game: Game, position: Position, move: Move) -> str | None:
    """The number of the only place of a move, counted from 1; None if a move has several places."""
    places_of_move = next((places for places, each in game.ways(position).items() if each == move), ())
    return str(places_of_move[0] + 1) if len(places_of_move) == 1 else None


def wins(game: Game) -> tuple[str, ...]:
    """How a win of 1, 2, … points is called."""
    return game.WINS if isinstance(game, NamesWins) else ("win",)
