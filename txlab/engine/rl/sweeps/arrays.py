"""What the sweeps ask of a library of arrays, in numpy: rows, ties, searches, chance.

Notable: sums over actions are made one action after the other, because the order of a sum is part of its value, and a
batch must give the number that one agent gets. on_torch.py is the same for torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from typing import Any, TypeAlias

import numpy as np

from txlab.engine.rl.draws import GOLDEN, mixed

Array: TypeAlias = Any
"""(n) or (A, n) or (A, n, S): n agents side by side. Of numpy or of torch, and all of one of them."""

HALF = 2.0**-32


class Numpy:
    """`cache` is how many bytes of tables and draws are worked on at a time (benchmarks/rl_sweeps.py)."""

    name = "numpy"
    cache: int | None = 6 << 20

    # Making

    def array(self, values: Sequence[Any] | np.ndarray, kind: type = float) -> Array:
        """Values as float64, int64 or bool (`kind` float, int or bool), copied."""
        return np.array(values, dtype={float: np.float64, int: np.int64, bool: np.bool_}[kind], order="C")

    def numpy(self, values: Array) -> np.ndarray:
        """The values as an array of numpy, for whoever looks at them."""
        found: np.ndarray = np.array(values)
        return found

    def copy(self, values: Array) -> Array:
        return values.copy()

    def joined(self, parts: Sequence[Array]) -> Array:
        return np.concatenate(parts)

    def nothing(self, kind: type = float) -> Array:
        return self.array([], kind)

    # Picking

    def lanes(self, table: Array, index: Array) -> Array:
        """table[:, index] in the order that `put` relies on, which numpy's own indexing does not keep."""
        return table.take(index, axis=1)

    def rows(self, table: Array, index: Array) -> Array:
        """(A, n) of a table (A, n, S), whose last two axes are counted as one."""
        return table.reshape(len(table), -1).take(index, axis=1)

    def take(self, values: Array, index: Array) -> Array:
        """values[index], values being counted flat."""
        return values.reshape(-1).take(index)

    def put(self, values: Array, index: Array, new: Array) -> None:
        """values[index] = new, in place, no index being there twice."""
        values.reshape(-1)[index] = new

    def where(self, condition: Array, yes: Array | float, no: Array | float) -> Array:
        return np.where(condition, yes, no)

    def which(self, condition: Array) -> Array:
        """The places where it holds."""
        return condition.nonzero()[0]

    def floor(self, values: Array) -> Array:
        """What is not negative, without its fraction, as int64."""
        return values.astype(np.int64)

    def top(self, rows: Array) -> Array:
        """(n): the largest of each column of (A, n)."""
        return rows.max(axis=0)

    def total(self, rows: Array) -> Array:
        """(n): the sum of each column of (A, n), from action 0 on."""
        total = rows[0].copy()
        for row in rows[1:]:
            total += row
        return total

    def exp(self, values: Array) -> Array:
        return np.exp(values)

    def search(self, ascending: Array, values: Array) -> Array:
        """The first place whose entry is above each value."""
        return ascending.searchsorted(values, "right")

    def among_best(self, rows: Array, best: Array, u: Array) -> Array:
        """The int(u · ties)-th of the actions whose entry in (A, n) is `best` (n), in order of their numbers."""
        equal = (rows == best).view(np.int8) if len(rows) < 127 else (rows == best).astype(np.int16)
        for a in range(1, len(equal)):
            equal[a] += equal[a - 1]  # how many there are up to here
        ahead = (u * equal[-1]).astype(equal.dtype)
        return np.add.reduce((equal <= ahead).view(np.int8), axis=0, dtype=equal.dtype).astype(np.int64)

    def first_above(self, rows: Array, bound: Array) -> Array:
        """The first action at which the running sum over (A, n) is above `bound` (n); the last but for rounding."""
        running = rows[0].copy()
        place = (running <= bound).astype(np.int64)
        for row in rows[1:-1]:
            running += row
            place += running <= bound
        return place

    def column(self, rows: Array, index: Array) -> Array:
        """(n): rows[index[m], m] of (A, n)."""
        return rows.reshape(-1).take(index * rows.shape[1] + np.arange(rows.shape[1]))

    # Chance

    def keys(self, seeds: Sequence[int] | np.ndarray) -> Array:
        """What draws.uniforms makes of the seeds, before anything is counted."""
        return mixed(np.asarray(seeds).astype(np.uint64) * GOLDEN + GOLDEN)

    def uniforms(self, keys: Array, begin: Array, steps: int, every: bool) -> Array:
        """(steps, 4, n): draws.uniforms of the same seeds, step by step; draws 0 and 1 alone if not `every`."""
        numbers = 2 if every else 1
        stride = np.uint64(2 // numbers)
        count = np.arange(numbers * steps, dtype=np.uint64) * stride
        first = keys + begin.astype(np.uint64) * np.uint64(2) * GOLDEN
        bits = mixed((count * GOLDEN)[:, None] + first[None, :])
        halves = bits.astype("<u8", copy=False).view("<u4").reshape(steps, numbers, len(keys), 2)
        found = np.empty((steps, numbers, 2, len(keys)))
        for half in range(2):
            np.multiply(halves[..., half], HALF, out=found[:, :, half])
        return found.reshape(steps, 2 * numbers, len(keys))

    def normal(self, u: Array, v: Array) -> Array:
        """Box and Muller 1958: √(−2 ln(1 − u)) cos 2πv, normally distributed."""
        return np.sqrt(-2.0 * np.log1p(-u)) * np.cos(2.0 * pi * v)
