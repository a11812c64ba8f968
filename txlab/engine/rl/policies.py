"""How an action is chosen from a row of values: greedy, ε-greedy, softmax (MATH M5).

Tied actions share the choice (always taking the first never solves FrozenLake), exploration draws from *all*
allowed actions, the best included, and the random numbers are passed in, never drawn here.
"""

from __future__ import annotations

from math import exp

import numpy as np

from txlab.engine.rl.settings import Settings


def break_tie(row: list[float], u: float) -> int:
    """The int(u · ties)-th of the best actions, in numerical order."""
    best = max(row)
    if row.count(best) == 1:  # mostly, and a third of the time of the list (benchmarks/rl_glass.py)
        return row.index(best)
    ties = [k for k, value in enumerate(row) if value == best]
    return ties[int(u * len(ties))]


def weights(row: list[float], temperature: float) -> list[float]:
    """softmax: exp(qₖ/T) / Σ exp(qⱼ/T); the largest is subtracted first, which cancels."""
    best = max(row)
    raw = [exp((value - best) / temperature) for value in row]
    total = add_up(raw)
    return [one / total for one in raw]


def soft(row: list[float], temperature: float, u: float) -> int:
    """The first action whose cumulative softmax probability is above u."""
    running = 0.0
    for k, one in enumerate(weights(row, temperature)):
        running += one
        if running > u:
            return k
    return len(row) - 1


Exploration = tuple[float, float, bool]
"""How an episode explores: ε, the probability that a choice is not simply greedy; τ; whether it is a softmax.

A softmax policy never simply takes the best, so its ε is 1. It is a plain tuple because a named one, unpacked at each
step, would cost Expected SARSA 3 % (benchmarks/rl_glass.py).
"""


def exploring(settings: Settings, episode: int) -> Exploration:
    """ε, or τ, of an episode: its value · decayⁿ, but at least the floor."""
    fade = settings.decay**episode if settings.decay != 1.0 else 1.0
    match settings.policy:
        case "greedy" | "exploring-starts":
            return (0.0, 1.0, False)
        case "softmax":
            return (1.0, max(settings.floor, settings.temperature * fade, 1e-9), True)
        case _:
            return (max(settings.floor, settings.epsilon * fade), 1.0, False)


def choose_action(row: list[float], exploration: Exploration, u0: float, u1: float) -> int:
    """Choose an action by draws 0 and 1 of its step; the loops of the glass box inline this."""
    epsilon, temperature, softly = exploration
    if u0 < epsilon:
        return soft(row, temperature, u1) if softly else int(u1 * len(row))
    return break_tie(row, u1)


def add_up(row: list[float]) -> float:
    """The sum from left to right; Python's own `sum` compensates for rounding from 3.12 on, so it would differ."""
    total = 0.0
    for value in row:
        total += value
    return total


def probabilities(q: np.ndarray, settings: Settings, episode: int) -> np.ndarray:
    """π(a|s) (S, A) of an episode, from Q as in `shares`."""
    return shares(q, *exploring(settings, episode))


def shares(q: np.ndarray, epsilon: float | np.ndarray, temperature: float | np.ndarray, softly: bool) -> np.ndarray:
    """π(a|s) (…, A) from Q (…, A) with NaN where an action is not allowed; a row of zeros where none is."""
    allowed = ~np.isnan(q)
    filled = np.where(allowed, q, -np.inf)
    some = allowed.any(axis=-1, keepdims=True)
    best = np.where(some, filled.max(axis=-1, keepdims=True, initial=-np.inf), 0.0)
    if softly:
        raw = np.where(allowed, np.exp((filled - best) / temperature), 0.0)
        policy: np.ndarray = raw / np.maximum(raw.sum(axis=-1, keepdims=True), 1e-300)
        return policy
    greedy = allowed & (filled == best)
    share = greedy / np.maximum(greedy.sum(axis=-1, keepdims=True), 1)
    even = allowed / np.maximum(allowed.sum(axis=-1, keepdims=True), 1)
    mixed: np.ndarray = (1 - epsilon) * share + epsilon * even
    return mixed
