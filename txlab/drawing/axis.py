"""Axes: the range of numbers that a drawing shows, and the positions of its ticks.

Labels are plain numbers with a thin space between thousands ("1 000", never "1k"), so that they can be compared with
the numbers in the log; only below 0.0001 and from 10¹⁵ on are they written with an exponent.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
THIN_SPACE = "\u2009"


@dataclass(frozen=True)
class Window:
    """The visible range: `left` < `right` and `low` < `high`, in data units, positive on a logarithmic axis."""

    left: float
    right: float
    low: float
    high: float
    log_x: bool = False
    log_y: bool = False

    def across(self, x: npt.ArrayLike) -> Floats:
        """Map data to 0 … 1 from left to right; outside the window, to values outside 0 … 1."""
        return fraction(np.asarray(x, np.float64), self.left, self.right, self.log_x)

    def up(self, y: npt.ArrayLike) -> Floats:
        """Map data to 0 … 1 from low to high."""
        return fraction(np.asarray(y, np.float64), self.low, self.high, self.log_y)

    def x_at(self, place: float) -> float:
        """Map 0 … 1 back to data."""
        return between(place, self.left, self.right, self.log_x)

    def y_at(self, place: float) -> float:
        return between(place, self.low, self.high, self.log_y)

    def zoom(self, factor: float, centre: float = 0.5) -> "Window":
        """Return a window `factor` times as wide, in which the position `centre` (0 … 1 across) stays where it is.

        >>> Window(0, 100, 0, 1).zoom(0.5, centre=1.0)
        Window(left=50.0, right=100.0, low=0, high=1, log_x=False, log_y=False)
        """
        left, right = self.x_at(centre * (1 - factor)), self.x_at(centre * (1 - factor) + factor)
        return replace(self, left=left, right=right) if left < right else self

    def move(self, part: float) -> "Window":
        """Return the window moved by a fraction of its width; to the right if positive."""
        return replace(self, left=self.x_at(part), right=self.x_at(1 + part))


def fraction(values: Floats, low: float, high: float, log: bool) -> Floats:
    """(v − low) / (high − low), of the logarithms on a logarithmic axis; non-positive values become NaN there."""
    with np.errstate(all="ignore"):
        if log:
            values = np.log(np.where(values > 0, values, np.nan))
            low, high = math.log(low), math.log(high)
        return (values / 2 - low / 2) / (high / 2 - low / 2)  # halved, so that a width of ±1e308 does not overflow


def between(place: float, low: float, high: float, log: bool) -> float:
    if log:
        exponent = math.log(low) + place * (math.log(high) - math.log(low))
        return math.exp(min(max(exponent, -700.0), 700.0))
    return low * (1 - place) + high * place


@dataclass(frozen=True)
class Tick:
    """A labelled position on an axis; `place` is 0 … 1 along it."""

    value: float
    label: str
    place: float


def ticks(
    low: float, high: float, count: int, log: bool = False, ascii: bool = False, whole: bool = False
) -> list[Tick]:
    """Return about `count` ticks at most between low and high, at 1, 2, 5 times a power of ten; decades on a log axis.

    `whole` keeps the whole numbers among them: half an episode is none.

    >>> [tick.label for tick in ticks(0, 1240, 6)]
    ['0', '500', '1\\u2009000']
    >>> [tick.label for tick in ticks(0, 2, 6, whole=True)]
    ['0', '1', '2']
    >>> [tick.label for tick in ticks(0.001, 100, 6, log=True)]
    ['0.001', '0.01', '0.1', '1', '10', '100']
    """
    if not (math.isfinite(low) and math.isfinite(high) and low < high) or count < 1:
        return []
    if log and high / low < 4:  # less than two thirds of a decade: 1, 2, 5 would leave one tick
        log_places = True
        values = linear_values(low, high, count)
    else:
        log_places = log
        values = log_values(low, high, count) if log else linear_values(low, high, count)
    values = [value for value in values if not whole or value == round(value)]
    places = fraction(np.array(values, np.float64), low, high, log_places)
    return [
        Tick(value, number(value, spacing(values, index, log and high / low >= 4), ascii), float(place))
        for index, (value, place) in enumerate(zip(values, places, strict=True))
    ]


def spacing(values: list[float], index: int, log: bool) -> float:
    """Return the precision a tick label needs: the distance to its neighbours, or the value itself on a log axis."""
    if log or len(values) < 2:
        return abs(values[index]) or 1.0
    return values[1] - values[0]


def linear_values(low: float, high: float, count: int) -> list[float]:
    """Return the multiples, between low and high, of the smallest of 1, 2, 5 × 10ᵏ that is at least their distance."""
    distance = max(high / count - low / count, 5e-324)  # divided first, so that ±1e308 does not overflow
    power = 10.0 ** math.floor(math.log10(distance))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= distance * (1 - 1e-9))
    if not (math.isfinite(step) and step > 0 and abs(low / step) < 2**52 and abs(high / step) < 2**52):
        return [low, high]
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [min(max(round(index * step, decimals_of(step)), low), high) for index in range(first, last + 1)]


def log_values(low: float, high: float, count: int) -> list[float]:
    """Return powers of ten, thinned to `count`; with 2 and 5 between them if they fit."""
    first, last = math.floor(math.log10(low) + 1e-9), min(math.ceil(math.log10(high) - 1e-9), 308)
    if (math.log10(high) - math.log10(low)) * 3 <= count + 1:
        candidates = [factor * 10.0**power for power in range(first, last + 1) for factor in (1, 2, 5)]
    else:
        stride = max(1, math.ceil((last - first) / count))
        candidates = [10.0**power for power in range(first, last + 1) if power % stride == 0]
    return [value for value in candidates if low * (1 - 1e-9) <= value <= high * (1 + 1e-9) and math.isfinite(value)]


def decimals_of(step: float) -> int:
    """Return the decimals needed to write multiples of `step`, which is 1, 2 or 5 × 10ᵏ."""
    return max(0, -math.floor(math.log10(step) + 1e-9))


def number(value: float, precision: float = 0.0, ascii: bool = False) -> str:
    """Format a plain number; `precision` is the smallest difference its digits must show (0: four significant digits).

    >>> number(0.00025, 0.00005), number(2.11349), number(54300.0, 100)
    ('0.00025', '2.113', '54\\u2009300')
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 and not ascii else "inf" if value > 0 else "−∞"
    size = abs(value)
    if not 0 < precision < math.inf:
        precision = 10.0 ** max(math.floor(math.log10(size)) - 3, -323) if size else 1.0
    if size >= 1e15 or 0 < size < 1e-4:
        digits = max(0, math.floor(math.log10(size) + 1e-9) - math.floor(math.log10(precision) + 1e-9))
        mantissa, exponent = f"{value:.{min(digits, 15)}e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    text = f"{value:,.{min(decimals_of(precision), 15)}f}"
    text = text.replace(",", " " if ascii else THIN_SPACE)
    return text if ascii else text.replace("-", "−")
