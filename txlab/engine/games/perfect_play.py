"""Exact results from the whole graph of a game: best play, the outcome of two policies, best responses (MATH G1).

    V(s) = outcome where the game has ended;  max V(s·a) where the first player moves;  min V(s·a) where the second does
    reach(start) = 1;  reach(s·a) += reach(s) · π(a|s), π being the mover's;  won = Σ reach(s) where the game has ended

Notable: each is one sweep over the plies of the compiled graph, not a recursion, and no game is played: a match is
computed a hundred thousand times faster than it could be played to the same precision. All values are from the first
player's view; only `Player.values` converts them to the mover's.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from txlab.engine.explain import Explaining, Explanation, Step
from txlab.engine.games.game import FIRST, Position, SmallGame
from txlab.engine.games.graph import ROUNDED, GameGraph, compile_graph, evenly


@dataclass(frozen=True, eq=False)
class Solution:
    """value     (N) int64: +1, 0, −1 from the first player's view, with best play
    distance  (N) int64: plies to the end if the winner hurries and the loser delays (in a draw, the longest path)
    optimal   (E) bool: the moves that preserve the value, whether or not they are the quickest
    """

    graph: GameGraph
    value: np.ndarray
    distance: np.ndarray
    optimal: np.ndarray


@cache
def solve_game(game: SmallGame) -> Solution:
    """Solve a game exactly; searched once and cached."""
    graph = compile_graph(game)
    value, distance = graph.outcome.copy(), np.zeros(graph.size, dtype=np.int64)
    for n in reversed(graph.open.tolist()):
        following = graph.after[graph.first[n] : graph.first[n + 1]]
        mover = graph.mover[n]
        value[n] = mover * (mover * value[following]).max()
        kept = distance[following[value[following] == value[n]]]
        distance[n] = 1 + (kept.min() if value[n] == mover else kept.max())
    return Solution(graph, value, distance, value[graph.after] == value[graph.before])


def verdict(solution: Solution, position: Position) -> str:
    """The result of the position under best play, in words: "X wins in 3 moves", "a draw", "O has won"."""
    graph = solution.graph
    n = graph.number_of(position)
    value = int(solution.value[n])
    if value == 0:
        return "drawn" if graph.ended[n] else "a draw with best play"
    winner = graph.game.SIGNS[0 if value == FIRST else 1]
    if graph.ended[n]:
        return f"{winner} has won"
    # the winner's own moves: 3 of 5 plies, if it is the winner's turn
    own = (int(solution.distance[n]) + (1 if graph.mover[n] == value else 0)) // 2
    return f"{winner} wins in {own} move{'' if own == 1 else 's'}"


def explain(solution: Solution, position: Position, move: int | None = None) -> Explanation:
    """Explain the value of the position, or of the after-state of a move in it, by the values of all its successors."""
    graph = solution.graph
    n = graph.number_of(position)
    if move is not None:
        n = graph.number_of(graph.game.after(position, move))
    game, value = graph.game, float(solution.value[n])
    named = game.text(graph.positions[n])
    if graph.ended[n]:
        why = Explaining(f"why is {named} worth {value:+.0f}?" if value else f"why is {named} worth 0?", value)
        why.equation("V(s) = outcome(s), where the game has ended", "G1", "Mehlig; exhaustive search")
        why.input("outcome(s)", value, "+1 the first player has won, −1 the second, 0 drawn")
        why.measurement("V(s)", verdict(solution, graph.positions[n]), "outcome(s)")
        return why.result()
    moves = graph.moves(n)
    first = graph.mover[n] == FIRST
    choice, who = ("max", game.SIGNS[0]) if first else ("min", game.SIGNS[1])
    follow = [float(solution.value[after]) for _, after in moves]
    optimal = [game.MOVES[each] for each, after in moves if solution.value[after] == solution.value[n]]
    question, labels = f"why is {named} worth {value:+.0f}, {game.SIGNS[0]}'s view?", [game.MOVES[a] for a, _ in moves]
    why = Explaining(question, value, labels, follow.index(value))
    why.equation(f"V(s) = {choice}ₐ V(s·a), for {who} is to move", "G1", "Mehlig; exhaustive search")
    why.input("V(s·a)", follow, f"what follows each move of {who}; +1 {game.SIGNS[0]} wins, −1 loses")
    best = max(follow) if first else min(follow)
    why.step("V(s)", f"{choice} of {len(moves)}", best, verdict(solution, graph.positions[n]))
    why.means(Step("kept by", "moves with V(s·a) = V(s)", ", ".join(optimal)))
    return why.result()


# Matches, computed and not played


@dataclass(frozen=True)
class Chances:
    """The probabilities of winning, drawing and losing for one side of a match; they sum to one."""

    won: float
    drawn: float
    lost: float

    @property
    def mean(self) -> float:
        """E[r] with r = +1 won, 0 drawn, −1 lost."""
        return self.won - self.lost

    def swap_sides(self) -> Chances:
        """The chances of the other side."""
        return Chances(self.lost, self.drawn, self.won)


def chances(graph: GameGraph, first: np.ndarray, second: np.ndarray) -> Chances:
    """The chances of the first player when it plays the policy `first` (E) and the other plays `second` (E)."""
    taken = np.where(graph.mover[graph.before] > 0, first, second)  # (E)
    reach = np.zeros(graph.size)
    reach[0] = 1.0
    for span in graph.plies:
        reach += np.bincount(graph.after[span], reach[graph.before[span]] * taken[span], minlength=graph.size)
    won, drawn, lost = (float(reach[graph.ended & (graph.outcome == wanted)].sum()) for wanted in (1, 0, -1))
    return Chances(won, drawn, lost)


def both_seats(graph: GameGraph, policy: np.ndarray, opponent: np.ndarray) -> tuple[Chances, Chances]:
    """The chances of `policy` as first and as second player."""
    return chances(graph, policy, opponent), chances(graph, opponent, policy).swap_sides()


def fractions(graph: GameGraph, first: np.ndarray, second: np.ndarray) -> tuple[Fraction, Fraction, Fraction]:
    """Exact (won, drawn, lost) of the first player; each side chooses uniformly among its mask (E, bool)."""
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


def best_response(graph: GameGraph, opponent: np.ndarray, seat: int) -> tuple[np.ndarray, np.ndarray]:
    """The best response to the policy `opponent` (E) as first (+1) or second (−1) player.

    It maximises E[r], r = +1 won, 0 drawn, −1 lost; among equally good moves, the probability of winning (and so also
    of losing). Returns its policy (E), uniform over ties, and E[r] of every position (N) from its own view.
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
