"""A game in progress: its positions, its moves, and its random draws.

Notable: throws and the players' draws follow from a seed, throw by throw and ply by ply, so a game is stored as its
seed and its moves, and a move taken back is replayed with the same dice.
"""

from __future__ import annotations

from collections.abc import Iterable

from txlab.engine.games.game import CHANCE, Game, Move, Position, read_move, throw_dice
from txlab.engine.rl.draws import uniforms
from txlab.errors import LabError

CHOICE, DICE, OPENING = 1, 2, 3
"""Columns of a seed's draws: for a player's choice among equals, a throw, a random first move."""
BLOCK = 128  # draws per block


class Draws:
    """The uniform numbers of a seed in one column, of ply or throw 0, 1, …"""

    def __init__(self, seed: int, column: int) -> None:
        self.seed, self.column = seed, column
        self.known: list[float] = []

    def __getitem__(self, n: int) -> float:
        while n >= len(self.known):
            self.known += uniforms(self.seed, len(self.known), BLOCK)[0, :, self.column].tolist()
        return self.known[n]


class Playing:
    """positions   all of them, throws included, the present one last
    moves       made so far, and `decisions` the number of the position in which each was made
    """

    def __init__(self, game: Game, seed: int) -> None:
        self.game, self.seed = game, seed
        self.positions: list[Position] = [game.start()]
        self.moves: list[Move] = []
        self.decisions: list[int] = []
        self.throws, self.choices = Draws(seed, DICE), Draws(seed, CHOICE)

    @property
    def position(self) -> Position:
        return self.positions[-1]

    @property
    def outcome(self) -> int | None:
        return self.game.outcome(self.position)

    @property
    def ended(self) -> bool:
        return self.outcome is not None

    @property
    def mover(self) -> int:
        return self.game.mover(self.position)

    @property
    def to_throw(self) -> bool:
        return not self.ended and self.mover == CHANCE

    @property
    def draw(self) -> float:
        """The draw for the next choice of a player."""
        return self.choices[len(self.moves)]

    @property
    def before(self) -> Position | None:
        """The position in which the last move was made."""
        return self.positions[self.decisions[-1]] if self.decisions else None

    def side_of(self, number: int) -> int:
        """Whose move it was."""
        return self.game.mover(self.positions[self.decisions[number]])

    def throw(self) -> None:
        thrown_before = len(self.positions) - 1 - len(self.moves)
        self.positions.append(throw_dice(self.game, self.position, self.throws[thrown_before]))

    def make(self, move: Move) -> None:
        """LabError if it is not legal."""
        reached = self.game.after(self.position, move)
        self.decisions.append(len(self.positions) - 1)
        self.moves.append(move)
        self.positions.append(reached)

    def go_on(self, moves: Iterable[Move]) -> None:
        """Make these moves, with the throws before each and after the last."""
        for move in moves:
            self.make(move)
            self.throw_all()

    def throw_all(self) -> None:
        while self.to_throw:
            self.throw()

    def take_back(self, kept: int) -> None:
        """Back to the decision of move number `kept`, from 0, with the dice that it had."""
        del self.positions[self.decisions[kept] + 1 :], self.moves[kept:], self.decisions[kept:]

    # Written down

    def names(self) -> list[str]:
        """The moves as they are written."""
        return [
            self.game.name_of_move(self.positions[at], move)
            for at, move in zip(self.decisions, self.moves, strict=True)
        ]

    @classmethod
    def replay_moves(cls, game: Game, seed: int, names: Iterable[str]) -> Playing:
        """The game of this seed and these moves. LabError if one of them is not legal."""
        playing = cls(game, seed)
        playing.throw_all()
        for number, name in enumerate(names, 1):
            try:
                playing.go_on([read_move(game, playing.position, name)])
            except LabError as error:
                raise LabError(f"move {number}: {error}") from error
        return playing
