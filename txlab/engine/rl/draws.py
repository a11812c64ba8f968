"""Random numbers as a pure function of (seed, step): the same one by one or in batches, on a CPU or a GPU.

Notable: this is SplitMix64 (Steele, Lea and Flood 2014) used as a counter, so an agent's random state is its seed and
its step count, resuming never repeats a draw, and an agent in a batch runs exactly as it would alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

EACH = 4
"""Draws per step: 0 whether to explore, 1 which action, 2 the outcome, 3 where the next episode begins."""

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mix(z: np.ndarray) -> np.ndarray:
    """Apply SplitMix64's finalizer to uint64, in place."""
    z ^= z >> 30
    z *= FIRST
    z ^= z >> 27
    z *= SECOND
    z ^= z >> 31
    return z


def uniforms(seeds: np.ndarray | int, begin: np.ndarray | int, steps: int) -> np.ndarray:
    """(M, steps, EACH) float64 in [0, 1), multiples of 2⁻³²: the draws of steps begin … begin + steps − 1.

    seeds (M), begin (M) or one for all. Number 2t + j of the stream gives draws 2j and 2j + 1 of step t, from its low
    and high half. They have 32 bits, so that pair + u (see Process.cumulative) is exact below 2²¹ pairs.
    """
    key = mix(np.array(seeds, ndmin=1).astype(np.uint64) * GOLDEN + GOLDEN)  # (M)
    first = np.array(begin, ndmin=1).astype(np.uint64) * np.uint64(2)
    count = np.arange(2 * steps, dtype=np.uint64)
    # SplitMix64 adds GOLDEN for each number of the stream; (key + first·GOLDEN) is where this range begins.
    bits = mix((key + first * GOLDEN)[:, None] + count * GOLDEN)  # (M, 2·steps)
    halves = bits.astype("<u8", copy=False).view("<u4")
    return halves.reshape(len(bits), steps, EACH) * 2.0**-32


class Draws:
    """The draws of steps begin … begin + steps − 1 of one agent, one column each; `u0` is a list: it is read most."""

    def __init__(self, seed: int, begin: int, steps: int) -> None:
        columns = np.ascontiguousarray(uniforms(seed, begin, steps)[0].T)  # (4, steps)
        self.columns = columns
        self.u0: list[float] = columns[0].tolist()
        self.u1: Any = memoryview(columns[1])  # rarely read: building a list would cost time at every step
        self.u2: Any = memoryview(columns[2])
        self.u3: Any = memoryview(columns[3])

    def normal(self) -> Any:
        """One normal number per step, by Box and Muller (1958): √(−2 ln(1 − u₂)) cos 2πu₃."""
        return memoryview(np.sqrt(-2.0 * np.log1p(-self.columns[2])) * np.cos(2.0 * np.pi * self.columns[3]))
