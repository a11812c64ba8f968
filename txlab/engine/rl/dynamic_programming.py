"""Dynamic programming: one backup, from which evaluation, value iteration and policy iteration follow (MATH M1, M2).

Notable: everything is made of `backup` and of what is done with its Q: averaged over a policy it evaluates, its maximum
is value iteration, and the policy that takes the maximum is an improvement. What takes long is an iterator that gives
one sweep after another, so that whoever drives it may look, count, or stop. Nothing here tests whether the values
exist where γ = 1: that is `exact_values.check_values_exist`. What a policy comes to within k steps is k sweeps from
V = 0: this is how the frozen lake's 14/17 and the .74 within Gymnasium's limit of 100 steps belong together.

Erratum of Wang §6.1 (M2): a policy is improved with its own value V^π. Written with V* in its place there is nothing
to iterate: who has V* has the best policy in one step, and who has not cannot take it. So that form has no variant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from txlab.engine.rl.exact_values import solved
from txlab.engine.rl.process import Process
from txlab.errors import LabError, RunFailed

Order = Literal["synchronous", "in-place", "prioritised"]

ROUNDING = 2.0**-44
"""Two values are the same if they differ by less than this share of the largest: what the rounding of float64 leaves,
and no more. With heads .55 two stakes of the gambler may differ by 1e-10 and not be equally good."""

UNSETTLED = 1e-8
"""The same for policies that are improved while they are evaluated by sweeps: those leave errors near their tolerance,
and a policy that took such an error for a difference would never settle."""

MOST_SOLVED = 1000
"""States for which `best_policy` solves linear equations: .1 s."""


def backup(process: Process, v: np.ndarray, gamma: float) -> np.ndarray:
    """Q(s, a) = Σ p [r + γ V(s′)], the sum being over what may follow; where the episode ends there is no V(s′).

    v (S) → (S, A) float64; NaN where an action is not allowed. MATH M1; Sutton and Barto 2018, eq. 4.6.
    """
    worth = np.bincount(process.pair, process.onward * v[process.next], minlength=len(process.expected_reward))
    q: np.ndarray = (process.expected_reward + gamma * worth).reshape(process.allowed.shape)
    q[~process.allowed] = np.nan
    return q


def backup_of(process: Process, v: np.ndarray, gamma: float, state: int) -> np.ndarray:
    """The row of `backup` that belongs to one state, (A): the same sums in the same order, hence the same bits."""
    i = state * process.choices
    o, end = process.first[i], process.first[i + process.choices]
    worth = np.bincount(
        process.pair[o:end] - i, process.onward[o:end] * v[process.next[o:end]], minlength=process.choices
    )
    q: np.ndarray = process.expected_reward[i : i + process.choices] + gamma * worth
    q[~process.allowed[state]] = np.nan
    return q


def values(q: np.ndarray, policy: np.ndarray | None = None, epsilon: float = 0.0) -> np.ndarray:
    """V of states with action values q (…, A), NaN = not allowed: (…). A state without actions has 0.

    policy   Σₐ π(a|s) Q(s,a), the value of that policy
    None     (1 − ε) maxₐ Q(s,a) + ε meanₐ Q(s,a), the best that can be had if a share ε of all choices is left to
             chance (S&B §5.4); with ε = 0 the best there is
    """
    allowed = ~np.isnan(q)
    known = np.where(allowed, q, 0.0)
    if policy is not None:
        averaged: np.ndarray = (policy * known).sum(axis=-1)
        return averaged
    best = np.where(allowed, q, -np.inf).max(axis=-1)
    if epsilon:
        best = (1 - epsilon) * best + epsilon * known.sum(axis=-1) / np.maximum(allowed.sum(axis=-1), 1)
    found: np.ndarray = np.where(allowed.any(axis=-1), best, 0.0)
    return found


def even(process: Process) -> np.ndarray:
    """(S, A): every action that is allowed with the same probability; rows of states without actions are 0."""
    counts = process.allowed.sum(axis=1, keepdims=True)
    shares: np.ndarray = process.allowed / np.maximum(counts, 1)
    return shares


def constant(process: Process, action: int) -> np.ndarray:
    """(S, A): always that action; evenly among the others where it is not allowed."""
    policy = even(process)
    there = process.allowed[:, action]
    policy[there] = np.eye(process.choices)[action]
    return policy


def greedy(q: np.ndarray, epsilon: float = 0.0, equal: float = ROUNDING) -> np.ndarray:
    """(S, A): evenly among the best actions of each state, a share ε of it evenly among all that are allowed.

    Values are equal where they differ by at most `equal` · max |Q|. Evenly, and not the first: on the frozen lake with
    γ = 1 the first of the best actions may go to and fro for ever, where a choice among them arrives.
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
    """(S, A): the best actions, equally good ones sharing, where sweeps have come near to the best values V.

    V is off by about the tolerance of the sweeps, which breaks some ties and hides some differences. So the policy that
    is greedy to it is evaluated exactly, and improved until it stays: up to `MOST_SOLVED` states. In a larger world,
    and where a policy has no finite value, it is greedy to V itself.
    """
    policy = greedy(backup(process, v, gamma), epsilon)
    if process.size > MOST_SOLVED:
        return policy
    for _ in range(100):  # one or two, as a rule
        try:
            better = greedy(backup(process, solved(process, policy, gamma), gamma), epsilon)
        except LabError:
            break
        if not changed(better, policy):
            break
        policy = better
    return policy


def changed(policy: np.ndarray, other: np.ndarray) -> int:
    """In how many states two policies differ."""
    return int((np.abs(policy - other) > 1e-9).any(axis=-1).sum())


def sweep(
    process: Process,
    v: np.ndarray,
    gamma: float,
    policy: np.ndarray | None = None,
    epsilon: float = 0.0,
    order: Order = "synchronous",
) -> np.ndarray:
    """Every state's value anew, (S): of `policy`, or of the best choice (see `values`); v stays as it is.

    synchronous   all from the old values: V_k+1 = T V_k, what can be had in one step more
    in-place      one after another in the order of their numbers, each from the newest values there are
    prioritised   as many, but always the one next that is furthest from what its backup would give (see `prioritised`)
    """
    if order == "synchronous":
        return values(backup(process, v, gamma), policy, epsilon)
    if order == "prioritised":
        return prioritised(process, v, gamma, policy, epsilon)
    v = v.copy()
    for state in np.flatnonzero(~process.terminal).tolist():
        row = None if policy is None else policy[state]
        v[state] = values(backup_of(process, v, gamma, state), row, epsilon)
    v[process.terminal] = 0.0
    return v


def prioritised(
    process: Process, v: np.ndarray, gamma: float, policy: np.ndarray | None = None, epsilon: float = 0.0
) -> np.ndarray:
    """As many backups as there are states in which something can be done, each where most is to be gained, (S).

    What is to be gained is |V(s) − its backup| at the beginning; after a change by Δ in s a state from which s may
    follow with probability p is put up to γ p |Δ|, the most that the change can mean to it. So one may be backed up
    often and another not at all. Moore and Atkeson 1993; Sutton and Barto 2018, §8.4, the world being known.

    Worth of sweeps until nothing moves, synchronous, in place, prioritised: taxi 19, 13, 4; gambler 31, 17, 13; frozen
    lake 431, 321, 302; but cliff 15, 15, 25: where every step costs, all states have news all the time.
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
    """After `number` sweeps the values are `v`, and the last one changed none by more than `delta`."""

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
    """Policy evaluation of `policy`, or value iteration where it is None: sweep after sweep without end, from v or 0.

    Sutton and Barto 2018, §4.1 and §4.4.
    """
    v = np.zeros(process.size) if v is None else v
    number = 0
    while True:
        newer = sweep(process, v, gamma, policy, epsilon, order)
        number += 1
        yield Swept(number, newer, float(np.abs(newer - v).max(initial=0.0)))
        v = newer


def settled(found: Iterator[Swept], tolerance: float = 1e-12, most: int = 1_000_000) -> Swept:
    """The first sweep that changed no value by more than tolerance · max(1, max |V|).

    RunFailed where `most` sweeps were not enough.
    """
    for swept in found:
        if swept.delta <= tolerance * max(1.0, float(np.abs(swept.v).max(initial=0.0))):
            return swept
        if swept.number >= most:
            raise RunFailed(f"after {most} sweeps a value still changed by {swept.delta:.3g}")
    raise ValueError("sweeps have no end of their own")


@dataclass(frozen=True, eq=False)
class Improved:
    """Policy `number` (0 = the first) and its value; `q` = backup(v); in `changes` states the next one differs."""

    number: int
    policy: np.ndarray
    v: np.ndarray
    q: np.ndarray
    changes: int


def policies(
    process: Process, gamma: float, policy: np.ndarray | None = None, epsilon: float = 0.0, tolerance: float = 1e-12
) -> Iterator[Improved]:
    """Policy iteration from `policy` (even): evaluate, then be greedy to V^π; ends with the policy that stays.

    V^π ≤ V^π′ in every state, and there are finitely many policies. Among equally good actions the choice is even, so
    two policies of the same value are never taken for a change. Sutton and Barto 2018, §4.3; MATH M2 with its erratum.
    """
    policy = even(process) if policy is None else policy
    v = np.zeros(process.size)
    number = 0
    while True:
        v = settled(sweeps(process, gamma, policy, v=v), tolerance).v
        q = backup(process, v, gamma)
        better = greedy(q, epsilon, UNSETTLED)
        changes = changed(better, policy)
        yield Improved(number, policy, v, q, changes)
        if not changes:
            return
        policy = better
        number += 1


# What a policy comes to


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


def likely_path(process: Process, policy: np.ndarray) -> np.ndarray:
    """(n) int64: the states that a policy (S, A) leads through from where episodes most probably begin, as far as one
    can say: each step takes the likeliest action and its likeliest outcome, until the end, a state that was passed
    before, or an outcome no likelier than not."""
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
