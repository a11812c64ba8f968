"""Pairs of a source and its translation, and the split between training and test.

Notable: a digest of the *target* decides whether a pair is held out for testing, whatever the seed and the number of
pairs. So no test pair occurs in training, nor does another source with the same translation (a date written
differently). Draws come from rows of one Philox stream: pair k is a function of (seed, k).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeVar

import numpy as np

from txlab.errors import LabError
from txlab.experiments.randomness import generator

T = TypeVar("T")

ROW = 64  # draws that one pair may take
BLOCK = 4096  # pairs per block of draws
HELD_OUT = 0.1  # share of all translations that training never sees
BARREN = 8  # blocks without enough new pairs after which there are assumed to be no more


@dataclass(frozen=True)
class Pair:
    """A source and its only right translation, as the texts of their tokens."""

    source: tuple[str, ...]
    target: tuple[str, ...]


class Draws:
    """Random choices in order, from a row of 32-bit numbers; the choices are uniform to within 2⁻³²."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers: Iterator[int] = iter(numbers)

    def one_of(self, choices: Sequence[T]) -> T:
        return choices[next(self.numbers) * len(choices) >> 32]

    def chance(self, share: float) -> bool:
        return next(self.numbers) < share * 2**32

    def number(self, low: int, high: int) -> int:
        """low … high, both included."""
        return low + (next(self.numbers) * (high - low + 1) >> 32)


def is_held_out(target: Sequence[str]) -> bool:
    """Whether pairs with this translation are for testing; a tenth of them are."""
    digest = blake2b("\x1f".join(target).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") < HELD_OUT * 2**64


def draw_pairs(make: Callable[[Draws], Pair], seed: int) -> Iterator[Pair]:
    """An endless stream of pairs, the same for the same seed, with repetitions."""
    block = 0
    while True:
        numbers = generator(seed, "pairs", block).integers(0, 1 << 32, size=(BLOCK, ROW), dtype=np.uint32).tolist()
        for row in numbers:
            yield make(Draws(row))
        block += 1


def split_pairs(
    make: Callable[[Draws], Pair], seed: int, training: int, held_out: int
) -> tuple[list[Pair], list[Pair]]:
    """(training pairs, test pairs): that many different ones each. LabError if there are fewer."""
    chosen: tuple[dict[tuple[str, ...], Pair], dict[tuple[str, ...], Pair]] = ({}, {})
    wanted = (training, held_out)
    idle = 0
    for pair in draw_pairs(make, seed):
        which = int(is_held_out(pair.target))
        if len(chosen[which]) < wanted[which] and pair.source not in chosen[which]:
            chosen[which][pair.source] = pair
            idle = 0
        elif (len(chosen[0]), len(chosen[1])) == wanted:
            break
        else:
            idle += 1
            if idle > BARREN * BLOCK:
                lacking = "data.pairs" if len(chosen[0]) < training else "train.validation_batches · train.batch"
                different = len(chosen[0]) if len(chosen[0]) < training else len(chosen[1])
                raise LabError(f"{lacking} asks for more pairs than there are; {different} different ones were found")
    return list(chosen[0].values()), list(chosen[1].values())
