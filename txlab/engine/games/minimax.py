"""Exhaustive search: what every position is worth when both play their best, and which moves keep it (MATH G1).

    V(s) = outcome where the game has ended;  max V(s·a) where the first player moves;  min V(s·a) where the second does

Notable: over the compiled graph this is one sweep from the last ply to the first, and not a recursion. Values are told
from the first player's view everywhere; only `Player.values` turns them to the mover's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from txlab.engine.explain import Explanation, Operand, Step
from txlab.engine.games.game import FIRST, Game, Position
from txlab.engine.games.graph import Graph, compiled


@dataclass(frozen=True, eq=False)
class Solution:
    """value     (N) int64: +1, 0, −1 from the first player's view, with best play
    distance  (N) int64: plies to the end when who wins hurries and who loses delays (a draw: the longest way)
    optimal   (E) bool: the moves that keep the value; which of them is quickest is not asked
    """

    graph: Graph
    value: np.ndarray
    distance: np.ndarray
    optimal: np.ndarray


@cache
def solved(game: Game) -> Solution:
    """Search the whole game once."""
    graph = compiled(game)
    value, distance = graph.outcome.copy(), np.zeros(graph.size, dtype=np.int64)
    for n in reversed(graph.open.tolist()):
        following = graph.after[graph.first[n] : graph.first[n + 1]]
        mover = graph.mover[n]
        value[n] = mover * (mover * value[following]).max()
        kept = distance[following[value[following] == value[n]]]
        distance[n] = 1 + (kept.min() if value[n] == mover else kept.max())
    return Solution(graph, value, distance, value[graph.after] == value[graph.before])


def verdict(solution: Solution, position: Position) -> str:
    """What the position is with best play, in words: "X wins in 3 moves", "a draw", "O has won"."""
    graph = solution.graph
    n = graph.numbered(position)
    value = int(solution.value[n])
    if value == 0:
        return "drawn" if graph.ended[n] else "a draw with best play"
    winner = graph.game.SIGNS[0 if value == FIRST else 1]
    if graph.ended[n]:
        return f"{winner} has won"
    # moves of the winner's own: of 5 plies 3, if it is the winner's turn
    own = (int(solution.distance[n]) + (1 if graph.mover[n] == value else 0)) // 2
    return f"{winner} wins in {own} move{'' if own == 1 else 's'}"


def explain(solution: Solution, position: Position, move: int | None = None) -> Explanation:
    """Why the position, or the after-state of a move in it, is worth what it is: the values of all that may follow."""
    graph = solution.graph
    n = graph.numbered(position)
    if move is not None:
        n = graph.numbered(graph.game.after(position, move))
    game, value = graph.game, float(solution.value[n])
    named = game.text(graph.positions[n])
    if graph.ended[n]:
        return Explanation(
            question=f"why is {named} worth {value:+.0f}?" if value else f"why is {named} worth 0?",
            equation="V(s) = outcome(s), where the game has ended",
            math="G1",
            source="Mehlig; exhaustive search",
            operands=[Operand("outcome(s)", value, "+1 the first player has won, −1 the second, 0 drawn")],
            steps=[Step("V(s)", "outcome(s)", value, verdict(solution, graph.positions[n]))],
            result=value,
        )
    moves = graph.moves(n)
    first = graph.mover[n] == FIRST
    choice, who = ("max", game.SIGNS[0]) if first else ("min", game.SIGNS[1])
    follow = [float(solution.value[after]) for _, after in moves]
    optimal = [game.MOVES[each] for each, after in moves if solution.value[after] == solution.value[n]]
    return Explanation(
        question=f"why is {named} worth {value:+.0f}, {game.SIGNS[0]}'s view?",
        equation=f"V(s) = {choice}ₐ V(s·a), for {who} is to move",
        math="G1",
        source="Mehlig; exhaustive search",
        operands=[Operand("V(s·a)", follow, f"what follows each move of {who}; +1 {game.SIGNS[0]} wins, −1 loses")],
        steps=[
            Step("V(s)", f"{choice} of {len(moves)}", value, verdict(solution, graph.positions[n])),
            Step("kept by", "moves with V(s·a) = V(s)", ", ".join(optimal)),
        ],
        result=value,
        labels=[game.MOVES[each] for each, _ in moves],
        asked=next(place for place, (_, after) in enumerate(moves) if solution.value[after] == solution.value[n]),
    )
