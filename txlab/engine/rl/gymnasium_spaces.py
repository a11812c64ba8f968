"""Gymnasium's discrete spaces as one number: Discrete, MultiDiscrete, MultiBinary, and Tuple and Dict of those."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from gymnasium import spaces

from txlab.engine.rl.environment import Numbering
from txlab.errors import LabError


class SpaceNumbers:
    """number(sample) → 0 … size − 1, sample(number) the way back. LabError for a space that is not discrete."""

    def __init__(self, space: spaces.Space[Any], what: str) -> None:
        self.space = space
        parts = list(pieces(space, what))
        if not parts:
            raise LabError(f"its {what} space is empty")
        self.starts = [start for start, _ in parts]
        try:
            self.numbering = Numbering(tuple(size for _, size in parts))
        except LabError as error:
            raise LabError(f"its {what} space is too large: {error}") from None
        self.size = self.numbering.size

    def number(self, sample: Any) -> int:
        values = list(entries(self.space, sample))
        return self.numbering.number([value - start for value, start in zip(values, self.starts, strict=True)])

    def names(self) -> Iterator[str]:
        """Of each number: the entries, as "14" or "(14,10,0)"."""
        ranges = [range(start, start + size) for start, size in zip(self.starts, self.numbering.sizes, strict=True)]
        for values in product(*ranges):
            yield str(values[0]) if len(values) == 1 else f"({','.join(map(str, values))})"

    def sample(self, number: int) -> Any:
        values = self.numbering.values(number)
        left = iter([value + start for value, start in zip(values, self.starts, strict=True)])
        return rebuilt(self.space, left)


def pieces(space: spaces.Space[Any], what: str) -> Iterator[tuple[int, int]]:
    """(lowest value, number of values) of each entry, in the order of `entries`."""
    match space:
        case spaces.Discrete():
            yield int(space.start), int(space.n)
        case spaces.MultiDiscrete():
            yield from zip(space.start.ravel().tolist(), space.nvec.ravel().tolist(), strict=True)
        case spaces.MultiBinary():
            yield from [(0, 2)] * int(np.prod(space.shape))
        case spaces.Tuple():
            for part in space.spaces:
                yield from pieces(part, what)
        case spaces.Dict():
            for part in space.spaces.values():
                yield from pieces(part, what)
        case _:
            raise LabError(
                f"its {what} space is {type(space).__name__}, which is not discrete; Discrete, MultiDiscrete,"
                " MultiBinary, and Tuple and Dict of those can be learnt with a table"
            )


def entries(space: spaces.Space[Any], sample: Any) -> Iterator[int]:
    """The whole numbers that a sample is made of."""
    match space:
        case spaces.Tuple():
            for part, value in zip(space.spaces, sample, strict=True):
                yield from entries(part, value)
        case spaces.Dict():
            for key, part in space.spaces.items():
                yield from entries(part, sample[key])
        case _:
            yield from (int(value) for value in np.asarray(sample).ravel())


def rebuilt(space: spaces.Space[Any], left: Iterator[int]) -> Any:
    """The sample that is made of the next numbers."""
    match space:
        case spaces.Tuple():
            return tuple(rebuilt(part, left) for part in space.spaces)
        case spaces.Dict():
            return {key: rebuilt(part, left) for key, part in space.spaces.items()}
        case spaces.Discrete():
            return space.dtype.type(next(left))
        case _:
            assert space.shape is not None
            count = int(np.prod(space.shape))
            return np.array([next(left) for _ in range(count)], dtype=space.dtype).reshape(space.shape)
