"""A text of any length as tokens of up to four tokenizers, laid out in lines that lie one below the other.

Notable: a text is cut into paragraphs (its lines, long ones cut further) by an index that is built once, in a worker;
lines are made of a paragraph only when it is seen, so that the length of the text costs nothing. The lanes of several
tokenizers share their columns: a letter stands in the same column in each of them, and only the borders differ.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from txlab.engine.tokenizers.tokenizer import Tokenizer
from txlab.tui.screens.tokens.signs import sign, units

PARAGRAPH = 1024  # bytes: at most so many are laid out to draw one line
EDITABLE = 20_000  # bytes: beyond that a text is only looked at


@dataclass(frozen=True, eq=False)
class Document:
    """A text: its bytes, where its paragraphs start, how many characters are before each, and how many words it has."""

    name: str
    data: bytes
    starts: NDArray[np.int64]
    characters_before: NDArray[np.int64]
    characters: int = 0
    words: int = 0

    @property
    def editable(self) -> bool:
        return len(self.data) <= EDITABLE

    def paragraph_of(self, byte: int) -> int:
        return max(0, int(np.searchsorted(self.starts, byte, side="right")) - 1)

    def bounds(self, paragraph: int) -> tuple[int, int]:
        """First byte of a paragraph and the one after its last."""
        end = int(self.starts[paragraph + 1]) if paragraph + 1 < len(self.starts) else len(self.data)
        return int(self.starts[paragraph]), end

    def characters_at(self, byte: int) -> int:
        """How many characters begin before this byte."""
        paragraph = self.paragraph_of(byte)
        place, _ = self.bounds(paragraph)
        count = int(self.characters_before[paragraph])
        for character in self.data[place : byte + 4].decode(errors="surrogateescape"):  # 4: one that goes on behind it
            if place >= byte:
                break
            place += len(character.encode(errors="surrogateescape"))
            count += 1
        return count


def index(data: bytes, name: str = "", words: int = 0) -> Document:
    """Find the paragraphs of a text: its lines, and pieces of at most PARAGRAPH bytes of longer ones."""
    array = np.frombuffer(data, dtype=np.uint8)
    lines = np.concatenate([[0], np.flatnonzero(array == 10) + 1]).astype(np.int64)
    lengths = np.diff(np.concatenate([lines, [len(data)]]))
    starts = lines
    if len(lengths) and int(lengths.max()) > PARAGRAPH:
        pieces = np.maximum(1, -(-lengths // PARAGRAPH))
        first = np.repeat(lines, pieces)
        place = np.arange(len(first)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        starts = first + place * PARAGRAPH
        for _ in range(3):  # not inside a character; three steps back lead out of any
            inside = (place > 0) & (array[np.minimum(starts, len(data) - 1)] & 0xC0 == 0x80)
            starts = starts - inside
    begins = (array & 0xC0) != 0x80
    try:
        data.decode()
    except UnicodeDecodeError:  # bytes that are no UTF-8 count as a character each
        begins = character_starts(data)
    before = np.zeros(len(data) + 1, dtype=np.int64)
    np.cumsum(begins, out=before[1:])
    return Document(name, data, starts, before[starts], int(before[-1]), words)


def character_starts(data: bytes) -> NDArray[np.bool_]:
    """At which bytes a character begins, each byte that is no UTF-8 being one."""
    found = np.zeros(len(data), dtype=bool)
    points = np.frombuffer(data.decode(errors="surrogateescape").encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    stray = (points >= 0xDC80) & (points <= 0xDCFF)
    sizes = np.where(
        stray | (points < 0x80), 1, np.where(points < 0x800, 2, np.where(points < 0x10000, 3, 4))
    )  # bytes of each
    found[np.cumsum(sizes) - sizes] = True
    return found


@dataclass(frozen=True, eq=False)
class Lane:
    """The tokens of a document by one tokenizer: `ids`, and the byte after the last of each (`stops`).

    Some tokens stand for no byte of their own (the first hexadecimal digit of a spelled-out character); they stop
    where they start, and are shown by their label together with the token after them."""

    name: str
    tokenizer: Tokenizer
    ids: NDArray[np.uint32]
    stops: NDArray[np.int64]
    special: frozenset[int] = field(default_factory=frozenset)
    statistics: Any = None

    def __len__(self) -> int:
        return len(self.ids)

    def start(self, token: int) -> int:
        return int(self.stops[token - 1]) if token > 0 else 0

    def stop(self, token: int) -> int:
        return int(self.stops[token])

    def at(self, byte: int) -> int:
        """The token that has this byte; the last one for a byte beyond."""
        return max(0, min(int(np.searchsorted(self.stops, byte, side="right")), len(self.ids) - 1))


@dataclass(frozen=True)
class Span:
    """A piece of a token in a line: `column` and `width` in cells; `units` are (first byte, column, width) of what is
    in it; `begins` says whether the token starts here or goes on from the line before."""

    token: int
    column: int
    width: int
    text: str
    begins: bool
    units: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Row:
    """A line of text: its bytes, and for each lane the spans in it, from left to right."""

    start: int
    stop: int
    lanes: tuple[tuple[Span, ...], ...]


@dataclass(slots=True)
class Glyph:
    """Something shown at a byte: a unit of a token or the label of one that has no byte."""

    start: int
    stop: int
    shown: str
    width: int
    token: int
    begins: bool


def glyphs_of(document: Document, lane: Lane, start: int, stop: int, ascii: bool) -> list[Glyph]:
    """What a lane shows between two bytes."""
    found: list[Glyph] = []
    token = int(np.searchsorted(lane.stops, start, side="right"))
    while token > 0 and lane.stop(token - 1) == start == lane.start(token - 1):
        token -= 1
    data, spelled = document.data, False
    while token < len(lane) and lane.start(token) < stop:
        first, end = lane.start(token), lane.stop(token)
        if first == end or spelled:
            label = "".join(sign(character, ascii) for character in lane.tokenizer.label(int(lane.ids[token])))
            label = label.replace("⟨", "<").replace("⟩", ">")
            found.append(Glyph(first, end, label, len(label), token, True))
            spelled = first == end
        else:
            for unit in units(data[first:end], ascii):
                at = first + unit.start
                if start <= at < stop:
                    found.append(Glyph(at, at + unit.size, unit.shown, unit.width, token, not unit.start))
        token += 1
    return found


def layout(
    document: Document,
    lanes: Sequence[Lane],
    paragraph: int,
    cells: int,
    borders: bool = True,
    ids: bool = False,
    ascii: bool = False,
) -> list[Row]:
    """The lines of one paragraph in so many cells; `borders` leaves a cell before each token for its border, `ids` as
    many as the number of the token needs below it."""
    start, stop = document.bounds(paragraph)
    shown = [glyphs_of(document, lane, start, stop, ascii) for lane in lanes]
    atoms = sorted({glyph.start for glyphs in shown for glyph in glyphs})
    if not atoms:
        return [Row(start, stop, tuple(() for _ in lanes))]
    slots, widths, whole = [0] * len(atoms), [1] * len(atoms), [True] * len(atoms)
    breaks = [False] * len(atoms)  # where a line had better end: before a token of the first lane
    late: list[tuple[int, int, int]] = []  # what takes several atoms: first, one after the last, width
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
    rows: list[Row] = []
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
        rows.append(Row(begin, byte, spans))
        first = end
    return rows


def extents(glyphs: Sequence[Glyph]) -> list[tuple[int, int, int]]:
    """(token, first byte, byte after the last) of each token that has bytes or is their only one."""
    found: list[tuple[int, int, int]] = []
    for glyph in glyphs:
        if found and found[-1][0] == glyph.token:
            found[-1] = (glyph.token, found[-1][1], glyph.stop)
        else:
            found.append((glyph.token, glyph.start, glyph.stop))
    return found


def line_end(first: int, slots: list[int], widths: list[int], breaks: list[bool], whole: list[bool], cells: int) -> int:
    """The atom before which the line that begins with atom `first` ends: before a token of the first lane if one is in
    its second half, else where no character is torn, else wherever it must."""
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
    """The spans of one lane in one line: what its tokens show, padded to where the next one begins."""
    spans: list[Span] = []
    low = bisect_left(glyphs, start, key=lambda glyph: glyph.start)
    at = 0  # the column after the last glyph, where several begin at one byte
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
