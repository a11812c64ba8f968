"""PUCT once more: one tree, recursion, plain Python numbers, positions of rules.py (MATH G3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt

import numpy as np

from txlab.engine.games.connect_four import rules
from txlab.engine.games.connect_four.network import Evaluate
from txlab.engine.games.game import Position


@dataclass
class Node:
    P: list[float]
    V: float
    N: list[int] = field(default_factory=lambda: [0] * 7)
    W: list[float] = field(default_factory=lambda: [0.0] * 7)
    below: dict[int, Node] = field(default_factory=dict)

    def Q(self, move: int) -> float:
        return self.W[move] / self.N[move] if self.N[move] else 0.0

    def U(self, move: int, c: float) -> float:
        return c * self.P[move] * sqrt(1 + sum(self.N)) / (1 + self.N[move])


def winning_moves(position: Position) -> list[int]:
    return [move for move in rules.legal(position) if rules.outcome(rules.after(position, move)) not in (None, 0)]


def safe_moves(position: Position) -> list[int]:
    """Those after which the other has no win at once."""
    return [move for move in rules.legal(position) if not winning_moves(rules.after(position, move))]


def threatened_columns(position: Position) -> list[int]:
    """Where the other would win if it were its turn."""
    own, both = rules.own_and_both(position)
    return [move for move in rules.legal(position) if rules.has_four(own ^ both | rules.square_of(both, move))]


def new_node(position: Position, ask: Evaluate, tactics: bool) -> Node:
    own, both = rules.own_and_both(position)
    priors, values = ask(np.array([own]), np.array([both]))
    P, V = priors[0].tolist(), float(values[0])
    if tactics:
        wins, safe = winning_moves(position), safe_moves(position)
        visited = wins or safe or threatened_columns(position) or rules.legal(position)
        if wins or not safe:
            P, V = [1.0] * 7, 1.0 if wins else -1.0
        P = [p if move in visited else 0.0 for move, p in enumerate(P)]
        P = [p / sum(P) for p in P]
    return Node(P, V)


def visit(node: Node, position: Position, ask: Evaluate, c: float, tactics: bool = False) -> float:
    """One visit; returns the value for the player to move."""
    scores = {a: node.Q(a) + node.U(a, c) for a in rules.legal(position) if node.P[a] > 0}
    move = max(scores, key=scores.__getitem__)
    after = rules.after(position, move)
    outcome = rules.outcome(after)
    if outcome is not None:
        value = float(outcome * rules.mover(position))
    elif move in node.below:
        value = -visit(node.below[move], after, ask, c, tactics)
    else:
        node.below[move] = new_node(after, ask, tactics)
        value = -node.below[move].V
    node.N[move] += 1
    node.W[move] += value
    return value


def searched(position: Position, ask: Evaluate, visits: int, c: float, tactics: bool = False) -> Node:
    root = new_node(position, ask, tactics)
    for _ in range(visits):
        visit(root, position, ask, c, tactics)
    return root
