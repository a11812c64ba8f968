"""A process as the sweeps store it, how a thousand agents choose in it (ε-greedy, softmax, greedy), and the arguments
of their rule: the agents of a step, their transitions, the trail of an episode (MATH M5, M6).

Notable: where every action is allowed and has a single outcome no search is needed; the numbers are the same. Ties are
broken at random among all best actions; draw 1 decides, and is used up either way, so that an agent's later draws do
not depend on which of its numbers happen to be equal. Every formula is computed as in the glass box, operation by
operation, so that the numbers agree to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from txlab.engine.rl.process import Process
from txlab.engine.rl.settings import PolicyName, Traces
from txlab.engine.rl.sweeps.arrays import Array, Numpy
from txlab.errors import RunFailed

MOST_STEPS = 100_000  # of an episode that is learnt from as a whole


class Tables:
    """next, reward, over of each outcome; the allowed actions of each state.

    open        every action is allowed in every state that is not terminal
    ends        every outcome that ends an episode leads to a terminal state, whose row in every table stays 0
    every_draw  whether draw 2 and draw 3 are ever needed
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
        # The k-th action allowed in s is listed[s · A + k].
        order = np.argsort(~allowed, axis=1, kind="stable")
        self.listed = xp.array(order.reshape(-1), int)
        self.count = xp.array(allowed.sum(axis=1).astype(np.float64))
        self.forbidden = ~allowed & ~process.terminal[:, None]  # (S, A)
        self.starts = xp.array(np.cumsum(process.start))
        self.last_start = int(np.flatnonzero(process.start)[-1])
        self.first_start = int(np.flatnonzero(process.start)[0])
        self.one_start = bool((process.start > 0).sum() == 1)
        noise, observation = process.noise, process.observation
        if observation is not None:  # the first state that looks like s owns the shared row
            _, first, which = np.unique(observation, return_index=True, return_inverse=True)
            observation = first[which.reshape(-1)]
        self.noise = None if noise is None or not np.any(noise) else xp.array(noise)
        self.looks: np.ndarray | None = observation
        self.observation = None if observation is None else xp.array(observation, int)
        self.every_draw = not self.single or not self.one_start or self.noise is not None

    def rows_of_states(self, states: Array) -> Array:
        """(n): the states whose rows a learner of preferences uses in these states."""
        return states if self.observation is None else self.xp.take(self.observation, states)

    def outcome(self, pair: Array, u: Array) -> Array:
        """(n): the outcome of pair i = s·A + a, by draw 2."""
        if self.plain:
            return pair
        if self.cumulative is None:
            return self.xp.take(self.first, pair)
        return self.xp.search(self.cumulative, pair + u)

    def begin(self, u: Array) -> Array:
        """(n): the state in which an episode begins, by draw 3."""
        states = self.xp.search(self.starts, u)
        return self.xp.where(states > self.last_start, self.last_start, states)


def choose(
    tables: Tables,
    policy: PolicyName,
    rows: Array,
    states: Array,
    u: Array,
    exploration: Array,
    best: Array | None = None,
) -> Array:
    """Choose actions (n). `rows` (A, n) are the values, −∞ where an action is not allowed; `u` (≥ 2, n) draws 0 and 1.

    ε-greedy (`exploration` is ε): if u₀ < ε explore with allowed[int(u₁ · n)] among all allowed actions; else the
    int(u₁ · ties)-th of the best. softmax (`exploration` is τ): the first action whose cumulative probability is above
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
    """(A, n): exp(Q/τ) / Σ exp(Q/τ); the largest is subtracted first, which cancels."""
    xp = tables.xp
    raw = xp.exp((rows - xp.top(rows)) / exploration)
    return raw / xp.total(raw)


@dataclass
class StepState:
    """The agents during stepping: what does not change within a step.

    In a table (A, n, S), flattened, the entry (a, m, s) is at a·stride + base[m] + s. `exploration` is ε, or τ.
    """

    xp: Numpy
    tables: Tables
    policy: PolicyName
    traces: Traces
    prefers: bool
    table: dict[str, Array]
    base: Array
    stride: int
    alpha: Array
    beta: Array
    gamma: Array
    lam: Array
    exploration: Array

    def cell(self, step: BatchTransition) -> Array:
        """(n): the index of Q(s, a) in a flattened table."""
        return step.action * self.stride + (self.base + step.state)

    def unless_over(self, value: Array, over: Array) -> Array:
        """The value of the next state: 0 where the episode ended there."""
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
        count = xp.where(count < 1, 1.0, count) if not tables.open else count  # a terminal state: all its values are 0
        return (1.0 - self.exploration) * best + self.exploration * (xp.total(values) / count)

    def act(self, states: Array, u: Array, lanes: Array | None = None) -> Array:
        """(n) actions in these states, by draws 0 and 1; only of the agents `lanes`, if given."""
        if lanes is not None:  # for rules that choose ahead, which have one table
            rows = self.xp.rows(self.table["q"], self.base[lanes] + states)
            return choose(self.tables, self.policy, rows, states, u[:, lanes], self.exploration[lanes])
        place = self.base + (self.tables.rows_of_states(states) if self.prefers else states)
        rows = self.xp.rows(self.table["q"], place)
        if "q2" in self.table:
            rows = rows + self.xp.rows(self.table["q2"], place)
        return choose(self.tables, self.policy, rows, states, u, self.exploration)


@dataclass(frozen=True)
class BatchTransition:
    """One transition of each agent. `u` (≥ 2, n) are its draws, `ahead` the action in s′ of rules that choose ahead."""

    state: Array
    action: Array
    reward: Array
    next: Array
    over: Array
    u: Array
    ahead: Array


@dataclass
class Trail:
    """The steps of a block's agents in one episode: for each step, which agents, state, action, reward."""

    moves: list[tuple[Array, Array, Array, Array]] = field(default_factory=list)

    def add(self, lanes: Array, state: Array, action: Array, reward: Array) -> None:
        if len(self.moves) >= MOST_STEPS:
            raise RunFailed(
                f"an episode took more than {MOST_STEPS} steps; world.limit cuts it off, or take a smaller α"
            )
        self.moves.append((lanes, state, action, reward))

    def backwards(self, now: StepState, lengths: Array) -> list[tuple[Array, Array, Array, Array]]:
        """(state, action, Gₜ, whether the episode had this step) of all agents (n), from the last step to the first:
        G ← r + γ G (MATH M3)."""
        xp, n = now.xp, len(now.base)
        zeros, coming = xp.array([0] * n, int), xp.array([0.0] * n)
        steps = []
        for k in range(len(self.moves) - 1, -1, -1):
            lanes, state, action, reward = self.moves[k]
            row_state, row_action, row_reward = xp.copy(zeros), xp.copy(zeros), xp.copy(coming)
            row_state[lanes], row_action[lanes], row_reward[lanes] = state, action, reward
            here = lengths > k
            coming = xp.where(here, row_reward + now.gamma * coming, 0.0)
            steps.append((row_state, row_action, coming, here))
        return steps
