"""Ramps for signed numbers: blue below zero, amber above it, the surface at zero; and their scales.

Notable: a scale that followed its numbers exactly would change every colour at every update, so its ends are round
numbers. It depends only on the current numbers: the same frame is always the same picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import floor, log10

import numpy as np

from txlab.drawing.palette import (
    BLUE,
    BRIGHT_BLUE,
    BRIGHT_CYAN,
    BRIGHT_WHITE,
    BRIGHT_YELLOW,
    GREY,
    MAGENTA,
    RED,
    RGB,
    YELLOW,
    Colours,
    Ramp,
    contrast,
    cube,
    heat,
    smooth_ramp,
)

DARK_BELOW = [(0.24, 0.03, 265.0), (0.48, 0.13, 262.0), (0.78, 0.11, 235.0)]
DARK_ABOVE = [(0.24, 0.03, 60.0), (0.52, 0.12, 52.0), (0.86, 0.14, 85.0)]
LIGHT_BELOW = [(0.95, 0.015, 265.0), (0.72, 0.11, 255.0), (0.45, 0.15, 262.0)]
LIGHT_ABOVE = [(0.95, 0.02, 80.0), (0.78, 0.13, 70.0), (0.52, 0.13, 50.0)]
HALF = 20  # levels on either side of zero, in truecolor
DARK_BELOW_256, DARK_ABOVE_256 = ["001", "012", "023", "034", "245"], ["100", "210", "320", "431", "553"]
LIGHT_BELOW_256, LIGHT_ABOVE_256 = ["445", "334", "224", "114", "003"], ["554", "543", "532", "421", "310"]
STEPS = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0)


@cache
def signed_ramp(colours: Colours = "truecolor", dark: bool = True, ascii: bool = False) -> Ramp:
    """Return a ramp with levels from −1 (first) through 0 (middle) to 1 (last)."""
    glyphs = "%xo-.+*#@" if ascii else "█▓▒░·░▒▓█"
    if colours == "truecolor":
        below = smooth_ramp(DARK_BELOW if dark else LIGHT_BELOW, HALF + 1)
        above = smooth_ramp(DARK_ABOVE if dark else LIGHT_ABOVE, HALF + 1)
        fills: list[RGB] = below[::-1] + above[1:]  # they meet at zero
    elif colours == "256":
        lower, upper = (DARK_BELOW_256, DARK_ABOVE_256) if dark else (LIGHT_BELOW_256, LIGHT_ABOVE_256)
        fills = [cube(each) for each in [*lower[::-1], "g01" if dark else "555", *upper]]
    elif colours == "16":
        low, high = (BRIGHT_BLUE, BRIGHT_YELLOW) if dark else (BLUE, RED)
        ink = (low, low, BLUE, BLUE, GREY, YELLOW, YELLOW, high, high)
        return Ramp((None,) * 9, ink, glyphs)
    else:
        return Ramp((None,) * 9, (None,) * 9, glyphs)
    places = np.rint(np.linspace(0, len(glyphs) - 1, len(fills))).astype(int)
    return Ramp(tuple(fills), tuple(contrast(fill) for fill in fills), "".join(glyphs[at] for at in places))


# Backgrounds of cells in 16 colours, where letters and numbers fill most of a cell: shades of ink would show as stripes
# between the lines, and a dark blue number on black would be invisible. Red is reserved for danger.
FILLS_16 = {
    True: (BLUE, MAGENTA, BRIGHT_YELLOW, BRIGHT_WHITE),
    False: (BRIGHT_WHITE, BRIGHT_YELLOW, MAGENTA, BLUE),
}
SIGNED_FILLS_16 = {
    True: (BRIGHT_CYAN, BLUE, GREY, MAGENTA, BRIGHT_YELLOW),
    False: (BLUE, BRIGHT_CYAN, BRIGHT_WHITE, BRIGHT_YELLOW, MAGENTA),
}


def ramp_for(scale: Scale, colours: Colours, dark: bool, ascii: bool) -> Ramp:
    """Return the ramp of the cells of a world, with backgrounds in all depths of colour."""
    if colours == "16" and not ascii:
        fills = (SIGNED_FILLS_16 if scale.signed else FILLS_16)[dark]
        return Ramp(fills, fills, "█▓·▓█" if scale.signed else " ░▒█")
    return (signed_ramp if scale.signed else heat)(colours, dark, ascii)


@dataclass(frozen=True)
class Scale:
    """The values at the ends of a ramp. With numbers on both sides of zero, the ramp is the signed one."""

    low: float = 0.0
    high: float = 0.0

    @property
    def signed(self) -> bool:
        return self.low < 0 < self.high

    @property
    def size(self) -> float:
        """The largest magnitude."""
        return max(abs(self.low), abs(self.high))

    def share(self, values: np.ndarray) -> np.ndarray:
        """Map each value to [0, 1]; NaN where unknown.

        signed: (v / size + 1) / 2; else (v − low) / (high − low)
        """
        shares: np.ndarray
        with np.errstate(invalid="ignore", over="ignore"):
            if self.signed:
                shares = (np.asarray(values, np.float64) / self.size + 1) / 2
            else:
                room = self.high - self.low
                shares = (np.asarray(values, np.float64) - self.low) / room if room > 0 else np.zeros(np.shape(values))
        clipped: np.ndarray = np.clip(shares, 0, 1)
        return clipped


def scale_of(values: np.ndarray) -> Scale:
    """Return the scale of these numbers, with round ends; non-finite ones do not count.

    It includes zero unless the numbers are far from it and close together.

    >>> scale_of(np.array([0.2, 1.3])), scale_of(np.array([-0.2, 1.3])), scale_of(np.array([80.0, 90.0]))
    (Scale(low=0.0, high=1.5), Scale(low=-0.2, high=1.5), Scale(low=70.0, high=100.0))
    """
    finite = np.asarray(values, np.float64)
    finite = finite[np.isfinite(finite)]
    if not len(finite):
        return Scale()
    low, high = float(finite.min()), float(finite.max())
    if low > 0 and low < 0.6 * high:
        low = 0.0
    if high < 0 and high > 0.6 * low:
        high = 0.0
    return Scale(-round_up(-low) if low < 0 else round_down(low), round_up(high) if high > 0 else -round_down(-high))


def round_up(value: float) -> float:
    """Return the smallest round number not below a positive value: 1, 1.5, 2, 3, 5, 7 times a power of ten.

    >>> round_up(13.2), round_up(0.26), round_up(-3.0)
    (15.0, 0.3, 0.0)
    """
    if not 0 < value < float("inf"):
        return 0.0
    power = 10.0 ** max(-300, floor(log10(value)))  # smaller powers of ten underflow to 0
    return next(float(f"{step * power:.3g}") for step in (*STEPS, 15.0) if step * power >= value * (1 - 1e-9))


def round_down(value: float) -> float:
    """Return the largest round number not above a positive value.

    >>> round_down(421.0), round_down(0.0)
    (300.0, 0.0)
    """
    if not 0 < value < float("inf"):
        return 0.0
    power = 10.0 ** floor(log10(value))
    return next(float(f"{step * power:.3g}") for step in STEPS[::-1] if step * power <= value * (1 + 1e-9))
