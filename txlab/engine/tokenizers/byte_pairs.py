"""Byte pair encoding over the 256 bytes: a splitting pattern, merges in rank order, special tokens (MATH K2).

Notable: tokens 0 … 255 are the bytes, token 256 + r is the merge of rank r, special tokens come last. A special token
is only made of text when the caller says so (`special=True`): text that a person typed must not forge one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import regex

from txlab.engine.tokenizers.fast import FastEncoder
from txlab.engine.tokenizers.merging import Pair, merge_chunk
from txlab.engine.tokenizers.patterns import chunks, compiled
from txlab.engine.tokenizers.tokenizer import Ids, legible, unknown_token, utf8
from txlab.engine.tokenizers.training import count_chunks, train
from txlab.errors import LabError


class BytePairTokenizer:
    """V = 256 + merges + special tokens.

    >>> BytePairTokenizer([(97, 97), (256, 98)]).encode("aaab aab")
    [256, 97, 98, 32, 257]
    """

    def __init__(self, merges: Sequence[Pair], pattern: str = "gpt4", special: Sequence[str] = ()) -> None:
        """Raises LabError for a merge of tokens that are not there yet, a pair merged twice, or an empty special."""
        compiled(pattern)
        self.merges = [(int(left), int(right)) for left, right in merges]
        self.pattern = pattern
        self.special = tuple(special)
        self.token_of: dict[Pair, int] = {}
        self.bytes_of = [bytes([byte]) for byte in range(256)]
        for rank, (left, right) in enumerate(self.merges):
            token = 256 + rank
            if not (0 <= left < token and 0 <= right < token):
                raise LabError(f"merge {rank} joins tokens {left} and {right}; only 0 … {token - 1} are there by then")
            if (left, right) in self.token_of:
                raise LabError(f"merge {rank} joins tokens {left} and {right}, which an earlier merge joined already")
            self.token_of[left, right] = token
            self.bytes_of.append(self.bytes_of[left] + self.bytes_of[right])
        if len(set(self.special)) < len(self.special) or "" in self.special:
            raise LabError("special tokens must be different texts, none of them empty")
        self.special_of = {text: len(self.bytes_of) + i for i, text in enumerate(self.special)}
        self.bytes_of += [utf8(text) for text in self.special]

    @classmethod
    def trained(
        cls, texts: Iterable[str], vocabulary: int, pattern: str = "gpt4", special: Sequence[str] = ()
    ) -> BytePairTokenizer:
        """Learn the merges from texts, up to `vocabulary` tokens in all, special ones included."""
        merges = train(count_chunks(texts, pattern, special), vocabulary - len(special))
        return cls(merges, pattern, special)

    @property
    def vocabulary(self) -> int:
        return len(self.bytes_of)

    def encode(self, text: str, special: bool = False) -> list[int]:
        """`special`: turn the texts of special tokens into these tokens, the longest first where several fit."""
        utf8(text)
        if not special or not self.special:
            return [
                token for chunk in chunks(text, self.pattern) for token in merge_chunk(chunk.encode(), self.token_of)
            ]
        ids: list[int] = []
        for part in self.special_cut.split(text):
            ids += [self.special_of[part]] if part in self.special_of else self.encode(part)
        return ids

    def encode_bytes(self, data: bytes) -> list[int]:
        """Bytes that are not UTF-8 are cut like symbols: surrogateescape carries them through the pattern."""
        return [
            token
            for chunk in chunks(data.decode(errors="surrogateescape"), self.pattern)
            for token in merge_chunk(chunk.encode(errors="surrogateescape"), self.token_of)
        ]

    def encode_long(self, text: str) -> Ids:
        return self.fast.encode(text) if len(text) > 10_000 else np.array(self.encode(text), dtype=np.uint32)

    def token_bytes(self, token: int) -> bytes:
        if not 0 <= token < self.vocabulary:
            raise unknown_token(token, self.vocabulary)
        return self.bytes_of[token]

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        return b"".join(map(self.token_bytes, ids))

    def decode(self, ids: Iterable[int]) -> str:
        return self.decode_bytes(ids).decode(errors="replace")

    def label(self, token: int) -> str:
        return legible(self.token_bytes(token))

    @cached_property
    def special_cut(self) -> regex.Pattern[str]:
        longest_first = sorted(self.special, key=len, reverse=True)
        return regex.compile("(" + "|".join(map(regex.escape, longest_first)) + ")")

    @cached_property
    def fast(self) -> FastEncoder:
        return FastEncoder(self.bytes_of[: 256 + len(self.merges)], self.token_of, self.pattern)
