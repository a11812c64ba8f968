"""A process as the sweeps hold it: flat tables on a device, and what need not be asked for at every step.

Notable: a world in which every action can be chosen and has one outcome has no search in it; the numbers are the same.
"""

from __future__ import annotations

import numpy as np

from txlab.engine.rl.process import Process
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
