"""Players: random, perfect, or greedy on a table of values (MATH G1).

Notable: randomness is passed in (`draw`, one uniform number per move), so a game can be replayed from its draws alone.
A player's values are always from the view of the player to move: +1 is a point for the mover, on either side.
A player that can be written as a table has a `policy`: its matches are then computed, not played.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import sub
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from txlab.engine.explain import Explaining, Explanation, Step, compute_step
from txlab.engine.games.game import Game, Move, Position, SmallGame
from txlab.engine.games.graph import ROUNDED, GameGraph, compile_graph, evenly, greediest
from txlab.engine.games.perfect_play import Solution, explain, solve_game, verdict
from txlab.engine.games.search_tree import TreeSearch


@runtime_checkable
class Player(Protocol):
    """name   a short name, for a table of ratings        game   the rules it plays by

    quick  whether it answers immediately; others are called in a thread
    """

    @property
    def name(self) -> str: ...

    @property
    def game(self) -> Game: ...

    @property
    def quick(self) -> bool: ...

    def move(self, position: Position, draw: float) -> Move:
        """Choose a move; `draw` in [0, 1) decides among equally good ones."""

    def values(self, position: Position) -> dict[Move, float]:
        """The points that the *mover* expects of each move; empty if the player has no values."""

    def notes(self, position: Position) -> dict[Move, str]:
        """What else it knows of moves, in two or three words: "wins in 3"."""

    def shares(self, position: Position) -> dict[Move, float]:
        """0 … 1, the part of a search's visits that each move had; empty if it does not search."""

    def best(self, position: Position) -> list[Move]:
        """The moves that it would advise; none if it has no values."""

    def sees(self, position: Position) -> str:
        """What its values are: "best play"; or why it has none here."""

    def explain(self, position: Position, move: Move) -> Explanation | None:
        """Why it values the move as it does; None if there is nothing to tell."""

    def tree(self, position: Position) -> TreeSearch | None:
        """Its search of the position, to be continued and looked into; None if it does not search there. Quick."""


class Silent:
    """A player without values. Others derive from it, and override what they can compute."""

    name: str
    quick: ClassVar[bool] = False

    def values(self, position: Position) -> dict[Move, float]:
        return {}

    def notes(self, position: Position) -> dict[Move, str]:
        return {}

    def shares(self, position: Position) -> dict[Move, float]:
        return {}

    def best(self, position: Position) -> list[Move]:
        values = self.values(position)
        return [move for move, value in values.items() if value >= max(values.values()) - ROUNDED]

    def sees(self, position: Position) -> str:
        return f"what {self.name} expects" if self.values(position) else f"{self.name} sees nothing"

    def explain(self, position: Position, move: Move) -> Explanation | None:
        return None

    def tree(self, position: Position) -> TreeSearch | None:
        return None


@dataclass(frozen=True)
class RandomPlayer(Silent):
    """Chooses uniformly among the legal moves of any game."""

    game: Game
    name: str = "random"
    quick = True

    def move(self, position: Position, draw: float) -> Move:
        legal = self.game.legal(position)
        return legal[int(draw * len(legal))]


@runtime_checkable
class AnswersMany(Protocol):
    """A player that is faster with batches of positions."""

    def moves(self, positions: Sequence[Position], draws: Sequence[float]) -> list[Move]:
        """`move` in each of them."""


@runtime_checkable
class PlaysWholeGames(Protocol):
    """A player of whose games the outcomes alone can be found much faster than move by move."""

    def outcomes(self, first: Player, second: Player, throws: np.ndarray, choices: np.ndarray) -> np.ndarray | None:
        """(G): the points of the first player in games of these two, it and another, with the dice of the seeds
        `throws` (G) and the chance of `choices` (G), as move by move. None if they cannot be played so."""


@runtime_checkable
class TabularPlayer(Player, Protocol):
    """A player of a compiled game."""

    def policy(self) -> np.ndarray:
        """(E) float64: the probability of each move of the graph; they sum to one in each position."""


@dataclass(frozen=True, eq=False)
class MaskPlayer(Silent):
    """Chooses uniformly among the moves in a mask (E, bool).

    seen   (E) its values of the moves, the mover's view; None = it has none
    why    explains the value of a move where more is known of it than the values of the others
    """

    name: str
    graph: GameGraph
    kept: np.ndarray
    seen: np.ndarray | None = None
    quick = True
    why: Callable[[Position, Move], Explanation] | None = None

    @property
    def game(self) -> SmallGame:
        return self.graph.game

    def move(self, position: Position, draw: float) -> int:
        n = self.graph.number_of(position)
        span = slice(int(self.graph.first[n]), int(self.graph.first[n + 1]))
        candidates = self.graph.move[span][self.kept[span]]
        return int(candidates[int(draw * len(candidates))])

    def values(self, position: Position) -> dict[int, float]:
        if self.seen is None:
            return {}
        n = self.graph.number_of(position)
        span = slice(int(self.graph.first[n]), int(self.graph.first[n + 1]))
        return dict(zip(self.graph.move[span].tolist(), self.seen[span].tolist(), strict=True))

    def explain(self, position: Position, move: Move) -> Explanation | None:
        if self.why is not None:
            return self.why(position, move)
        return explain_value(self.graph.game, self.values(position), position, move, self.name)

    def policy(self) -> np.ndarray:
        return evenly(self.graph, self.kept)


@dataclass(frozen=True, eq=False)
class PerfectPlayer(MaskPlayer):
    """A MaskPlayer whose values are those of best play."""

    def notes(self, position: Position) -> dict[Move, str]:
        """ "wins in 3", "draws", "loses in 2" """
        solution = solve_game(self.game)
        return {move: ending_words(*fate(solution, position, move)) for move in self.game.legal(position)}

    def best(self, position: Position) -> list[Move]:
        """The quickest wins, else what keeps the draw, else the slowest losses."""
        fates = {move: fate(solve_game(self.game), position, move) for move in super().best(position)}
        hurry = {0: 0, 1: -1, -1: 1}
        rank = {move: plies * hurry[points] for move, (points, plies) in fates.items()}
        return [move for move in rank if rank[move] == max(rank.values())]

    def sees(self, position: Position) -> str:
        return "best play"


def fate(solution: Solution, position: Position, move: Move) -> tuple[int, int]:
    """(+1, 0, −1 for the mover; plies of the game after the move) with best play."""
    game = solution.graph.game
    n = solution.graph.number_of(game.after(position, move))
    return int(solution.value[n]) * game.mover(position), int(solution.distance[n])


def ending_words(points: int, plies: int) -> str:
    """How a game ends for the player who moves now: "wins", "wins in 3" (own moves, this one included), "loses in 2".

    points  +1, 0, −1; plies  moves of both sides that follow
    """
    if not points:
        return "draws"
    own = (plies + 1) // 2
    return "wins" if not plies else f"wins in {own + 1}" if points > 0 else f"loses in {own}"


def random_player(game: SmallGame) -> MaskPlayer:
    """A player that chooses uniformly among all legal moves."""
    graph = compile_graph(game)
    return MaskPlayer("random", graph, np.ones(len(graph.move), dtype=bool))


def perfect_player(game: SmallGame) -> MaskPlayer:
    """A player that chooses uniformly among all moves that preserve the value of the position under best play."""
    solution = solve_game(game)
    graph = solution.graph
    seen = (solution.value[graph.after] * graph.mover[graph.before]).astype(np.float64)
    return PerfectPlayer("perfect", graph, solution.optimal, seen, partial(explain, solution))


def table_player(graph: GameGraph, values: np.ndarray, name: str, tolerance: float = ROUNDED) -> MaskPlayer:
    """A player greedy on a table from the first player's view, ties at random: (N) after-states, or (E) moves."""
    of_moves = values[graph.after] if len(values) == graph.size else values
    if len(of_moves) != len(graph.move):
        raise ValueError(f"a table has {graph.size} positions or {len(graph.move)} moves, not {len(values)}")
    seen = of_moves * graph.mover[graph.before] + 0.0  # no −0
    return MaskPlayer(name, graph, greediest(graph, seen, tolerance), seen)


def explain_value(
    game: SmallGame, values: dict[Move, float], position: Position, move: Move, source: str
) -> Explanation | None:
    """Explain the value of a move by those of the others, and by best play; None if there is no such value."""
    if move not in values:
        return None
    first, label = game.mover(position) > 0, game.name_of_move(position, move)
    mover, sign = game.SIGNS[0 if first else 1], "" if first else "−"
    value, best = values[move], max(values.values())
    question, labels = f"why {value:+.4f} for {label} in {game.text(position)}, {mover}'s view?", list(values)
    why = Explaining(question, value, [game.name_of_move(position, each) for each in labels], labels.index(move))
    why.equation(f"value(a) = {sign}x(a),  the table having {game.SIGNS[0]}'s view", "G1", source)
    why.input("value(·)", list(values.values()), f"what {mover} sees of each move")
    why.step("x(a)", "", value if first else -value, "updates are not kept")
    why.measurement("value(a)", expression=f"{sign}x(a)")
    why.means(
        compute_step("behind the best", "{} − {}", sub, best, value, note="0: it may be played"),
        Step(
            "perfect play", "exhaustive search", verdict(solve_game(game), game.after(position, move)), f"after {label}"
        ),
    )
    return why.result()
