"""The array operations that the sweeps need, in numpy: rows, ties, searches, random numbers.

Notable: sums over actions are made one action after another, because the order of a sum affects its rounding and a
batch must give exactly the number that a single agent gets. on_torch.py is the same for torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from typing import Any, TypeAlias

import numpy as np

from txlab.engine.rl.draws import GOLDEN, mix

Array: TypeAlias = Any
"""(n) or (A, n) or (A, n, S): n agents side by side, in numpy or torch arrays but never both."""

HALF = 2.0**-32


class Numpy:
    """`cache` is how many bytes of tables and draws are processed at a time (benchmarks/rl_sweeps.py)."""

    name = "numpy"
    cache: int | None = 6 << 20

    # Conversion

    def array(self, values: Sequence[Any] | np.ndarray, kind: type = float) -> Array:
        """Values as float64, int64 or bool (`kind` float, int or bool), copied."""
        return np.array(values, dtype={float: np.float64, int: np.int64, bool: np.bool_}[kind], order="C")

    def numpy(self, values: Array) -> np.ndarray:
        """The values as a numpy array."""
        return np.array(values)

    def copy(self, values: Array) -> Array:
        return values.copy()

    def join(self, parts: Sequence[Array]) -> Array:
        return np.concatenate(parts)

    def nothing(self, kind: type = float) -> Array:
        return self.array([], kind)

    # Indexing

    def lanes(self, table: Array, index: Array) -> Array:
        """table[:, index] in the memory order that `put` relies on, which numpy's own indexing does not keep."""
        return table.take(index, axis=1)

    def rows(self, table: Array, index: Array) -> Array:
        """(A, n) of a table (A, n, S), indexed along its last two axes flattened."""
        return table.reshape(len(table), -1).take(index, axis=1)

    def take(self, values: Array, index: Array) -> Array:
        """values[index], with `values` flattened."""
        return values.reshape(-1).take(index)

    def put(self, values: Array, index: Array, new: Array) -> None:
        """values[index] = new, in place; no index occurs twice."""
        values.reshape(-1)[index] = new

    def where(self, condition: Array, yes: Array | float, no: Array | float) -> Array:
        return np.where(condition, yes, no)

    def which(self, condition: Array) -> Array:
        """The indices where the condition holds."""
        return condition.nonzero()[0]

    def floor(self, values: Array) -> Array:
        """Non-negative values, or conditions, rounded down as int64."""
        return values.astype(np.int64)

    def top(self, rows: Array) -> Array:
        """The largest of each column of (A, n), (n)."""
        return rows.max(axis=0)

    def bottom(self, rows: Array) -> Array:
        """The smallest of each column of (A, n) that is not −∞, as forbidden actions are, (n)."""
        return np.where(rows == -np.inf, np.inf, rows).min(axis=0)

    def total(self, rows: Array) -> Array:
        """The sum of each column of (A, n), from action 0 on, (n)."""
        total = self.copy(rows[0])
        for row in rows[1:]:
            total += row
        return total

    def exp(self, values: Array) -> Array:
        return np.exp(values)

    def search(self, ascending: Array, values: Array) -> Array:
        """The first index whose entry is above each value."""
        return ascending.searchsorted(values, "right")

    def among_best(self, rows: Array, best: Array, u: Array) -> Array:
        """The int(u · ties)-th of the actions whose entry in (A, n) is `best` (n), in numerical order."""
        equal = (rows == best).view(np.int8) if len(rows) < 127 else (rows == best).astype(np.int16)
        for a in range(1, len(equal)):
            equal[a] += equal[a - 1]  # how many up to here
        ahead = (u * equal[-1]).astype(equal.dtype)
        return np.add.reduce((equal <= ahead).view(np.int8), axis=0, dtype=equal.dtype).astype(np.int64)

    def first_above(self, rows: Array, bound: Array) -> Array:
        """The first action where the running sum over (A, n) exceeds `bound` (n); the last if rounding prevents it."""
        running = self.copy(rows[0])
        place = self.floor(running <= bound)
        for row in rows[1:-1]:
            running += row
            place += running <= bound
        return place

    def column(self, rows: Array, index: Array) -> Array:
        """(n): rows[index[m], m] of (A, n)."""
        return rows.reshape(-1).take(index * rows.shape[1] + np.arange(rows.shape[1]))

    # Random numbers

    def keys(self, seeds: Sequence[int] | np.ndarray) -> Array:
        """The keys that draws.uniforms makes of the seeds, before it adds the counter."""
        return mix(np.asarray(seeds).astype(np.uint64) * GOLDEN + GOLDEN)

    def uniforms(self, keys: Array, begin: Array, steps: int, every: bool) -> Array:
        """(steps, 4, n): draws.uniforms of the same seeds, step by step; only draws 0 and 1 if not `every`."""
        numbers = 2 if every else 1
        stride = np.uint64(2 // numbers)
        count = np.arange(numbers * steps, dtype=np.uint64) * stride
        first = keys + begin.astype(np.uint64) * np.uint64(2) * GOLDEN
        bits = mix((count * GOLDEN)[:, None] + first[None, :])
        halves = bits.astype("<u8", copy=False).view("<u4").reshape(steps, numbers, len(keys), 2)
        draws = np.empty((steps, numbers, 2, len(keys)))
        for half in range(2):
            np.multiply(halves[..., half], HALF, out=draws[:, :, half])
        return draws.reshape(steps, 2 * numbers, len(keys))

    def normal(self, u: Array, v: Array) -> Array:
        """Box and Muller 1958: √(−2 ln(1 − u)) cos 2πv, normally distributed."""
        return np.sqrt(-2.0 * np.log1p(-u)) * np.cos(2.0 * pi * v)
