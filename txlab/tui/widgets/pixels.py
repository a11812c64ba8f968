"""Levels of a ramp as pixels: two to a character, as half blocks, where the terminal has colours for both; else one, as
a glyph."""

from __future__ import annotations

from itertools import groupby

import numpy as np
from rich.color import Color
from rich.segment import Segment
from rich.style import Style

from txlab.drawing.palette import Ramp
from txlab.tui.widgets.terminal import ink


class Pixels:
    """The styles of pairs of levels, each computed once; `paired` says whether a character shows two pixels."""

    def __init__(self, ramp: Ramp, surface: Style, paired: bool) -> None:
        self.ramp, self.surface, self.paired = ramp, surface, paired
        self.inks: dict[tuple[int, int, bool], Style] = {}

    def line(self, levels: np.ndarray, y: int, off: bool = False) -> list[Segment]:
        """One line of a picture (rows, columns); a row that it does not have is the surface. `off`: in greys."""
        return [
            Segment(sign * len(list(run)), self.ink(*pair, off) if pair[0] >= 0 else self.surface)
            for (sign, pair), run in groupby(self.cells(levels, y))
        ]

    def cells(self, levels: np.ndarray, y: int) -> list[tuple[str, tuple[int, int]]]:
        """The character of each cell of a line, and the two levels that give its colours; −1 is the surface."""
        if not self.paired:
            if y >= len(levels):
                return [(" ", (-1, -1))] * levels.shape[1]
            return [(self.ramp.glyphs[level], (level, level)) for level in levels[y].tolist()]
        above: list[int] = levels[2 * y].tolist()
        below: list[int] = levels[2 * y + 1].tolist() if 2 * y + 1 < len(levels) else [-1] * len(above)
        return [("▀", pair) for pair in zip(above, below, strict=True)]

    def ink(self, above: int, below: int, off: bool = False) -> Style:
        """The style of two pixels, one above the other; −1 is the surface."""
        style = self.inks.get((above, below, off))
        if style is None:
            ramp = self.ramp
            if not self.paired:
                style = ink(ramp.ink[above], self.surface, ramp.fill[above])
            else:
                # With 16 colours there is no fill: the ink is the pixel, and an empty pixel is the surface.
                top, bottom = (
                    None if level < 0 else ramp.fill[level] or (ramp.ink[level] if level else None)
                    for level in (above, below)
                )
                surface = self.surface.bgcolor
                if top is None and surface is not None:
                    red, green, blue = surface.get_truecolor()
                    top = (red, green, blue)
                style = ink(top, self.surface, bottom)
            if off:
                style += Style(color=grey_of(style.color), bgcolor=grey_of(style.bgcolor), dim=not self.paired)
            self.inks[above, below, off] = style
        return style


def grey_of(colour: Color | None) -> Color | None:
    """Return the grey that is as bright as a colour (ITU-R BT.601)."""
    if colour is None:
        return None
    red, green, blue = colour.get_truecolor()
    return Color.from_rgb(*(round(0.299 * red + 0.587 * green + 0.114 * blue),) * 3)
