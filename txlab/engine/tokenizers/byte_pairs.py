"""Byte pair encoding: a base vocabulary, a splitting pattern, merges in rank order, special tokens (MATH K2).

Notable: learnt here, the base comes first, token base + r is the merge of rank r, special tokens come last; a file of
others may have given them any ids, with holes, and a hole stands for no bytes. A special token is only made of text
when the caller says so (`special=True`): text that a person typed must not forge one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import regex

from txlab.engine.tokenizers.bases import BYTES, MOST_TOKENS, Base
from txlab.engine.tokenizers.fast import FastEncoder
from txlab.engine.tokenizers.merging import Pair, merge_chunk, passes
from txlab.engine.tokenizers.patterns import chunks, compiled, safe_start
from txlab.engine.tokenizers.spelling import parts
from txlab.engine.tokenizers.tokenizer import Ids, legible, unknown_token, utf8
from txlab.errors import LabError

# A pair can double the length of a token, so sixty merges could ask for 2^60 bytes. OpenAI's longest tokens are 128.
LONGEST_TOKEN = 2048
ALL_TOKENS = 16 << 20


class BytePairTokenizer:
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
    ) -> None:
        """Raises LabError for whatever does not fit together, in one sentence.

        counts  how often each pair was found when it was merged, where that is known
        ids     the token of each merge, where they do not simply follow the base
        tokens  what is known of the bytes of tokens: of those that no merge makes (they are `loose`), or not yet
        whole   a chunk that is, as a whole, the bytes of a token becomes this token without any merging
        """
        compiled(pattern)
        self.base: Base = base or BYTES
        self.merges = [(int(left), int(right)) for left, right in merges]
        self.pattern = pattern
        self.counts = tuple(counts)
        self.whole = whole
        self.spelt = dict(tokens or {})
        start = self.base.after
        self.made = list(range(start, start + len(self.merges))) if ids is None else list(ids)
        if len(self.made) != len(self.merges):
            raise LabError(f"there are {len(self.merges)} merges and {len(self.made)} ids of theirs")
        if self.counts and len(self.counts) != len(self.merges):
            raise LabError(f"there are {len(self.merges)} merges and the counts of {len(self.counts)}")
        self.given = special if isinstance(special, Mapping) else self.placed(special)
        self.special_of: dict[str, int] = dict(self.base.special) | dict(self.given)
        self.special = tuple(self.special_of)
        if "" in self.special or len(self.special_of) != len(self.base.special) + len(self.given):
            raise LabError("special tokens must be different texts, none of them empty")
        self.bytes_of = self.vocabulary_bytes()
        self.ranks: dict[Pair, int] = {}
        for rank, pair in enumerate(self.merges):
            if self.ranks.setdefault(pair, rank) != rank:
                raise LabError(
                    f"merge {rank} joins tokens {pair[0]} and {pair[1]}, which an earlier merge joined already"
                )

    def placed(self, special: Sequence[str]) -> dict[str, int]:
        """The ids of special tokens that follow all others."""
        first = max([self.base.after - 1, *self.made, *self.spelt]) + 1
        placed = {text: first + i for i, text in enumerate(special)}
        if len(placed) < len(special):
            raise LabError("special tokens must be different texts, none of them empty")
        return placed

    def vocabulary_bytes(self) -> list[bytes]:
        """The bytes of each id, checked: nothing contradicts, nothing is beyond what any text would need."""
        spelt: dict[int, bytes] = dict(self.base.tokens)
        for token, data in self.spelt.items():
            if spelt.get(token) != data:
                spelt[claimed(token, spelt)] = data
        room = ALL_TOKENS
        for rank, ((left, right), token) in enumerate(zip(self.merges, self.made, strict=True)):
            if left not in spelt or right not in spelt:
                there = (
                    f"only 0 … {token - 1} are there by then" if token == self.base.after + rank else "one is not there"
                )
                raise LabError(f"merge {rank} joins tokens {left} and {right}; {there}")
            if min(left, right) < self.base.fixed:
                raise LabError(f"merge {rank} joins tokens {left} and {right}, of which one never merges")
            size = len(spelt[left]) + len(spelt[right])
            room -= size
            if size > LONGEST_TOKEN or room < 0:
                raise LabError(f"merge {rank} makes a token of {size} bytes; that is beyond any text")
            data = spelt[left] + spelt[right]
            if spelt.get(token) != data:
                spelt[claimed(token, spelt)] = data
        for text, token in self.special_of.items():
            spelt[claimed(token, spelt)] = utf8(text)
        return [spelt.get(token, b"") for token in range(max(spelt) + 1)]

    @classmethod
    def trained(
        cls,
        texts: Iterable[str],
        vocabulary: int,
        pattern: str = "gpt4",
        special: Sequence[str] = (),
        base: Base | None = None,
    ) -> BytePairTokenizer:
        """Learn the merges from texts, up to `vocabulary` tokens in all, special ones included."""
        from txlab.engine.tokenizers.training import count_chunks, trained  # which makes tokenizers of this kind

        cut_out = [*(base.special if base else ()), *special]
        return trained(count_chunks(texts, pattern, cut_out), vocabulary - len(special), base).tokenizer(
            pattern, special
        )

    @property
    def vocabulary(self) -> int:
        return len(self.bytes_of)

    @property
    def digits(self) -> int | None:
        """The token of the first of sixteen spelling digits, if the base has them."""
        return self.base.digits

    @cached_property
    def token_of(self) -> dict[Pair, int]:
        return {pair: self.made[rank] for pair, rank in self.ranks.items()}

    @cached_property
    def first_rank(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for rank, token in enumerate(self.made):
            found.setdefault(token, rank)
        return found

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
        """Each merge joins what the base or earlier merges made; so it is in every encoding that was learnt."""
        return all(
            self.first_rank.get(part, -1) < rank and (part in self.first_rank or part in self.base.tokens)
            for rank, pair in enumerate(self.merges)
            for part in pair
        ) and len(self.first_rank) == len(self.made)

    @cached_property
    def whole_token(self) -> dict[bytes, int]:
        """The tokens that a whole chunk may become without merging."""
        if not self.whole:
            return {}
        special = set(self.special_of.values())
        return {data: token for token, data in enumerate(self.bytes_of) if data and token not in special}

    def simplified(self) -> BytePairTokenizer:
        """The same, told as one of ours where it is laid out like one: what follows from the merges is not kept."""
        after = self.base.after
        if self.loose or self.whole or not self.in_order or self.made != list(range(after, after + len(self.merges))):
            return self
        special = self.given if self.given != self.placed(list(self.given)) else list(self.given)
        return BytePairTokenizer(self.merges, self.pattern, special, base=self.base, counts=self.counts)

    def alone(self, data: bytes) -> int:
        """The one token that these bytes become as a chunk."""
        return self.encode_chunk(data)[0]

    def last_rank(self, data: bytes) -> int:
        """The rank of the last merge of these bytes as a chunk; −1 if nothing merges."""
        last = -1
        for _, last, _ in passes(self.base.symbols(data), self.ranks, self.made, together=False):  # noqa: B007
            pass
        return last

    def encode_chunk(self, data: bytes) -> list[int]:
        """The tokens of the bytes of one chunk."""
        if (token := self.whole_token.get(data)) is not None:
            return [token]
        return merge_chunk(self.base.symbols(data), self.ranks, self.made)

    def encode(self, text: str, special: bool = False) -> list[int]:
        """`special`: turn the texts of special tokens into these tokens, the longest first where several fit."""
        utf8(text)
        ids: list[int] = []
        if not special or not self.special:
            for _, tokens in self.stretches(text):
                ids += tokens
            return ids
        for part in self.special_cut.split(text):
            ids += [self.special_of[part]] if part in self.special_of else self.encode(part)
        return ids

    def encode_bytes(self, data: bytes) -> list[int]:
        """Bytes that are not UTF-8 are cut like symbols: surrogateescape carries them through the pattern."""
        return [token for _, tokens in self.stretches(data.decode(errors="surrogateescape")) for token in tokens]

    def safe_start(self, text: str, place: int) -> int:
        """A place at or before `place` from which the stretches are those of the whole text."""
        return safe_start(text, self.pattern, place)

    def stretches(self, text: str, start: int = 0) -> Iterator[tuple[str, list[int]]]:
        """The chunks of a text with the tokens of each; every distinct chunk is merged once."""
        known: dict[str, list[int]] = {}
        for chunk in chunks(text, self.pattern, start):
            tokens = known.get(chunk)
            if tokens is None:
                tokens = known[chunk] = self.encode_chunk(chunk.encode(errors="surrogateescape"))
            yield chunk, tokens

    def encode_long(self, text: str) -> Ids:
        return self.fast.encode(text) if len(text) > 10_000 else np.array(self.encode(text), dtype=np.uint32)

    def token_bytes(self, token: int) -> bytes:
        if not 0 <= token < self.vocabulary:
            raise unknown_token(token, self.vocabulary)
        return self.bytes_of[token]

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        return b"".join(parts(ids, self.token_bytes, self.digits))

    def decode(self, ids: Iterable[int]) -> str:
        return self.decode_bytes(ids).decode(errors="replace")

    def label(self, token: int) -> str:
        """A hexadecimal digit that spells is shown as ⟨c⟩."""
        data = self.token_bytes(token)
        if self.digits is not None and self.digits <= token < self.digits + 16:
            return f"⟨{token - self.digits:x}⟩"
        return legible(data)

    @cached_property
    def special_cut(self) -> regex.Pattern[str]:
        longest_first = sorted(self.special, key=len, reverse=True)
        return regex.compile("(" + "|".join(map(regex.escape, longest_first)) + ")")

    @cached_property
    def fast(self) -> FastEncoder:
        return FastEncoder(self)


def claimed(token: int, spelt: Mapping[int, bytes]) -> int:
    """An id for a token that has none yet; LabError if it is another's, or no id that any vocabulary reaches."""
    if not 0 <= token < MOST_TOKENS:
        raise LabError(f"token id {token} is out of bounds; allowed: 0 … {MOST_TOKENS - 1}")
    if token in spelt:
        raise LabError(f"two different tokens have the id {token}")
    return token
