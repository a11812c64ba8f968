"""How an action is chosen from a row of values: greedy, ε-greedy, softmax (MATH M5).

Notable: equally good actions share the choice (first-index greedy never solves FrozenLake), exploring means *any*
allowed action, the best included, and the chance that decides is given, never drawn here.
"""

from __future__ import annotations

from math import exp
from typing import NamedTuple

import numpy as np

from txlab.engine.rl.settings import Settings


def tied(row: list[float], u: float) -> int:
    """The int(u · ties)-th of the equally best, in order of their numbers."""
    best = max(row)
    ties = [k for k, value in enumerate(row) if value == best]
    return ties[int(u * len(ties))]


def weights(row: list[float], temperature: float) -> list[float]:
    """softmax: exp(qₖ/T) / Σ exp(qⱼ/T); the largest is subtracted first, it cancels."""
    best = max(row)
    raw = [exp((value - best) / temperature) for value in row]
    total = added(raw)
    return [one / total for one in raw]


def soft(row: list[float], temperature: float, u: float) -> int:
    """The first action whose cumulated softmax probability is above u."""
    running = 0.0
    for k, one in enumerate(weights(row, temperature)):
        running += one
        if running > u:
            return k
    return len(row) - 1


class Exploration(NamedTuple):
    """How an episode explores: the chance that a choice is not simply the greedy one; τ; whether it is a softmax.

    A softmax policy never simply takes the best: its `epsilon` is 1.
    """

    epsilon: float
    temperature: float
    softly: bool


def exploring(settings: Settings, episode: int) -> Exploration:
    """ε, or τ, of an episode: its value · decayⁿ, at least the floor."""
    fade = settings.decay**episode if settings.decay != 1.0 else 1.0
    match settings.policy:
        case "greedy" | "exploring-starts":
            return Exploration(0.0, 1.0, False)
        case "softmax":
            return Exploration(1.0, max(settings.floor, settings.temperature * fade, 1e-9), True)
        case _:
            return Exploration(max(settings.floor, settings.epsilon * fade), 1.0, False)


def choose_action(row: list[float], exploration: Exploration, u0: float, u1: float) -> int:
    """An action of the policy, by draws 0 and 1 of its step; the loops of the glass box write this out."""
    epsilon, temperature, softly = exploration
    if u0 < epsilon:
        return soft(row, temperature, u1) if softly else int(u1 * len(row))
    return tied(row, u1)


def added(row: list[float]) -> float:
    """The sum from the first on; Python's own `sum` compensates rounding from 3.12 on, and would be another number."""
    total = 0.0
    for value in row:
        total += value
    return total


def probabilities(q: np.ndarray, settings: Settings, episode: int) -> np.ndarray:
    """(S, A) π(a|s) from Q (S, A) with NaN where an action is not allowed; a row of zeros where none is."""
    allowed = ~np.isnan(q)
    filled = np.where(allowed, q, -np.inf)
    some = allowed.any(axis=1, keepdims=True)
    best = np.where(some, filled.max(axis=1, keepdims=True, initial=-np.inf), 0.0)
    epsilon, temperature, softly = exploring(settings, episode)
    if softly:
        raw = np.where(allowed, np.exp((filled - best) / temperature), 0.0)
        found: np.ndarray = raw / np.maximum(raw.sum(axis=1, keepdims=True), 1e-300)
        return found
    greedy = allowed & (filled == best)
    share = greedy / np.maximum(greedy.sum(axis=1, keepdims=True), 1)
    even = allowed / np.maximum(allowed.sum(axis=1, keepdims=True), 1)
    mixed: np.ndarray = (1 - epsilon) * share + epsilon * even
    return mixed
