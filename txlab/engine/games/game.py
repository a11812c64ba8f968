"""The protocol of a two-player game, for everything that plays, searches, learns or rates (MATH G).

A game is a *module* of plain functions; `tictactoe` is the first. Positions are tuples of small integers, so
they can be keys, and everything is from the view of the first player: +1 is the first player, −1 the second. A game
with dice keeps the throw in its position, and a game too large to be compiled (see graph.py) is played through the same
protocol of players, with positions only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

Position = tuple[int, ...]

FIRST, SECOND = 1, -1


class Game(Protocol):
    """The rules of a game, implemented by a module.

    NAME, TITLE   the name in scenarios, "tictactoe", and the name shown to people
    SIGNS         the signs of the first and of the second player
    MOVES         the names of moves 0, 1, …; a move is its number
    """

    NAME: str
    TITLE: str
    SIGNS: tuple[str, str]
    MOVES: tuple[str, ...]

    def __hash__(self) -> int: ...

    def start(self) -> Position:
        """The initial position; the first player is to move."""

    def mover(self, position: Position) -> int:
        """The player to move: +1 the first player, −1 the second."""

    def legal(self, position: Position) -> Sequence[int]:
        """The legal moves, in order; none if the game has ended."""

    def after(self, position: Position, move: int) -> Position:
        """The position that the move leads to: its after-state."""

    def outcome(self, position: Position) -> int | None:
        """+1 if the first player has won, −1 the second, 0 a draw; None while the game goes on."""

    def images(self, position: Position) -> Iterable[Position]:
        """The position itself and its images under rotations and reflections."""

    def text(self, position: Position) -> str:
        """The position on one line, as `read` reads it."""

    def read(self, text: str) -> Position:
        """The position written on such a line; LabError if there is none."""
