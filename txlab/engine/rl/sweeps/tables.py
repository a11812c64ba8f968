"""A process as the sweeps hold it, and how a thousand agents choose in it: ε-greedy, softmax and greedy (MATH M5, M6).

Notable: a world in which every action can be chosen and has one outcome has no search in it; the numbers are the same.
Ties are broken by chance, among all equally good actions; draw 1 says which, and is used up either way, so that an
agent's life does not depend on how its numbers happen to be equal. Every formula is written as the glass box writes it,
one operation after the other, so that the numbers are the same to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from txlab.engine.rl.process import Process
from txlab.engine.rl.rules import Rule
from txlab.engine.rl.settings import PolicyName, Traces
from txlab.engine.rl.sweeps.arrays import Array, Numpy


class Tables:
    """next, reward, over of each outcome; what can be chosen in each state.

    open        every action can be chosen in every state that is not terminal
    ends        every outcome that ends an episode leads to a terminal state, whose row in every table stays 0
    chancy      whether draw 2, draw 3 are ever needed
    """

    def __init__(self, process: Process, xp: Numpy) -> None:
        self.process, self.xp = process, xp
        self.S, self.A = process.size, process.choices
        over = process.done | process.terminal[process.next]
        counts = np.diff(process.first)
        allowed = process.allowed
        self.next = xp.array(process.next, int)
        self.reward = xp.array(process.reward)
        self.over = xp.array(over, bool)
        self.open = bool(allowed[~process.terminal].all())
        self.single = bool((counts <= 1).all())
        self.plain = self.single and bool((counts == 1).all())  # outcome i is that of pair i
        self.first = xp.array(process.first[:-1], int)
        self.cumulative = None if self.single else xp.array(process.cumulative)
        self.ends = bool(process.terminal[process.next[over]].all())
        # The k-th action that can be chosen in s is listed[s · A + k].
        order = np.argsort(~allowed, axis=1, kind="stable")
        self.listed = xp.array(order.reshape(-1), int)
        self.count = xp.array(allowed.sum(axis=1).astype(np.float64))
        self.forbidden = ~allowed & ~process.terminal[:, None]  # (S, A)
        self.starts = xp.array(np.cumsum(process.start))
        self.last_start = int(np.flatnonzero(process.start)[-1])
        self.first_start = int(np.flatnonzero(process.start)[0])
        self.one_start = bool((process.start > 0).sum() == 1)
        noise, told = process.noise, process.observation
        if told is not None:  # the first state that looks so has the row of all of them
            _, first, which = np.unique(told, return_index=True, return_inverse=True)
            told = first[which.reshape(-1)]
        self.noise = None if noise is None or not np.any(noise) else xp.array(noise)
        self.looks: np.ndarray | None = told
        self.observation = None if told is None else xp.array(told, int)
        self.every_draw = not self.single or not self.one_start or self.noise is not None

    def seen(self, states: Array) -> Array:
        """(n): whose rows a learner of preferences uses in these states."""
        return states if self.observation is None else self.xp.take(self.observation, states)

    def outcome(self, pair: Array, u: Array) -> Array:
        """(n): which outcome follows pair i = s·A + a, by draw 2."""
        if self.plain:
            return pair
        if self.cumulative is None:
            return self.xp.take(self.first, pair)
        return self.xp.search(self.cumulative, pair + u)

    def begin(self, u: Array) -> Array:
        """(n): the state in which an episode begins, by draw 3."""
        found = self.xp.search(self.starts, u)
        return self.xp.where(found > self.last_start, self.last_start, found)


def choose(
    tables: Tables,
    policy: PolicyName,
    rows: Array,
    states: Array,
    u: Array,
    exploration: Array,
    best: Array | None = None,
) -> Array:
    """(n) actions. `rows` (A, n) holds the values, −∞ where an action cannot be chosen; `u` (≥ 2, n) draws 0 and 1.

    ε-greedy (`exploration` is ε): explore if u₀ < ε, and then allowed[int(u₁ · n)] among all that can be done; else the
    int(u₁ · ties)-th of the best. softmax (`exploration` is τ): the first action whose cumulated probability is above
    u₁.
    """
    xp = tables.xp
    if policy == "softmax":
        return xp.first_above(softmax(tables, rows, exploration), u[1])
    action = xp.among_best(rows, xp.top(rows) if best is None else best, u[1])
    if policy == "greedy":
        return action
    if tables.open:
        other = xp.floor(u[1] * tables.A)
    else:
        other = xp.take(tables.listed, states * tables.A + xp.floor(u[1] * xp.take(tables.count, states)))
    return xp.where(u[0] < exploration, other, action)


def softmax(tables: Tables, rows: Array, exploration: Array) -> Array:
    """(A, n): exp(Q/τ) / Σ exp(Q/τ); the largest is subtracted first, it cancels."""
    xp = tables.xp
    raw = xp.exp((rows - xp.top(rows)) / exploration)
    return raw / xp.total(raw)


@dataclass
class StepState:
    """The agents while they are stepped: what does not change within a step.

    In a table (A, n, S) counted flat, the entry (a, m, s) is a·stride + base[m] + s. `exploration` is ε, or τ.
    """

    rule: Rule
    xp: Numpy
    tables: Tables
    policy: PolicyName
    traces: Traces
    table: dict[str, Array]
    base: Array
    stride: int
    alpha: Array
    gamma: Array
    lam: Array
    exploration: Array

    def cell(self, step: BatchTransition) -> Array:
        """(n): where Q(s, a) stands in a table."""
        return step.action * self.stride + (self.base + step.state)

    def unless_over(self, value: Array, over: Array) -> Array:
        """What the next state is worth: nothing, where the episode ended there."""
        return value if self.tables.ends else self.xp.where(over, 0.0, value)

    def expectation(self, rows: Array, states: Array) -> Array:
        """(n): Σₐ π(a | s) Q(s, a) of rows (A, n)."""
        xp, tables = self.xp, self.tables
        best = xp.top(rows)
        if self.policy == "greedy":
            return best
        values = rows if tables.open else xp.where(rows == -float("inf"), 0.0, rows)
        if self.policy == "softmax":
            return xp.total(softmax(tables, rows, self.exploration) * values)
        count = tables.A if tables.open else xp.take(tables.count, states)
        count = xp.where(count < 1, 1.0, count) if not tables.open else count  # a terminal state: all is 0 there
        return (1.0 - self.exploration) * best + self.exploration * (xp.total(values) / count)

    def act(self, states: Array, u: Array, lanes: Array | None = None) -> Array:
        """(n) actions in these states, by draws 0 and 1; of these agents alone, if `lanes` says which."""
        if lanes is not None:  # of rules that choose ahead, which have one table
            rows = self.xp.rows(self.table["q"], self.base[lanes] + states)
            return choose(self.tables, self.policy, rows, states, u[:, lanes], self.exploration[lanes])
        place = self.base + (self.tables.seen(states) if self.rule.prefers else states)
        rows = self.xp.rows(self.table["q"], place)
        if "q2" in self.table:
            rows = rows + self.xp.rows(self.table["q2"], place)
        return choose(self.tables, self.policy, rows, states, u, self.exploration)


@dataclass(frozen=True)
class BatchTransition:
    """One transition of each agent. `u` (≥ 2, n) are its draws, `ahead` the action in s′, of rules that choose it."""

    state: Array
    action: Array
    reward: Array
    next: Array
    over: Array
    u: Array
    ahead: Array
