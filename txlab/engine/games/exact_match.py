"""How a match of two policies ends, computed over the graph and not played: probabilities, or fractions (MATH G1).

    reach(start) = 1;  reach(s·a) += reach(s) · π(a|s), π being the mover's;  won = Σ reach(s) where the game has ended

Notable: one pass from the first ply to the last, a hundred thousandfold cheaper than playing to the same precision;
this is what the win curves of a learner are made of. From either seat: who sits first is who is named first.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from txlab.engine.games.graph import Graph
from txlab.engine.games.players import ROUNDED, evenly


@dataclass(frozen=True)
class Chances:
    """Of one side of a match: they sum to one."""

    won: float
    drawn: float
    lost: float

    @property
    def mean(self) -> float:
        """E[r] with r = +1 won, 0 drawn, −1 lost."""
        return self.won - self.lost

    def turned(self) -> Chances:
        """The other side's."""
        return Chances(self.lost, self.drawn, self.won)


def chances(graph: Graph, first: np.ndarray, second: np.ndarray) -> Chances:
    """Of the first player, when it plays the policy `first` (E) and the other `second` (E)."""
    taken = np.where(graph.mover[graph.before] > 0, first, second)  # (E)
    reach = np.zeros(graph.size)
    reach[0] = 1.0
    for span in graph.plies:
        reach += np.bincount(graph.after[span], reach[graph.before[span]] * taken[span], minlength=graph.size)
    won, drawn, lost = (float(reach[graph.ended & (graph.outcome == wanted)].sum()) for wanted in (1, 0, -1))
    return Chances(won, drawn, lost)


def both_seats(graph: Graph, policy: np.ndarray, opponent: np.ndarray) -> tuple[Chances, Chances]:
    """Of `policy` when it begins, and when it is second."""
    return chances(graph, policy, opponent), chances(graph, opponent, policy).turned()


def fractions(graph: Graph, first: np.ndarray, second: np.ndarray) -> tuple[Fraction, Fraction, Fraction]:
    """(won, drawn, lost) of the first player without rounding; each side chooses evenly among its mask (E, bool)."""
    kept = np.where(graph.mover[graph.before] > 0, first, second)
    counts = np.bincount(graph.before[kept], minlength=graph.size).tolist()
    reach = [Fraction(0)] * graph.size
    reach[0] = Fraction(1)
    before, after = graph.before.tolist(), graph.after.tolist()
    for move in np.flatnonzero(kept).tolist():  # in order of plies
        n = before[move]
        if reach[n]:
            reach[after[move]] += reach[n] / counts[n]
    sums = {1: Fraction(0), 0: Fraction(0), -1: Fraction(0)}
    for n in np.flatnonzero(graph.ended).tolist():
        sums[int(graph.outcome[n])] += reach[n]
    return sums[1], sums[0], sums[-1]


def best_response(graph: Graph, opponent: np.ndarray, seat: int) -> tuple[np.ndarray, np.ndarray]:
    """The best that can be done against the policy `opponent` (E) from the first (+1) or second (−1) seat.

    Best is the highest E[r], r = +1 won, 0 drawn, −1 lost; of equally good moves those that win most often (and so lose
    more often). Returns its policy (E), even where both are equal, and E[r] of every position (N) from its own view.
    """
    earned = (graph.outcome * seat).astype(np.float64)
    wins = (graph.outcome == seat).astype(np.float64)
    kept = np.ones(len(graph.move), dtype=bool)
    for n in reversed(graph.open.tolist()):
        span = slice(int(graph.first[n]), int(graph.first[n + 1]))
        follow, winning = earned[graph.after[span]], wins[graph.after[span]]
        if graph.mover[n] == seat:
            earned[n] = follow.max()
            best = follow >= earned[n] - ROUNDED
            wins[n] = winning[best].max()
            kept[span] = best & (winning >= wins[n] - ROUNDED)
        else:
            earned[n], wins[n] = follow @ opponent[span], winning @ opponent[span]
    return evenly(graph, kept), earned
