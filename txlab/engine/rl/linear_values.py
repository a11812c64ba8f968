"""The value of a policy as the solution of linear equations: (I − γ P_π) V = r_π (MATH M1).

Notable: exact where sweeps only come near, and held against them in the tests. The matrix is dense, (S, S), for NumPy
has no sparse solver: up to `MOST_STATES`; larger worlds are evaluated by sweeps. One step of iterative refinement takes
out most of the rounding of a long walk, where the equations are nearly singular.
"""

from __future__ import annotations

import numpy as np

from txlab.engine.rl.process import Process
from txlab.engine.rl.undiscounted import check, resting
from txlab.errors import LabError

MOST_STATES = 5_000  # 200 MB, half a minute


def solved(process: Process, policy: np.ndarray, gamma: float) -> np.ndarray:
    """V^π (S) exactly, to rounding. LabError where it is infinite, or where there are more than `MOST_STATES` states.

    With γ = 1 and a policy that can go on for ever for nothing, V = 0 there: the value that sweeps from 0 come to.
    """
    if process.size > MOST_STATES:
        raise LabError(f"{process.size} states are more equations than the {MOST_STATES} that are solved; use sweeps")
    check(process, gamma, policy)
    P = np.zeros((process.size, process.size))
    share = policy.reshape(-1)[process.pair]
    state = process.pair // process.choices
    np.add.at(P, (state, process.next), share * process.onward)
    r = (policy.reshape(-1) * process.expected_reward).reshape(policy.shape).sum(axis=1)
    known = process.terminal | (resting(process, policy) if gamma == 1 else False)  # V = 0
    unknown = np.flatnonzero(~known)
    matrix = np.eye(len(unknown)) - gamma * P[np.ix_(unknown, unknown)]
    v = np.zeros(process.size)
    x = np.linalg.solve(matrix, r[unknown])
    v[unknown] = x + np.linalg.solve(matrix, r[unknown] - matrix @ x)
    return v
