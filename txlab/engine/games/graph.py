"""All positions of a small game, compiled to arrays: the mover, the moves, the outcome and the symmetries.

This makes everything built on it fast and exact. Search, exact matches, learners and tournaments are loops
over integers or a few array operations and never call the rules again. Positions are numbered by ply (moves made), so
that a sweep from the last to the first meets every position after all its successors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise

import numpy as np

from txlab.engine.games.game import Position, SmallGame
from txlab.errors import LabError

MOST_POSITIONS = 2_000_000

ROUNDED = 1e-9
"""Values closer than this are equally good: sums of the same numbers in another order differ in the last digit."""


@dataclass(frozen=True, eq=False)
class GameGraph:
    """N positions and E moves. The moves of position n are the entries first[n] … first[n + 1] − 1; none = ended.

    positions  (N) the positions themselves, the start first      number   position → its number
    ply        (N) int64, moves made so far
    mover      (N) int64: +1 the first player, −1 the second; 0 if the game has ended
    outcome    (N) int64: +1, 0, −1 from the first player's view if the game has ended; 0 otherwise
    first      (N + 1) int64
    move       (E) int64, the move's number in the rules
    after      (E) int64, its after-state
    symmetry   (N) int64, class: the smallest number among the images under rotations and reflections
    """

    game: SmallGame
    positions: tuple[Position, ...]
    number: dict[Position, int]
    ply: np.ndarray
    mover: np.ndarray
    outcome: np.ndarray
    first: np.ndarray
    move: np.ndarray
    after: np.ndarray
    symmetry: np.ndarray

    @property
    def size(self) -> int:
        """N"""
        return len(self.positions)

    @cached_property
    def count(self) -> np.ndarray:
        """(N) int64: how many moves there are."""
        return np.diff(self.first)

    @cached_property
    def ended(self) -> np.ndarray:
        """(N) bool"""
        ended: np.ndarray = self.count == 0
        return ended

    @cached_property
    def before(self) -> np.ndarray:
        """(E) int64: the position in which each move is made."""
        return np.repeat(np.arange(self.size), self.count)

    @cached_property
    def plies(self) -> tuple[slice, ...]:
        """The moves made at ply 0, 1, …, which are contiguous."""
        steps = np.searchsorted(self.ply[self.before], np.arange(int(self.ply.max()) + 1))
        return tuple(slice(int(a), int(b)) for a, b in pairwise(steps))

    @cached_property
    def begins(self) -> np.ndarray:
        """(non-terminal positions) int64: the index of their first move, for `reduceat`; `open` has their numbers."""
        first_moves: np.ndarray = self.first[:-1][~self.ended]
        return first_moves

    @cached_property
    def open(self) -> np.ndarray:
        """(non-terminal positions) int64: their numbers."""
        return np.flatnonzero(~self.ended)

    def moves(self, n: int) -> list[tuple[int, int]]:
        """(move, after-state) of position n, in order."""
        span = slice(int(self.first[n]), int(self.first[n + 1]))
        return list(zip(self.move[span].tolist(), self.after[span].tolist(), strict=True))

    def number_of(self, position: Position) -> int:
        """The number of a position; LabError if no game leads to it."""
        index = self.number.get(tuple(position))
        if index is None:
            raise LabError(f"no game of {self.game.TITLE} leads to the position {position}")
        return index


@cache
def compile_graph(game: SmallGame) -> GameGraph:
    """Compile every reachable position, breadth first, so in order of plies; done once per game.

    A position must always be reached at the same ply, as in games where no sign is removed; ValueError otherwise.
    LabError above MOST_POSITIONS: such a game is for players that search or approximate.
    """
    positions: list[Position] = [game.start()]
    number = {positions[0]: 0}
    plies, first, moves, afters = [0], [0], [], []
    for n, position in enumerate(positions):  # the list grows during the iteration
        for move in game.legal(position):
            reached = game.after(position, move)
            if reached not in number:
                number[reached] = len(positions)
                positions.append(reached)
                plies.append(plies[n] + 1)
                if len(positions) > MOST_POSITIONS:
                    raise LabError(f"{game.TITLE} has more than {MOST_POSITIONS} positions: too many to be compiled")
            elif plies[number[reached]] != plies[n] + 1:
                raise ValueError(f"{reached} comes up after {plies[number[reached]]} and after {plies[n] + 1} moves")
            moves.append(move)
            afters.append(number[reached])
        first.append(len(moves))
    outcomes = [game.outcome(position) for position in positions]
    return GameGraph(
        game=game,
        positions=tuple(positions),
        number=number,
        ply=np.array(plies),
        mover=np.array([game.mover(p) if ended is None else 0 for p, ended in zip(positions, outcomes, strict=True)]),
        outcome=np.array([ended or 0 for ended in outcomes]),
        first=np.array(first),
        move=np.array(moves),
        after=np.array(afters),
        symmetry=np.array([min(number[image] for image in game.images(position)) for position in positions]),
    )


def evenly(graph: GameGraph, kept: np.ndarray) -> np.ndarray:
    """(E) float64: the policy that is uniform over the moves in the mask `kept` (E, bool) in each position."""
    weights = kept.astype(np.float64)
    sums = np.zeros(graph.size)
    sums[graph.open] = np.add.reduceat(weights, graph.begins)
    policy: np.ndarray = weights / sums[graph.before]
    return policy


def cumulate(graph: GameGraph, policy: np.ndarray) -> np.ndarray:
    """(N, places) float64: the cumulative sums of a policy (E) over the moves of each position, padded with 1.

    The move for u in [0, 1) is the first whose sum is above u.
    """
    places = int(graph.count.max())
    sums = np.zeros((graph.size, places))
    place = np.arange(len(graph.move)) - graph.first[graph.before]
    sums[graph.before, place] = policy
    sums = np.cumsum(sums, axis=1)
    sums[np.arange(places) >= graph.count[:, None] - 1] = 1.0  # not 1 − 1e-16: no u may be beyond the last move
    return sums


def greediest(graph: GameGraph, values: np.ndarray, tolerance: float = ROUNDED) -> np.ndarray:
    """(E) bool: the moves whose value, from the mover's view (E), is within `tolerance` of the best."""
    highest = np.zeros(graph.size)
    highest[graph.open] = np.maximum.reduceat(values, graph.begins)
    best: np.ndarray = values >= highest[graph.before] - tolerance
    return best
