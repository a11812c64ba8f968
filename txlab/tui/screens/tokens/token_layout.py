"""Tokens as lines of cells: how each byte is shown, and the lines of several tokenizers one below the other.

txlab/drawing/text.py makes text safe to read; here every byte must also be visible, so a space is a dot, every other
kind of space and a variation selector its escape, a combining mark without its letter is on a dotted circle, and bytes
that are not UTF-8 are \\xNN. No cell joins with its neighbour in the terminal.

Notable: the lanes of several tokenizers share their columns: a letter is in the same column in each of them, and only
the borders differ.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from math import cos, radians, sin

import numpy as np

from txlab.drawing.palette import (
    BLACK,
    BLUE,
    BRIGHT_CYAN,
    BRIGHT_GREEN,
    BRIGHT_MAGENTA,
    BRIGHT_WHITE,
    MAGENTA,
    RGB,
    Colours,
    cube,
    oklab_to_rgb,
)
from txlab.drawing.text import VARIATION_SELECTORS, escape, visible_character, width
from txlab.tui.screens.tokens.encoded_text import TextDocument, TokenLane

SPACE, ASCII_SPACE = "·", "_"
MOST_MARKS = 4  # combining marks on one letter; further ones get separate cells
MARKS = ("Mn", "Me", "Mc")
SIGNS_OF_NOTHING = frozenset("·_◌")


@dataclass(frozen=True)
class Unit:
    """A unit of cells: a letter with its marks, a sign, an escape. `start` and `size` are bytes."""

    start: int
    size: int
    shown: str
    width: int


def sign(character: str, ascii: bool = False) -> str:
    r"""Return one character as it is shown in a token, alone.

    >>> sign(" "), sign("\u00a0"), sign("\u0301"), sign("\x00"), sign("\u0378"), sign("é")
    ('·', '\\xa0', '◌́', '␀', '\\u0378', 'é')
    """
    if character == " ":
        return ASCII_SPACE if ascii else SPACE
    if "!" <= character <= "~":
        return character
    category = unicodedata.category(character)
    if category == "Zs" or character in VARIATION_SELECTORS:
        return escape(character)
    shown = visible_character(character, ascii)
    if width(shown) == 0:  # it would be drawn over the character before it
        return "◌" + shown if category in MARKS else escape(character)
    return shown


@lru_cache(32768)
def units(data: bytes, ascii: bool = False) -> tuple[Unit, ...]:
    r"""Return the units that show the bytes of a token, in order; together they cover all of them.

    >>> [unit.shown for unit in units(b" caf\xc3\xa9\xe2\x82")]
    ['·', 'c', 'a', 'f', 'é', '\\xe2', '\\x82']
    """
    parts: list[Unit] = []
    at = marks = 0
    joins = False  # whether the unit before is a letter that can carry a mark
    for character in data.decode(errors="surrogateescape"):
        if "\udc80" <= character <= "\udcff":
            parts.append(Unit(at, 1, f"\\x{ord(character) - 0xDC00:02x}", 4))
            at, joins = at + 1, False
            continue
        size = len(character.encode())
        raw = visible_character(character, ascii)
        if joins and marks < MOST_MARKS and raw == character and width(raw) == 0:
            before = parts[-1]
            joined = before.shown + character
            if width(joined) == before.width:
                parts[-1] = Unit(before.start, before.size + size, joined, before.width)
                at, marks = at + size, marks + 1
                continue
        shown = sign(character, ascii)
        parts.append(Unit(at, size, shown, width(shown)))
        at, marks = at + size, 0
        joins = shown == character and shown not in SIGNS_OF_NOTHING
    return tuple(parts)


def show_bytes(data: bytes, ascii: bool = False) -> str:
    """Return a whole token on one line."""
    return "".join(unit.shown for unit in units(data, ascii))


@dataclass(frozen=True)
class Tint:
    """A colour scheme of tokens: `fill` behind it, `ink` for its letters (None: the surface's own)."""

    fill: RGB | None
    ink: RGB | None


# Hues that also differ in lightness, for colour-blind users: every second tint is the lighter one.
DARK_TINTS = [(0.27, 0.055, 250.0), (0.37, 0.06, 150.0), (0.29, 0.06, 330.0), (0.37, 0.055, 210.0)]
LIGHT_TINTS = [(0.93, 0.04, 250.0), (0.86, 0.06, 150.0), (0.92, 0.045, 340.0), (0.86, 0.05, 215.0)]
DARK_256, LIGHT_256 = ["001", "022", "101", "g07"], ["455", "454", "545", "g21"]
DARK_16, LIGHT_16 = (BRIGHT_CYAN, BRIGHT_GREEN, BRIGHT_MAGENTA, BRIGHT_WHITE), (BLUE, MAGENTA, BLACK, (0, 170, 0))


@cache
def tints(colours: Colours = "truecolor", dark: bool = True) -> tuple[Tint, ...]:
    """Return the tints that tokens take in turn, so that neighbours differ."""
    if colours == "truecolor":
        return tuple(Tint(polar(*each), None) for each in (DARK_TINTS if dark else LIGHT_TINTS))
    if colours == "256":
        return tuple(Tint(cube(digits), None) for digits in (DARK_256 if dark else LIGHT_256))
    if colours == "16":
        return tuple(Tint(None, ink) for ink in (DARK_16 if dark else LIGHT_16))
    return (Tint(None, None),)


def polar(lightness: float, chroma: float, hue: float) -> RGB:
    """Return a colour from OKLab lightness, chroma and hue in degrees."""
    return oklab_to_rgb(lightness, chroma * cos(radians(hue)), chroma * sin(radians(hue)))


@dataclass(frozen=True)
class Span:
    """A piece of a token in a line: `column` and `width` in cells; `units` are its (first byte, column, width);
    `begins` says whether the token starts here or continues from the line before."""

    token: int
    column: int
    width: int
    text: str
    begins: bool
    units: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class LayoutLine:
    """A line of text: its bytes, and for each lane its spans, from left to right; `above`: (column, sign, cells) of the
    characters whose bytes are shown separately, `differing`: the columns (from, to) where the lanes cut differently."""

    start: int
    stop: int
    lanes: tuple[tuple[Span, ...], ...]
    above: tuple[tuple[int, str, int], ...] = ()
    differing: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True)
class Glyph:
    """A display item at a byte: a unit of a token, or the label of a token without bytes."""

    start: int
    stop: int
    shown: str
    width: int
    token: int
    begins: bool


def glyphs_of(document: TextDocument, lane: TokenLane, start: int, stop: int, ascii: bool) -> list[Glyph]:
    """Return the items of a lane between two bytes."""
    glyphs: list[Glyph] = []
    token = int(np.searchsorted(lane.stops, start, side="right"))
    while token > 0 and lane.stop(token - 1) == start == lane.start(token - 1):
        token -= 1
    data, spelled = document.data, False
    while token < len(lane) and lane.start(token) < stop:
        first, end = lane.start(token), lane.stop(token)
        if first == end or spelled:
            label = "".join(sign(character, ascii) for character in lane.tokenizer.label(int(lane.ids[token])))
            label = label.replace("⟨", "<").replace("⟩", ">")
            glyphs.append(Glyph(first, end, label, len(label), token, True))
            spelled = first == end
        else:
            for unit in units(data[first:end], ascii):
                at = first + unit.start
                if start <= at < stop:
                    glyphs.append(Glyph(at, at + unit.size, unit.shown, unit.width, token, not unit.start))
        token += 1
    return glyphs


def layout(
    document: TextDocument,
    lanes: Sequence[TokenLane],
    paragraph: int,
    cells: int,
    borders: bool = True,
    ids: bool = False,
    ascii: bool = False,
) -> list[LayoutLine]:
    """Return the lines of one paragraph, `cells` wide; `borders` reserves a cell before each token for its border,
    `ids` the cells that the token's id needs below it."""
    start, stop = document.bounds(paragraph)
    shown = [glyphs_of(document, lane, start, stop, ascii) for lane in lanes]
    atoms = sorted({glyph.start for glyphs in shown for glyph in glyphs})
    if not atoms:
        return [LayoutLine(start, stop, tuple(() for _ in lanes))]
    slots, widths = [0] * len(atoms), [1] * len(atoms)
    whole = [not b"\x80" <= document.data[atom : atom + 1] < b"\xc0" for atom in atoms]
    breaks = [False] * len(atoms)  # preferred line ends: before a token of the first lane
    late: list[tuple[int, int, int]] = []  # glyphs that span several atoms: first, one after the last, width
    for number, glyphs in enumerate(shown):
        place = 0
        while place < len(glyphs):
            here = glyphs[place]
            atom = bisect_left(atoms, here.start)
            size, border, last = here.width, int(here.begins and borders), place
            while last + 1 < len(glyphs) and glyphs[last + 1].start == here.start:
                last += 1
                size += glyphs[last].width + int(glyphs[last].begins and borders)
            after = bisect_left(atoms, max(glyphs[last].stop, here.start + 1))
            slots[atom] = max(slots[atom], border)
            breaks[atom] |= here.begins and not number
            if after - atom <= 1:
                widths[atom] = max(widths[atom], size)
            else:
                late.append((atom, after, size))
                for inner in range(atom + 1, after):
                    whole[inner] = False
            place = last + 1
        if ids:
            for token, first, end in extents(glyphs):
                atom, after = bisect_left(atoms, first), bisect_left(atoms, max(end, first + 1))
                late.append((atom, after, len(str(int(lanes[number].ids[token]))) + int(not borders)))
    for atom, after, size in late:
        missing = size - sum(widths[atom:after]) - sum(slots[atom + 1 : after])
        if missing > 0:
            widths[after - 1] += missing
    rows: list[LayoutLine] = []
    first = 0
    while first < len(atoms):
        end = line_end(first, slots, widths, breaks, whole, cells)
        byte = atoms[end] if end < len(atoms) else stop
        columns, column = [0] * (end - first), 0
        for atom in range(first, end):
            column += slots[atom]
            columns[atom - first] = column
            column += widths[atom]
        begin = atoms[first] if first else start
        spans = tuple(spans_of(glyphs, atoms[first:end], columns, column, begin, byte, borders) for glyphs in shown)
        above = characters_above(document.data[begin:byte], begin, spans, ascii)
        rows.append(LayoutLine(begin, byte, spans, above, differing(spans)))
        first = end
    return rows


def characters_above(
    data: bytes, start: int, lanes: Sequence[Sequence[Span]], ascii: bool
) -> tuple[tuple[int, str, int], ...]:
    """Return (column, sign, cells) of each character of these bytes that some lane shows byte by byte."""
    if data.isascii():
        return ()
    places = {byte: (column, column + wide) for spans in lanes for span in spans for byte, column, wide in span.units}
    characters, at = [], start
    for character in data.decode(errors="surrogateescape"):
        after = at + len(character.encode(errors="surrogateescape"))
        parts = [places[byte] for byte in range(at, after) if byte in places]
        if len(parts) > 1:
            first, last = parts[0][0], max(end for _, end in parts)
            characters.append((first, sign(character, ascii), last - first))
        at = after
    return tuple(characters)


def differing(lanes: Sequence[Sequence[Span]]) -> tuple[tuple[int, int], ...]:
    """Return the columns between neighbouring cuts that all lanes share, where one of them cuts again."""
    cuts = [{span.column for span in spans} | {spans[-1].column + spans[-1].width} for spans in lanes if spans]
    if len(cuts) < 2:
        return ()
    shared, every = sorted(set.intersection(*cuts)), set.union(*cuts)
    return tuple((a, b) for a, b in pairwise(shared) if any(a < column < b for column in every))


def extents(glyphs: Sequence[Glyph]) -> list[tuple[int, int, int]]:
    """Return (token, first byte, byte after the last) of each token that has bytes or is their only one."""
    ranges: list[tuple[int, int, int]] = []
    for glyph in glyphs:
        if ranges and ranges[-1][0] == glyph.token:
            ranges[-1] = (glyph.token, ranges[-1][1], glyph.stop)
        else:
            ranges.append((glyph.token, glyph.start, glyph.stop))
    return ranges


def line_end(first: int, slots: list[int], widths: list[int], breaks: list[bool], whole: list[bool], cells: int) -> int:
    """Return the end of the line that starts with atom `first`: before a token of the first lane in its second half,
    else where no character is split, else at the last cell."""
    used, end = 0, first
    while end < len(widths) and (end == first or used + slots[end] + widths[end] <= cells):
        used += slots[end] + widths[end]
        end += 1
    if end == len(widths):
        return end
    least, back, seen = end, used, 0
    for atom in range(end, first, -1):
        if whole[atom] and breaks[atom]:
            return atom
        if whole[atom] and not seen:
            seen = atom
        least = atom
        back -= slots[atom - 1] + widths[atom - 1]
        if back < cells // 2:
            break
    return seen or max(least, first + 1) if least < end else end


def spans_of(
    glyphs: list[Glyph], atoms: list[int], columns: list[int], end: int, start: int, stop: int, borders: bool
) -> tuple[Span, ...]:
    """Return the spans of one lane in one line: its tokens' items, padded to the start of the next token."""
    spans: list[Span] = []
    low = bisect_left(glyphs, start, key=lambda glyph: glyph.start)
    at = 0  # the column after the last glyph, for several that start at one byte
    texts: list[str] = []
    places: list[tuple[int, int, int]] = []
    current: Glyph | None = None
    column = begun = 0

    def close(until: int) -> None:
        if current is not None:
            texts.append(" " * (until - at))
            spans.append(Span(current.token, begun, until - begun, "".join(texts), current.begins, tuple(places)))

    for glyph in glyphs[low:]:
        if glyph.start >= stop:
            break
        column = columns[bisect_left(atoms, glyph.start)] if glyph.start >= atoms[0] else 0
        if current is not None and places and places[-1][0] == glyph.start:
            column = at + int(glyph.begins and borders)
        if current is None or glyph.token != current.token:
            close(column - int(glyph.begins and borders))
            current, begun, texts, places = glyph, column, [], []
        else:
            texts.append(" " * (column - at))
        texts.append(glyph.shown)
        places.append((glyph.start, column, glyph.width))
        at = column + glyph.width
    close(max(end, at))
    return tuple(spans)
