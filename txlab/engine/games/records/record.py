"""A record of games: the seats, each position with the move made there, and the points.

The throw is part of a position (game.py), so one form serves games with and without dice. A file format is a module
with the functions of `Form`, named by the game's GameEntry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from txlab.engine.games.game import FIRST, SECOND, Game, Move, Position
from txlab.errors import LabError, convert_os_errors
from txlab.files import expand_path, read_regular

LARGEST = 4 << 20
"""Bytes of a file that is read: some 3 000 games of backgammon."""
LONGEST_LINE = 20_000


class Turn(NamedTuple):
    """position  as the player saw it, with the dice"""

    position: Position
    move: Move


@dataclass(frozen=True)
class PlayedGame:
    """names    of the first and of the second player
    turns
    points   won by the first player, negative by the second, 0 a draw; None: the game was not finished
    actions  events other than moves, each with the number of turns before it and whose it was: (7, FIRST,
             "Doubles => 2"). Only backgammon's doubling cube has such
    """

    names: tuple[str, str]
    turns: tuple[Turn, ...]
    points: int | None
    actions: tuple[tuple[int, int, str], ...] = ()

    def name(self, side: int) -> str:
        return self.names[0 if side == FIRST else 1]

    def points_of(self, name: str) -> int | None:
        """The points of a player by its name."""
        if self.points is None:
            return None
        return self.points if name == self.names[0] else -self.points

    def winner(self) -> str:
        """The name of the player that won; "" for a draw and for a game that was not finished."""
        return self.name(FIRST if self.points > 0 else SECOND) if self.points else ""


@dataclass(frozen=True)
class Record:
    """games   in the order in which they were played
    length  the points to which a match is played, 0 if there is no such end
    """

    games: tuple[PlayedGame, ...]
    length: int = 0

    def names(self) -> list[str]:
        """The players, in the order of their first game."""
        return list(dict.fromkeys(name for each in self.games for name in each.names))


class Form(Protocol):
    """ENDING   of such a file's name: ".mat"        NOTE   a description of that kind of file"""

    ENDING: str
    NOTE: str

    def recognises(self, game: Game, text: str) -> bool:
        """Whether the text says that it is such a file, of this game."""

    def write(self, game: Game, record: Record) -> str: ...

    def read(self, game: Game, text: str) -> Record:
        """LabError naming the line."""


def read_text(path: str | Path) -> str:
    """The text of a file of games. LabError if it cannot be read."""
    with convert_os_errors(f"{path}: it cannot be read"):
        data = read_regular(expand_path(path), LARGEST)
    if b"\0" in data:
        raise LabError(f"{path}: it is not a text")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:  # names in older files
        return data.decode("latin-1")


def numbered_lines(text: str) -> Sequence[tuple[int, str]]:
    """The lines, numbered from 1, with spaces for tabs and without spaces at the end."""
    lines = [line.expandtabs().rstrip() for line in text.split("\n")]
    for number, line in enumerate(lines, 1):
        if len(line) > LONGEST_LINE:
            raise LabError(f"line {number}: it has {len(line)} characters; allowed: {LONGEST_LINE}")
    return list(enumerate(lines, 1))


def replay(game: Game, turns: Sequence[Turn]) -> int | None:
    """The outcome after the last turn, for the first player; None if the game is not over."""
    if not turns:
        return game.outcome(game.start())
    return game.outcome(game.after(*turns[-1]))
