"""Whether values exist where γ = 1, held against every deterministic policy of small worlds over a long time."""

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from txlab.engine.rl.dynamic_programming import find_converged_sweep, sweep, sweeps
from txlab.engine.rl.exact_values import check_values_exist, solve_values
from txlab.engine.rl.process import Outcome, Process, compile_process
from txlab.errors import LabError

LONG = 3000


def small(seed: int) -> Process:
    """2 to 4 states, 1 or 2 actions, one or two outcomes; half of the rewards are 0, and no sum of others is."""
    random = np.random.default_rng(seed)
    states, actions = int(random.integers(2, 5)), int(random.integers(1, 3))
    paid = random.choice([-1.0, 0.0, 1.0], p=[0.5, 0.4, 0.1])  # worlds that mostly cost are the interesting ones
    outcomes = {}
    for s in range(states - 1):
        for a in range(actions):
            shares = [1.0] if random.random() < 0.6 else [0.5, 0.5]
            outcomes[s, a] = [
                Outcome(
                    p,
                    int(random.integers(states)),
                    float((random.normal() + 2 * paid) * (random.random() < 0.5)),
                    bool(random.random() < 0.15),
                )
                for p in shares
            ]
    return compile_process([f"a{a}" for a in range(actions)], [f"s{s}" for s in range(states)], outcomes, 0)


def gains(process: Process) -> np.ndarray:
    """(policies, S): what each deterministic policy earns a step in the long run, which is 0 where it ends."""
    found = []
    open_ = np.flatnonzero(~process.terminal)
    for choice in product(range(process.choices), repeat=len(open_)):
        policy = np.zeros(process.allowed.shape)
        policy[open_, choice] = 1.0
        P = np.zeros((process.size, process.size))
        np.add.at(P, (process.pair // process.choices, process.next), policy.reshape(-1)[process.pair] * process.onward)
        r = (policy.reshape(-1) * process.expected_reward).reshape(policy.shape).sum(1)
        late = np.linalg.matrix_power(P, LONG)
        mean = np.mean([np.linalg.matrix_power(P, k) for k in range(12)], axis=0)  # over every period of four states
        found.append(late @ mean @ r)
    return np.array(found)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_best_values_are_refused_where_a_policy_gains_for_ever_or_all_lose_for_ever(seed: int) -> None:
    process = small(seed)
    found = gains(process)
    assume(not ((abs(found) > 1e-9) & (abs(found) < 1e-3)).any())  # too near to tell
    pays, lost = (found > 1e-9).any(), (found < -1e-9).all(axis=0)
    if pays:
        with pytest.raises(LabError, match="collect reward for ever"):
            check_values_exist(process, 1.0)
    elif lost.any():
        with pytest.raises(LabError, match=f"from {process.states[int(lost.argmax())]}.* no policy ends for certain"):
            check_values_exist(process, 1.0)
    else:
        check_values_exist(process, 1.0)
        v = find_converged_sweep(sweeps(process, 1.0), 1e-10, 100_000).v
        np.testing.assert_allclose(sweep(process, v, 1.0), v, atol=1e-8)


def totals(process: Process, policy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(S), (S): the expected rewards of the first 2¹² and of the first 2¹³ steps."""
    P = np.zeros((process.size, process.size))
    np.add.at(P, (process.pair // process.choices, process.next), policy.reshape(-1)[process.pair] * process.onward)
    total = (policy.reshape(-1) * process.expected_reward).reshape(policy.shape).sum(1)
    for _ in range(12):
        total, P = total + P @ total, P @ P
    return total, total + P @ total


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_policy_with_an_endless_costly_loop_is_refused(seed: int) -> None:
    process = small(seed)
    random = np.random.default_rng(seed + 1)
    policy = np.zeros(process.allowed.shape)
    for s in np.flatnonzero(~process.terminal):
        policy[s] = np.eye(process.choices)[random.integers(process.choices)] if random.random() < 0.7 else 1
    policy /= np.maximum(policy.sum(1, keepdims=True), 1)
    early, late = totals(process, policy)
    later = np.abs(late - early).max()
    if later > 1e-6:
        with pytest.raises(LabError, match="this policy never ends"):
            check_values_exist(process, 1.0, policy)
    else:
        check_values_exist(process, 1.0, policy)
        np.testing.assert_allclose(solve_values(process, policy, 1.0), late, atol=1e-6)
