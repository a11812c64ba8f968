"""What tables would do without exploring: one greedy episode of each, and their policies.

Notable: the return under ε > 0 is not the greedy policy's (Q-learning on the cliff earns −50 and knows the path of
−13), so both are measured, and named apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from txlab.engine.rl.process import Process
from txlab.engine.rl.settings import PolicyName
from txlab.engine.rl.sweeps.arrays import Numpy
from txlab.engine.rl.sweeps.policies import choose
from txlab.engine.rl.sweeps.tables import Tables

APART = 0x5EED  # the seeds of greedy episodes are other ones than those of learning


def greedy_returns(
    process: Process, q: np.ndarray, seeds: Sequence[int], limit: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One episode of each table (M, S, A), NaN where an action cannot be chosen: returns, lengths, whether it ended.

    `limit` 0: the process's own, or S·A steps. Ties are broken by chance; rewards are not discounted, nor noisy.
    """
    xp = Numpy()
    tables = Tables(process, xp)
    limit = limit or process.limit or process.size * process.choices
    M = len(q)
    values = np.ascontiguousarray(np.where(np.isnan(q), -np.inf, q).transpose(2, 0, 1))
    values[:, :, process.terminal] = 0.0
    base = np.arange(M) * process.size
    keys = xp.keys((np.asarray(seeds).astype(np.uint64) ^ np.uint64(APART)).astype(np.uint64))
    returns, lengths, ended = np.zeros(M), np.zeros(M, np.int64), np.zeros(M, bool)
    going = np.arange(M)
    state = np.zeros(0, np.int64)
    for t in range(limit):
        if not len(going):
            break
        u = xp.uniforms(keys[going], np.full(len(going), t), 1, True)[0]
        if t == 0:
            state = tables.begin(u[3])
        rows = xp.rows(values, base[going] + state)
        action = choose(tables, "greedy", rows, state, u, np.zeros(len(going)))
        outcome = tables.outcome(state * tables.A + action, u[2])
        returns[going] += tables.reward[outcome]
        lengths[going] += 1
        over = tables.over[outcome]
        ended[going[over]] = True
        going, state = going[~over], tables.next[outcome][~over]
    return returns, lengths, ended


def policies(process: Process, q: np.ndarray, heat: np.ndarray, policy: PolicyName) -> np.ndarray:
    """(M, S, A): π(a|s) of tables (M, S, A), NaN where an action cannot be chosen; `heat` (M) is the ε or τ of each."""
    allowed = process.allowed
    values = np.where(allowed, q, -np.inf)
    best = np.where(process.terminal, 0.0, values.max(axis=2))[:, :, None]
    warm = heat[:, None, None]
    if policy == "softmax":
        raw = np.where(allowed, np.exp((values - best) / warm), 0.0)
        return np.asarray(raw / np.maximum(raw.sum(axis=2, keepdims=True), 1e-300))
    ties = allowed & (values == best)
    share = ties / np.maximum(ties.sum(axis=2, keepdims=True), 1)
    even = allowed / np.maximum(allowed.sum(axis=1, keepdims=True), 1)
    return share if policy == "greedy" else np.asarray((1 - warm) * share + warm * even)
