"""Dynamic programming: one backup, from which evaluation, value iteration and policy iteration follow (MATH M1, M2).

Notable: everything follows from `backup` and the use of its Q: averaging over a policy is evaluation, taking the
maximum is value iteration, and acting by that maximum is policy improvement. Long computations are iterators that yield
one sweep at a time, so that the caller can look, count or stop. Nothing here tests whether the values exist for γ = 1:
that is `exact_values.check_values_exist`. The value of a policy within k steps is k sweeps from V = 0: this is how the
frozen lake's 14/17 and the .74 within Gymnasium's limit of 100 steps belong together.

Erratum of Wang §6.1 (M2): a policy is improved with its own value V^π. With V* instead there is nothing to iterate: V*
gives the best policy in one step, and without V* that step cannot be taken. That form is not implemented.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from txlab.engine.rl.exact_values import solve_values
from txlab.engine.rl.process import Process
from txlab.errors import LabError, RunFailed

Order = Literal["synchronous", "in-place", "prioritised"]

ROUNDING = 2.0**-44
"""Two values are equal if they differ by less than this fraction of the largest: the rounding error of float64, and
no more. With heads .55 two stakes of the gambler may differ by 1e-10 and not be equally good."""

UNSETTLED = 1e-8
"""The same for policies that are improved while sweeps evaluate them: sweeps leave errors near their tolerance, and
policy iteration that took such an error for a difference would never settle."""

MOST_SOLVED = 1000
"""Largest number of states for which `best_policy` solves linear equations: .1 s."""


def backup(process: Process, v: np.ndarray, gamma: float) -> np.ndarray:
    """Q(s, a) = Σ p [r + γ V(s′)], summed over the outcomes; there is no V(s′) where the episode ends.

    v (S) → (S, A) float64; NaN where an action is not allowed. MATH M1; Sutton and Barto 2018, eq. 4.6.
    """
    worth = np.bincount(process.pair, process.onward * v[process.next], minlength=len(process.expected_reward))
    q: np.ndarray = (process.expected_reward + gamma * worth).reshape(process.allowed.shape)
    q[~process.allowed] = np.nan
    return q


def backup_of(process: Process, v: np.ndarray, gamma: float, state: int) -> np.ndarray:
    """One state's row of `backup`, (A): the same sums in the same order, hence bit-identical."""
    i = state * process.choices
    o, end = process.first[i], process.first[i + process.choices]
    worth = np.bincount(
        process.pair[o:end] - i, process.onward[o:end] * v[process.next[o:end]], minlength=process.choices
    )
    q: np.ndarray = process.expected_reward[i : i + process.choices] + gamma * worth
    q[~process.allowed[state]] = np.nan
    return q


def values(q: np.ndarray, policy: np.ndarray | None = None, epsilon: float = 0.0) -> np.ndarray:
    """V of states with action values q (…, A), NaN = not allowed: (…). A state without actions has value 0.

    policy   Σₐ π(a|s) Q(s,a), the value of that policy
    None     (1 − ε) maxₐ Q(s,a) + ε meanₐ Q(s,a), the best value when a share ε of all choices is random (S&B §5.4);
             with ε = 0 the optimal value
    """
    allowed = ~np.isnan(q)
    known = np.where(allowed, q, 0.0)
    if policy is not None:
        averaged: np.ndarray = (policy * known).sum(axis=-1)
        return averaged
    best = np.where(allowed, q, -np.inf).max(axis=-1)
    if epsilon:
        best = (1 - epsilon) * best + epsilon * known.sum(axis=-1) / np.maximum(allowed.sum(axis=-1), 1)
    return np.where(allowed.any(axis=-1), best, 0.0)


def even(process: Process) -> np.ndarray:
    """The uniform policy over the allowed actions, (S, A); rows of states without actions are 0."""
    counts = process.allowed.sum(axis=1, keepdims=True)
    shares: np.ndarray = process.allowed / np.maximum(counts, 1)
    return shares


def constant(process: Process, action: int) -> np.ndarray:
    """Always take that action, (S, A); uniform over the others where it is not allowed."""
    policy = even(process)
    there = process.allowed[:, action]
    policy[there] = np.eye(process.choices)[action]
    return policy


def greedy(q: np.ndarray, epsilon: float = 0.0, equal: float = ROUNDING) -> np.ndarray:
    """The greedy policy, (S, A): uniform over the best actions, with a share ε uniform over all that are allowed.

    Values are equal where they differ by at most `equal` · max |Q|. Ties are shared rather than given to the first
    action: on the frozen lake with γ = 1 the first of the best actions may go back and forth for ever, while a random
    choice among them reaches the goal.
    """
    allowed = ~np.isnan(q)
    known = np.where(allowed, q, -np.inf)
    top = known.max(axis=-1, keepdims=True)
    scale = float(np.abs(q[allowed]).max(initial=0.0))
    ties = allowed & (known >= top - equal * scale)
    policy: np.ndarray = ties / np.maximum(ties.sum(axis=-1, keepdims=True), 1)
    if epsilon:
        policy = (1 - epsilon) * policy + epsilon * allowed / np.maximum(allowed.sum(axis=-1, keepdims=True), 1)
    return policy


def best_policy(process: Process, v: np.ndarray, gamma: float, epsilon: float = 0.0) -> np.ndarray:
    """The optimal policy, (S, A), ties shared, from values V that sweeps have brought close to optimal.

    V is off by about the tolerance of the sweeps, which breaks some ties and hides some differences. So the policy that
    is greedy with respect to V is evaluated exactly and improved until it is stable, up to `MOST_SOLVED` states.
    In a larger world, or where a policy has no finite value, the result is greedy with respect to V itself.
    """
    policy = greedy(backup(process, v, gamma), epsilon)
    if process.size > MOST_SOLVED:
        return policy
    for _ in range(100):  # usually one or two
        try:
            better = greedy(backup(process, solve_values(process, policy, gamma), gamma), epsilon)
        except LabError:
            break
        if not count_changed(better, policy):
            break
        policy = better
    return policy


def count_changed(policy: np.ndarray, other: np.ndarray) -> int:
    """The number of states in which two policies differ."""
    return int((np.abs(policy - other) > 1e-9).any(axis=-1).sum())


def sweep(
    process: Process,
    v: np.ndarray,
    gamma: float,
    policy: np.ndarray | None = None,
    epsilon: float = 0.0,
    order: Order = "synchronous",
) -> np.ndarray:
    """Back up every state, (S): for `policy`, or for the best choice (see `values`); v is not modified.

    synchronous   all from the old values: V_k+1 = T V_k, the value with one more step
    in-place      in numerical order, each from the newest values
    prioritised   as many backups, always of the state whose value would change most (see `prioritise`)
    """
    if order == "synchronous":
        return values(backup(process, v, gamma), policy, epsilon)
    if order == "prioritised":
        return prioritise(process, v, gamma, policy, epsilon)
    v = v.copy()
    for state in np.flatnonzero(~process.terminal).tolist():
        row = None if policy is None else policy[state]
        v[state] = values(backup_of(process, v, gamma, state), row, epsilon)
    v[process.terminal] = 0.0
    return v


def prioritise(
    process: Process, v: np.ndarray, gamma: float, policy: np.ndarray | None = None, epsilon: float = 0.0
) -> np.ndarray:
    """As many backups as there are non-terminal states, each where the value would change most, (S).

    The priority of s is |V(s) − its backup| at first; after a change by Δ in s, a state from which s follows with
    probability p has its priority raised to γ p |Δ|, the most that the change can affect it. So one state may be backed
    up often and another not at all. Moore and Atkeson 1993; Sutton and Barto 2018, §8.4, with a known model.

    Sweeps until nothing changes, synchronous, in place, prioritised: taxi 19, 13, 4; gambler 31, 17, 13; frozen lake
    431, 321, 302; but cliff 15, 15, 25: where every step has a cost, all states keep changing.
    """
    v = np.where(process.terminal, 0.0, v)
    gain = np.abs(values(backup(process, v, gamma), policy, epsilon) - v)
    begins, outcomes = process.leading
    tails, weight = process.pair[outcomes] // process.choices, gamma * process.onward[outcomes]
    for _ in range(int((~process.terminal).sum())):
        state = int(gain.argmax())
        if gain[state] == 0:
            break
        row = None if policy is None else policy[state]
        value = float(values(backup_of(process, v, gamma, state), row, epsilon))
        change, v[state], gain[state] = abs(value - v[state]), value, 0.0
        here = slice(begins[state], begins[state + 1])
        np.maximum.at(gain, tails[here], weight[here] * change)
    return v


@dataclass(frozen=True, eq=False)
class Swept:
    """The values `v` after `number` sweeps, the last of which changed none by more than `delta`."""

    number: int
    v: np.ndarray
    delta: float


def sweeps(
    process: Process,
    gamma: float,
    policy: np.ndarray | None = None,
    epsilon: float = 0.0,
    order: Order = "synchronous",
    v: np.ndarray | None = None,
) -> Iterator[Swept]:
    """Policy evaluation of `policy`, or value iteration if it is None: an endless series of sweeps, from v or 0.

    Sutton and Barto 2018, §4.1 and §4.4.
    """
    v = np.zeros(process.size) if v is None else v
    number = 0
    while True:
        newer = sweep(process, v, gamma, policy, epsilon, order)
        number += 1
        yield Swept(number, newer, float(np.abs(newer - v).max(initial=0.0)))
        v = newer


def find_converged_sweep(iterations: Iterator[Swept], tolerance: float = 1e-12, most: int = 1_000_000) -> Swept:
    """The first sweep that changed no value by more than tolerance · max(1, max |V|).

    RunFailed if `most` sweeps are not enough.
    """
    for swept in iterations:
        if swept.delta <= tolerance * max(1.0, float(np.abs(swept.v).max(initial=0.0))):
            return swept
        if swept.number >= most:
            raise RunFailed(f"after {most} sweeps a value still changed by {swept.delta:.3g}")
    raise ValueError("sweeps have no natural end")


@dataclass(frozen=True, eq=False)
class Improved:
    """Policy `number` (0 = the first) and its value; `q` = backup(v); the next policy differs in `changes` states."""

    number: int
    policy: np.ndarray
    v: np.ndarray
    q: np.ndarray
    changes: int


def policies(
    process: Process, gamma: float, policy: np.ndarray | None = None, epsilon: float = 0.0, tolerance: float = 1e-12
) -> Iterator[Improved]:
    """Policy iteration from `policy` (uniform by default): evaluate, then be greedy to V^π, until the policy is stable.

    V^π ≤ V^π′ in every state, and there are finitely many policies. Ties are shared evenly, so two policies of the same
    value never count as a change. Sutton and Barto 2018, §4.3; MATH M2 with its erratum.
    """
    policy = even(process) if policy is None else policy
    v = np.zeros(process.size)
    number = 0
    while True:
        v = find_converged_sweep(sweeps(process, gamma, policy, v=v), tolerance).v
        q = backup(process, v, gamma)
        better = greedy(q, epsilon, UNSETTLED)
        changes = count_changed(better, policy)
        yield Improved(number, policy, v, q, changes)
        if not changes:
            return
        policy = better
        number += 1


# The value of a policy over a limited number of steps


def value_within(process: Process, policy: np.ndarray | None, steps: int, gamma: float = 1.0) -> np.ndarray:
    """The expected return (S) of the first `steps` steps of `policy`; None = of the best choice at each step, which may
    depend on how many remain."""
    v = np.zeros(process.size)
    for _ in range(steps):
        v = sweep(process, v, gamma, policy)
    return v


def success_within(process: Process, policy: np.ndarray, steps: int, success: np.ndarray | None = None) -> np.ndarray:
    """The probability (S) of an outcome that counts as success within `steps` steps.

    success   (O) bool, outcomes that end the episode well; by default those that end it with a positive reward
    """
    won = process.done & (process.reward > 0) if success is None else success
    counted = replace(process, reward=won.astype(np.float64), done=process.done | won)
    return value_within(counted, policy, steps)


def from_start(process: Process, v: np.ndarray) -> float:
    """Σ P(an episode begins in s) V(s)."""
    return float(process.start @ v)


def likely_path(process: Process, policy: np.ndarray) -> np.ndarray:
    """The states (n) int64 on the likeliest path of a policy (S, A) from the likeliest start: each step takes the
    likeliest action and its likeliest outcome, until the end, a state already visited, or an outcome no likelier than
    not."""
    state = int(process.start.argmax())
    passed = [state]
    while not process.terminal[state]:
        likeliest = max(process.outcomes(state, int(policy[state].argmax())), key=lambda each: each.probability)
        if likeliest.probability <= 0.5:
            break
        state = likeliest.next
        again = state in passed
        passed.append(state)
        if likeliest.done or again:
            break
    return np.array(passed, dtype=np.int64)
