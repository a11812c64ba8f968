"""What each move of a game cost, by the values of a player that judges them (MATH G1).

    loss = max over the legal moves of value(a) − value(the move),   in points that the player to move expects

A judge values after-states: a network's equities in backgammon, ±1 and 0 where a game is solved. A player without a
choice, and a position that the judge has no values of, are not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from txlab.engine.games.game import Game, Move, Position
from txlab.engine.games.records.record import PlayedGame

MARKS = ((0.16, "??"), (0.08, "?"), (0.04, "?!"))
"""The losses from which a move is a blunder, an error, doubtful: GNU Backgammon's, in points."""
BLUNDER, ERROR, DOUBTFUL = (mark for _, mark in MARKS)
EQUAL = 1e-9


class Judge(Protocol):
    """A player, used for its values only."""

    @property
    def game(self) -> Game: ...

    def values(self, position: Position) -> dict[Move, float]: ...


@dataclass(frozen=True)
class JudgedMove:
    """number   of the move in its game, from 1, of both players
    side     whose move it was, FIRST or SECOND
    value    of the move, and `best_value` that of `best`; None if it was not judged
    choices  the number of legal moves
    """

    number: int
    side: int
    name: str
    position: Position
    move: Move
    choices: int
    best: Move | None = None
    value: float | None = None
    best_value: float | None = None

    @property
    def loss(self) -> float | None:
        if self.value is None or self.best_value is None:
            return None
        return max(0.0, self.best_value - self.value)

    @property
    def mark(self) -> str:
        """ "??", "?", "?!" or ""."""
        loss = self.loss
        return next((mark for least, mark in MARKS if loss is not None and loss >= least - EQUAL), "")


def judge_moves(played: PlayedGame, judge: Judge) -> Iterator[JudgedMove]:
    """The moves of a game, in order."""
    game = judge.game
    for number, (position, move) in enumerate(played.turns, 1):
        side, legal = game.mover(position), game.legal(position)
        judged = JudgedMove(number, side, played.name(side), position, move, len(legal))
        values = judge.values(position) if len(legal) > 1 else {}
        if move in values:
            best = max(values, key=values.__getitem__)
            best = move if values[best] - values[move] <= EQUAL else best
            judged = JudgedMove(number, side, judged.name, position, move, len(legal), best, values[move], values[best])
        yield judged


@dataclass
class Total:
    """The sum of a player's moves.

    moves    it made         choices   of these, those with a choice       judged   of these, those with a value
    """

    name: str
    moves: int = 0
    choices: int = 0
    judged: int = 0
    loss: float = 0.0
    marks: dict[str, int] = field(default_factory=lambda: {mark: 0 for _, mark in MARKS})

    def add(self, move: JudgedMove) -> None:
        self.moves += 1
        self.choices += move.choices > 1
        if move.loss is not None:
            self.judged += 1
            self.loss += move.loss
            if move.mark:
                self.marks[move.mark] += 1

    @property
    def loss_per_move(self) -> float | None:
        """Points lost a judged move; None if there was none."""
        return self.loss / self.judged if self.judged else None


def totals(names: Iterable[str]) -> dict[str, Total]:
    return {name: Total(name) for name in names}
