"""Learning a game by self-play: a table, its settings, the loops of its rules (MATH G1; Tesauro 1995).

    TD(0), TD(λ)   δ = V(s′) − V(s), where the game ended in s′: δ = r − V(s);   V(x) ← V(x) + α δ e(x) for every x of
                   this game, e(s) = 1 for the position just left and λ times as much for each earlier one
    Q-learning     Q(s, a) ← Q(s, a) + α (best Q(s′, ·) − Q(s, a)),   best: the highest where the first player moves in
                   s′, the lowest where the second does
    SARSA          Q(s, a) ← Q(s, a) + α (Q(s′, a′) − Q(s, a)),       a′: the move that was made there
    both           Q(s, a) ← Q(s, a) + α (r − Q(s, a)),               where the game ended in s′

Sutton and Barto 2018, sections 1.5, 6.4, 6.5, 6.8 and 12.2. Notable: both sides are one learner with one table, always
from the *first* player's view: the first player moves to the highest value, the second to the lowest, and no sign is
ever flipped (flipping it at each ply would be the other correct way; doing both, or neither, teaches one side to lose).
The outcome of a finished game is known from the rules and is not learnt: the table holds the outcome there, with no
bootstrap beyond it. γ = 1.

Two settings decide the result (TD(0), α = ε = .1, 100 000 games of tic-tac-toe, evaluated exactly).
`exploring`: a random move says little about the result of best play. If such moves do not update the table (section
1.5), it converges to the value of best play, and 32 of 32 learners cannot be beaten. If they do, it converges to the
value of play with mistakes, and the learner sets traps: as first player it wins .990 against a random player instead of
.968, but only 2 of 8 cannot be beaten, and as second it loses .05 of the games against a perfect player.
`initial`: from 0, the value of a draw, drawn positions stay exactly equal and the learner chooses uniformly among them.
From .5, and even from .02, untried moves look good to the first player and bad to the second: 8 of 8 can be beaten as
first (.14 and .11 of the games against perfect play are lost), and from −.5 as second (.62).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from operator import itemgetter
from typing import Any, Literal, get_args

import numpy as np

from txlab.engine.games.graph import GameGraph
from txlab.engine.games.players import MaskPlayer, table_player
from txlab.engine.rl.draws import uniforms
from txlab.errors import LabError, nearest

Rule = Literal["td", "td-lambda", "q-learning", "sarsa"]
RULES: tuple[Rule, ...] = get_args(Rule)
OF_POSITIONS: tuple[Rule, ...] = ("td", "td-lambda")
"""Rules that learn V of positions; the others learn Q of moves."""

TITLES: dict[Rule, str] = {"td": "TD(0)", "td-lambda": "TD(λ)", "q-learning": "Q-learning", "sarsa": "SARSA"}

BOUNDS = {"alpha": (0.0, 1.0), "epsilon": (0.0, 1.0), "lam": (0.0, 1.0), "decay": (0.0, 1.0), "floor": (0.0, 1.0)}

CHUNK = 4096  # plies per batch of random draws
NEVER = 1 << 62


@dataclass(frozen=True)
class SelfPlaySettings:
    """rule        the update rule
    alpha       α, the step size
    epsilon     ε, the probability of a random move; in game n it is ε · decayⁿ, never below `floor`
    lam         λ of td-lambda: how far back along the game an error is propagated
    initial     the initial value of the table; the outcome of a finished game is known from the rules
    exploring   whether a random move updates V of the position before it; SARSA and Q-learning always learn
    """

    rule: Rule = "td"
    alpha: float = 0.1
    epsilon: float = 0.1
    lam: float = 0.8
    decay: float = 1.0
    floor: float = 0.0
    initial: float = 0.0
    exploring: bool = False

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise LabError(f"rule = {self.rule!r} is not known{nearest(self.rule, RULES)}; allowed: {', '.join(RULES)}")
        for name, (low, high) in BOUNDS.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise LabError(f"{name} must be from {low:g} to {high:g}; it is {value}")
        if not -1 <= self.initial <= 1:
            raise LabError(f"initial must be from -1 to 1, as results are; it is {self.initial}")

    @property
    def title(self) -> str:
        """The name shown to people: "TD(λ=0.8)"."""
        return f"TD(λ={self.lam:g})" if self.rule == "td-lambda" else TITLES[self.rule]

    def cells(self, graph: GameGraph) -> int:
        """The number of values in the table of a game: one per position, or one per move."""
        return graph.size if self.rule in OF_POSITIONS else len(graph.move)

    def epsilon_of(self, game: int) -> float:
        """ε of game 0, 1, …"""
        return max(self.epsilon * self.decay**game, self.floor) if self.decay < 1 else max(self.epsilon, self.floor)


def change_settings(settings: SelfPlaySettings, **changes: Any) -> SelfPlaySettings:
    """The settings with changed values. LabError for an unknown name, a value out of bounds, or another rule."""
    allowed = [each.name for each in fields(SelfPlaySettings) if each.name not in ("rule", "initial")]
    for name in changes:
        if name not in allowed:
            raise LabError(f"{name} cannot be changed{nearest(name, allowed)}; allowed: {', '.join(allowed)}")
    return replace(settings, **changes)


class SelfPlayLearner:
    """One table, one random seed; the loops of the rules are in AfterStates and ActionValues.

    graph, settings, seed
    table       (cells): V of N positions or Q of E moves, the first player's view; a list, for fast access in the loop
    plies       moves made so far: step t of the draws is ply t       games   games finished
    position    the current position of the game being played
    results     [drawn, won, lost] games so far, the first player's view: results[outcome]
    """

    cells: int

    def __init__(self, graph: GameGraph, settings: SelfPlaySettings, seed: int) -> None:
        self.graph, self.settings, self.seed = graph, settings, seed
        self.plies = self.games = self.position = 0
        self.results = [0, 0, 0]
        self.moves = [graph.moves(n) for n in range(graph.size)]
        self.after = [[after for _, after in each] for each in self.moves]
        self.mover = graph.mover.tolist()
        self.outcome = [float(each) for each in graph.outcome]
        self.longest = int(graph.ply.max())
        self.table = self.begin()
        # the last update of every cell, as recorded by the loop; () = never
        self.records: list[tuple[float, ...]] = [()] * len(self.table)

    def begin(self) -> list[float]:
        """The initial table."""
        raise NotImplementedError

    def advance(self, plies: int, games: int) -> None:
        """Play and learn until the given number of plies or games is reached: the loop of the rule."""
        raise NotImplementedError

    def run(self, games: int) -> None:
        """Play this number of further games; one in progress counts."""
        self.advance(NEVER, games)

    def step(self) -> None:
        """Play one ply."""
        self.advance(1, NEVER)

    def draws(self, plies: int, games: int) -> Iterator[list[float]]:
        """Draws [explore?, which] for ply `self.plies` and those after it, at most as many as needed."""

        def chunks(begin: int, wanted: int) -> Iterator[list[list[float]]]:
            while wanted > 0:
                chunk = min(CHUNK, wanted)
                yield uniforms(self.seed, begin, chunk)[0, :, :2].tolist()
                begin, wanted = begin + chunk, wanted - chunk

        return chain.from_iterable(chunks(self.plies, min(plies, games * self.longest)))

    def set(self, **changes: Any) -> None:
        """Change settings for the next steps; LabError says what is allowed."""
        self.settings = change_settings(self.settings, **changes)

    def values(self) -> np.ndarray:
        """(cells) float64: the table."""
        return np.array(self.table)

    def player(self, name: str = "") -> MaskPlayer:
        """A player that is greedy on the current table, breaking ties at random."""
        return table_player(self.graph, self.values(), name or f"{self.settings.title}, {self.games} games")

    # An exact restart

    def state(self) -> dict[str, Any]:
        """Everything an exact restart needs, except graph, settings and seed."""
        width = max(map(len, self.records))
        records = np.full((len(self.records), width), np.nan)
        for cell, record in enumerate(self.records):
            records[cell, : len(record)] = record
        return {
            "table": self.values(), "plies": self.plies, "games": self.games, "position": self.position,
            "results": list(self.results), "records": records, "unfinished": self.pending_state(),
        }  # fmt: skip

    def load(self, state: dict[str, Any]) -> None:
        self.table = np.asarray(state["table"]).tolist()
        self.plies, self.games = int(state["plies"]), int(state["games"])
        self.position, self.results = int(state["position"]), [int(each) for each in state["results"]]
        self.records = [
            () if not row or row[0] != row[0] else tuple(row) for row in np.asarray(state["records"]).tolist()
        ]
        self.resume([int(each) for each in state["unfinished"]])

    def pending_state(self) -> list[int]:
        """The rule's state in the middle of a game: traces, or a move whose update is still pending."""
        return []

    def resume(self, kept: list[int]) -> None:
        """Restore the state returned by `pending_state`."""


def picker(cells: list[int]) -> Callable[[list[float]], Sequence[float]]:
    """A function that reads the values of these cells from a table in one call, instead of one call per cell."""
    if len(cells) > 1:
        return itemgetter(*cells)
    return itemgetter(slice(cells[0], cells[0] + 1) if cells else slice(0))


class AfterStates(SelfPlayLearner):
    """TD(0) and TD(λ) on after-states: `table` is V (N). A record is (ply, game, s, s′, α, r or V(s′), δ, e, V before).

    A position never recurs within a game, so the traces are not a table but the path of the game. The path is cleared
    at each new game and, if exploring moves do not update, at each of those too.
    """

    way: list[int]

    def begin(self) -> list[float]:
        self.way = []
        self.picked = [picker(each) for each in self.after]
        return [self.outcome[n] if not self.after[n] else self.settings.initial for n in range(self.graph.size)]

    def advance(self, plies: int, games: int) -> None:
        settings, V, records = self.settings, self.table, self.records
        after, mover, outcome, results = self.after, self.mover, self.outcome, self.results
        alpha, all_teach = settings.alpha, settings.exploring
        lam = settings.lam if settings.rule == "td-lambda" else 0.0
        picked = self.picked
        s, way, t, game = self.position, self.way, self.plies, self.games
        epsilon, last = settings.epsilon_of(game), game + games
        for explore, which in self.draws(plies, games):
            follow = after[s]
            greedy = explore >= epsilon
            if greedy:
                values = picked[s](V)
                best = max(values) if mover[s] > 0 else min(values)
                ties = values.count(best)
                if ties == 1:
                    to = follow[values.index(best)]
                else:
                    to = [n for n, value in zip(follow, values, strict=True) if value == best][int(which * ties)]
            else:
                to = follow[int(which * len(follow))]
            t += 1
            if greedy or all_teach:
                before = V[s]
                delta = V[to] - before
                V[s] = before + alpha * delta
                records[s] = (t, game, s, to, alpha, V[to], delta, 1.0, before)
                if lam:
                    e = lam
                    for x in reversed(way):
                        before = V[x]
                        V[x] = before + alpha * delta * e
                        records[x] = (t, game, s, to, alpha, V[to], delta, e, before)
                        e *= lam
                    way.append(s)
            elif lam:
                way.clear()
            if after[to]:
                s = to
            else:
                results[int(outcome[to])] += 1
                game += 1
                s = 0
                way.clear()
                epsilon = settings.epsilon_of(game)
                if game == last:
                    break
        self.position, self.plies, self.games = s, t, game

    def pending_state(self) -> list[int]:
        return list(self.way)

    def resume(self, kept: list[int]) -> None:
        self.way = kept


class ActionValues(SelfPlayLearner):
    """Q-learning and SARSA on moves: `table` is Q (E). A random move updates like any other: Q-learning is off-policy
    by its target, SARSA learns the value of moves under the ε-greedy policy.

    A record is (ply, game, s, s′, α, r or the target of Q(s, a), δ, a′ or −1, Q before).
    """

    pending: int  # the number of the move whose update waits for the next one, or −1

    def begin(self) -> list[float]:
        self.pending = -1
        return [self.settings.initial] * len(self.graph.move)

    def advance(self, plies: int, games: int) -> None:
        if self.settings.rule == "sarsa":
            self.sarsa(plies, games)
        else:
            self.q_learning(plies, games)

    def q_learning(self, plies: int, games: int) -> None:
        settings, Q, records = self.settings, self.table, self.records
        after, mover, outcome, results = self.after, self.mover, self.outcome, self.results
        first = self.graph.first.tolist()
        alpha = settings.alpha
        s, t, game = self.position, self.plies, self.games
        epsilon, last = settings.epsilon_of(game), game + games
        values = Q[first[s] : first[s + 1]]
        best = max(values) if mover[s] > 0 else min(values)
        for explore, which in self.draws(plies, games):
            if explore < epsilon:
                a = int(which * len(values))
            else:
                ties = values.count(best)
                if ties == 1:
                    a = values.index(best)
                else:
                    a = [place for place, value in enumerate(values) if value == best][int(which * ties)]
            to, cell = after[s][a], first[s] + a
            t += 1
            ended = not after[to]
            if ended:
                target = outcome[to]
            else:
                values = Q[first[to] : first[to + 1]]
                target = best = max(values) if mover[to] > 0 else min(values)
            before = Q[cell]
            delta = target - before
            Q[cell] = before + alpha * delta
            records[cell] = (t, game, s, to, alpha, target, delta, -1.0, before)
            s = to
            if ended:
                results[int(outcome[to])] += 1
                game += 1
                s = 0
                values = Q[first[0] : first[1]]
                best = max(values) if mover[0] > 0 else min(values)
                epsilon = settings.epsilon_of(game)
                if game == last:
                    break
        self.position, self.plies, self.games = s, t, game

    def sarsa(self, plies: int, games: int) -> None:
        settings, Q, records = self.settings, self.table, self.records
        after, mover, outcome, results = self.after, self.mover, self.outcome, self.results
        first, earlier = self.graph.first.tolist(), self.graph.before
        alpha = settings.alpha
        s, t, game, pending = self.position, self.plies, self.games, self.pending
        left = int(earlier[pending]) if pending >= 0 else -1  # the position in which the pending move was made
        epsilon, last = settings.epsilon_of(game), game + games
        for explore, which in self.draws(plies, games):
            values = Q[first[s] : first[s + 1]]
            if explore < epsilon:
                a = int(which * len(values))
            else:
                best = max(values) if mover[s] > 0 else min(values)
                ties = values.count(best)
                if ties == 1:
                    a = values.index(best)
                else:
                    a = [place for place, value in enumerate(values) if value == best][int(which * ties)]
            to, cell = after[s][a], first[s] + a
            t += 1
            if pending >= 0:
                before, target = Q[pending], values[a]
                delta = target - before
                Q[pending] = before + alpha * delta
                records[pending] = (t, game, left, s, alpha, target, delta, a, before)
            if after[to]:
                left, pending, s = s, cell, to
            else:
                before = values[a]
                delta = outcome[to] - before
                Q[cell] = before + alpha * delta
                records[cell] = (t, game, s, to, alpha, outcome[to], delta, -1.0, before)
                results[int(outcome[to])] += 1
                game += 1
                s, pending = 0, -1
                epsilon = settings.epsilon_of(game)
                if game == last:
                    break
        self.position, self.plies, self.games, self.pending = s, t, game, pending

    def pending_state(self) -> list[int]:
        return [self.pending]

    def resume(self, kept: list[int]) -> None:
        self.pending = kept[0]


def make_learner(graph: GameGraph, settings: SelfPlaySettings, seed: int) -> SelfPlayLearner:
    """Create an untrained learner."""
    return (AfterStates if settings.rule in OF_POSITIONS else ActionValues)(graph, settings, seed)
