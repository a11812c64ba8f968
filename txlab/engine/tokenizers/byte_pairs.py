"""Byte pair encoding: a base vocabulary, a splitting pattern, merges in rank order, special tokens (MATH K2).

A text is cut into chunks, and in each chunk the pair of lowest rank is merged until none is left: `merge_chunk`.
In an encoding learnt here, the base comes first, token base + r is the merge of rank r, and special tokens come last; a
file from elsewhere may assign any ids and leave holes, which stand for no bytes. Text becomes a special token only if
the caller asks for it (`special=True`): typed text must not produce one. Added tokens that are not special are cut out
of every text. plain.py has the algorithm alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush

import numpy as np
import tiktoken

from txlab.engine.tokenizers.added_tokens import AddedToken, AddedTokens
from txlab.engine.tokenizers.bases import BYTES, MOST_TOKENS, Base, Bytes
from txlab.engine.tokenizers.patterns import TRUSTED, chunks, compile_pattern, cut, expression, same_classes
from txlab.engine.tokenizers.plain import Pair
from txlab.engine.tokenizers.tokenizer import Ids, Tokenizer, legible, unknown_token, utf8
from txlab.errors import LabError

# A pair can double the length of a token, so sixty merges could ask for 2^60 bytes. OpenAI's longest tokens are 128.
LONGEST_TOKEN = 2048
ALL_TOKENS = 16 << 20
# The characters of a token: all of them; without the spaces around it; the same, but a space before the text is kept.
OFFSETS = ("whole", "trimmed", "trimmed after a prefix")
# Up to this many symbols the passes are faster than the heap (measured: 20 µs against 25 µs at 24 symbols).
SHORT = 24
NO_RANK = 1 << 62
PART = 1 << 20  # characters that tiktoken is given at a time


def passes(symbols: Sequence[int], ranks: Mapping[Pair, int], made: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """The merges of one chunk as they happen, lowest rank first, the leftmost of equals: the rank, and the symbols
    afterwards."""
    now = list(symbols)
    while len(now) > 1:
        ranked = list(map(ranks.get, itertools.pairwise(now), itertools.repeat(NO_RANK)))
        rank = min(ranked)
        if rank == NO_RANK:
            return
        place = ranked.index(rank)
        now = [*now[:place], made[rank], *now[place + 2 :]]
        yield rank, now


def merge_chunk(symbols: Sequence[int], ranks: Mapping[Pair, int], made: Sequence[int]) -> list[int]:
    """The tokens of one chunk: the pair of lowest rank is merged again and again, the leftmost of equals first."""
    if len(symbols) > SHORT:
        return by_heap(symbols, ranks, made)
    now = list(symbols)
    while len(now) > 1:  # as in `passes`, without a copy for each merge
        ranked = list(map(ranks.get, itertools.pairwise(now), itertools.repeat(NO_RANK)))
        rank = min(ranked)
        if rank == NO_RANK:
            break
        place = ranked.index(rank)
        now[place : place + 2] = [made[rank]]
    return now


def by_heap(symbols: Sequence[int], ranks: Mapping[Pair, int], made: Sequence[int]) -> list[int]:
    """The same tokens in n log n: a heap of (rank, place) over a linked list, the leftmost of equals first."""
    now: list[int] = list(symbols)  # −1: merged into its left neighbour
    count = len(now)
    following = list(range(1, count + 1))
    previous = list(range(-1, count - 1))
    heap = [
        (rank, place) for place, pair in enumerate(itertools.pairwise(now)) if (rank := ranks.get(pair)) is not None
    ]
    heapify(heap)
    while heap:
        rank, place = heappop(heap)
        right = following[place]
        if now[place] < 0 or right >= count or ranks.get((now[place], now[right])) != rank:
            continue  # an earlier merge took one of the two
        token = now[place] = made[rank]
        now[right] = -1
        after = following[place] = following[right]
        if after < count:
            previous[after] = place
            if (candidate := ranks.get((token, now[after]))) is not None:
                heappush(heap, (candidate, place))
        before = previous[place]
        if before >= 0 and (candidate := ranks.get((now[before], token))) is not None:
            heappush(heap, (candidate, before))
    return [symbol for symbol in now if symbol >= 0]


class BytePairTokenizer(Tokenizer):
    """V = base + merges + special tokens (+ holes).

    >>> BytePairTokenizer([(97, 97), (256, 98)]).encode("aaab aab")
    [256, 97, 98, 32, 257]
    """

    def __init__(
        self,
        merges: Sequence[Pair],
        pattern: str = "gpt4",
        special: Sequence[str] | Mapping[str, int] = (),
        *,
        base: Base | None = None,
        counts: Sequence[int] = (),
        ids: Sequence[int] | None = None,
        tokens: Mapping[int, bytes] | None = None,
        whole: bool = False,
        added: Sequence[AddedToken] = (),
        offsets: str = "whole",
    ) -> None:
        """Raises LabError, in one sentence, if the arguments are inconsistent.

        counts  how often each pair occurred when it was merged, if known
        ids     the token of each merge, if they do not simply follow the base
        tokens  bytes of tokens that no merge makes (the `loose` ones) or that are used before the merge that makes them
        whole   a chunk with exactly the bytes of a token becomes this token without any merging
        added   further tokens that are cut out of a text before it is split, with flags that `special` lacks
        offsets one of OFFSETS: which characters a token is reported to cover
        """
        compile_pattern(pattern)
        self.base: Base = base or BYTES
        self.merges = [(int(left), int(right)) for left, right in merges]
        self.pattern = pattern
        self.counts = tuple(counts)
        self.whole = whole
        self.spelt = dict(tokens or {})
        start = self.base.after
        self.made = list(range(start, start + len(self.merges))) if ids is None else list(ids)
        if len(self.made) != len(self.merges):
            raise LabError(f"there are {len(self.merges)} merges but {len(self.made)} ids for them")
        if self.counts and len(self.counts) != len(self.merges):
            raise LabError(f"there are {len(self.merges)} merges but {len(self.counts)} counts")
        self.added = tuple(added)
        if offsets not in OFFSETS:
            raise LabError(f"offsets = {str(offsets)[:40]!r} is not known; allowed: {', '.join(OFFSETS)}")
        self.offsets = offsets
        self.given = special if isinstance(special, Mapping) else self.place_special(special)
        plain = dict(self.base.special) | dict(self.given)
        if "" in plain or len(plain) != len(self.base.special) + len(self.given):
            raise LabError("special tokens must be different texts, none of them empty")
        if twice := [token.content for token in self.added if token.content in plain]:
            raise LabError(f"the added token {twice[0]!r} is listed twice")
        self.added_tokens = AddedTokens([*(AddedToken(name, token) for name, token in plain.items()), *self.added])
        self.special_of = plain | {token.content: token.id for token in self.added if token.special}
        self.special = tuple(self.special_of)
        self.bytes_of = self.vocabulary_bytes()
        self.ranks: dict[Pair, int] = {}
        for rank, pair in enumerate(self.merges):
            if self.ranks.setdefault(pair, rank) != rank:
                raise LabError(
                    f"merge {rank} joins tokens {pair[0]} and {pair[1]}, which an earlier merge joined already"
                )

    def place_special(self, special: Sequence[str]) -> dict[str, int]:
        """The ids of special tokens when they follow all others."""
        first = max([self.base.after - 1, *self.made, *self.spelt, *(token.id for token in self.added)]) + 1
        placed = {text: first + i for i, text in enumerate(special)}
        if len(placed) < len(special):
            raise LabError("special tokens must be different texts, none of them empty")
        return placed

    def vocabulary_bytes(self) -> list[bytes]:
        """The bytes of each id; raises LabError for contradictions and for tokens longer than any text needs."""
        spelt: dict[int, bytes] = dict(self.base.tokens)
        for token, data in self.spelt.items():
            if spelt.get(token) != data:
                spelt[claim_id(token, spelt)] = data
        room = ALL_TOKENS
        for rank, ((left, right), token) in enumerate(zip(self.merges, self.made, strict=True)):
            if left not in spelt or right not in spelt:
                there = f"only 0 … {token - 1} exist by then" if token == self.base.after + rank else "one is not there"
                raise LabError(f"merge {rank} joins tokens {left} and {right}; {there}")
            if min(left, right) < self.base.fixed:
                raise LabError(f"merge {rank} joins tokens {left} and {right}, of which one never merges")
            size = len(spelt[left]) + len(spelt[right])
            room -= size
            if size > LONGEST_TOKEN or room < 0:
                raise LabError(f"merge {rank} makes a token of {size} bytes; that is beyond any text")
            data = spelt[left] + spelt[right]
            if spelt.get(token) != data:
                spelt[claim_id(token, spelt)] = data
        ordinary = set(spelt)
        for added in self.added_tokens.tokens:
            # An added token that is also in the vocabulary keeps its bytes.
            if added not in self.added or added.id not in ordinary:
                spelt[claim_id(added.id, spelt)] = utf8(added.content)
        return [spelt.get(token, b"") for token in range(max(spelt) + 1)]

    @property
    def vocabulary(self) -> int:
        return len(self.bytes_of)

    @property
    def digits(self) -> int | None:
        """The token of the first of the sixteen spelling digits, if the base has them."""
        return self.base.digits

    @cached_property
    def first_rank(self) -> dict[int, int]:
        ranks: dict[int, int] = {}
        for rank, token in enumerate(self.made):
            ranks.setdefault(token, rank)
        return ranks

    def rank_of(self, token: int) -> int | None:
        """The (lowest) rank of the merges that make this token; None for the base, special and loose tokens."""
        return self.first_rank.get(token)

    @cached_property
    def loose(self) -> dict[int, bytes]:
        """Tokens that no merge makes."""
        made = {*self.base.tokens, *self.made}
        return {token: data for token, data in self.spelt.items() if token not in made}

    @cached_property
    def in_order(self) -> bool:
        """Whether each merge joins base or earlier tokens, as in every encoding that was learnt."""
        return all(
            self.first_rank.get(part, -1) < rank and (part in self.first_rank or part in self.base.tokens)
            for rank, pair in enumerate(self.merges)
            for part in pair
        ) and len(self.first_rank) == len(self.made)

    @cached_property
    def ordinary(self) -> frozenset[int]:
        """The tokens of the vocabulary itself, without those that are only added tokens."""
        return frozenset((*self.base.tokens, *self.made, *self.spelt))

    @cached_property
    def whole_token(self) -> dict[bytes, int]:
        """The tokens that a whole chunk may become without merging."""
        if not self.whole:
            return {}
        return {data: token for token, data in enumerate(self.bytes_of) if data and token in self.ordinary}

    def simplify(self) -> BytePairTokenizer:
        """The same encoding without the ids and bytes that follow from the merges, if it is laid out like our own."""
        after = self.base.after
        if self.loose or self.whole or not self.in_order or self.made != list(range(after, after + len(self.merges))):
            return self
        special = self.given if self.given != self.place_special(list(self.given)) else list(self.given)
        if not self.spelt:
            return self
        return BytePairTokenizer(
            self.merges, self.pattern, special, base=self.base, counts=self.counts, added=self.added,
            offsets=self.offsets,
        )  # fmt: skip

    def last_rank(self, data: bytes) -> int:
        """The rank of the last merge when these bytes are a chunk; −1 if nothing merges."""
        last = -1
        for last, _ in passes(self.base.symbols(data), self.ranks, self.made):  # noqa: B007
            pass
        return last

    def encode_chunk(self, data: bytes) -> list[int]:
        """The tokens of the bytes of one chunk."""
        if (token := self.whole_token.get(data)) is not None:
            return [token]
        return self.merge_bytes(data)

    def merge_bytes(self, data: bytes) -> list[int]:
        """The tokens of these bytes by merging alone, ignoring `whole`."""
        return merge_chunk(self.base.symbols(data), self.ranks, self.made)

    def encode(self, text: str, special: bool = False) -> list[int]:
        """`special`: turn the texts of special tokens into these tokens, the longest first where several fit."""
        utf8(text)
        return self.encode_parts(text, special)

    def encode_parts(self, text: str, special: bool) -> list[int]:
        ids: list[int] = []
        for start, stop, token in self.added_tokens.cut(text, special):
            if token is not None:
                ids.append(token)
                continue
            for _, tokens in self.stretches(text[start:stop]):
                ids += tokens
        return ids

    def encode_bytes(self, data: bytes) -> list[int]:
        """The tokens of any bytes; those that are not UTF-8 pass through the pattern as surrogateescape symbols."""
        return self.encode_parts(data.decode(errors="surrogateescape"), False)

    def stretches(self, text: str) -> Iterator[tuple[str, list[int]]]:
        """The chunks of a text without added tokens, each with its tokens; every distinct chunk is merged once."""
        known: dict[str, list[int]] = {}
        for chunk in chunks(text, self.pattern):
            tokens = known.get(chunk)
            if tokens is None:
                tokens = known[chunk] = self.encode_chunk(chunk.encode(errors="surrogateescape"))
            yield chunk, tokens

    def encode_long(self, text: str) -> Ids:
        if len(text) <= 10_000:
            return np.array(self.encode(text), dtype=np.uint32)
        utf8(text)
        parts = [
            self.fast.encode(text[start:stop]) if token is None else np.array([token], dtype=np.uint32)
            for start, stop, token in self.added_tokens.cut(text, False)
        ]
        return np.concatenate(parts)

    def token_bytes(self, token: int) -> bytes:
        if not 0 <= token < self.vocabulary:
            raise unknown_token(token, self.vocabulary)
        return self.bytes_of[token]

    def label(self, token: int) -> str:
        """The token as text; a spelling digit is shown as ⟨c⟩."""
        data = self.token_bytes(token)
        if self.digits is not None and self.digits <= token < self.digits + 16:
            return f"⟨{token - self.digits:x}⟩"
        return legible(data)

    @cached_property
    def fast(self) -> FastEncoder:
        return FastEncoder(self)


class FastEncoder:
    """Long texts through tiktoken with our own ranks, twice as fast as our own merging.

    Notable: the ids must be those of our own merging, and that needs precautions. tiktoken merges any two neighbours
    that form a known token; `tiktoken_ranks` explains how to turn that into our rule. Its regular expressions have no
    time limit, so only trusted patterns are used; they must be seen to class the characters of a text as ours do
    (`same_classes`); and they fail on very long runs of spaces. Where any of this fails, our own merging is used.
    """

    def __init__(self, tokenizer: BytePairTokenizer, ranks: dict[bytes, int] | None = None) -> None:
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


def tiktoken_ranks(tokenizer: BytePairTokenizer) -> dict[bytes, int] | None:
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
        if tokenizer.merge_bytes(data) == [token]:
            ranks[data] = 256 + (rank if tokenizer.in_order else tokenizer.last_rank(data))
    unused = 256 + len(tokenizer.merges)
    for data in tokenizer.whole_token:
        if data not in ranks:
            if len(tokenizer.merge_bytes(data)) < 3:
                return None
            ranks[data] = unused
            unused += 1
    return ranks


def claim_id(token: int, spelt: Mapping[int, bytes]) -> int:
    """The id, if it is free; raises LabError if another token has it or no vocabulary is that large."""
    if not 0 <= token < MOST_TOKENS:
        raise LabError(f"token id {token} is out of bounds; allowed: 0 … {MOST_TOKENS - 1}")
    if token in spelt:
        raise LabError(f"two different tokens have the id {token}")
    return token
