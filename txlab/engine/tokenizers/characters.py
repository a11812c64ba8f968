"""Why a character is one token or several: its code points, their bytes, and the merges among them (MATH K1, K2)."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

import regex

from txlab.engine.explain import Explaining, Explanation
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.plain import Pair
from txlab.engine.tokenizers.tokenizer import Tokenizer
from txlab.engine.tokenizers.trees import MergeTree, merge_tree

NEARBY = 96  # bytes before and after a byte in which its grapheme is searched
MOST = 24  # code points, merges or missing merges that are listed
CONTROLS = {"\n": "line feed", "\t": "tab", "\r": "carriage return", "\0": "null"}
CATEGORIES = {"Cn": "unassigned", "Co": "private use", "Cc": "control"}


def grapheme_around(data: bytes, byte: int) -> tuple[int, int]:
    """The first byte of the grapheme (what a reader sees as one character) that has this byte, and the one after its
    last. A byte that is not UTF-8 is one by itself.

    >>> grapheme_around("a é!".encode(), 2), grapheme_around("é".encode()[:1], 0)
    ((2, 4), (0, 1))
    """
    place = max(0, byte - NEARBY)
    while place > 0 and place > byte - NEARBY - 3 and data[place] & 0xC0 == 0x80:
        place -= 1
    for grapheme in regex.finditer(r"\X", data[place : byte + NEARBY].decode(errors="surrogateescape")):
        start, place = place, place + len(grapheme.group().encode(errors="surrogateescape"))
        if place > byte:
            return start, place
    return len(data), len(data)


def name_of(character: str) -> str:
    """The Unicode name of a code point, in small letters; what kind it is if it has none."""
    name = CONTROLS.get(character) or unicodedata.name(character, "").lower()
    return name or CATEGORIES.get(unicodedata.category(character), "")


def why_no_merge(tokenizer: BytePairTokenizer, pair: Pair, corpus: bytes | None, cut: bool = False) -> tuple[str, str]:
    """Why two tokens next to each other were not merged: the fact, and what it comes from.

    corpus  the text that the tokenizer was learnt from, None if it is not known
    cut     whether the pattern cuts the text between them
    """
    rank = tokenizer.ranks.get(pair)
    if cut:
        return "cut apart", "the pattern cuts the text here; no merge crosses it"
    if rank is not None:
        return f"merge {rank}", "but an earlier merge took bytes of theirs"
    if corpus is None:
        return "never learnt", "its training text is not known here"
    times = corpus.count(b"".join(map(tokenizer.token_bytes, pair)))
    last = tokenizer.counts[-1] if tokenizer.counts else 0
    if not times:
        return "never learnt", "not once in the training text"
    if times < last:
        return "never learnt", f"too rare: {times} times; the last merge, {last}"
    return "never learnt", f"found {times} times, but other merges came first"


def explain_character(
    tokenizer: Tokenizer,
    data: bytes,
    ids: Sequence[int],
    corpus: bytes | None = None,
    cuts: Collection[int] = (),
) -> Explanation:
    """Why a grapheme is as many tokens as it is: tokens = symbols of the base − merges.

    data    its bytes
    ids     the tokens that have them, in order; the first and the last may have bytes of its neighbours too
    corpus  the text that the tokenizer was learnt from, None if it is not known
    cuts    i where the pattern cuts the text between ids[i − 1] and ids[i]
    """
    points = data.decode(errors="surrogateescape")
    glyph = " ".join(label_of(each) for each in points[:MOST]) + (" …" if len(points) > MOST else "")
    several = "s" if len(ids) != 1 else ""
    why = Explaining(f"why {'is' if len(points) == 1 else 'are'} {glyph} {len(ids)} token{several}?", len(ids))
    for each in points[:MOST]:
        label, spelt = label_of(each), each.encode(errors="surrogateescape")
        code = "not UTF-8" if "\udc80" <= each <= "\udcff" else f"U+{ord(each):04X}"
        named, size = name_of(each), f"{len(spelt)} byte{'s' * (len(spelt) > 1)}: {spelt.hex(' ')}"
        why.input(label, named if label == code else code, size if label == code else f"{named}, {size}")
    if len(points) > MOST:
        why.input("…", f"{len(points) - MOST} code points more")
    if not isinstance(tokenizer, BytePairTokenizer):
        why.equation("text → UTF-8 bytes → tokens → ids", "K1", "RFC 3629; Becker-Kahn §1.1")
        why.measurement("tokens", f"{type(tokenizer).__name__.removesuffix('Tokenizer').lower()}: nothing is merged")
        return why.result()
    why.equation("(s, s′) = argmax count(s s′), s̃ = s s′, V ← V ∪ {s̃}", "K2", "Sennrich et al. 2016, algorithm 1")
    trees = [merge_tree(tokenizer, each) for each in ids]
    learnt = list(merges_of(trees))
    for node in learnt[:MOST]:
        assert node.left is not None
        assert node.right is not None
        times = "" if node.count is None else f", found {node.count} times"
        parts = f"{node.left.data.hex(' ')} + {node.right.data.hex(' ')}"
        why.step(parts, "", f"token {node.token}", f"merge {node.rank}{times}")
    missing: dict[tuple[Pair, bool], None] = {}
    for at, pair in enumerate(pairwise(ids), 1):
        missing.setdefault(((int(pair[0]), int(pair[1])), at in cuts))
    for (one, other), cut in list(missing)[:MOST]:
        left, right = (tokenizer.token_bytes(each).hex(" ") for each in (one, other))
        why.step(f"{left} + {right}", "", *why_no_merge(tokenizer, (one, other), corpus, cut))
    if len(learnt) > MOST or len(missing) > MOST:
        why.step("…", "", f"{max(len(learnt), len(missing)) - MOST} more")
    symbols = sum(1 for tree in trees for _ in tree.leaves())
    unit = "bytes" if symbols == sum(len(tree.data) for tree in trees) else "symbols"
    merge = "merge" if symbols - len(ids) == 1 else "merges"
    why.compute("tokens", f"{{}} {unit} − {{}} {merge}", lambda a, b: a - b, symbols, symbols - len(ids))
    return why.result()


def label_of(point: str) -> str:
    """A code point as a name: itself if it can be seen alone, else U+200D."""
    if "\udc80" <= point <= "\udcff":
        return f"\\x{ord(point) - 0xDC00:02x}"
    if unicodedata.category(point) in ("Mn", "Me", "Mc"):
        return "◌" + point
    return point if point.isprintable() and point != " " else f"U+{ord(point):04X}"


def merges_of(trees: Sequence[MergeTree]) -> Iterator[MergeTree]:
    """The distinct merges of some tokens, in the order in which they were learnt."""
    known = {node.token: node for tree in trees for node in tree.nodes() if node.left is not None}
    yield from sorted(known.values(), key=lambda node: node.rank or 0)
