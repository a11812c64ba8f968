"""Learning a game by playing against oneself: what all rules have in common (MATH G1; Tesauro 1995).

Notable: both sides are one learner with one table, told from the *first* player's view throughout: the first player
moves to the highest value, the second to the lowest, and no sign is ever turned on the way (turning it at each ply
would be the other right way; doing both, or neither, teaches one seat to lose). How a game ended is known from the
rules and needs no learning: a table holds the outcome there, and has no bootstrap beyond it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from txlab.engine.games.graph import Graph
from txlab.engine.games.players import MaskPlayer, table_player
from txlab.engine.games.settings import Settings, changed
from txlab.engine.rl.draws import uniforms

CHUNK = 4096  # plies whose draws are made at once
NEVER = 1 << 62


class Learner:
    """One table, one seed; the loop of a rule is in its own file (after_states.py, action_values.py).

    graph, settings, seed
    table       (cells): V of N positions or Q of E moves, the first player's view; a list, for the loop reads it fast
    plies       moves made so far: step t of the draws is ply t       games   games ended
    position    where the game that is being played stands
    results     [drawn, won, lost] of the games so far, the first player's view: results[outcome]
    """

    cells: int

    def __init__(self, graph: Graph, settings: Settings, seed: int) -> None:
        self.graph, self.settings, self.seed = graph, settings, seed
        self.plies = self.games = self.position = 0
        self.results = [0, 0, 0]
        self.moves = [graph.moves(n) for n in range(graph.size)]
        self.after = [[after for _, after in each] for each in self.moves]
        self.mover = graph.mover.tolist()
        self.outcome = [float(each) for each in graph.outcome]
        self.longest = int(graph.ply.max())
        self.table = self.begin()
        # the last update of every cell, as its loop wrote it down; () = never
        self.records: list[tuple[float, ...]] = [()] * len(self.table)

    def begin(self) -> list[float]:
        """The table before anything is learnt."""
        raise NotImplementedError

    def advance(self, plies: int, games: int) -> None:
        """Play on until so many plies are made or so many games ended, and learn: the loop of the rule."""
        raise NotImplementedError

    def run(self, games: int) -> None:
        """So many games more; one that has begun counts."""
        self.advance(NEVER, games)

    def step(self) -> None:
        """One ply."""
        self.advance(1, NEVER)

    def draws(self, plies: int, games: int) -> Iterator[list[float]]:
        """[explore?, which] of ply `self.plies` and those after it; at most as many as can be needed."""

        def chunks(begin: int, wanted: int) -> Iterator[list[list[float]]]:
            while wanted > 0:
                chunk = min(CHUNK, wanted)
                yield uniforms(self.seed, begin, chunk)[0, :, :2].tolist()
                begin, wanted = begin + chunk, wanted - chunk

        return chain.from_iterable(chunks(self.plies, min(plies, games * self.longest)))

    def set(self, **changes: Any) -> None:
        """Other numbers from here on; LabError says what is allowed."""
        self.settings = changed(self.settings, **changes)

    def values(self) -> np.ndarray:
        """(cells) float64: the table."""
        return np.array(self.table)

    def player(self, name: str = "") -> MaskPlayer:
        """Who plays greedily by the table as it is now, ties at random."""
        return table_player(self.graph, self.values(), name or f"{self.settings.title}, {self.games} games")

    # An exact restart

    def state(self) -> dict[str, Any]:
        """All that an exact restart needs, but graph, settings and seed."""
        width = max(map(len, self.records))
        records = np.full((len(self.records), width), np.nan)
        for cell, record in enumerate(self.records):
            records[cell, : len(record)] = record
        return {
            "table": self.values(), "plies": self.plies, "games": self.games, "position": self.position,
            "results": list(self.results), "records": records, "unfinished": self.unfinished(),
        }  # fmt: skip

    def load(self, state: dict[str, Any]) -> None:
        self.table = np.asarray(state["table"]).tolist()
        self.plies, self.games = int(state["plies"]), int(state["games"])
        self.position, self.results = int(state["position"]), [int(each) for each in state["results"]]
        self.records = [
            () if not row or row[0] != row[0] else tuple(row) for row in np.asarray(state["records"]).tolist()
        ]
        self.resume([int(each) for each in state["unfinished"]])

    def unfinished(self) -> list[int]:
        """What the rule keeps in mind in the middle of a game: traces, or a move whose update is still to come."""
        return []

    def resume(self, kept: list[int]) -> None:
        """Put it back."""
