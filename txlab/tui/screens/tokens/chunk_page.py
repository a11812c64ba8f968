"""How the chunk under the cursor becomes its tokens: below a text that leaves room.

A chunk is what the tokenizer's pattern cuts out of a text, mostly a word; merges happen inside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from textual.content import Content

from txlab.drawing.formatting import count
from txlab.drawing.text import fit, width
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer, passes
from txlab.engine.tokenizers.characters import label_of, name_of
from txlab.experiments.schema import several
from txlab.tui.screens.tokens.encoded_text import TextDocument, TokenLane, chunk_starts, why_apart
from txlab.tui.screens.tokens.token_layout import show_bytes, sign

LONGEST = 256  # bytes of a chunk that is explained: the merges of longer ones fill no screen
NAMES = 12  # cells of the names of the lines
NOTES = 22  # cells of the notes behind them


def chunk_of(document: TextDocument, lane: TokenLane, token: int) -> tuple[int, int]:
    """Return the first token of the chunk around a token, and the one after its last."""
    starts = chunk_starts(document, lane.tokenizer, lane.start(token))
    at = max(place for place, start in enumerate(starts[:-1] or [0]) if start <= lane.start(token) or not place)
    return lane.at(starts[at]), lane.at(starts[at + 1] - 1) + 1


def merging(document: TextDocument, lane: TokenLane, token: int, cells: int, lines: int, ascii: bool) -> Content:
    """Return the bytes of the chunk around a token, each of its merges, and why its tokens were not merged further; and
    the same, without reasons, of the chunks that follow, in as many lines as there are."""
    if not len(lane):
        return Content.styled("e writes a text, o opens a file; a text can be pasted, too", "$quiet")
    first, last = chunk_of(document, lane, token)
    page = section(document, lane, first, last, cells, lines, ascii)
    known = {bytes_of(document, lane, first, last)}
    while last < len(lane) and len(page) + 4 <= lines:
        first, last = chunk_of(document, lane, last)
        data = bytes_of(document, lane, first, last)
        if data not in known and len(data) > 1:
            page += [Content(""), *section(document, lane, first, last, cells, lines - len(page) - 1, ascii, True)]
        known.add(data)
        if len(known) > lines:
            break
    return Content("\n").join(page)


def bytes_of(document: TextDocument, lane: TokenLane, first: int, last: int) -> bytes:
    return document.data[lane.start(first) : lane.stop(last - 1)]


def section(
    document: TextDocument,
    lane: TokenLane,
    first: int,
    last: int,
    cells: int,
    lines: int,
    ascii: bool,
    following: bool = False,
) -> list[Content]:
    """Return the lines of one chunk, the tokens from `first` to before `last`; of a following one only its merges."""
    data = bytes_of(document, lane, first, last)
    ids = [int(each) for each in lane.ids[first:last]]
    shown, room = show_bytes(data, ascii), max(8, cells - 44)
    style = "bold" if following else "bold $accent"
    title = [Content.styled(fit(shown, min(width(shown), room), ellipsis="~" if ascii else "…"), style)]
    rows: list[Content] = []
    unmerged: list[Content] = []
    tokenizer = lane.tokenizer
    if isinstance(tokenizer, BytePairTokenizer) and len(data) <= LONGEST and not lane.special.intersection(ids):
        symbols = list(tokenizer.base.symbols(data))
        steps = list(passes(symbols, tokenizer.ranks, tokenizer.made))
        if (steps[-1][1] if steps else symbols) == ids:
            unit = "byte" if len(symbols) == len(data) else "symbol"
            parts = several(len(symbols), unit), several(len(steps), "merge"), several(len(ids), "token")
            title.append(Content("  {} − {} = {}".format(*parts)))
            rows = [row(f"{unit}s", [(each, False) for each in symbols], "", tokenizer, cells, ascii)]
            for rank, tokens in steps:
                made = tokenizer.made[rank]
                times = f"found {count(tokenizer.counts[rank])} times" if tokenizer.counts else ""
                marked = [(each, each == made) for each in tokens]
                rows.append(row(f"merge {count(rank)}", marked, times, tokenizer, cells, ascii))
            places = {pair: at for at, pair in enumerate(pairwise(ids), first)}
            for pair, at in () if following else places.items():
                names = " + ".join(short(tokenizer.token_bytes(each), ascii) for each in pair)
                fact, because = why_apart(lane, at)
                reason = because if fact == "never learnt" else f"{fact}, {because}"
                unmerged.append(Content.assemble(f"{names:<{NAMES}}", Content.styled(reason, "$quiet")))
    if len(title) == 1:
        title.append(Content(f"  {several(len(data), 'byte')}, {several(len(ids), 'token')}"))
    wide = [each for each in dict.fromkeys(data.decode(errors="surrogateescape")) if not rows or each > "\x7f"]
    points = [] if following and rows else [point(each, ascii) for each in wide]
    return [Content.assemble(*title), *choose_shown(rows, unmerged, points, lines - 1)]


def short(data: bytes, ascii: bool) -> str:
    """Return a token as text, or as hexadecimal bytes if it is not a whole number of characters."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.hex(" ")
    return show_bytes(data, ascii)


def row(
    name: str, tokens: Sequence[tuple[int, bool]], note: str, tokenizer: BytePairTokenizer, cells: int, ascii: bool
) -> Content:
    """Return `merge 45      ·un│b│e│li│e│v   found 98 times`, the token that was made in bold."""
    parts = [Content.styled(f"{name:<{NAMES}}", "$quiet")]
    room = cells - NAMES - NOTES
    border = Content.styled("|" if ascii else "│", "$rule")
    for token, made in tokens:
        shown = short(tokenizer.token_bytes(token), ascii)
        part = Content.assemble(border, Content.styled(shown, "bold $accent" if made else ""))
        if part.cell_length > room - 1:
            parts.append(Content.styled("~" if ascii else "…", "$quiet"))
            room -= 1
            break
        parts.append(part)
        room -= part.cell_length
    return Content.assemble(*parts, " " * max(2, room + 2), Content.styled(note, "$quiet"))


def point(character: str, ascii: bool) -> Content:
    """Return `é  U+00E9  latin small letter e with acute: c3 a9`."""
    code = "not UTF-8" if "\udc80" <= character <= "\udcff" else f"U+{ord(character):04X}"
    spelt = character.encode(errors="surrogateescape").hex(" ")
    shown = label_of(character) if code == "not UTF-8" else sign(character, ascii)
    name = f"{shown}  {'' if shown == code else code}"
    padding = " " * max(2, NAMES + 2 - Content(name).cell_length)
    return Content.assemble(f"{name}{padding}", Content.styled(f"{name_of(character)}: {spelt}".lstrip(": "), "$quiet"))


def choose_shown(
    rows: Sequence[Content], unmerged: Sequence[Content], points: Sequence[Content], lines: int
) -> list[Content]:
    """Return what fits: of many merges the first and the last, then why there are no more, then the code points."""
    least = min(len(unmerged), 3) + bool(unmerged)  # with a heading
    kept = list(rows)
    if len(rows) > max(3, lines - least):
        behind = max(1, (lines - least - 1) // 2)
        ahead = max(1, lines - least - 1 - behind)
        between = Content.styled(f"{'':<{NAMES}}… {count(len(rows) - ahead - behind)} merges between", "$quiet")
        kept = [*rows[:ahead], between, *rows[len(rows) - behind :]]
    for heading, group in (("merges that were never learnt, and why", unmerged), ("code points", points)):
        if group and len(kept) + 2 <= lines:
            kept += [Content.styled(heading, "$quiet underline"), *group]
    return kept[:lines]
