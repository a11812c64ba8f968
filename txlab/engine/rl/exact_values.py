"""Check whether values exist for γ = 1: is every endless path free, or worse than ending? (MATH M1, M2)

Notable: with γ = 1 a value is a sum of rewards that may diverge. A policy is *proper* if it ends with probability one
(Bertsekas and Tsitsiklis 1991); for a proper policy the sum exists. It also exists where continuing for ever has no
reward and no cost, as in a walk on the frozen lake; such states are treated as terminal. All other cases are refused
before a sweep that would never converge.
"""

from __future__ import annotations

import numpy as np

from txlab.engine.rl.process import Process
from txlab.errors import LabError

ROUNDS = 5_000
"""Most rounds in the search for a cycle with positive reward; it takes about as many as the longest path."""


def check_values_exist(process: Process, gamma: float, policy: np.ndarray | None = None, epsilon: float = 0.0) -> None:
    """Raise LabError if γ = 1 and V^policy is infinite somewhere; without a policy: V*, or with ε the best value of the
    policies that leave a share ε to chance."""
    if gamma < 1:
        return
    if policy is None and epsilon:
        policy = process.allowed.astype(np.float64)  # only which actions are possible matters
        policy /= np.maximum(policy.sum(axis=1, keepdims=True), 1)
    if policy is not None:
        lost = ~reaches(process, policy > 0, resting(process, policy))
        if lost.any():
            raise LabError(
                f"γ = 1, and from {_name(process, lost)} this policy never ends and its rewards add up without end; "
                "allowed is γ below 1, or a policy that ends from everywhere"
            )
        return
    pays = _paying_cycle(process)
    if pays is not None:
        raise LabError(
            f"γ = 1, and a policy that never ends can collect reward for ever around {process.states[pays]}; "
            "allowed is γ below 1, or a world in which every cycle costs"
        )
    lost = ~_can_arrive(process)
    if lost.any():
        raise LabError(
            f"γ = 1, and from {_name(process, lost)} no policy ends for certain, so the costs add up without end; "
            "allowed is γ below 1, or a world with a way out from everywhere"
        )


def resting(process: Process, policy: np.ndarray) -> np.ndarray:
    """(S) bool: the states from which the policy continues for ever without any reward or cost."""
    paid = abs((policy.reshape(-1) * process.expected_reward).reshape(policy.shape).sum(axis=1)) > 1e-12
    ends = _some(process, process.done)
    rest: np.ndarray = ~paid & ~process.terminal & ~((policy > 0) & ends).any(axis=1)
    while True:
        leaves = (policy > 0) & _some(process, ~rest[process.next])
        fewer = rest & ~leaves.any(axis=1)
        if (fewer == rest).all():
            return rest
        rest = fewer


def reaches(process: Process, possible: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """(S) bool: the states from which possible actions (S, A) can reach an end or a state of `goal` (S)."""
    reaching: np.ndarray = goal | process.terminal | (possible & _some(process, process.done)).any(axis=1)
    while True:
        more: np.ndarray = reaching | (possible & _some(process, reaching[process.next])).any(axis=1)
        if (more == reaching).all():
            return reaching
        reaching = more


def _some(process: Process, flags: np.ndarray) -> np.ndarray:
    """(S, A) bool: whether any outcome of positive probability has its flag (O) set."""
    count = np.bincount(process.pair, flags & (process.probability > 0), minlength=len(process.first) - 1)
    return (count > 0).reshape(process.allowed.shape)


def _staying(process: Process, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(S), (S, A): the largest set of states within which the given actions can stay for ever, and those actions."""
    actions = np.logical_and(actions, ~_some(process, process.done))
    while True:
        inside = np.logical_or.reduce(actions, axis=1)
        fewer: np.ndarray = actions & ~_some(process, ~inside[process.next])
        if (fewer == actions).all():
            return inside, actions
        actions = fewer


def _can_arrive(process: Process) -> np.ndarray:
    """(S) bool: where some policy, with probability one, ends or reaches states where it can continue for free."""
    free = ~_some(process, process.reward != 0)
    rest = _staying(process, process.allowed & free)[0] | process.terminal
    hope = np.ones(process.size, dtype=bool)
    while True:
        safe = process.allowed & ~_some(process, ~process.done & ~hope[process.next])  # these keep every hope
        fewer = reaches(process, safe, rest)
        if (fewer == hope).all():
            return hope
        hope = fewer


def _recurring(process: Process, actions: np.ndarray) -> np.ndarray:
    """(S, A): the actions that stay within a set of states which can all be returned to: the end components."""
    actions = _staying(process, actions)[1]
    while True:
        component = _components(process, actions)
        leaves = _some(process, component[process.next] != component[process.pair // process.choices])
        fewer = np.logical_and(actions, ~leaves)
        if (fewer == actions).all():
            return actions
        actions = fewer


def _paying_cycle(process: Process) -> int | None:
    """A state from which rewards can be collected for ever, or go up and down for ever; None if never ending always
    costs something or is free.

    A policy's long-run reward per step is at most max (TV − V) for any V, and V ← (V + TV) / 2 lowers that bound to the
    maximum (Puterman 1994, §8.5). If it is 0, the actions that attain it must not have any reward.
    """
    actions = _recurring(process, process.allowed)
    inside = np.logical_or.reduce(actions, axis=1)
    reward = np.where(actions, process.expected_reward.reshape(actions.shape), -np.inf)
    if not (reward > 0).any():
        return None
    scale = float(np.abs(reward[actions]).max())
    v, gain = np.zeros(process.size), np.zeros(process.size)
    for _ in range(ROUNDS):
        worth = np.bincount(process.pair, process.onward * v[process.next], minlength=actions.size)
        each = reward + worth.reshape(actions.shape) - v[:, None]  # (S, A)
        before, gain = gain, np.where(inside, each.max(axis=1), -np.inf)
        if gain.max() < -1e-9 * scale:
            return None
        if np.abs(gain[inside] - before[inside]).max() < 1e-13 * scale:
            break
        v = np.where(inside, v + gain / 2, 0.0)
    if gain.max() > 1e-9 * scale:
        return int(np.where(gain > 1e-9 * scale, reward.max(axis=1), -np.inf).argmax())  # where the reward is
    free = _recurring(process, actions & (each > -1e-7 * scale))
    paid = np.logical_or.reduce(free & (np.abs(reward) > 1e-12 * scale), axis=1)
    return int(paid.argmax()) if paid.any() else None


def _components(process: Process, actions: np.ndarray) -> np.ndarray:
    """(S) int: component numbers; the same if each can be reached from the other by these actions (S, A)."""
    edges = actions.reshape(-1)[process.pair] & (process.probability > 0)
    tails, heads = process.pair[edges] // process.choices, process.next[edges]
    number = np.arange(process.size)
    component = np.full(process.size, -1)
    while (component < 0).any():
        inner = (component[tails] < 0) & (component[heads] < 0)
        tails, heads = tails[inner], heads[inner]
        largest = np.where(component < 0, number, -1)  # the largest number from which a state can be reached …
        while True:
            newer = largest.copy()
            np.maximum.at(newer, heads, largest[tails])
            if (newer == largest).all():
                break
            largest = newer
        member = (largest == number) & (component < 0)  # … and which of those states can go back to it
        while True:
            back = member[heads] & (largest[heads] == largest[tails]) & ~member[tails]
            if not back.any():
                break
            member[tails[back]] = True
        component[member] = largest[member]
    return component


def _name(process: Process, flags: np.ndarray) -> str:
    more = int(flags.sum()) - 1
    others = f" (and {more} other state{'s' if more > 1 else ''})" if more else ""
    return f"{process.states[int(flags.argmax())]}{others}"


MOST_STATES = 5_000  # 200 MB, half a minute


def solve_values(process: Process, policy: np.ndarray, gamma: float) -> np.ndarray:
    """V^π (S), exact up to rounding. LabError if it is infinite, or if there are more than `MOST_STATES` states.

    With γ = 1, V = 0 where the policy can continue for ever for free: the value that sweeps from 0 converge to.
    """
    if process.size > MOST_STATES:
        raise LabError(f"{process.size} states are more equations than the {MOST_STATES} that are solved; use sweeps")
    check_values_exist(process, gamma, policy)
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
