"""Texts token by token, each token coloured by a number; a cursor on one of them.

If the terminal has too few colours to fill a cell, the signs of the scale are below the tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip

from txlab.drawing.diverging import Scale, ramp_for
from txlab.drawing.formatting import number
from txlab.drawing.palette import Ramp, contrast
from txlab.drawing.text import fit, formula, label, width
from txlab.tui.widgets.painted import Painted
from txlab.tui.widgets.terminal import ink

SHORTEST, LONGEST = 5, 15  # cells of the colours in a legend
HERE = Style(reverse=True, bold=True, underline=True)


@dataclass(frozen=True)
class TokenRow:
    """A text: its heading ("" = none), its tokens, and a number for each, NaN if unknown."""

    heading: str
    tokens: Sequence[str]
    values: np.ndarray


class TokenStrips(Painted, can_focus=False):
    """All texts, each on as many lines as necessary; the cursor is on token `token` of text `row`.

    lined   begin a new line where a token ends one
    """

    COMPONENT_CLASSES = {"tokenstrips--plain", "tokenstrips--here", "tokenstrips--quiet"}
    DEFAULT_CSS = """
    TokenStrips { width: 1fr; height: 1fr; padding: 0 1; }
    TokenStrips > .tokenstrips--plain { color: $foreground; }
    TokenStrips > .tokenstrips--here { color: $accent; text-style: bold; }
    TokenStrips > .tokenstrips--quiet { color: $text-muted; }
    """

    def __init__(self, id: str | None = None, lined: bool = False) -> None:
        super().__init__(id=id)
        self.lined = lined
        self.rows: Sequence[TokenRow] = ()
        self.scale = Scale()
        self.row = self.token = 0
        self.lines: list[list[tuple[str, int, int]]] = []  # (text, row, token), −1 = not a token; "" = its sign
        self.top = 0

    def show(self, rows: Sequence[TokenRow], scale: Scale, row: int = 0, token: int = 0) -> None:
        self.rows, self.scale, self.row, self.token = rows, scale, row, token
        self.lay()
        self.refresh()

    def lay(self) -> None:
        """Break the texts into lines, and keep the line of the cursor in sight."""
        self.lines, ascii = [], self.ascii
        first = at = 0
        for i, each in enumerate(self.rows):
            if i == self.row:
                first = len(self.lines)
            if each.heading:
                self.lines.append([(each.heading, i, -1)])
            margin = "  " if each.heading else ""
            line: list[tuple[str, int, int]] = [(margin, i, -1)]
            used = len(margin)
            for t, token in enumerate(each.tokens):
                text = label(token, ascii)
                if used + width(text) > self.size.width and len(line) > 1:
                    self.lines += [line, *self.signs(line)]
                    line, used = [(margin, i, -1)], len(margin)
                if (i, t) == (self.row, self.token):
                    at = len(self.lines)
                line.append((text, i, t))
                used += width(text)
                if self.lined and token.endswith("\n"):
                    self.lines += [line, *self.signs(line)]
                    line, used = [(margin, i, -1)], len(margin)
            self.lines += [line, *self.signs(line), []]
        if not (self.top <= min(first, at) and at < self.top + self.size.height):
            self.top = max(first, at + 2 - self.size.height) if at > first else first
        self.top = max(0, min(self.top, len(self.lines) - self.size.height))

    @property
    def ramp(self) -> Ramp:
        return ramp_for(self.scale, self.colours, self.dark, self.ascii)

    def signs(self, line: list[tuple[str, int, int]]) -> list[list[tuple[str, int, int]]]:
        """The line below a line of tokens, where the ramp does not fill cells."""
        return [] if any(self.ramp.fill) else [[("" if token >= 0 else text, i, token) for text, i, token in line]]

    def on_resize(self) -> None:
        self.lay()
        self.refresh(Region(0, 0, *self.size))

    def render_line(self, y: int) -> Strip:
        place = y - self.gutter.top + self.top
        if not 0 <= place < len(self.lines):
            return Strip.blank(self.size.width, self.surface)
        ramp = self.ramp
        segments = []
        for text, row, token in self.lines[place]:
            chosen = row == self.row
            if token < 0:
                segments.append(Segment(text, self.part("here" if chosen else "quiet")))
                continue
            value = self.rows[row].values[token]
            style, sign = self.part("plain"), "?"
            if np.isfinite(value):
                level = int(ramp.level(self.scale.share(np.array([value])))[0])
                fill = ramp.fill[level]
                sign = ramp.glyphs[level]
                style = ink(contrast(fill) if fill else ramp.ink[level], self.surface, fill)
            if not text:
                text = sign * width(label(self.rows[row].tokens[token], self.ascii))
            elif chosen and token == self.token:
                style += HERE
            segments.append(Segment(text, style))
        return self.strip(segments)

    def legend(self, title: str, scale: Scale, cells: int) -> Content:
        """`advantage A   −3.0 ████████ 3.0`, in the colours of the tokens; both numbers whole."""
        ramp = ramp_for(scale, self.colours, self.dark, self.ascii)
        low, high = (-scale.size, scale.size) if scale.signed else (scale.low, scale.high)
        ends = f"{number(low, 2)} ", f" {number(high, 2)}"
        room = cells - sum(map(width, ends))
        name = formula(f"{title}   ", self.ascii)
        name = (
            name
            if width(name) + SHORTEST <= room
            else fit(name, max(0, room - SHORTEST - 1), ellipsis="~" if self.ascii else "…") + " "
        )
        bars = max(SHORTEST, min(ramp.levels, LONGEST, room - width(name)))
        parts = [Content.styled(name, "bold"), Content(ends[0])]
        for level in np.linspace(0, ramp.levels - 1, bars).round().astype(int):
            fill, colour = ramp.fill[level], ramp.ink[level]
            glyph = " " if fill else ramp.glyphs[level]
            style = "" if colour is None else "rgb({},{},{})".format(*colour)
            parts.append(Content.styled(glyph, style if fill is None else "on rgb({},{},{})".format(*fill)))
        return Content.assemble(*parts, ends[1])
