"""Whole episodes of the uniform policy, for a batch of runs (MATH M1, M3).

This is for prediction, which does not choose the actions; learners that do are stepped in sweeps/block.py. The
episodes of a run are a function of (process, seed, position in the run) alone, so every rule, λ and α learns from
exactly the same ones, and the only random state to save is the position of each run.
Draws are used as in the learners that choose: at step t draw 1 chooses the action, draw 2 the outcome, draw 3 where the
next episode begins (of step −1: the first); 2 and 3 make the normal number of a noisy reward.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from txlab.engine.rl.draws import uniforms
from txlab.engine.rl.process import Process
from txlab.engine.rl.sweeps.arrays import Numpy
from txlab.engine.rl.sweeps.tables import Tables
from txlab.errors import LabError

CHUNK = 64  # steps per block of draws: the 19-state walk lasts 100 on average
LONGEST = 1_000_000  # steps; a longer episode is considered endless
MOST_BYTES = 2_000_000_000  # of the episodes of all runs, while they are made


@dataclass(frozen=True, eq=False)
class Episode:
    """s₀ r₁ s₁ … r_T s_T: states (T + 1), rewards (T); `ended`: s_T is an end, else the episode was cut off there."""

    states: np.ndarray
    rewards: np.ndarray
    ended: bool


@dataclass(frozen=True, eq=False)
class Episodes:
    """An episode of each of M runs, padded to the length of the longest.

    states (M, T + 1) int64    rewards (M, T) float64    lengths (M) int64    ended (M) bool, as in Episode
    """

    states: np.ndarray
    rewards: np.ndarray
    lengths: np.ndarray
    ended: np.ndarray

    def of(self, run: int) -> Episode:
        """The episode of one run, without padding."""
        T = int(self.lengths[run])
        return Episode(self.states[run, : T + 1], self.rewards[run, :T], bool(self.ended[run]))

    def some(self, runs: np.ndarray) -> Episodes:
        """The episodes of these runs, in this order."""
        lengths = self.lengths[runs]
        T = int(lengths.max(initial=0))
        return Episodes(self.states[runs, : T + 1], self.rewards[runs, :T], lengths, self.ended[runs])


class Rollouts:
    """M runs of one process, an episode at a time.

    seeds (M) · begin (M) int64, steps taken so far · start (M) int64, the state in which the next episode begins
    """

    def __init__(self, process: Process, seeds: np.ndarray) -> None:
        self.process = process
        self.seeds = np.asarray(seeds)
        self.begin = np.zeros(len(self.seeds), dtype=np.int64)
        self.tables = Tables(process, Numpy())
        self.start = self.tables.begin(uniforms(self.seeds, -1, 1)[:, 0, 3])

    def episodes(self) -> Episodes:
        """The next episode of every run. LabError if one does not end."""
        tables, M = self.tables, len(self.seeds)
        states, rewards = [self.start], []
        lengths, ended = np.zeros(M, dtype=np.int64), np.zeros(M, dtype=bool)
        alive, state, restart = np.arange(M), self.start, self.start.copy()
        draws = np.empty((0, 0, 0))
        longest = min(LONGEST, MOST_BYTES // (16 * M))
        for t in range(longest):
            if t % CHUNK == 0:
                draws = uniforms(self.seeds[alive], self.begin[alive] + t, CHUNK)  # (alive, CHUNK, 4)
                drawn = np.arange(len(alive))
            u = draws[drawn, t % CHUNK]  # (alive, 4)
            first = state * tables.A
            action = tables.listed[first + (u[:, 1] * tables.count[state]).astype(np.int64)]
            outcome = tables.outcome(first + action, u[:, 2])
            state, done = tables.next[outcome], tables.over[outcome]
            states.append(np.zeros(M, dtype=np.int64))
            rewards.append(np.zeros(M))
            reward = tables.reward[outcome]
            if tables.noise is not None:
                reward = reward + tables.noise[outcome] * tables.xp.normal(u[:, 2], u[:, 3])
            states[-1][alive], rewards[-1][alive] = state, reward
            over = done | (t + 1 == self.process.limit)
            if over.any():
                finished = alive[over]
                lengths[finished], ended[finished] = t + 1, done[over]
                restart[finished] = tables.begin(u[over, 3])
                alive, state, drawn = alive[~over], state[~over], drawn[~over]
                if not len(alive):
                    break
        else:
            raise LabError(f"an episode lasts more than {longest} steps when actions are chosen evenly; set a limit")
        self.begin, self.start = self.begin + lengths, restart
        return Episodes(np.stack(states, axis=1), np.stack(rewards, axis=1), lengths, ended)

    def state(self) -> dict[str, Any]:
        """The state from which the runs continue exactly here."""
        return {"begin": self.begin.copy(), "start": self.start.copy()}

    def load(self, state: dict[str, Any]) -> None:
        self.begin, self.start = (np.array(state[name], dtype=np.int64) for name in ("begin", "start"))
