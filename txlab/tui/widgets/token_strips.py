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


SIZES = ((6, 3), (4, 2), (3, 2), (2, 1), (1, 1))
"""Cells of a letter and lines of a line, the largest first."""


def spaced(text: str, cells: int) -> str:
    """The text with every letter in the middle of so many cells.

    >>> spaced("ab", 1), spaced("ab", 2), spaced("ab", 3)
    ('ab', 'a b ', ' a  b ')
    """
    if cells == 1:
        return text
    if not all(map(width, text)):  # combining signs stay where they are
        return text + " " * (width(text) * (cells - 1))
    return "".join(
        " " * ((cells - 1) * width(sign) // 2) + sign + " " * -((1 - cells) * width(sign) // 2) for sign in text
    )


class TokenStrips(Painted, can_focus=False):
    """All texts, each on as many lines as necessary; the cursor is on token `token` of text `row`.

    lined   begin a new line where a token ends one
    most    the lines that the texts may have, within which letters are as large as fit; 0 = letters are not enlarged
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
        self.top = self.most = 0
        self.cells, self.tall = SIZES[-1]

    def show(self, rows: Sequence[TokenRow], scale: Scale, row: int = 0, token: int = 0) -> None:
        self.rows, self.scale, self.row, self.token = rows, scale, row, token
        self.lay()
        self.refresh()

    def lay(self) -> None:
        """Break the texts into lines of the largest letters that fit, and keep the line of the cursor in sight."""
        filled = any(self.ramp.fill)
        for self.cells, self.tall in SIZES:
            if (self.cells, self.tall) == SIZES[-1] or (self.most and (filled or self.tall == 1)):
                first, at = self.break_lines()
                if self.tall == self.cells == 1 or len(self.lines) - 1 <= self.most:
                    break
        if not (self.top <= min(first, at) and at < self.top + self.size.height):
            self.top = max(first, at + 2 - self.size.height) if at > first else first
        self.top = max(0, min(self.top, len(self.lines) - self.size.height))

    def break_lines(self) -> tuple[int, int]:
        """Break the texts into lines, between words where possible; the lines of the chosen text's heading and of the
        cursor."""
        self.lines = []
        first = at = 0
        for i, each in enumerate(self.rows):
            if i == self.row:
                first = len(self.lines)
            if each.heading:
                self.lines.append([(each.heading, i, -1)])
            texts = [spaced(label(token, self.ascii), self.cells) for token in each.tokens]
            for tokens in self.tokens_of_lines(each, [width(text) for text in texts]):
                if i == self.row and self.token in tokens:
                    at = len(self.lines)
                margin = [("  " if each.heading else "", i, -1)]
                line = [*margin, *((texts[t], i, t) for t in tokens)]
                below = [*margin, *((" " * width(texts[t]), i, t) for t in tokens)]
                letters = [below] * ((self.tall - 1) // 2) + [line] + [below] * (self.tall // 2)
                self.lines += [*letters, *self.signs(line)]
            self.lines.append([])
        return first, at

    def tokens_of_lines(self, row: TokenRow, widths: Sequence[int]) -> list[range]:
        """The tokens of each line of a text; a line ends at a space, unless more than half of it would be empty."""
        room = self.size.width - (2 if row.heading else 0)
        lines, start, used, word = [], 0, 0, 0  # word: the first token after the last space
        for t, (token, size) in enumerate(zip(row.tokens, widths, strict=True)):
            if token[:1].isspace() and len(token) > 1:
                word = t
            if used + size > room and t > start:
                end = word if word > start and sum(widths[start:word]) > room / 2 else t
                lines.append(range(start, end))
                start, used = end, sum(widths[end:t])
            used += size
            if token[-1:].isspace():
                word = t + 1
            if self.lined and token.endswith("\n"):
                lines.append(range(start, t + 1))
                start, used = t + 1, 0
        return [*lines, range(start, len(widths))] if start < len(widths) or not lines else lines

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
                text = sign * (self.cells * width(label(self.rows[row].tokens[token], self.ascii)))
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
