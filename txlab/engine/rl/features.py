"""The features of a state that a linear unit sees: a row of D numbers (MATH M4; Mehlig's O(s) = w · s).

Notable: where each row has a single 1 (a table, or state aggregation), only the index of that feature is used and the
sums over features are skipped. The values are the same, without the zeros times infinity that would turn a diverging
run into NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from txlab.errors import LabError


@dataclass(frozen=True, eq=False)
class Features:
    """matrix (S, D) float64, one row per state; `name` is the display name."""

    matrix: np.ndarray
    name: str = "features"

    @property
    def size(self) -> int:
        """D"""
        return int(self.matrix.shape[1])

    @cached_property
    def number(self) -> np.ndarray | None:
        """(S) int64: the one feature that is 1 in each state; None where rows have several, or other values."""
        one = ((self.matrix != 0).sum(axis=1) == 1).all() and (self.matrix.max(axis=1) == 1).all()
        return self.matrix.argmax(axis=1) if one else None

    def weights(self, initial: float) -> np.ndarray:
        """Weights (D) that give every state the value `initial`. LabError where equal weights do not."""
        sums = self.matrix.sum(axis=1)
        if initial and abs(sums - sums[0]).max() > 1e-9:
            raise LabError(f"with {self.name} features no equal weights make every value {initial:g}; set initial = 0")
        return np.full(self.size, initial / sums[0] if initial else 0.0)

    def values(self, weights: np.ndarray) -> np.ndarray:
        """V(s) = w · x(s): weights (…, D, K) → (…, S, K)."""
        if self.number is not None:
            values: np.ndarray = weights[..., self.number, :]
        else:
            values = self.matrix @ weights
        return values

    # For one state of each of n runs: weights (n, D, K), states (n)

    def look(self, weights: np.ndarray, states: np.ndarray) -> np.ndarray:
        """(n, K): w · x(s)."""
        if self.number is not None:
            values: np.ndarray = weights[np.arange(len(states)), self.number[states]]
        else:
            values = np.matmul(self.matrix[states][:, None, :], weights)[:, 0]
        return values

    def add(self, weights: np.ndarray, states: np.ndarray, amount: np.ndarray) -> None:
        """w ← w + amount · x(s), in place; amount (n, K), or 1."""
        if self.number is not None:
            weights[np.arange(len(states)), self.number[states]] += amount
        else:
            weights += self.matrix[states][:, :, None] * np.expand_dims(amount, -2)

    def put(self, traces: np.ndarray, states: np.ndarray) -> None:
        """e ← x(s) where x(s) is not 0, in place: a replacing trace."""
        if self.number is not None:
            traces[np.arange(len(states)), self.number[states]] = 1.0
        else:
            x = self.matrix[states][:, :, None]
            np.copyto(traces, np.broadcast_to(x, traces.shape), where=x != 0)


def tabular(states: int) -> Features:
    """One feature per state: the linear unit is a table."""
    return Features(np.eye(states), "tabular")


def aggregate(states: int, groups: int) -> Features:
    """Neighbouring states share a feature, in `groups` groups of equal size (within one).   S&B 2018, example 9.1"""
    return Features(np.eye(groups)[np.arange(states) * groups // states], "aggregated")


def radial(states: int, centres: int, width: float = 1.0) -> Features:
    """xᵢ(s) ∝ exp(−(s − cᵢ)² / 2σ²), normalised to sum to one; centres evenly spaced, σ = width · their distance.

    Sutton and Barto 2018, section 9.5.5
    """
    places = np.linspace(0, states - 1, centres)
    sigma = width * (places[1] - places[0] if centres > 1 else float(states))
    bumps = np.exp(-((np.arange(states)[:, None] - places) ** 2) / (2 * sigma**2))
    return Features(bumps / bumps.sum(axis=1, keepdims=True), "radial")


def tile(states: int, tiles: int, tilings: int) -> Features:
    """`tilings` partitions of the states into tiles, each shifted by a further fraction of a tile; one 1 in each.

    Sutton and Barto 2018, section 9.5.4
    """
    length = states / tiles
    blocks = []
    for k in range(tilings):
        tile = ((np.arange(states) + k * length / tilings) // length).astype(np.int64)  # 0 … tiles
        blocks.append(np.eye(tiles + 1)[np.minimum(tile, tiles)])
    return Features(np.concatenate(blocks, axis=1), "tiled")
