"""What the Tokens screen says in words: the line above the text, the token under the cursor, its tree, the tables."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual.content import Content

from txlab.drawing.formatting import count
from txlab.drawing.text import visible
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.tui.screens.tokens.encoding import Counts
from txlab.tui.screens.tokens.layout import EDITABLE, Document, Lane
from txlab.tui.screens.tokens.signs import shown_bytes, sign
from txlab.tui.widgets.bars import bar
from txlab.tui.widgets.table import Column

if TYPE_CHECKING:
    from txlab.engine.tokenizers.trees import MergeTree
    from txlab.tui.screens.tokens.training import Look, Row, Size

Cells = tuple[list[Column], list[list[str]]]
"""A table: its columns and its rows."""

BRANCHES = 160  # lines of a tree that are drawn
NAMED = 4  # characters of a token that are named


def ratio(value: float) -> str:
    """Bytes a token, tokens a word: two decimals, "–" where there is none."""
    return "–" if value != value else f"{value:.2f}"


def strokes(value: float, cells: int, ascii: bool = False) -> str:
    """A bar that leaves room to the lines above and below: equal ones beside each other stay lines."""
    length = max(1, round(min(1.0, value) * cells)) if value > 0 else 0
    return f"{('-' if ascii else '━') * length:<{cells}}"


def header(document: Document, special: bool, editing: bool, ascii: bool) -> Content:
    """`sample   233 characters · 301 bytes · 33 words`, and what one may do with it."""
    sizes = (
        f"{count(document.characters)} characters · {count(len(document.data))} bytes · {count(document.words)} words"
    )
    parts = [Content.styled(visible(document.name, ascii), "bold"), Content(f"   {sizes}")]
    if editing:
        parts.append(Content.styled("   editing, esc ends it", "bold $accent"))
    elif not document.editable:
        parts.append(Content.styled(f"   view only, above {count(EDITABLE // 1000)} kB", "$accent"))
    parts.append(Content.styled(f"   special tokens {'allowed' if special else 'are plain text'}", "$quiet"))
    return Content.assemble(*parts)


def working(what: str, done: int, total: int, ascii: bool = False) -> Content:
    """`encoding  ████░░  45 %   x cancels`."""
    share = done / total if total else 0.0
    return Content.assemble(
        Content.styled(f"{visible(what, ascii)}  ", "bold"),
        Content.styled(f"{bar(share, 20, ascii):<20}", "$accent"),
        Content(f" {share:>4.0%}"),
        Content.styled("   x cancels", "$quiet"),
    )


def spaced(data: bytes, most: int = 48) -> str:
    """Bytes as hexadecimal numbers."""
    return data[:most].hex(" ") + (" …" if len(data) > most else "")


def reach(start: int, stop: int) -> str:
    """`14 … 18`, `14`, or where a token without a byte stands."""
    return f"{count(start)}" if stop - start <= 1 else f"{count(start)} … {count(stop - 1)}"


def card(document: Document, lane: Lane, token: int, ascii: bool) -> Content:
    """Everything about one token: its id, bytes, offsets, the merge that made it, and its tree."""
    if not len(lane):
        return Content.styled("The text is empty: press e to write, or paste one.", "$quiet")
    ident, start, stop = int(lane.ids[token]), lane.start(token), lane.stop(token)
    data = document.data[start:stop]
    label = shown_bytes(data, ascii) if data else visible(lane.tokenizer.label(ident), ascii)
    rows = [("id", count(ident)), ("token", f"{count(token + 1)} of {count(len(lane))}")]
    rows.append(("bytes", spaced(data) if data else "none: half of a spelling"))
    rows.append(("at byte", reach(start, stop)))
    rows.append(("character", characters(document, start, stop)))
    tree = tree_of(lane, ident)
    if ident in lane.special:
        rows.append(("special", "a token of its own"))
    elif tree is not None and tree.rank is not None:
        times = f", found {count(tree.count)} times" if tree.count is not None else ""
        rows.append(("learnt as", f"merge {count(tree.rank)}{times}"))
    parts = [Content.styled(label + "\n", "bold $accent")]
    for name, value in rows:
        parts += [Content.styled(f"{name:<10}", "$quiet"), Content(value + "\n")]
    for line in (*cut_off(document.data, start, stop, ascii), *names_of(data)):
        parts.append(Content.styled(line + "\n", "$quiet"))
    if tree is not None and tree.left is not None:
        parts.append(Content.styled("\nmerge tree   merge, times found\n", "$quiet"))
        for branch, shown, note in tree_lines(tree, ascii):
            parts += [Content.styled(branch, "$rule"), Content(shown), Content.styled(f"  {note}\n", "$quiet")]
    return Content.assemble(*parts)


def characters(document: Document, start: int, stop: int) -> str:
    """The characters that a token is made of; "inside" one where it is only a part of it."""
    first, last = document.characters_at(start), document.characters_at(stop)
    inside = document.data[start : start + 1] and document.data[start] & 0xC0 == 0x80
    if inside:
        return f"inside {count(max(0, first - 1))}"
    return reach(first, max(first + 1, last))


def names_of(data: bytes) -> Iterator[str]:
    """The Unicode names of what is not plain: U+0301 combining acute accent."""
    said = 0
    for character in data.decode(errors="ignore"):
        if "!" <= character <= "~" or character == " " or said >= NAMED:
            continue
        said += 1
        known = {"\n": "line feed", "\t": "tab", "\r": "carriage return", "\0": "null"}
        name = known.get(character) or unicodedata.name(character, "").lower()
        if not name:
            name = {"Cn": "unassigned", "Co": "private use", "Cc": "control"}.get(unicodedata.category(character), "")
        yield f"U+{ord(character):04X} {name}"


def cut_off(data: bytes, start: int, stop: int, ascii: bool) -> list[str]:
    """The characters of which a token has only a part, at its beginning or at its end."""
    found: list[str] = []
    for border in (start, stop):
        first = border
        while first > max(0, border - 3) and data[first : first + 1] and data[first] & 0xC0 == 0x80:
            first -= 1
        whole = data[first : first + 4].decode(errors="ignore")[:1]
        size = len(whole.encode())
        if first < border < first + size and data[first : first + size] == whole.encode():
            said = f"part of {sign(whole, ascii)}  U+{ord(whole):04X} {unicodedata.name(whole, '').lower()}"
            found += [said] if said not in found else []
    return found


def tree_of(lane: Lane, token: int) -> MergeTree | None:
    """The merges that a token grew from; None where the tokenizer has none."""
    if not isinstance(lane.tokenizer, BytePairTokenizer) or token in lane.special:
        return None
    from txlab.engine.tokenizers.trees import merge_tree

    return merge_tree(lane.tokenizer, token)


def tree_lines(tree: MergeTree, ascii: bool = False, most: int = BRANCHES) -> list[tuple[str, str, str]]:
    """(branches, what the node stands for, its merge and how often it was found), from the root down.

    Drawn with a stack of its own: a token of five hundred bytes may be a tree as deep.
    """
    tee, corner, wall = ("|- ", "`- ", "|  ") if ascii else ("├─ ", "└─ ", "│  ")
    lines: list[tuple[str, str, str]] = []
    stack: list[tuple[MergeTree, str, str]] = [(tree, "", "")]
    while stack:
        node, before, below = stack.pop()
        if len(lines) == most:
            lines.append(("", "… and more below" if not ascii else "... and more below", ""))
            break
        times = f" {'x' if ascii else '×'}{count(node.count)}" if node.count is not None else ""
        note = f"{count(node.rank)}{times}" if node.rank is not None else ""
        lines.append((before, shown_bytes(node.data, ascii), note))
        if node.left is not None and node.right is not None:
            stack.append((node.right, below + corner, below + "   "))
            stack.append((node.left, below + tee, below + wall))
    return lines


def lane_table(lanes: Sequence[Lane], document: Document, ascii: bool) -> Cells:
    """The same text by each tokenizer: tokens, bytes a token, tokens a word."""
    columns = [Column("tokenizer", right=False), Column("tokens"), Column("B/token"), Column("/word")]
    rows = []
    for place, lane in enumerate(lanes, 1):
        counts = Counts(len(lane), len(document.data), document.words)
        numbers = [count(counts.tokens), ratio(counts.bytes_per_token), ratio(counts.tokens_per_word)]
        rows.append([f"{place} {visible(lane.name, ascii)}", *numbers])
    return columns, rows


def brief(document: Document, lanes: Sequence[Lane], front: int, token: int, ascii: bool) -> Content:
    """Two lines in place of the side: the token under the cursor, and the lanes with their tokens."""
    if not lanes:
        return Content("")
    lane = lanes[front]
    parts: list[Content] = []
    if len(lane):
        ident, start, stop = int(lane.ids[token]), lane.start(token), lane.stop(token)
        data = document.data[start:stop]
        parts = [
            Content.styled(shown_bytes(data, ascii) or visible(lane.tokenizer.label(ident), ascii), "bold $accent"),
            Content(f"  id {count(ident)}   {spaced(data, 12)}   byte {reach(start, stop)}"),
            Content.styled(f"   token {count(token + 1)} of {count(len(lane))}", "$quiet"),
        ]
    parts.append(Content("\n"))
    for place, each in enumerate(lanes):
        counts = Counts(len(each), len(document.data), document.words)
        words = f"{place + 1} {visible(each.name, ascii)}: {count(counts.tokens)} tokens"
        parts.append(Content.styled(words, "bold" if place == front else ""))
        parts.append(Content.styled(f" {ratio(counts.bytes_per_token)} B/token   ", "$quiet"))
    return Content.assemble(*parts)


def language_table(found: Sequence[tuple[str, str, Sequence[Counts]]], front: int, ascii: bool) -> Cells:
    """Languages by what the tokenizer in front needs for the same sentences, and how much that is of English's."""
    if not found or not found[0][2]:
        return [], []
    several = len(found[0][2]) > 1
    order = [front, *(lane for lane in range(len(found[0][2])) if lane != front)]
    english = found[0][2]
    most = max(counts[front].tokens for _, _, counts in found) or 1
    columns = [Column("language", right=False)]
    for lane in order:
        mark = f"{lane + 1} " if several else ""
        columns += [Column(f"{mark}tokens"), Column("/word"), Column("× English")]
        if lane == front:
            columns.append(Column("", right=False, quiet=True))
    columns.append(Column("script", right=False, quiet=True))
    rows = []
    for name, script, counts in sorted(found, key=lambda row: row[2][front].tokens):
        row = [visible(name, ascii)]
        for lane in order:
            here = counts[lane]
            row += [count(here.tokens), ratio(here.tokens_per_word), ratio(here.tokens / max(1, english[lane].tokens))]
            if lane == front:
                row.append(strokes(here.tokens / most, 16, ascii))
        rows.append([*row, visible(script, ascii)])
    return columns, rows


# The training view.


def training_header(look: Look | None, doing: str, pace: float, ascii: bool) -> Content:
    """`python-docs   400 kB, gpt4   vocabulary 312 of 1 024   98 765 tokens, 4.71 bytes/token   running`."""
    if look is None:
        return Content.styled(doing or "nothing to learn from yet: press o", "$quiet")
    recipe = look.recipe
    name = visible(Path(recipe.text).name, ascii) if recipe.text else "the text on the screen"
    state = doing or ("done" if look.done else "paused")
    parts = [
        Content.styled(name, "bold"),
        Content(f"   vocabulary {count(look.vocabulary)} of {count(recipe.target)}   "),
        Content.styled(state, "bold $accent" if doing else "$quiet"),
        Content(f"   {count(look.length)} tokens, {ratio(look.size / max(1, look.length))} bytes/token"),
        Content.styled(f"   pattern {visible(recipe.pattern)}", "$quiet"),
        Content.styled(f"   {f'{pace:.0f} merges/s' if pace else 'full speed'}", "$quiet"),
    ]
    return Content.assemble(*parts)


def pair_table(rows: Sequence[Row], ascii: bool) -> Cells:
    """What could be merged now, in the order in which it would win."""
    columns = [Column("next merge", right=False), Column("becomes", right=False), Column("found")]
    columns.append(Column("", right=False, quiet=True))
    most = max((row.count for row in rows), default=1)
    return columns, [[*merged(row, ascii), count(row.count), strokes(row.count / most, 10, ascii)] for row in rows]


def merge_table(rows: Sequence[Row], first: int, ascii: bool) -> Cells:
    """The merges that were made, the newest first."""
    columns = [Column("made", right=False), Column("becomes", right=False), Column("found")]
    columns += [Column("token"), Column("merge")]
    return columns, [
        [*merged(row, ascii), count(row.count), count(row.token), count(first - place - 1)]
        for place, row in enumerate(rows)
    ]


def merged(row: Row, ascii: bool) -> tuple[str, str]:
    """A pair and what it becomes."""
    left, right = shown_bytes(row.left, ascii), shown_bytes(row.right, ascii)
    return f"{left} + {right}", shown_bytes(row.left + row.right, ascii)


def size_table(sizes: Sequence[Size], ascii: bool) -> Cells:
    """Vocabularies beside each other."""
    columns = [
        Column("vocabulary"),
        Column("tokens"),
        Column("bytes/token"),
        Column("this text"),
        Column("bytes/token"),
    ]
    columns.append(Column("longest token", right=False, quiet=True))
    rows = []
    for size in sizes:
        whole = size.corpus_bytes / max(1, size.corpus_tokens)
        here = ratio(size.text_bytes / size.text_tokens) if size.text_tokens else "–"
        longest = shown_bytes(size.longest[:24], ascii)
        rows.append(
            [count(size.vocabulary), count(size.corpus_tokens), ratio(whole), count(size.text_tokens), here, longest]
        )
    return columns, rows


def why_next(rows: Sequence[Row], at: int) -> str:
    """Why a pair stands where it stands among those that could be merged, in sentences."""
    row = rows[at]
    pair = f"{shown_bytes(row.left)} + {shown_bytes(row.right)}"
    said = [f"{pair}, tokens {row.pair[0]} and {row.pair[1]}, stand beside each other {count(row.count)} times."]
    if at == 0:
        rival = rows[1] if len(rows) > 1 else None
        if rival is not None and rival.count == row.count:
            said.append("Another pair is as frequent; a tie goes to the lower pair of ids.")
        elif rival is not None:
            said.append(f"No pair is more frequent; the second one is found {count(rival.count)} times.")
        said.append(f"So it is merged next and becomes token {row.token}.")
    else:
        said.append(f"{at} pairs come before it. Merging one of them may take away some of its places.")
    said.append("The most frequent pair becomes a token, again and again, until the vocabulary is full: MATH K2.")
    return "\n".join(said)
