"""A block of agents of one rule: their tables, where each of them stands, and their lives, step by step.

Notable: the agents share nothing but the arithmetic. Each has its table, its seed, its numbers and its own count of
steps and episodes, so that it lives the very life that it would live alone; those that have finished the episodes that
were asked for stand still (their α is 0 and their place is kept) until half of a block does, and are then left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from txlab.engine.rl.settings import PolicyName, Settings
from txlab.engine.rl.sweeps.arrays import Array, Numpy
from txlab.engine.rl.sweeps.episodic import Trail
from txlab.engine.rl.sweeps.policies import choose
from txlab.engine.rl.sweeps.rules import RULES, Learns
from txlab.engine.rl.sweeps.tables import Tables

PLACE = ("state", "action", "step", "earned", "length", "episode", "heat")
"""What is kept of an agent that stands still."""


COLDEST = 1e-9  # the least temperature: softmax is greedy there, and nothing is divided by 0


def first_heat(settings: Settings, policy: PolicyName) -> float:
    """ε, or τ, of episode 0; 0 where an episode's first action alone is left to chance."""
    return {"softmax": settings.temperature, "exploring-starts": 0.0}.get(policy, settings.epsilon)


class Powers:
    """decayⁿ as Python gives it, one table for all agents: a library of arrays may differ in the last bit."""

    def __init__(self, xp: Numpy) -> None:
        self.xp = xp
        self.decays: list[float] = []
        self.known = 0
        self.table: Array = None

    def number(self, decay: float) -> int:
        """Which row is that decay's."""
        if decay not in self.decays:
            self.decays.append(decay)
            self.known = 0
        return self.decays.index(decay)

    def of(self, which: Array, episode: Array) -> Array:
        most = int(episode.max()) if len(episode) else 0
        if most >= self.known:
            self.known = max(64, 2 * most)
            self.table = self.xp.array([[decay**n for n in range(self.known)] for decay in self.decays])
        return self.xp.take(self.table, which * self.known + episode)


class AgentBlock:
    """n agents. `own` is each one's numbers (n); `place` is where it stands (n); `table` what it has learnt (A, n, S).

    own      key, alpha, beta, gamma, lam, heat (ε or τ of episode 0), floor, decay
    place    state, action (of SARSA, chosen ahead), step, earned, length (of this episode), episode, heat (now)
    """

    def __init__(
        self,
        tables: Tables,
        settings: Sequence[Settings],
        seeds: Sequence[int],
        powers: Powers,
        offset: np.ndarray | None = None,
    ) -> None:
        xp, first = tables.xp, settings[0]
        self.tables, self.xp, self.powers = tables, xp, powers
        self.lanes = xp.array(np.arange(len(seeds)), int)
        self.trail: Trail | None = None
        self.rule, self.policy, self.traces = first.rule, first.policy, first.traces
        self.learns: Learns = RULES[first.rule]
        if self.learns.prefers:
            self.policy = "softmax"
            settings = [replace(each, temperature=1.0, decay=1.0, floor=0.0) for each in settings]
        soft = self.policy == "softmax"
        gammas = [tables.process.discount if each.gamma is None else each.gamma for each in settings]
        self.own: dict[str, Array] = {
            "key": xp.keys(seeds),
            "alpha": xp.array([each.alpha for each in settings]),
            "beta": xp.array([each.beta for each in settings]),
            "gamma": xp.array(gammas),
            "lam": xp.array([each.lam for each in settings]),
            "heat": xp.array([first_heat(each, self.policy) for each in settings]),
            "floor": xp.array([max(each.floor, COLDEST) if soft else each.floor for each in settings]),
            "decay": xp.array([powers.number(each.decay) for each in settings], int),
        }
        self.decays = any(each.decay != 1 for each in settings)
        n = len(seeds)
        self.place: dict[str, Array] = {
            name: xp.array(np.zeros(n), float if name in ("earned", "heat") else int) for name in PLACE
        }
        self.place["heat"] = self.heat_of(slice(None), self.place["episode"])
        start = np.full((n, tables.S, tables.A), 0.0) + np.array([each.initial for each in settings])[:, None, None]
        start[:, tables.process.terminal] = 0.0
        self.table: dict[str, Array] = {}
        if offset is not None:
            start = start + offset
        for name in self.learns.tables:
            values = np.zeros_like(start) if name in ("e", "w") else np.where(tables.forbidden, -np.inf, start)
            values = values[:, :, :1] if name == "w" else values
            self.table[name] = xp.array(np.ascontiguousarray(values.transpose(2, 0, 1)))
        # An episode begins by draw 3 of the step before it; the first one by that of step −1.
        before, first_step = xp.uniforms(self.own["key"], self.place["step"] - 1, 2, True)
        self.place["state"] = state = tables.begin(before[3])
        if self.learns.ahead:
            rows = xp.rows(self.table["q"], self.base(n) + state)
            self.place["action"] = choose(tables, self.policy, rows, state, first_step, self.place["heat"])

    def __len__(self) -> int:
        return len(self.place["step"])

    def base(self, n: int) -> Array:
        return self.xp.array(np.arange(n) * self.tables.S, int)

    def heat_of(self, lanes: Array | slice, episode: Array) -> Array:
        """ε, or τ, of these agents in an episode: max(floor, ε · decayⁿ)."""
        heat, floor = self.own["heat"][lanes], self.own["floor"][lanes]
        if self.decays:
            heat = heat * self.powers.of(self.own["decay"][lanes], episode)
        return self.xp.where(heat < floor, floor, heat)

    # Parts

    def part(self, lanes: Array) -> AgentBlock:
        """A block of these agents alone, with copies of all that is theirs."""
        other = object.__new__(AgentBlock)
        other.__dict__.update(self.__dict__)
        other.lanes = self.lanes[lanes]
        other.own = {name: values[lanes] for name, values in self.own.items()}
        other.place = {name: values[lanes] for name, values in self.place.items()}
        other.table = {name: self.xp.lanes(values, lanes) for name, values in self.table.items()}
        return other

    def put_back(self, lanes: Array, part: AgentBlock) -> None:
        for name, values in part.place.items():
            self.place[name][lanes] = values
        for name, values in part.table.items():
            self.table[name][:, lanes] = values
