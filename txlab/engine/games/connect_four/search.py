"""Tree search by PUCT, batched over many games (MATH G3; Rosin 2011; Silver et al. 2017).

    a = argmaxₐ [Q(s, a) + U(s, a)],   U = c P(s, a) √N(s) / (1 + N(s, a)),   Q = W / N, 0 before the first visit

A visit follows these choices from the root to a position that has no node yet, evaluates it, gives it a node with its
priors P, and adds the value, with alternating sign, to W along the way, and 1 to N. N(s) = 1 + Σ N(s, a) counts the
evaluation of s itself, so that the priors order the first choice. The end of a game has its own value and no node. With
tactics, the value is 1 where the player to move can win with this move, −1 where it cannot stop the other from doing
so, and moves that miss the first or allow the second are left out: the network does not have to learn what the rules
show one move ahead.

Notable: each game's tree is a row of the same arrays, and a visit is made in all games together, so their leaves are
one batch for the network; a tree of Python objects takes 50 µs a visit, this one 3 (256 games, without the network).
After a move the tree below it is kept.
"""

from __future__ import annotations

from math import sqrt
from operator import add, sub, truediv
from typing import Any, TypeAlias

import numpy as np

from txlab.engine.explain import Explaining, Explanation, compute_step
from txlab.engine.games.connect_four.network import Evaluate, legal_columns
from txlab.engine.games.connect_four.rules import (
    BOARD,
    BOTTOM,
    COLUMN,
    COLUMNS,
    MOVES,
    STRIDE,
    has_four,
    own_and_both,
    square_of,
)
from txlab.engine.games.connect_four.threats import winning
from txlab.engine.games.game import Position

FULL = -1
"""In `child`: no move, the column is full or left out. 0: a move without a node below it."""

Choices: TypeAlias = list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]]
"""Of a visit, from the root down: the games (R) whose path continues, their nodes and moves (R), Q and U (R, 7)
there."""


def selection(N: np.ndarray, W: np.ndarray, P: np.ndarray, c: float) -> tuple[np.ndarray, np.ndarray]:
    """Q and U of each move (…, 7), from its visits N, the sum of its values W and its prior P."""
    Q = W / np.maximum(N, 1)
    U = c * P * np.sqrt(1 + N.sum(-1, keepdims=True)) / (1 + N)
    return Q, U


def play_moves(own: np.ndarray, both: np.ndarray, move: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """own and both (B) after these moves (B), for the other player, and whether the moves have won."""
    square = square_of(both, move)
    return own ^ both, both | square, has_four(own | square) != 0


def random_columns(both: np.ndarray, draws: np.random.Generator) -> np.ndarray:
    """(B) columns that are not full, each equally likely."""
    chance = np.where(legal_columns(both), draws.random((len(both), COLUMNS)), -1.0)
    return np.asarray(chance.argmax(1))


def sensible(own: np.ndarray, both: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The columns worth a visit (B, 7), and the outcome if they decide it (B): +1 a win, −1 a loss, NaN undecided.

    An immediate win is taken; otherwise an immediate win of the other is blocked, and no stone placed below one. If
    that leaves no column, the position is lost.
    """
    squares = (both + BOTTOM) & BOARD
    wins, threats = winning(own, both) & squares, winning(own ^ both, both)
    forced = squares & threats
    blocks = np.where(forced != 0, forced, squares)
    safe = np.where(forced & (forced - 1), 0, blocks & ~(threats >> 1))
    chosen = np.where(wins != 0, wins, np.where(safe != 0, safe, blocks))
    columns = np.stack([chosen & (COLUMN << STRIDE * column) for column in range(COLUMNS)], axis=-1) != 0
    return columns, np.where(wins != 0, 1.0, np.where(safe == 0, -1.0, np.nan))


class Search:
    """The trees of G games, whose roots are the positions own (G), both (G); none of them has ended.

    N, W, P (G, M, 7)   visits, sum of values for the player to move, and prior of each move of each node; node 0 is the
                        root
    child (G, M, 7)     the node below each move, 0 if there is none, FULL if the column is
    V (G, M)            the network's value of each node, for its player to move
    size (G)            nodes of each game
    tactics             whether `sensible` leaves out columns, and gives values where it can, instead of the network
    """

    def __init__(self, own: np.ndarray, both: np.ndarray, tactics: bool = False) -> None:
        self.tactics = tactics
        self.own, self.both = np.array(own, dtype=np.int64), np.array(both, dtype=np.int64)
        self.size = np.zeros(len(self.own), dtype=np.int64)
        self.allocate(1)

    @classmethod
    def of(cls, position: Position) -> Search:
        """The search of one position."""
        own, both = own_and_both(position)
        return cls(np.array([own]), np.array([both]))

    @property
    def games(self) -> int:
        return len(self.own)

    def allocate(self, room: int) -> None:
        shape = (self.games, room, COLUMNS)
        self.N, self.child = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.int32)
        self.W, self.P = np.zeros(shape), np.zeros(shape)
        self.V = np.zeros(shape[:2])

    def arrays(self) -> dict[str, np.ndarray]:
        return {"N": self.N, "W": self.W, "P": self.P, "child": self.child, "V": self.V}

    def grow(self, room: int) -> None:
        """Make room for this number of nodes in each game."""
        before = self.arrays()
        there = self.N.shape[1]
        if there < room:
            self.allocate(room)
            for name, array in self.arrays().items():
                array[:, :there] = before[name]

    # Visits

    def add(self, rows: np.ndarray, own: np.ndarray, both: np.ndarray, evaluate: Evaluate) -> np.ndarray:
        """Give these games (R) a node each, for the positions own (R), both (R); return their values (R)."""
        columns, decided = sensible(own, both) if self.tactics else (legal_columns(both), np.full(len(own), np.nan))
        priors, values = columns.astype(np.float64), decided
        asked = np.isnan(decided)
        if asked.any():
            p, values[asked] = evaluate(own[asked], both[asked])
            p = np.where(columns[asked], p, 0.0)
            priors[asked] = np.where(p.any(1, keepdims=True), p, columns[asked])
        priors /= priors.sum(1, keepdims=True)
        place = self.size[rows]
        self.P[rows, place], self.V[rows, place] = priors, values
        self.child[rows, place] = np.where(columns, 0, FULL)
        self.size[rows] += 1
        return values

    def prepare(self, evaluate: Evaluate) -> None:
        """Evaluate the roots that have no node."""
        rows = np.flatnonzero(self.size == 0)
        if len(rows):
            self.add(rows, self.own[rows], self.both[rows], evaluate)

    def run(self, evaluate: Evaluate, visits: int, c: float) -> None:
        """Make this number of further visits in every game."""
        self.grow(int(self.size.max()) + visits + 1)
        self.prepare(evaluate)
        for _ in range(visits):
            self.visit(evaluate, c)

    def visit(self, evaluate: Evaluate, c: float) -> tuple[Choices, np.ndarray]:
        """Make one visit in every game; return its choices, and the value (G) of where each path ended, for the player
        to move there."""
        own, both = self.own.copy(), self.both.copy()
        node = np.zeros(self.games, dtype=np.int64)
        value = np.zeros(self.games)  # for the player to move in the leaf
        path: Choices = []
        leaves = []
        rows = np.arange(self.games)  # the games whose path continues
        while len(rows):
            there = node[rows]
            child = self.child[rows, there]
            Q, U = selection(self.N[rows, there], self.W[rows, there], self.P[rows, there], c)
            move = np.where(child == FULL, -np.inf, Q + U).argmax(1)
            own[rows], both[rows], won = play_moves(own[rows], both[rows], move)
            path.append((rows, there, move, Q, U))
            value[rows[won]] = -1.0
            open_ = ~won & (both[rows] != BOARD)
            below = child[np.arange(len(rows)), move]
            leaves.append(rows[open_ & (below == 0)])
            goes_on = open_ & (below > 0)
            node[rows[goes_on]] = below[goes_on]
            rows = rows[goes_on]
        for (rows, there, move, *_), new in zip(path, leaves, strict=True):
            at = np.searchsorted(rows, new)
            self.child[new, there[at], move[at]] = self.size[new]
        new = np.sort(np.concatenate(leaves))
        if len(new):
            value[new] = self.add(new, own[new], both[new], evaluate)
        reached = value.copy()
        for rows, there, move, *_ in reversed(path):
            value[rows] = -value[rows]
            self.N[rows, there, move] += 1
            self.W[rows, there, move] += value[rows]
        return path, reached

    def add_noise(self, share: float, concentration: float, draws: np.random.Generator) -> None:
        """Mix the priors of the roots with noise: P ← (1 − ε) P + ε η, η ~ Dirichlet(α) over the legal columns."""
        legal = self.child[:, 0] != FULL
        drawn = np.where(legal, draws.standard_gamma(concentration, legal.shape), 0.0)
        eta = drawn / np.maximum(drawn.sum(1, keepdims=True), 1e-300)
        self.P[:, 0] = (1 - share) * self.P[:, 0] + share * eta

    # What was found

    def visits(self) -> np.ndarray:
        """(G, 7): N of the moves at the roots."""
        return self.N[:, 0]

    def value(self) -> np.ndarray:
        """The value (G) of the root for the player to move: the mean of all visits and the network's own value."""
        mean: np.ndarray = (self.V[:, 0] + self.W[:, 0].sum(1)) / (1 + self.N[:, 0].sum(1))
        return mean

    def line(self, game: int = 0) -> tuple[int, ...]:
        """The moves that are visited most, from the root on."""
        moves: list[int] = []
        node = 0
        while self.N[game, node].any():
            moves.append(int(self.N[game, node].argmax()))
            node = int(self.child[game, node, moves[-1]])
            if node == 0:
                break
        return tuple(moves)

    # The next position

    def advance(self, moves: np.ndarray) -> None:
        """Make a move (G) in every game, and keep the tree below it."""
        rows = np.arange(self.games)
        self.own, self.both, _ = play_moves(self.own, self.both, moves)
        root = self.child[rows, 0, moves].astype(np.int64)
        # A node's parent has a lower number, so one pass from the first to the last finds all below the new root.
        room = int(self.size.max())
        parent = np.zeros((self.games, room), dtype=np.int64)
        at = np.nonzero(self.child[:, :room] > 0)
        parent[at[0], self.child[at]] = at[1]
        kept = np.zeros((self.games, room), dtype=bool)
        kept[rows[root > 0], root[root > 0]] = True
        for node in range(1, room):
            kept[:, node] |= kept[rows, parent[:, node]]
        kept[:, 0] = False
        number = np.where(kept, kept.cumsum(1) - 1, 0)
        before = {name: array[:, :room][kept] for name, array in self.arrays().items()}
        game, place = np.nonzero(kept)
        child = before["child"]
        before["child"] = np.where(child > 0, number[game[:, None], np.maximum(child, 0)], child)
        self.size = kept.sum(1)
        self.allocate(max(int(self.size.max()), 1))
        for name, array in self.arrays().items():
            array[game, number[game, place]] = before[name]

    def begin(self, rows: np.ndarray, own: np.ndarray, both: np.ndarray) -> None:
        """Give these games (R) new roots (R), without trees."""
        self.own[rows], self.both[rows], self.size[rows] = own, both, 0
        for array in self.arrays().values():
            array[rows] = 0

    # An exact restart

    def state(self) -> dict[str, Any]:
        room = max(int(self.size.max()), 1)
        kept = {name: array[:, :room].copy() for name, array in self.arrays().items()}
        return {"own": self.own.copy(), "both": self.both.copy(), "size": self.size.copy(), **kept}

    def load(self, state: dict[str, Any]) -> None:
        arrays = {name: np.asarray(each).copy() for name, each in state.items()}
        self.own, self.both, self.size = arrays["own"], arrays["both"], arrays["size"]
        self.allocate(arrays["N"].shape[1])
        for name, array in self.arrays().items():
            array[...] = arrays[name]


class Rollouts:
    """An `Evaluate` without a network: even priors, and the result of a game that is ended with random moves."""

    def __init__(self, draws: np.random.Generator) -> None:
        self.draws = draws

    def __call__(self, own: np.ndarray, both: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        legal = legal_columns(both)
        priors = legal / legal.sum(1, keepdims=True)
        own, both, values = own.copy(), both.copy(), np.zeros(len(own))
        rows, sign = np.arange(len(own)), 1.0
        while len(rows):
            own[rows], both[rows], won = play_moves(own[rows], both[rows], random_columns(both[rows], self.draws))
            values[rows[won]] = sign
            rows = rows[~won & (both[rows] != BOARD)]
            sign = -sign
        return priors, values


def exploration(c: float, p: float, total: float, n: float) -> float:
    """U of one move."""
    return c * p * sqrt(total) / (1 + n)


def explain_selection(
    N: np.ndarray,
    W: np.ndarray,
    P: np.ndarray,
    c: float,
    move: int,
    where: str = "the root",
    term: str = "score",
    value: float | None = None,
) -> Explanation:
    """Why the next visit would value a move as it does: its Q and U among those of all moves (7).

    term   "score" for the sum, "Q" or "U" for one of the two; value   the recorded one, None = it is computed here
    """
    Q, U = selection(N, W, P, c)
    total, n = int(1 + N.sum()), int(N[move])
    best = int(np.where(P > 0, Q + U, -np.inf).argmax())
    what = "" if term == "score" and value is None else f"is {term} "
    value = float({"Q": Q, "U": U, "score": Q + U}[term][move]) if value is None else value
    why = Explaining(f"why {what}{value:+.4f} for column {MOVES[move]} in {where}?", value, MOVES, move)
    equation = "Q(s, a) + U(s, a),  Q = W / N(s, a),  U = c P(s, a) √N(s) / (1 + N(s, a))"
    why.equation(equation, "G3", "Rosin 2011; Silver et al. 2017")
    why.input("N(s, ·)", N.tolist(), "visits of each column")
    why.input("P(s, ·)", P.tolist(), "the network's prior, mixed with noise at the root during self-play")
    why.input("c", c, "exploration constant")
    why.input("N(s)", total, "1 + Σ N(s, a)")
    why.input("N(s, a)", n, f"visits of column {MOVES[move]}")
    why.input("W", float(W[move]), "sum of the values backed up")
    why.input("P(s, a)", float(P[move]))
    if n:
        why.compute("Q", "{} / {}", truediv, float(W[move]), n)
    else:
        why.step("Q", "0", 0.0, "unvisited")
    chosen_by = [
        compute_step("U", "{} · {} · √{} / (1 + {})", exploration, c, float(P[move]), total, n),
        compute_step("Q + U", "{} + {}", add, float(Q[move]), float(U[move])),
    ]
    if term == "Q":
        why.means(*chosen_by)
    else:
        why.steps += chosen_by[: 1 if term == "U" else 2]
    first, own, note = float((Q + U)[best]), float(Q[move] + U[move]), f"the next visit goes to column {MOVES[best]}"
    why.means(compute_step("behind the first", "{} − {}", sub, first, own, note=note))
    return why.result()
