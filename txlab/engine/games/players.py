"""Players: random, perfect, or greedy on a table of values (MATH G1).

Notable: randomness is passed in (`draw`, one uniform number per move), so a game can be replayed from its draws alone.
What a player *sees* is always from the view of the player to move: +1 is a win for the mover, whichever side that is. A
player that can be written as a table has a `policy`: its matches are then computed, not played.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from txlab.engine.games.game import Game, Position
from txlab.engine.games.graph import ROUNDED, GameGraph, compiled, evenly, greediest
from txlab.engine.games.perfect_play import solved


@runtime_checkable
class Player(Protocol):
    """name   a short name, for a table of ratings        game   the rules it plays by"""

    @property
    def name(self) -> str: ...

    @property
    def game(self) -> Game: ...

    def move(self, position: Position, draw: float) -> int:
        """Choose a move; `draw` in [0, 1) decides among equally good ones."""

    def values(self, position: Position) -> dict[int, float]:
        """The value of each move from the *mover's* view, −1 … +1; empty if the player has no values."""


@runtime_checkable
class TabularPlayer(Player, Protocol):
    """A player of a compiled game."""

    def policy(self) -> np.ndarray:
        """(E) float64: the probability of each move of the graph; they sum to one in each position."""


@dataclass(frozen=True, eq=False)
class MaskPlayer:
    """Chooses uniformly among the moves in a mask (E, bool); `seen` (E) holds its values of the moves, or is None."""

    name: str
    graph: GameGraph
    kept: np.ndarray
    seen: np.ndarray | None = None

    @property
    def game(self) -> Game:
        return self.graph.game

    def move(self, position: Position, draw: float) -> int:
        n = self.graph.numbered(position)
        span = slice(int(self.graph.first[n]), int(self.graph.first[n + 1]))
        candidates = self.graph.move[span][self.kept[span]]
        return int(candidates[int(draw * len(candidates))])

    def values(self, position: Position) -> dict[int, float]:
        if self.seen is None:
            return {}
        n = self.graph.numbered(position)
        span = slice(int(self.graph.first[n]), int(self.graph.first[n + 1]))
        return dict(zip(self.graph.move[span].tolist(), self.seen[span].tolist(), strict=True))

    def policy(self) -> np.ndarray:
        return evenly(self.graph, self.kept)


def random_player(game: Game) -> MaskPlayer:
    """A player that chooses uniformly among all legal moves."""
    graph = compiled(game)
    return MaskPlayer("random", graph, np.ones(len(graph.move), dtype=bool))


def perfect_player(game: Game) -> MaskPlayer:
    """A player that chooses uniformly among all moves that preserve the value of the position under best play."""
    solution = solved(game)
    graph = solution.graph
    seen = (solution.value[graph.after] * graph.mover[graph.before]).astype(np.float64)
    return MaskPlayer("perfect", graph, solution.optimal, seen)


def table_player(graph: GameGraph, values: np.ndarray, name: str, tolerance: float = ROUNDED) -> MaskPlayer:
    """A player greedy on a table from the first player's view, ties at random: (N) after-states, or (E) moves."""
    of_moves = values[graph.after] if len(values) == graph.size else values
    if len(of_moves) != len(graph.move):
        raise ValueError(f"a table has {graph.size} positions or {len(graph.move)} moves, not {len(values)}")
    seen = of_moves * graph.mover[graph.before] + 0.0  # no −0
    return MaskPlayer(name, graph, greediest(graph, seen, tolerance), seen)
