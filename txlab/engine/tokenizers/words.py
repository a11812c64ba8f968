"""Words as tokens, and what stands between them, as seen in training (MATH K1).

Notable: a word is a run of letters, marks, digits and underscores, and what is between two words is one unit as well,
so the units of a text, joined, are the text. A unit that is not in the vocabulary falls back to its characters, and a
character that is not there to the hexadecimal digits of its bytes: nothing is unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
import regex

from txlab.engine.tokenizers.spelling import DIGITS, parts, spelled
from txlab.engine.tokenizers.tokenizer import Ids, legible, unknown_token, utf8
from txlab.errors import LabError

UNITS = regex.compile(r"[\p{L}\p{M}\p{N}_]+|[^\p{L}\p{M}\p{N}_]+")
INSIDE = regex.compile(r"[\p{L}\p{M}\p{N}_]")


class WordTokenizer:
    """V = 16 + the number of units; tokens 0 … 15 are the hexadecimal digits.

    >>> tokenizer = WordTokenizer.of("the cat the mouse")
    >>> [tokenizer.label(token) for token in tokenizer.encode("the cats")]
    ['the', ' ', 'c', 'a', 't', 's']
    """

    digits = 0  # the token of the first digit

    def __init__(self, units: Sequence[str]) -> None:
        """`units`: characters and units in the order of their ids, none twice; `of` makes them from a text."""
        if len(set(units)) < len(units) or "" in units:
            raise LabError("the units of a word tokenizer must be different texts, none of them empty")
        utf8("".join(units))
        self.units = tuple(units)

    @classmethod
    def of(cls, text: str, vocabulary: int | None = None) -> WordTokenizer:
        """The characters of `text` by code point, then its longer units, most frequent first, equals by code point.

        `vocabulary`: at most so many tokens; LabError if the digits and the characters alone are more.
        """
        characters = sorted(set(text))
        counts = Counter(unit for unit in UNITS.findall(text) if len(unit) > 1)
        longer = sorted(counts, key=lambda unit: (-counts[unit], unit))
        room = len(longer) if vocabulary is None else vocabulary - DIGITS - len(characters)
        if room < 0:
            raise LabError(
                f"a vocabulary of {vocabulary} is too small: the digits and the characters of the text are "
                f"{DIGITS + len(characters)} tokens"
            )
        return cls(characters + longer[:room])

    @property
    def vocabulary(self) -> int:
        return DIGITS + len(self.units)

    @cached_property
    def token_of(self) -> dict[str, int]:
        return {unit: DIGITS + i for i, unit in enumerate(self.units)}

    def encode(self, text: str) -> list[int]:
        utf8(text)
        return [token for _, tokens in self.stretches(text) for token in tokens]

    def encode_bytes(self, data: bytes) -> list[int]:
        return [token for _, tokens in self.stretches(data.decode(errors="surrogateescape")) for token in tokens]

    def encode_long(self, text: str) -> Ids:
        return np.array(self.encode(text), dtype=np.uint32)

    def safe_start(self, text: str, place: int) -> int:
        """The last place at or before `place` where a unit begins."""
        place = max(min(place, len(text) - 1), 0)
        while place > 0 and bool(INSIDE.match(text, place)) == bool(INSIDE.match(text, place - 1)):
            place -= 1
        return place

    def stretches(self, text: str, start: int = 0) -> Iterator[tuple[str, list[int]]]:
        """The units of a text with the tokens of each."""
        for match in UNITS.finditer(text, start):
            unit = match.group()
            token = self.token_of.get(unit)
            yield unit, self.fallen_back(unit) if token is None else [token]

    def fallen_back(self, unit: str) -> list[int]:
        ids: list[int] = []
        for character in unit:
            token = self.token_of.get(character)
            ids += spelled(character.encode(errors="surrogateescape")) if token is None else [token]
        return ids

    def token_bytes(self, token: int) -> bytes:
        """A digit token alone stands for no byte: b""."""
        if not 0 <= token < self.vocabulary:
            raise unknown_token(token, self.vocabulary)
        return self.units[token - DIGITS].encode() if token >= DIGITS else b""

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        return b"".join(parts(ids, self.token_bytes, self.digits))

    def decode(self, ids: Iterable[int]) -> str:
        return self.decode_bytes(ids).decode(errors="replace")

    def label(self, token: int) -> str:
        """A hexadecimal digit is shown as ⟨c⟩."""
        data = self.token_bytes(token)
        return legible(data) if token >= DIGITS else f"⟨{token:x}⟩"
