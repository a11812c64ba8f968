"""Self-play of Connect Four, and the training targets from it (MATH G3; Silver et al. 2018).

    move      drawn ∝ N(s, a)^(1/τ) in the first moves of a game, afterwards the most visited one
    π         N(s, a) / Σ N(s, a): the target of the policy
    y         (1 − μ) z + μ V(s): the target of the value; z = ±1, 0 is how the game ended for the player to move, V(s)
              what the search expected

Notable: all games advance together, a move of each at a time; a finished one goes into the replay buffer and another
begins in its row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from txlab.engine.games.connect_four.network import Evaluate
from txlab.engine.games.connect_four.rules import BOARD, COLUMNS, SQUARES, mirror
from txlab.engine.games.connect_four.search import Search, play_moves, random_columns

GAMES = ("moves", "own", "both", "policy", "value", "length", "begun")
"""The state of each game in progress, apart from its tree."""


def name_of(own: np.ndarray, both: np.ndarray) -> np.ndarray:
    """One number for each position and its mirror image."""
    names: np.ndarray = np.minimum(own + both, mirror(own) + mirror(both))
    return names


@dataclass(frozen=True)
class Exploring:
    """How moves are chosen in self-play.

    c                  exploration of the search
    temperature        τ, in the first `opening` moves of a game
    noise, alpha       share of the Dirichlet noise in the priors of a root, and its concentration
    random             a game begins after 0 to `random` uniformly random moves
    """

    c: float
    temperature: float
    opening: int
    noise: float
    alpha: float
    random: int = 0


class Replay:
    """The newest positions that were played: own, both, π (7), z and the search's value; the oldest are overwritten."""

    def __init__(self, size: int) -> None:
        self.own, self.both = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        self.policy = np.zeros((size, COLUMNS), dtype=np.float32)
        self.result, self.value = np.zeros(size, dtype=np.float32), np.zeros(size, dtype=np.float32)
        self.written = 0

    def __len__(self) -> int:
        return min(self.written, len(self.own))

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name) for name in ("own", "both", "policy", "result", "value")}

    def add(self, **rows: np.ndarray) -> None:
        places = (self.written + np.arange(len(rows["own"]))) % len(self.own)
        for name, array in self.arrays().items():
            array[places] = rows[name]
        self.written += len(places)

    def state(self) -> dict[str, Any]:
        return {"written": self.written, **{name: each[: len(self)].copy() for name, each in self.arrays().items()}}

    def load(self, state: dict[str, Any]) -> None:
        self.written = int(state["written"])
        for name, array in self.arrays().items():
            array[: len(self)] = np.asarray(state[name])


class SelfPlay:
    """G games in progress.

    search   their trees           moves    (G, 42) the columns played so far, −1 after the last
    length   (G) their number      begun    (G) of them at random, before self-play began
    ended    games ended so far    results  of them won by the first player, drawn, won by the second
    unseen   names of positions that are never put into the replay, sorted
    """

    def __init__(self, games: int, replay: Replay, unseen: Sequence[int] = (), tactics: bool = False) -> None:
        nothing = np.zeros(games, dtype=np.int64)
        self.search, self.replay = Search(nothing, nothing, tactics), replay
        self.unseen = np.array(sorted(unseen), dtype=np.int64)
        self.moves = np.full((games, SQUARES), -1, dtype=np.int8)
        self.own, self.both = (np.zeros((games, SQUARES), dtype=np.int64) for _ in range(2))
        self.policy = np.zeros((games, SQUARES, COLUMNS), dtype=np.float32)
        self.value = np.zeros((games, SQUARES), dtype=np.float32)
        self.length, self.begun = np.zeros(games, dtype=np.int64), np.zeros(games, dtype=np.int64)
        self.ended, self.results = 0, np.zeros(3, dtype=np.int64)

    def move(self, evaluate: Evaluate, visits: int, how: Exploring, draws: np.random.Generator) -> None:
        """Make this number of visits in every game, then a move in each."""
        self.open(np.flatnonzero(self.length == 0), how.random, draws)
        search, rows = self.search, np.arange(len(self.length))
        search.prepare(evaluate)
        search.add_noise(how.noise, how.alpha, draws)
        search.run(evaluate, visits, how.c)
        N = search.visits().astype(np.float64)
        policy = N / N.sum(1, keepdims=True)
        self.own[rows, self.length], self.both[rows, self.length] = search.own, search.both
        self.policy[rows, self.length], self.value[rows, self.length] = policy, search.value()
        chance = draws.random(len(rows))
        move = np.where(self.length < how.opening, draw_moves(policy, how.temperature, chance), N.argmax(1))
        self.moves[rows, self.length] = move
        *_, won = play_moves(search.own, search.both, move)
        self.length += 1
        search.advance(move)
        self.end(np.flatnonzero(won | (search.both == BOARD)), won)

    def open(self, rows: np.ndarray, most: int, draws: np.random.Generator) -> None:
        """Begin these games after 0 to `most` random moves; those that would have ended are drawn again."""
        while most and len(rows):
            self.begun[rows] = self.length[rows] = draws.integers(0, most + 1, len(rows))
            self.moves[rows] = -1
            own, both = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
            ended = np.full(len(rows), False)
            for ply in range(most):
                goes_on = np.flatnonzero((self.length[rows] > ply) & ~ended)
                move = random_columns(both[goes_on], draws)
                self.moves[rows[goes_on], ply] = move
                own[goes_on], both[goes_on], won = play_moves(own[goes_on], both[goes_on], move)
                ended[goes_on] = won | (both[goes_on] == BOARD)
            self.search.begin(rows[~ended], own[~ended], both[~ended])
            rows = rows[ended]

    def end(self, rows: np.ndarray, won: np.ndarray) -> None:
        """Put these games into the replay, `won` by the player who moved last or drawn, and begin others."""
        for row in rows.tolist():
            n = int(self.length[row])
            # the player who moved last sees +1 at its own positions
            z = np.where((n - 1 - np.arange(n)) % 2 == 0, 1.0, -1.0) * won[row]
            learnt = slice(int(self.begun[row]), n)
            own, both = self.own[row, learnt], self.both[row, learnt]
            kept = ~np.isin(name_of(own, both), self.unseen)
            self.replay.add(
                own=own[kept], both=both[kept], policy=self.policy[row, learnt][kept], result=z[learnt][kept],
                value=self.value[row, learnt][kept],
            )  # fmt: skip
            self.results[1 if not won[row] else 0 if n % 2 else 2] += 1
        self.ended += len(rows)
        self.moves[rows], self.length[rows], self.begun[rows] = -1, 0, 0
        self.search.begin(rows, np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64))

    # An exact restart

    def state(self) -> dict[str, Any]:
        games = {name: getattr(self, name).copy() for name in GAMES}
        counts = {"ended": self.ended, "results": self.results.copy()}
        return {"search": self.search.state(), "replay": self.replay.state(), **games, **counts}

    def load(self, state: dict[str, Any]) -> None:
        self.search.load(state["search"])
        self.replay.load(state["replay"])
        for name in (*GAMES, "results"):
            setattr(self, name, np.asarray(state[name]).copy())
        self.ended = int(state["ended"])


def draw_moves(policy: np.ndarray, temperature: float, chance: np.ndarray) -> np.ndarray:
    """(G) moves, drawn ∝ policy (G, 7) ^ (1/τ) by chance (G) in [0, 1); the likeliest if τ = 0."""
    if temperature == 0:
        return np.asarray(policy.argmax(1))
    running = ((policy / policy.max(1, keepdims=True)) ** (1 / temperature)).cumsum(1)
    return np.asarray((running <= chance[:, None] * running[:, -1:]).sum(1))
