"""Learners by self-play, one for each seed, computed in whichever way is faster for so many (MATH G1).

Notable: nobody can tell from the numbers which way it was: a row of a batch is, bit for bit, the learner alone. From
about thirty seeds on arrays win (benchmarks/rl_games.py: 16 are slower than the plain loop, 64 twice as fast).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from txlab.engine.games.batch import Batch
from txlab.engine.games.graph import Graph
from txlab.engine.games.self_play import make_learner
from txlab.engine.games.settings import OF_POSITIONS, Settings

BATCHED_FROM = 32  # seeds


class Population:
    """M learners with the same settings, and a table each. `alone` are plain loops; `batch` is None, or all of them."""

    def __init__(
        self, graph: Graph, settings: Settings, seeds: Sequence[int], batched_from: int = BATCHED_FROM
    ) -> None:
        self.graph, self.size = graph, len(seeds)
        self.batch = Batch(graph, settings, seeds) if len(seeds) >= batched_from else None
        self.alone = [] if self.batch else [make_learner(graph, settings, seed) for seed in seeds]

    @property
    def settings(self) -> Settings:
        return self.batch.settings if self.batch else self.alone[0].settings

    @property
    def games(self) -> int:
        """That each of them has played; `run` leaves them all at the same number."""
        return int(self.batch.games[0]) if self.batch else self.alone[0].games

    @property
    def results(self) -> np.ndarray:
        """(3) int64: drawn, won, lost games of all of them together, the first player's view."""
        if self.batch:
            total: np.ndarray = self.batch.results.sum(axis=0)
            return total
        alone: np.ndarray = np.sum([each.results for each in self.alone], axis=0)
        return alone

    def run(self, games: int) -> None:
        """So many games more, each of them."""
        if self.batch:
            self.batch.run(games)
        for learner in self.alone:
            learner.run(games)

    def set(self, **changes: Any) -> None:
        """Other numbers from here on, for all."""
        for each in [self.batch] if self.batch else self.alone:
            each.set(**changes)

    def values(self, row: int = 0) -> np.ndarray:
        """(cells) float64: the table of one of them."""
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


def first_table(graph: Graph, settings: Settings, state: dict[str, Any]) -> np.ndarray:
    """(cells) float64: the table of the first learner of a `Population.state`."""
    cells = graph.size if settings.rule in OF_POSITIONS else len(graph.move)
    kept = state["alone"][0]["table"] if "alone" in state else np.asarray(state["batch"]["tables"])[0]
    return np.asarray(kept, dtype=np.float64)[:cells]
