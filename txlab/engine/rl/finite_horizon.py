"""What a policy comes to when it is cut off after so many steps (MATH M1, M3).

Notable: k synchronous sweeps from V = 0 *are* the value of k steps, so nothing is simulated. This is how the frozen
lake's 14/17 and the .74 within Gymnasium's limit of 100 steps belong together.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from txlab.engine.rl.dynamic_programming import sweep
from txlab.engine.rl.process import Process


def value_within(process: Process, policy: np.ndarray | None, steps: int, gamma: float = 1.0) -> np.ndarray:
    """(S): the expected return of the first `steps` steps of `policy`; None = of the best choice at every step, which
    may depend on how many are left."""
    v = np.zeros(process.size)
    for _ in range(steps):
        v = sweep(process, v, gamma, policy)
    return v


def success_within(process: Process, policy: np.ndarray, steps: int, success: np.ndarray | None = None) -> np.ndarray:
    """(S): the probability that within `steps` steps an outcome comes that counts as success.

    success   (O) bool, outcomes that end the episode well; by default those that end it and pay more than nothing
    """
    won = process.done & (process.reward > 0) if success is None else success
    counted = replace(process, reward=won.astype(np.float64), done=process.done | won)
    return value_within(counted, policy, steps)


def from_start(process: Process, v: np.ndarray) -> float:
    """Σ P(an episode begins in s) V(s)."""
    return float(process.start @ v)
