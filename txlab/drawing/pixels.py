"""Small pictures of numbers: a pixel is two cells, or, where that is too large, half of one.

Where the terminal has no colours to fill cells with, a pixel is a sign of the scale; two pixels above each other are
then one sign, that of their mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from txlab.drawing.diverging import Scale
from txlab.drawing.legibility import DESK
from txlab.drawing.palette import RGB, Ramp, contrast


@dataclass(frozen=True)
class Part:
    """The selected pixels: rows top … top + size − 1, columns left … left + size − 1."""

    top: int
    left: int
    size: int

    def has(self, y: int, x: int) -> bool:
        return self.top <= y < self.top + self.size and self.left <= x < self.left + self.size


@dataclass(frozen=True)
class Piece:
    """Some cells of a line; `inside`: in the part that is looked at."""

    text: str
    ink: RGB | None
    fill: RGB | None
    inside: bool


def pixel_lines(
    values: np.ndarray, scale: Scale, ramp: Ramp, surface: RGB, part: Part | None = None, large: bool = False,
    dimmed: float = DESK.dimmed,
) -> list[list[Piece]]:  # fmt: skip
    """Draw (Y, X) numbers, a line of pieces for each line of cells; NaN is the surface. `dimmed` is the remaining share
    of a colour outside the selected part."""
    levels = np.where(np.isfinite(values), ramp.level(scale.share(np.nan_to_num(values))).astype(np.int64), -1)

    def fill(y: int, x: int) -> RGB:
        level = int(levels[y, x]) if y < len(levels) else -1
        shade = ramp.fill[level] if level >= 0 else None
        colour = surface if shade is None else shade
        if part is not None and part.size == 1:  # one pixel is marked, and the others stay as they are
            return contrast(surface) if part.has(y, x) else colour
        return colour if part is None or part.has(y, x) else mix(colour, surface, dimmed)

    lines: list[list[Piece]] = []
    rows, columns = levels.shape
    for y in range(0, rows, 1 if large else 2):
        line = []
        for x in range(columns):
            inside = part is not None and (part.has(y, x) or (not large and part.has(y + 1, x)))
            if any(ramp.fill) and (large or not ramp.glyphs.isascii()):
                upper, lower = fill(y, x), fill(y if large else y + 1, x)
                line.append(Piece("  ", None, upper, inside) if large else Piece("▀", upper, lower, inside))
                continue
            pair = values[y : y + (1 if large else 2), x]
            known = pair[np.isfinite(pair)]
            level = int(ramp.level(scale.share(np.array([(known / len(known)).sum()])))[0]) if len(known) else -1
            glyph = ramp.glyphs[level] if level >= 0 else " "
            colour, filled = (ramp.ink[level], ramp.fill[level]) if level >= 0 else (None, None)
            line.append(Piece(glyph * (2 if large else 1), colour, filled, inside))
        lines.append(line)
    return lines


def mix(colour: RGB, surface: RGB, share: float) -> RGB:
    red, green, blue = (round(share * one + (1 - share) * other) for one, other in zip(colour, surface, strict=True))
    return red, green, blue
