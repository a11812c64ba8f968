"""A published figure: its numbers, and how the engine measures them again.

Notable: an exact number holds if it is the same to the digits that were published. A simulated one holds within three
standard errors (its own and, where it is known, the published one's, added in squares), and never by a margin that
somebody chose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import hypot, isfinite

Say = Callable[[str], None]


@dataclass(frozen=True)
class Measured:
    """`error` is the standard error of `value`; 0 = computed exactly. `runs` is how many were simulated."""

    value: float
    error: float = 0.0
    runs: int = 0


@dataclass(frozen=True)
class Number:
    """label   what it is, e.g. "V(0,1) after 3 sweeps"
    value, digits   as published: so many digits after the point
    error      standard error of the published value, if it was simulated and that is known; else 0
    """

    label: str
    value: float
    digits: int
    error: float = 0.0

    def holds(self, measured: Measured) -> bool:
        """Equal as far as published (exact), or within three standard errors and half a last digit (simulated)."""
        if not isfinite(measured.value):
            return False
        half = 0.5 * 10.0**-self.digits
        if measured.error == 0:
            return abs(measured.value - self.value) <= half * (1 + 1e-9)
        return abs(measured.value - self.value) <= 3 * hypot(measured.error, self.error) + half


@dataclass(frozen=True)
class Figure:
    """name     short, for --only: "cliff"
    title    what was computed or simulated, with its settings
    source   e.g. "Sutton and Barto 2018, example 6.6"
    numbers  in the order in which `measure` gives them
    measure  computes them; tells `say` what it is at, for it may take a minute. `seconds` is about how long, here
    """

    name: str
    title: str
    source: str
    numbers: Sequence[Number]
    measure: Callable[[Say], Sequence[Measured]]
    seconds: float = 1.0
