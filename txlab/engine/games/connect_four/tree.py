"""A PUCT search of one position, visit by visit, and its tree (MATH G3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from txlab.engine.explain import Explaining, Explanation
from txlab.engine.games.connect_four import rules
from txlab.engine.games.connect_four.network import Evaluate
from txlab.engine.games.connect_four.search import FULL, Choices, Search, explain_selection, selection
from txlab.engine.games.game import Game, Position
from txlab.engine.games.search_tree import Branch, Choice, Node, Path, Visit


@dataclass(frozen=True, eq=False)
class PuctTree:
    """The arrays of a `Search` of one game at one moment: N, W, P, child (M, 7), V (M)."""

    position: Position
    c: float
    N: np.ndarray
    W: np.ndarray
    P: np.ndarray
    child: np.ndarray
    V: np.ndarray
    last: Visit | None

    @property
    def visits(self) -> int:
        return int(self.N[0].sum())

    @property
    def nodes(self) -> int:
        return len(self.V)

    def place(self, path: Path) -> int | None:
        """The number of a node."""
        place = 0
        for move in path:
            place = int(self.child[place, move])
            if place <= 0:
                return None
        return place

    def node(self, path: Path) -> Node | None:
        place = self.place(path)
        if place is None:
            return None
        position = self.position
        for move in path:
            position = rules.after(position, move)
        N, W, P, child, V = self.N[place], self.W[place], self.P[place], self.child[place], float(self.V[place])
        Q, U = selection(N, W, P, self.c)
        branches = tuple(
            Branch(move, int(N[move]), float(P[move]), float(Q[move]), float(U[move]), int(child[move]) > 0)
            for move in np.flatnonzero(child != FULL).tolist()
        )
        return Node(position, V, (V + float(W.sum())) / (1 + int(N.sum())), branches)

    def explain(self, path: Path) -> Explanation:
        if not path:
            return explain_value(self.N[0], self.W[0], float(self.V[0]))
        place = self.place(path[:-1])
        assert place is not None
        where = f"the position after {' '.join(rules.MOVES[move] for move in path[:-1])}" if path[1:] else "the root"
        return explain_selection(self.N[place], self.W[place], self.P[place], self.c, path[-1], where)


class PuctSearch:
    """A search of a position, whose leaves `ask` evaluates; it continues `begun`, a search of the same position that
    stays as it is."""

    def __init__(self, name: str, position: Position, ask: Evaluate, c: float, begun: Search | None = None) -> None:
        self.name, self.position, self.ask, self.c = name, position, ask, c
        self.search = Search.of(position)
        if begun is not None:
            self.search.load(begun.state())
        self.last: tuple[Choices, float, bool] | None = None

    @property
    def game(self) -> Game:
        return rules

    @property
    def visits(self) -> int:
        return int(self.search.visits().sum())

    def anew(self) -> PuctSearch:
        return PuctSearch(self.name, self.position, self.ask, self.c)

    def visit(self) -> None:
        search = self.search
        search.prepare(self.ask)
        size = int(search.size[0])
        if size == search.N.shape[1]:
            search.grow(2 * size)
        choices, value = search.visit(self.ask, self.c)
        self.last = choices, float(value[0]), int(search.size[0]) > size

    def tree(self) -> PuctTree:
        self.search.prepare(self.ask)
        size = int(self.search.size[0])
        arrays = {name: array[0, :size].copy() for name, array in self.search.arrays().items()}
        return PuctTree(self.position, self.c, **arrays, last=self.last_visit())

    def last_visit(self) -> Visit | None:
        """The last visit; called before the next one."""
        if self.last is None:
            return None
        path, value, expanded = self.last
        choices: list[Choice] = []
        for level, (_, places, moves, Q, U) in enumerate(path):
            place, move = int(places[0]), int(moves[0])
            N, W, P = (array[0, place] for array in (self.search.N, self.search.W, self.search.P))
            q, u = selection(N, W, P, self.c)
            before = Branch(move, int(N[move]) - 1, float(P[move]), float(Q[0, move]), float(U[0, move]))
            after = Branch(move, int(N[move]), float(P[move]), float(q[move]), float(u[move]))
            choices.append(Choice(before, after, value if (len(path) - level) % 2 == 0 else -value))
        return Visit(tuple(choices), value, expanded)


def explain_value(N: np.ndarray, W: np.ndarray, V: float) -> Explanation:
    """Why a position is worth what its search says."""
    visits, total = int(N.sum()), float(W.sum())
    value = (V + total) / (1 + visits)
    why = Explaining(f"why {value:+.4f} for the root, whose player is to move?", value, rules.MOVES)
    why.equation("value(s) = (V(s) + Σ W(s, a)) / (1 + Σ N(s, a))", "G3", "Rosin 2011; Silver et al. 2017")
    why.input("N(s, ·)", N.tolist(), "visits of each column")
    why.input("W(s, ·)", W.tolist(), "sums of the values backed up")
    why.input("V(s)", V, "its own evaluation")
    why.input("Σ W", total)
    why.input("Σ N", visits)
    why.compute("value", "({} + {}) / (1 + {})", lambda v, w, n: (v + w) / (1 + n), V, total, visits)
    return why.result()
