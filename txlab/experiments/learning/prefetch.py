"""The batches of the next few steps, made together (MATH F3).

Notable: after a step the caches hold the model and not Python's interpreter, so a batch that takes 70 µs to make takes
450 in the middle of training; sixteen in a row pay for that once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Batch = TypeVar("Batch")

AT_ONCE = 16
LARGEST = 1 << 16  # tokens of all of them; a batch that is as large by itself takes long to make anyway


class Ahead(Generic[Batch]):
    """`ahead(step)` is `make(step)`, which has to be a function of the step alone."""

    def __init__(self, make: Callable[[int], Batch], tokens: int) -> None:
        """`tokens` of a batch, which say how many are made together."""
        self.make = make
        self.at_once = max(1, min(AT_ONCE, LARGEST // tokens))
        self.made: dict[int, Batch] = {}

    def __call__(self, step: int) -> Batch:
        """The batch of a step; one is given out once and made again if it is wanted again."""
        if step not in self.made:
            self.made = {number: self.make(number) for number in range(step, step + self.at_once)}
        return self.made.pop(step)
