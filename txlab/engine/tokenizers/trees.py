"""How a token grew out of bytes: the binary tree of its merges, and how a chunk found its tokens (MATH K2).

Notable: the tree belongs to the token, not to the text: a token always grew from the same merges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.merging import passes
from txlab.engine.tokenizers.patterns import chunks
from txlab.engine.tokenizers.tokenizer import utf8


@dataclass(frozen=True)
class MergeTree:
    """A token and the two that it was merged from; a byte and a special token have none.

    rank  which merge made it: 0 is the first; None for a byte or a special token
    """

    token: int
    data: bytes
    rank: int | None = None
    left: MergeTree | None = None
    right: MergeTree | None = None

    def leaves(self) -> Iterator[MergeTree]:
        """The bytes (or the one special token) from left to right."""
        if self.left is None or self.right is None:
            yield self
        else:
            yield from self.left.leaves()
            yield from self.right.leaves()

    def depth(self) -> int:
        """Merges from the root down to the deepest byte."""
        if self.left is None or self.right is None:
            return 0
        return 1 + max(self.left.depth(), self.right.depth())


@dataclass(frozen=True)
class ChunkMerges:
    """One chunk of a text: its bytes, and the symbols after each merge, the last of them its tokens."""

    chunk: str
    symbols: list[list[int]]

    @property
    def tokens(self) -> list[int]:
        return self.symbols[-1]


def merge_tree(tokenizer: BytePairTokenizer, token: int) -> MergeTree:
    """The tree of one token; LabError for an id outside the vocabulary."""
    data = tokenizer.token_bytes(token)
    rank = token - 256
    if not 0 <= rank < len(tokenizer.merges):
        return MergeTree(token, data)
    left, right = tokenizer.merges[rank]
    return MergeTree(token, data, rank, merge_tree(tokenizer, left), merge_tree(tokenizer, right))


def merges_of(tokenizer: BytePairTokenizer, text: str) -> list[ChunkMerges]:
    """How each chunk of a (short) text becomes tokens, merge by merge; the tokens are those of `encode`."""
    utf8(text)
    return [
        ChunkMerges(chunk, [list(chunk.encode()), *(now for _, now in passes(chunk.encode(), tokenizer.token_of))])
        for chunk in chunks(text, tokenizer.pattern)
    ]
