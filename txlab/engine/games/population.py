"""Many self-play learners, each with its own random seed and table, run in the faster of two ways (MATH G1).

Notable: nothing is shared, and both ways give the same numbers: row m of a batch is, bit for bit, the learner that seed
m would be alone (learner.py). The rows advance together, ply by ply, as array operations, which are faster from about
thirty seeds on (benchmarks/rl_games.py: 16 are slower than the plain loop, 64 twice as fast). One table trained on all
games together would be another algorithm. Moves are drawn, ties broken and sums made in the order of the plain loops; a
test compares every number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from txlab.engine.games.graph import GameGraph
from txlab.engine.games.learner import OF_POSITIONS, SelfPlaySettings, change_settings, make_learner
from txlab.engine.games.players import MaskPlayer, table_player
from txlab.engine.rl.draws import uniforms

BATCHED_FROM = 32  # seeds
CHUNK = 64  # plies per batch of random draws: 2 kB per row
KEPT = ("tables", "plies", "games", "position", "results", "way", "e", "pending")


class Population:
    """M learners with the same settings, each with its own table: `alone` as plain loops, or all in one `batch`."""

    def __init__(
        self, graph: GameGraph, settings: SelfPlaySettings, seeds: Sequence[int], batched_from: int = BATCHED_FROM
    ) -> None:
        self.graph, self.size = graph, len(seeds)
        self.batch = LearnerBatch(graph, settings, seeds) if len(seeds) >= batched_from else None
        self.alone = [] if self.batch else [make_learner(graph, settings, seed) for seed in seeds]

    @property
    def settings(self) -> SelfPlaySettings:
        return self.batch.settings if self.batch else self.alone[0].settings

    @property
    def games(self) -> int:
        """The number of games that each learner has played; `run` keeps it equal for all."""
        return int(self.batch.games[0]) if self.batch else self.alone[0].games

    @property
    def results(self) -> np.ndarray:
        """(3) int64: drawn, won, lost games of all learners together, the first player's view."""
        if self.batch:
            total: np.ndarray = self.batch.results.sum(axis=0)
            return total
        alone: np.ndarray = np.sum([each.results for each in self.alone], axis=0)
        return alone

    def run(self, games: int) -> None:
        """Play this number of further games with each learner."""
        if self.batch:
            self.batch.run(games)
        for learner in self.alone:
            learner.run(games)

    def set(self, **changes: Any) -> None:
        """Change settings of all learners for the next steps."""
        for each in [self.batch] if self.batch else self.alone:
            each.set(**changes)

    def values(self, row: int = 0) -> np.ndarray:
        """(cells) float64: the table of one learner."""
        return self.batch.values(row) if self.batch else self.alone[row].values()

    def state(self) -> dict[str, Any]:
        """All that an exact restart needs, but graph, settings and seeds."""
        if self.batch:
            return {"batch": self.batch.state()}
        return {"alone": [each.state() for each in self.alone]}

    def load(self, state: dict[str, Any]) -> None:
        if self.batch:
            self.batch.load(state["batch"])
        else:
            for learner, each in zip(self.alone, state["alone"], strict=True):
                learner.load(each)


def first_table(graph: GameGraph, settings: SelfPlaySettings, state: dict[str, Any]) -> np.ndarray:
    """(cells) float64: the table of the first learner of a `Population.state`."""
    cells = settings.cells(graph)
    kept = state["alone"][0]["table"] if "alone" in state else np.asarray(state["batch"]["tables"])[0]
    return np.asarray(kept, dtype=np.float64)[:cells]


class LearnerBatch:
    """M learners with the same settings.

    tables     (M, cells + 3) float64, as `SelfPlayLearner.table`. The last three are −∞ and +∞, which stand for missing
               moves of the first and the second player, so that they are never the best; and a cell for unused updates
    plies, games, position   (M) int64        results   (M, 3) int64: drawn, won, lost
    way, e     (M, plies of the longest game): the traces of td-lambda, position and weight, by ply
    pending    (M) int64: the move whose update waits until the next one is known
    """

    def __init__(self, graph: GameGraph, settings: SelfPlaySettings, seeds: Sequence[int]) -> None:
        self.graph, self.settings = graph, settings
        self.seeds = np.array(seeds, dtype=np.int64)
        M, longest, places = len(self.seeds), int(graph.ply.max()), int(graph.count.max())
        self.of_positions = settings.rule in OF_POSITIONS
        self.cells = settings.cells(graph)
        self.nothing = self.cells + 2
        begin = np.full(self.cells, settings.initial)
        if self.of_positions:
            begin[graph.ended] = graph.outcome[graph.ended]
        self.tables = np.tile(np.concatenate([begin, [-np.inf, np.inf, 0.0]]), (M, 1))
        self.plies, self.games, self.position = (np.zeros(M, dtype=np.int64) for _ in range(3))
        self.results = np.zeros((M, 3), dtype=np.int64)
        self.way, self.e = np.full((M, longest), self.nothing), np.zeros((M, longest))
        self.pending = np.full(M, self.nothing)
        # (places, N): after-state and cell of each move. The short axis is first, because arrays are reduced over it:
        # the other way round, each of M rows of nine would be a loop of its own
        self.after = np.zeros((places, graph.size), dtype=np.int64)
        self.cell = np.tile(np.where(graph.mover < 0, self.cells + 1, self.cells), (places, 1))
        place = np.arange(len(graph.move)) - graph.first[graph.before]
        self.after[place, graph.before] = graph.after
        self.cell[place, graph.before] = graph.after if self.of_positions else np.arange(len(graph.move))
        self.sign = graph.mover.astype(np.float64)

    def run(self, games: int) -> None:
        """Play this number of further games in every row; a row that has finished waits for the others."""
        last = self.games + games
        lowest = int(self.games.min())
        epsilons = np.array([self.settings.epsilon_of(game) for game in range(lowest, int(last.max()) + 1)])
        rows = np.arange(len(self.seeds))
        while len(rows):
            draws = uniforms(self.seeds[rows], self.plies[rows], CHUNK)
            for ply in range(CHUNK):
                self.ply(rows, draws[:, ply, 0] < epsilons[self.games[rows] - lowest], draws[:, ply, 1])
                going = self.games[rows] < last[rows]
                if not going.all():
                    rows, draws = rows[going], draws[going]
                    if not len(rows):
                        break

    def ply(self, rows: np.ndarray, explore: np.ndarray, which: np.ndarray) -> None:
        """Make one move in each of these rows, and its update."""
        graph, rule, alpha = self.graph, self.settings.rule, self.settings.alpha
        table = self.tables.reshape(-1)
        base, s = rows * self.tables.shape[1], self.position[rows]
        # the move: the int(which · n)-th of all n, or of the n equally good ones
        sign = self.sign[s]
        # `take` makes the rows of (places, rows) contiguous in memory; [:, s] would not
        signed = table[base + self.cell.take(s, axis=1)] * sign
        best = signed.max(axis=0)
        ties = np.cumsum(signed == best, axis=0, dtype=np.int8)
        chosen = (which * np.where(explore, graph.count[s], ties[-1])).astype(np.int64)
        place = np.where(explore, chosen, (ties <= chosen).sum(axis=0))
        to, cell = self.after[place, s], self.cell[place, s]
        ended = graph.ended[to]
        # the update
        if self.of_positions:
            teach = ~explore | self.settings.exploring
            correction = alpha * (table[base + to] - table[base + s])
            if rule == "td-lambda":
                k = graph.ply[s]
                way = np.where(teach[:, None], self.way[rows], self.nothing)
                e = np.where(teach[:, None], self.e[rows] * self.settings.lam, 0.0)
                each = np.arange(len(rows))
                way[each, k], e[each, k] = np.where(teach, s, self.nothing), teach
                table[base[:, None] + way] += correction[:, None] * e
                way[ended], e[ended] = self.nothing, 0.0
                self.way[rows], self.e[rows] = way, e
            else:
                table[base + np.where(teach, s, self.nothing)] += correction
        else:
            target = table[base + cell] if rule == "sarsa" else best * sign
            at = base + self.pending[rows]
            table[at] += alpha * (target - table[at])
            at = (base + cell)[ended]
            table[at] += alpha * (graph.outcome[to[ended]] - table[at])
            self.pending[rows] = np.where(ended, self.nothing, cell)
        self.position[rows] = np.where(ended, 0, to)
        self.plies[rows] += 1
        self.games[rows] += ended
        self.results[rows[ended], graph.outcome[to[ended]]] += 1

    def set(self, **changes: Any) -> None:
        """Change settings of all rows for the next steps."""
        self.settings = change_settings(self.settings, **changes)

    def values(self, row: int) -> np.ndarray:
        """(cells) float64: the table of one row."""
        return self.tables[row, : self.cells].copy()

    def player(self, row: int = 0, name: str = "") -> MaskPlayer:
        """A player that is greedy on the table of one row, breaking ties at random."""
        return table_player(self.graph, self.values(row), name or f"{self.settings.title}, {self.games[row]} games")

    def state(self) -> dict[str, np.ndarray]:
        """All that an exact restart needs, but graph, settings and seeds."""
        return {name: getattr(self, name).copy() for name in KEPT}

    def load(self, state: dict[str, Any]) -> None:
        for name in KEPT:
            setattr(self, name, np.array(state[name]).reshape(getattr(self, name).shape))
