"""The token under the cursor: its id, bytes and position, the tree of its merges, and a comparison of the lanes."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.content import Content

from txlab.drawing.formatting import count
from txlab.drawing.text import visible
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.characters import grapheme_around, name_of
from txlab.engine.tokenizers.trees import MergeTree, merge_tree
from txlab.tui.bindings import MOVING, bind
from txlab.tui.panel import Panel
from txlab.tui.screens.base_screens import Rule
from txlab.tui.screens.tokens.encoded_text import TextDocument, TokenLane, chunk_starts, why_apart
from txlab.tui.screens.tokens.token_layout import show_bytes, sign
from txlab.tui.widgets.page import Page
from txlab.tui.widgets.table import Column, Table

BRANCHES = 160  # lines of a tree to draw
NAMED = 4  # characters of a token to name


class DetailPanel(Panel):
    """The card of a token, and below it the number of tokens in each lane."""

    KEYS: ClassVar = (
        bind("up,shift+up", "card(-1)", "tree up", id="tokens.card-up", heading=MOVING, key_display="shift+up"),
        bind(
            "down,shift+down", "card(1)", "tree down", id="tokens.card-down", heading=MOVING, key_display="shift+down"
        ),
    )
    DEFAULT_CSS = "DetailPanel { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self.card = Page(id="card")
        self.lanes = Table(id="lanes")
        self.lanes.can_focus = False
        self.active = True

    def compose(self) -> ComposeResult:
        yield self.card
        yield Rule()
        yield self.lanes

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.active

    def action_card(self, by: int) -> None:
        self.card.scroll_lines(by)

    def show(self, document: TextDocument, lanes: Sequence[TokenLane], front: int, token: int, ascii: bool) -> None:
        self.card.say(card(document, lanes[front], token, ascii), home=True)
        columns = [Column("tokenizer", right=False), Column("tokens"), Column("B/token"), Column("/word")]
        rows = [
            [f"{place} {visible(lane.name, ascii)}", count(len(lane)), *per_token(document, lane)]
            for place, lane in enumerate(lanes, 1)
        ]
        self.lanes.set_table(columns, rows, marked=[front] if len(lanes) > 1 else [])


def ratio(value: float) -> str:
    """Format bytes per token or tokens per word: two decimals, "–" if undefined."""
    return "–" if value != value else f"{value:.2f}"


def per_token(document: TextDocument, lane: TokenLane) -> tuple[str, str]:
    """Return (bytes per token, tokens per word)."""
    size, tokens, words = len(document.data), len(lane), document.words
    return ratio(size / tokens if tokens else float("nan")), ratio(tokens / words if words else float("nan"))


def format_bytes(data: bytes, most: int = 48) -> str:
    """Return bytes as hexadecimal numbers."""
    return data[:most].hex(" ") + (" …" if len(data) > most else "")


def reach(start: int, stop: int) -> str:
    """Return `14 … 18` or `14`; a token without bytes has a position, too."""
    return f"{count(start)}" if stop - start <= 1 else f"{count(start)} … {count(stop - 1)}"


def card(document: TextDocument, lane: TokenLane, token: int, ascii: bool) -> Content:
    """Return everything about one token: its id, bytes, offsets, the merge that made it, and its tree."""
    if not len(lane):
        return Content.styled("The text is empty: press e to write, or paste one.", "$quiet")
    ident, start, stop = int(lane.ids[token]), lane.start(token), lane.stop(token)
    data = lane.data(document, token)
    label = show_bytes(data, ascii) if data else visible(lane.tokenizer.label(ident), ascii)
    rows = [("id", count(ident)), ("token", f"{count(token + 1)} of {count(len(lane))}")]
    rows.append(("bytes", format_bytes(data) if data else "none: half of a spelling"))
    rows.append(("at byte", reach(start, stop)))
    rows.append(("character", characters(document, start, stop)))
    tree: MergeTree | None = None
    if ident in lane.special:
        rows.append(("special", "a token of its own"))
    elif isinstance(lane.tokenizer, BytePairTokenizer):
        tree = merge_tree(lane.tokenizer, ident)
    if tree is not None and tree.rank is not None:
        times = f", found {count(tree.count)} times" if tree.count is not None else ""
        rows.append(("learnt as", f"merge {count(tree.rank)}{times}"))
    parts = [Content.styled(label + "\n", "bold $accent")]
    for name, value in rows:
        parts += [Content.styled(f"{name:<10}", "$quiet"), Content(value + "\n")]
    split = cut_off(document.data, start, stop, ascii)
    if split:
        split.append(why_unmerged(document, lane, token))
    for line in (*filter(None, split), *names_of(data)):
        parts.append(Content.styled(line + "\n", "$quiet"))
    if tree is not None and tree.left is not None:
        parts.append(Content.styled("\nmerge tree   merge, times found\n", "$quiet"))
        for branch, shown, note in tree_lines(tree, ascii):
            parts += [Content.styled(branch, "$rule"), Content(shown), Content.styled(f"  {note}\n", "$quiet")]
    return Content.assemble(*parts)


def characters(document: TextDocument, start: int, stop: int) -> str:
    """Return the range of a token's characters; "inside" a character if it is only part of it."""
    first, last = document.characters_at(start), document.characters_at(stop)
    inside = document.data[start : start + 1] and document.data[start] & 0xC0 == 0x80
    if inside:
        return f"inside {count(max(0, first - 1))}"
    return reach(first, max(first + 1, last))


def names_of(data: bytes) -> Iterator[str]:
    """Yield the Unicode names of non-ASCII characters and controls: U+0301 combining acute accent."""
    named = 0
    for character in data.decode(errors="ignore"):
        if "!" <= character <= "~" or character == " " or named >= NAMED:
            continue
        named += 1
        yield f"U+{ord(character):04X} {name_of(character)}"


def character_around(data: bytes, border: int) -> tuple[int, str]:
    """Return the first byte and the character that a border splits; "" where it splits none."""
    first = border
    while first > max(0, border - 3) and data[first : first + 1] and data[first] & 0xC0 == 0x80:
        first -= 1
    whole = data[first : first + 4].decode(errors="ignore")[:1]
    size = len(whole.encode())
    inside = first < border < first + size and data[first : first + size] == whole.encode()
    return (first, whole) if inside else (border, "")


def cut_off(data: bytes, start: int, stop: int, ascii: bool) -> list[str]:
    """Return the bytes of a character that a token has, if it splits one at its beginning or its end, and the code
    point's place in its grapheme: byte 1 of 4 of 👩 U+1F469 woman, code point 1 of 5 of …"""
    parts: list[str] = []
    for border in (start, stop):
        first, whole = character_around(data, border)
        if not whole:
            continue
        size = len(whole.encode())
        low, high = max(start, first) - first + 1, min(stop, first + size) - first
        which = f"byte {low}" if low == high else f"bytes {low}–{high}"
        part = f"{which} of {size} of {sign(whole, ascii)} U+{ord(whole):04X} {unicodedata.name(whole, '').lower()}"
        around, at = grapheme_at(data, first)
        if len(around) > 1:
            points = " ".join(sign(c, ascii) if c.isprintable() else f"U+{ord(c):04X}" for c in around)
            part += f", code point {at + 1} of {len(around)} of {points}"
        parts += [part] if part not in parts else []
    return parts


def grapheme_at(data: bytes, byte: int) -> tuple[str, int]:
    """Return the grapheme around the character that begins at this byte, and the index of that code point."""
    start, stop = grapheme_around(data, byte)
    return data[start:stop].decode(errors="ignore"), len(data[start:byte].decode(errors="ignore"))


def why_unmerged(document: TextDocument, lane: TokenLane, token: int) -> str:
    """Return why a token that splits a character did not grow: no merge of it and its neighbour was learnt."""
    tokenizer = lane.tokenizer
    if not isinstance(tokenizer, BytePairTokenizer):
        return ""
    whole = character_around(document.data, lane.stop(token))[1]
    left, right = (token, token + 1) if whole else (token - 1, token)
    if left < 0 or right >= len(lane):
        return ""
    pair = (int(lane.ids[left]), int(lane.ids[right]))
    names = " + ".join(tokenizer.token_bytes(each).hex(" ") for each in pair)
    cut = lane.start(right) in chunk_starts(document, tokenizer, lane.start(right))
    return f"{names}: " + ", ".join(why_apart(lane, left, cut))


def tree_lines(tree: MergeTree, ascii: bool = False, most: int = BRANCHES) -> list[tuple[str, str, str]]:
    """Return (branches, text of the node, its merge and how often it was found), from the root down.

    Uses its own stack: the tree of a token of five hundred bytes may be just as deep.
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
        lines.append((before, show_bytes(node.data, ascii), note))
        if node.left is not None and node.right is not None:
            stack.append((node.right, below + corner, below + "   "))
            stack.append((node.left, below + tee, below + wall))
    return lines


def brief(document: TextDocument, lanes: Sequence[TokenLane], front: int, token: int, ascii: bool) -> Content:
    """Return two lines that replace the side panel: the token under the cursor, and the lanes with their counts."""
    if not lanes:
        return Content("")
    lane = lanes[front]
    parts: list[Content] = []
    if len(lane):
        ident, start, stop = int(lane.ids[token]), lane.start(token), lane.stop(token)
        data = lane.data(document, token)
        split = [line.partition(", code point")[0] for line in cut_off(document.data, start, stop, ascii)]
        parts = [
            Content.styled(show_bytes(data, ascii) or visible(lane.tokenizer.label(ident), ascii), "bold $accent"),
            Content(f"  id {count(ident)}   {format_bytes(data, 12)}   byte {reach(start, stop)}"),
            Content.styled("".join(f"   {line}" for line in split[:1]), "$accent"),
            Content.styled(f"   token {count(token + 1)} of {count(len(lane))}", "$quiet"),
        ]
    parts.append(Content("\n"))
    for place, each in enumerate(lanes):
        words = f"{place + 1} {visible(each.name, ascii)}: {count(len(each))} tokens"
        parts.append(Content.styled(words, "bold" if place == front else ""))
        parts.append(Content.styled(f" {per_token(document, each)[0]} B/token   ", "$quiet"))
    return Content.assemble(*parts)
