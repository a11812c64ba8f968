"""The array operations that the sweeps need, in torch: the same numbers on a CPU or a GPU.

Notable: torch has no unsigned multiplication on every device, so the draws are made in int64, which wraps to the same
bits, and right shifts mask out the sign. All else is float64, one operation after the other, as in numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from typing import Any

import numpy as np
import torch
from torch import Tensor

from txlab.engine.rl import draws
from txlab.engine.rl.sweeps.arrays import HALF, Array, Numpy
from txlab.errors import LabError

KINDS: dict[type, torch.dtype] = {float: torch.float64, int: torch.int64, bool: torch.bool}
GOLDEN, FIRST, SECOND = (int(np.int64(each.astype(np.int64))) for each in (draws.GOLDEN, draws.FIRST, draws.SECOND))


def shift_right(z: Tensor, places: int) -> Tensor:
    """z >> places as if z were unsigned."""
    return (z >> places) & ((1 << (64 - places)) - 1)


def mix(z: Tensor) -> Tensor:
    """draws.mixed on int64, with the same bits."""
    z = (z ^ shift_right(z, 30)) * FIRST
    z = (z ^ shift_right(z, 27)) * SECOND
    return z ^ shift_right(z, 31)


class Torch(Numpy):
    """All agents of a rule in one block: a GPU is best filled by width, whatever fits into a cache."""

    name = "torch"
    cache = None

    def __init__(self, device: str = "cpu") -> None:
        if device.startswith("mps"):
            raise LabError(
                f"compute.device = {device!r}: tables are of 64-bit numbers, which mps has not; allowed: cpu, cuda"
            )
        self.device = torch.device(device)
        if self.device.type == "cpu":
            self.cache = Numpy.cache

    # Conversion

    def array(self, values: Sequence[Any] | np.ndarray, kind: type = float) -> Array:
        return torch.tensor(np.ascontiguousarray(values), dtype=KINDS[kind], device=self.device)

    def numpy(self, values: Array) -> np.ndarray:
        copy: np.ndarray = values.cpu().numpy().copy()
        return copy

    def copy(self, values: Array) -> Array:
        return values.clone()

    def join(self, parts: Sequence[Array]) -> Array:
        return torch.cat(list(parts))

    # Indexing

    def lanes(self, table: Array, index: Array) -> Array:
        return table.index_select(1, index)

    def rows(self, table: Array, index: Array) -> Array:
        return table.view(len(table), -1).index_select(1, index)

    def take(self, values: Array, index: Array) -> Array:
        return values.view(-1).index_select(0, index)

    def where(self, condition: Array, yes: Array | float, no: Array | float) -> Array:
        return torch.where(condition, yes, no)

    def which(self, condition: Array) -> Array:
        return condition.nonzero()[:, 0]

    def floor(self, values: Array) -> Array:
        return values.to(torch.int64)

    def top(self, rows: Array) -> Array:
        return rows.amax(dim=0)

    def bottom(self, rows: Array) -> Array:
        return torch.where(rows == -torch.inf, torch.inf, rows).amin(dim=0)

    def exp(self, values: Array) -> Array:
        return torch.exp(values)

    def search(self, ascending: Array, values: Array) -> Array:
        return torch.searchsorted(ascending, values.contiguous(), right=True)

    def among_best(self, rows: Array, best: Array, u: Array) -> Array:
        running = (rows == best).cumsum(0)
        return (running <= (u * running[-1]).to(torch.int64)).sum(0)

    def column(self, rows: Array, index: Array) -> Array:
        return rows.gather(0, index[None])[0]

    # Random numbers

    def keys(self, seeds: Sequence[int] | np.ndarray) -> Array:
        return self.array(super().keys(seeds).view(np.int64), int)

    def uniforms(self, keys: Array, begin: Array, steps: int, every: bool) -> Array:
        numbers = 2 if every else 1
        count = torch.arange(numbers * steps, device=self.device) * (2 // numbers)
        bits = mix((count * GOLDEN)[:, None] + (keys + begin * 2 * GOLDEN)[None, :]).view(steps, numbers, -1)
        halves = torch.stack([bits & 0xFFFFFFFF, shift_right(bits, 32)], dim=2)  # (steps, numbers, 2, n)
        return (halves.to(torch.float64) * HALF).view(steps, 2 * numbers, -1)

    def normal(self, u: Array, v: Array) -> Array:
        return torch.sqrt(-2.0 * torch.log1p(-u)) * torch.cos(2.0 * pi * v)
