"""Fast encoding of long texts: tiktoken with our own ranks, twice as fast as our own merging.

Notable: the ids must be those of our own merging, and that needs precautions. tiktoken merges any two neighbours that
form a known token; `tiktoken_ranks` explains how to turn that into our rule. Its regular expressions follow another
version of Unicode, so both engines must first be seen to classify characters outside ASCII alike; they have no time
limit, so only trusted patterns are used; and they fail on very long runs of spaces. Where any of this fails, our own
merging is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from typing import Protocol

import numpy as np
import regex
import tiktoken

from txlab.engine.tokenizers.bases import Base, Bytes
from txlab.engine.tokenizers.patterns import PATTERNS, TRUSTED, cut, expression
from txlab.engine.tokenizers.tokenizer import Ids, utf8

PART = 1 << 20
CLASS = regex.compile(r"\\[pP]\{[^}]*\}|\\[sSdDwW]")


class Merging(Protocol):
    """What is needed of the encoding that is imitated; see BytePairTokenizer."""

    pattern: str
    base: Base
    merges: list[tuple[int, int]]
    bytes_of: list[bytes]

    @property
    def in_order(self) -> bool: ...
    @property
    def first_rank(self) -> Mapping[int, int]: ...
    @property
    def whole_token(self) -> Mapping[bytes, int]: ...

    def last_rank(self, data: bytes) -> int: ...
    def merged(self, data: bytes) -> list[int]: ...
    def encode_chunk(self, data: bytes) -> list[int]: ...
    def stretches(self, text: str) -> Iterable[tuple[str, list[int]]]: ...


class FastEncoder:
    def __init__(self, tokenizer: Merging, ranks: dict[bytes, int] | None = None) -> None:
        """`ranks`: tiktoken's own, if the tokenizer was read from them; a rank is then the token."""
        self.tokenizer, self.given = tokenizer, ranks
        self.expression = expression(tokenizer.pattern)

    def encode(self, text: str) -> Ids:
        utf8(text)
        parts = [self.encode_part(part) for part in cut(text, self.tokenizer.pattern, PART)]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint32)

    def encode_part(self, text: str) -> Ids:
        if self.encoding is not None and same_classes(text, self.expression):
            try:
                return self.ids[self.encoding.encode_to_numpy(text, disallowed_special=())]
            except ValueError:  # its regular expression engine overflowed
                pass
        return self.encode_plainly(text)

    def encode_plainly(self, text: str) -> Ids:
        """Our own merges, each distinct chunk once."""
        ids: list[int] = []
        for _, tokens in self.tokenizer.stretches(text):
            ids += tokens
        return np.array(ids, dtype=np.uint32)

    @cached_property
    def ranks(self) -> dict[bytes, int] | None:
        return tiktoken_ranks(self.tokenizer) if self.given is None else self.given

    @cached_property
    def encoding(self) -> tiktoken.Encoding | None:
        """tiktoken with our ranks, or None if it could merge differently."""
        if self.ranks is None or self.tokenizer.pattern not in TRUSTED:
            return None
        return tiktoken.Encoding("txlab", pat_str=self.expression, mergeable_ranks=self.ranks, special_tokens={})

    @cached_property
    def ids(self) -> Ids:
        """Our token for each of tiktoken's ids."""
        table = np.zeros(max((self.ranks or {b"": 0}).values()) + 1, dtype=np.uint32)
        for data, rank in (self.ranks or {}).items():
            table[rank] = self.tokenizer.encode_chunk(data)[0] if self.given is None else rank
        return table


def tiktoken_ranks(tokenizer: Merging) -> dict[bytes, int] | None:
    """Bytes → rank, with which tiktoken produces the tokens of this encoding; None if no ranks do.

    A rank is the byte's value, or 256 + the rank of a merge. Why it works: as long as both ends of a stretch of bytes
    are symbol boundaries, the merges inside it are, in order, those of the stretch alone, whatever surrounds it. So two
    neighbours x y become the token T = xy only if T alone passes through x y, and its last merge is always the same.
    Tokens whose bytes alone merge into them get the rank of that merge. All others can never be made by merging and are
    left out, unless a whole chunk may be one: then they need a rank, and must not pass through two symbols, which
    tiktoken would join.
    """
    if not isinstance(tokenizer.base, Bytes):
        return None
    ranks = {bytes([byte]): byte for byte in range(256)}
    for token, rank in tokenizer.first_rank.items():
        data = tokenizer.bytes_of[token]
        if tokenizer.merged(data) == [token]:
            ranks[data] = 256 + (rank if tokenizer.in_order else tokenizer.last_rank(data))
    unused = 256 + len(tokenizer.merges)
    for data in tokenizer.whole_token:
        if data not in ranks:
            if len(tokenizer.merged(data)) < 3:
                return None
            ranks[data] = unused
            unused += 1
    return ranks


@cache
def probe(name: str) -> tiktoken.Encoding:
    """tiktoken drops text that its pattern does not match, so this encoding keeps only the characters of a class."""
    return tiktoken.Encoding(
        "class", pat_str=name, mergeable_ranks={bytes([byte]): byte for byte in range(256)}, special_tokens={}
    )


ALIKE: dict[str, set[str]] = {}  # for each class, the characters on which both engines were found to agree


def same_classes(text: str, pattern: str = PATTERNS["gpt4"]) -> bool:
    """Whether both regular expression engines agree on which of the pattern's classes these characters belong to.

    They agree on ASCII, which is not checked.
    """
    if text.isascii():
        return True
    characters = set(text)
    for name in sorted(set(CLASS.findall(pattern))):
        alike = ALIKE.setdefault(name, set(map(chr, range(128))))
        asked = "".join(sorted(characters - alike))
        if not asked:
            continue
        theirs = probe(name)
        if theirs.decode(theirs.encode(asked, disallowed_special=())) != "".join(regex.findall(name, asked)):
            return False
        alike.update(asked)
    return True
