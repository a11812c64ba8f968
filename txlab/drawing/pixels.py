"""Small pictures of numbers: a pixel is a square of one or more lines, or, where that is too large, half of a cell.

Where the terminal has no colours to fill cells with, and in ASCII, a pixel is a sign of the scale; two pixels above
each other are then one sign, that of their mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from txlab.drawing.diverging import Scale
from txlab.drawing.palette import RGB, Ramp


@dataclass(frozen=True)
class Part:
    """The selected pixels: rows top … top + size − 1, columns left … left + size − 1."""

    top: int
    left: int
    size: int

    def has(self, y: int, x: int) -> bool:
        return self.top <= y < self.top + self.size and self.left <= x < self.left + self.size

    def frames(self, y: int, x: int) -> bool:
        """Whether a pixel is next to the selected ones, also by a corner."""
        return Part(self.top - 1, self.left - 1, self.size + 2).has(y, x) and not self.has(y, x)


@dataclass(frozen=True)
class Piece:
    """Some cells of a line; `inside`: in the part that is looked at."""

    text: str
    ink: RGB | None
    fill: RGB | None
    inside: bool


def pixel_lines(
    values: np.ndarray, scale: Scale, ramp: Ramp, surface: RGB, part: Part | None = None, frame: RGB | None = None,
    zoom: int = 0,
) -> list[list[Piece]]:  # fmt: skip
    """Draw (Y, X) numbers, a line of pieces for each line of cells; NaN is the surface.

    frame   the colour of the pixels around the selected part; all others keep theirs, so that none is dimmed
    zoom    the lines of a pixel, which is twice as many cells wide; 0 = half a line, and a cell wide
    """
    levels = np.where(np.isfinite(values), ramp.level(scale.share(np.nan_to_num(values))).astype(np.int64), -1)

    def fill(y: int, x: int) -> RGB:
        if part is not None and frame is not None and y < len(levels) and part.frames(y, x):
            return frame
        level = int(levels[y, x]) if y < len(levels) else -1
        shade = ramp.fill[level] if level >= 0 else None
        return surface if shade is None else shade

    lines: list[list[Piece]] = []
    rows, columns = levels.shape
    for y in range(0, rows, 1 if zoom else 2):
        line = []
        for x in range(columns):
            inside = part is not None and (part.has(y, x) or (not zoom and part.has(y + 1, x)))
            if any(ramp.fill) and not ramp.glyphs.isascii():
                upper, lower = fill(y, x), fill(y if zoom else y + 1, x)
                line.append(Piece("  " * zoom, None, upper, inside) if zoom else Piece("▀", upper, lower, inside))
                continue
            pair = values[y : y + (1 if zoom else 2), x]
            known = pair[np.isfinite(pair)]
            level = int(ramp.level(scale.share(np.array([(known / len(known)).sum()])))[0]) if len(known) else -1
            glyph = ramp.glyphs[level] if level >= 0 else " "
            colour, filled = (ramp.ink[level], ramp.fill[level]) if level >= 0 else (None, None)
            if zoom and any(ramp.fill):
                filled = fill(y, x)
            line.append(Piece(glyph * max(1, 2 * zoom), colour, filled, inside))
        lines += [line] * max(1, zoom)
    return lines
