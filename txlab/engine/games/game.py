"""What a game for two is to everything that plays, searches, learns or rates (MATH G).

Notable: a game is a *module* of plain functions; `tictactoe` is the first. Positions are tuples of small whole numbers,
so they can be keys, and everything is told from the view of the player who begins: +1 is the first player, −1 the
second. A game with dice keeps the throw in its position, and a game too large to be compiled (see graph.py) is played
by the same players' protocol with positions alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

Position = tuple[int, ...]

FIRST, SECOND = 1, -1


class Game(Protocol):
    """The rules of a game; a module of this form is one.

    NAME, TITLE   "tictactoe" as scenarios say it, and as a person does
    SIGNS         of the first and of the second player
    MOVES         what move 0, 1, … is called; a move is its number
    """

    NAME: str
    TITLE: str
    SIGNS: tuple[str, str]
    MOVES: tuple[str, ...]

    def __hash__(self) -> int: ...

    def start(self) -> Position:
        """The position in which the first player is to move."""

    def mover(self, position: Position) -> int:
        """Who is to move: +1 the first player, −1 the second."""

    def legal(self, position: Position) -> Sequence[int]:
        """The moves that may be made, in order; none where the game has ended."""

    def after(self, position: Position, move: int) -> Position:
        """The position that the move leads to: its after-state."""

    def outcome(self, position: Position) -> int | None:
        """+1 the first player has won, −1 the second, 0 drawn; None while it goes on."""

    def images(self, position: Position) -> Iterable[Position]:
        """The position itself and those that differ from it by a turn or a mirror alone."""

    def text(self, position: Position) -> str:
        """The position on one line, as `read` reads it."""

    def read(self, text: str) -> Position:
        """The position of such a line; LabError where there is none."""
