"""Byte pair encoding in its textbook form: train, encode, decode (MATH K2; Becker-Kahn §1.1).

All pairs are counted again before each merge, so a vocabulary of thousands takes hours on a megabyte. training.py
learns the same merges in seconds and byte_pairs.py produces the same tokens; both are tested against this file.
Source: Gage 1994; Sennrich et al. 2016, algorithm 1.

>>> merges = train(Counter(split("low lower lowest")), 260)
>>> [decode([token], merges) for token in encode("low slower", merges)]
['low', ' ', 's', 'low', 'e', 'r']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import regex

from txlab.engine.tokenizers.patterns import PATTERNS

Pair = tuple[int, int]


def split(text: str, pattern: str = "gpt4") -> list[bytes]:
    """The chunks that no merge may cross, as bytes.

    >>> split("Hello world's end", "gpt2")
    [b'Hello', b' world', b"'s", b' end']
    """
    return [chunk.encode() for chunk in regex.findall(PATTERNS[pattern], text)]


def count_pairs(words: Iterable[tuple[Sequence[int], int]]) -> Counter[Pair]:
    """How often each pair of symbols is adjacent, in words with their counts; "aaa" has (a, a) twice.

    >>> count_pairs([([1, 1, 1, 2], 1), ([1, 2], 5)])
    Counter({(1, 2): 6, (1, 1): 2})
    """
    counts: Counter[Pair] = Counter()
    for symbols, times in words:
        for pair in pairwise(symbols):
            counts[pair] += times
    return counts


def merge_pair(symbols: Sequence[int], pair: Pair, token: int) -> list[int]:
    """Replace every occurrence of the pair, from the left, by the token.

    >>> merge_pair([1, 1, 1, 2], (1, 1), 7)
    [7, 1, 2]
    """
    merged: list[int] = []
    i = 0
    while i < len(symbols):
        if i + 1 < len(symbols) and (symbols[i], symbols[i + 1]) == pair:
            merged.append(token)
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return merged


def train(chunks: Mapping[bytes, int], vocabulary: int) -> list[Pair]:
    """The merges, in order: (s, s′) = argmax count(s s′), s̃ = s s′, V ← V ∪ {s̃}, until |V| = vocabulary.

    Tokens 0 … 255 are the bytes, and merge r makes token 256 + r. Among equally frequent pairs the one with the lowest
    ids goes first; a pair that occurs once is not merged.
    """
    words = [(list(chunk), times) for chunk, times in chunks.items()]
    merges: list[Pair] = []
    while 256 + len(merges) < vocabulary:
        counts = count_pairs(words)
        best = min(counts, key=lambda pair: (-counts[pair], pair), default=None)
        if best is None or counts[best] < 2:
            break
        words = [(merge_pair(symbols, best, 256 + len(merges)), times) for symbols, times in words]
        merges.append(best)
    return merges


def encode(text: str, merges: Sequence[Pair], pattern: str = "gpt4") -> list[int]:
    """Apply all merges, in the order in which they were learnt, to each chunk."""
    ids: list[int] = []
    for chunk in split(text, pattern):
        symbols = list(chunk)
        for rank, pair in enumerate(merges):
            symbols = merge_pair(symbols, pair, 256 + rank)
        ids += symbols
    return ids


def decode(ids: Iterable[int], merges: Sequence[Pair]) -> str:
    """The text of the tokens; each token has the bytes of the two that it was merged from."""
    token_bytes = [bytes([byte]) for byte in range(256)]
    for left, right in merges:
        token_bytes.append(token_bytes[left] + token_bytes[right])
    return b"".join(token_bytes[token] for token in ids).decode(errors="replace")
