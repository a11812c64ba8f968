"""Players of Connect Four: a tree search with a network or with random play, and the exact solver (MATH G3).

Notable: the solver never guesses. In a position too early to be solved in about a second, its player uses a search for
its moves, has no values, and says so.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from txlab.engine.explain import Explaining, Explanation, Step
from txlab.engine.games.connect_four import rules
from txlab.engine.games.connect_four.network import Evaluate, PolicyValueNet, Remembered, evaluate
from txlab.engine.games.connect_four.rules import SQUARES, own_and_both, plies
from txlab.engine.games.connect_four.search import Rollouts, Search, explain_selection, selection
from txlab.engine.games.connect_four.solver import best_moves, optimal_moves, sign, solver
from txlab.engine.games.connect_four.tree import PuctSearch
from txlab.engine.games.game import Game, Move, Position
from txlab.engine.games.players import Silent, ending_words

VISITS = 400
ROLLOUTS = 200  # visits with random play: a second
KEPT = 256  # searches that are remembered, so that values, hints and `w` speak of the same one


class FreshRollouts:
    """An `Evaluate` by random play whose chance is a function of the positions asked about, so a search of a position
    is the same at any time."""

    def __call__(self, own: np.ndarray, both: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        seed = np.bitwise_xor.reduce(own * 31 + both) & 2**62 - 1
        return Rollouts(np.random.Generator(np.random.Philox(int(seed))))(own, both)


@dataclass(frozen=True, eq=False)
class SearchPlayer(Silent):
    """Plays the column that PUCT visits most; values are its Q.

    ask   evaluates the leaves     visits   of a search     c   how much it explores
    """

    name: str
    ask: Evaluate
    visits: int = VISITS
    c: float = 2.0
    known: OrderedDict[Position, Search] = field(default_factory=OrderedDict)

    @property
    def game(self) -> Game:
        return rules

    def search(self, position: Position) -> Search:
        """The search of a position, the previous one if it was of the same position."""
        search = self.known.get(position)
        if search is None:
            search = Search.of(position)
            search.run(self.ask, self.visits, self.c)
            self.known[position] = search
            if len(self.known) > KEPT:
                self.known.popitem(last=False)
        return search

    def move(self, position: Position, draw: float) -> int:
        return int(self.search(position).visits()[0].argmax())

    def moves(self, positions: Sequence[Position], draws: Sequence[float]) -> list[Move]:
        own, both = np.array([own_and_both(each) for each in positions], dtype=np.int64).T
        search = Search(own, both)
        search.run(self.ask, self.visits, self.c)
        chosen: list[Move] = search.visits().argmax(1).tolist()
        return chosen

    def terms(self, position: Position) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """N, W, P (7) at the root."""
        search = self.search(position)
        return search.N[0, 0], search.W[0, 0], search.P[0, 0]

    def values(self, position: Position) -> dict[Move, float]:
        """Q of the columns that were visited."""
        N, W, P = self.terms(position)
        Q, _ = selection(N, W, P, self.c)
        return {move: float(Q[move]) for move in rules.legal(position) if N[move]}

    def notes(self, position: Position) -> dict[Move, str]:
        """N and P: "312 visits, P .31"."""
        N, _, P = self.terms(position)
        return {move: f"{int(N[move])} visits, P {f'{P[move]:.2f}'.lstrip('0')}" for move in rules.legal(position)}

    def shares(self, position: Position) -> dict[Move, float]:
        N, _, _ = self.terms(position)
        return {move: float(N[move] / max(N.sum(), 1)) for move in rules.legal(position)}

    def best(self, position: Position) -> list[Move]:
        """The column that is visited most."""
        return [self.move(position, 0.0)] if rules.legal(position) else []

    def sees(self, position: Position) -> str:
        return f"Q of {self.visits} visits, {self.name}"

    def explain(self, position: Position, move: Move) -> Explanation | None:
        if move not in rules.legal(position):
            return None
        N, W, P = self.terms(position)
        return explain_selection(N, W, P, self.c, move, f"{rules.text(position)} ({self.name})", "Q")

    def tree(self, position: Position) -> PuctSearch | None:
        """Continues the player's search, if there is one."""
        known = self.known.get(position)
        return PuctSearch(self.name, position, self.ask, self.c, known) if rules.legal(position) else None


def network_player(name: str, net: PolicyValueNet, visits: int, c: float) -> SearchPlayer:
    """The search of a network, which plays as it has learnt: without noise, the column visited most."""

    def ask(own: np.ndarray, both: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return evaluate(net, own, both)

    return SearchPlayer(name, Remembered(ask), visits, c)


def rollout_player(game: Game) -> SearchPlayer:
    """The search without a network."""
    return SearchPlayer("search", FreshRollouts(), ROLLOUTS)


@dataclass(frozen=True, eq=False)
class SolverPlayer(Silent):
    """Plays perfectly once a position can be solved in about a second; before that, it plays by search."""

    before: SearchPlayer = field(default_factory=lambda: rollout_player(rules))

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"perfect from move {solver().quick_from + 1}"

    @property
    def game(self) -> Game:
        return rules

    def solves(self, position: Position) -> bool:
        return plies(position) >= solver().quick_from

    def move(self, position: Position, draw: float) -> int:
        """Evenly among the quickest wins, or the slowest losses."""
        if not self.solves(position):
            return self.before.move(position, draw)
        best = best_moves(solver().scores(position))
        return best[int(draw * len(best))]

    def values(self, position: Position) -> dict[Move, float]:
        if not self.solves(position) or not rules.legal(position):
            return {}
        return {move: float(sign(score)) for move, score in solver().scores(position).items()}

    def notes(self, position: Position) -> dict[Move, str]:
        if not self.solves(position) or not rules.legal(position):
            return {}
        return {move: ending_words(*fate(position, score)) for move, score in solver().scores(position).items()}

    def best(self, position: Position) -> list[Move]:
        if not self.solves(position) or not rules.legal(position):
            return []
        return list(best_moves(solver().scores(position)))

    def sees(self, position: Position) -> str:
        if self.solves(position):
            return "best play, solved"
        return f"nothing yet: solved from move {solver().quick_from + 1} on, searched before"

    def explain(self, position: Position, move: Move) -> Explanation | None:
        """The scores of all columns; of a position that is searched, the terms of the search."""
        if move not in rules.legal(position):
            return None
        if not self.solves(position):
            return self.before.explain(position, move)
        scores = solver().scores(position)
        outcome, after = fate(position, scores[move])
        best = ", ".join(rules.MOVES[each] for each in optimal_moves(scores))
        question = f"why {sign(scores[move]):+d} for column {rules.MOVES[move]} in {rules.text(position)}?"
        why = Explaining(question, outcome, [rules.MOVES[each] for each in scores], list(scores).index(move))
        equation = "score = 22 − stones of the winner at the end; negative for a loss, 0 for a draw"
        why.equation(equation, "G3", "solved exactly by alpha-beta; Pons 2015")
        why.input("score(·)", list(scores.values()), "of each column, for the player to move")
        why.step("score", "max over both sides' best moves", scores[move], ending_words(outcome, after))
        why.step("value", "sign of the score", sign(scores[move]))
        why.means(Step("kept by", "columns with the best outcome", best))
        return why.result()

    def tree(self, position: Position) -> PuctSearch | None:
        return None if self.solves(position) else self.before.tree(position)


def fate(position: Position, score: int) -> tuple[int, int]:
    """(+1, 0, −1; moves of both sides after this one until the game ends) of a move with that score."""
    if not score:
        return 0, SQUARES - plies(position) - 1
    stones = SQUARES // 2 + 1 - abs(score)  # of the winner, when it has won
    first = plies(position) % 2 == 0
    winner_is_first = first == (score > 0)
    end = 2 * stones - 1 if winner_is_first else 2 * stones
    return sign(score), end - plies(position) - 1


def solver_player(game: Game) -> SolverPlayer:
    return SolverPlayer()
