"""Words as tokens, and what stands between them, as seen in training (MATH K1).

Notable: a word is a run of letters, marks, digits and underscores, and what is between two words is one unit as well,
so the units of a text, joined, are the text. A unit that is not in the vocabulary falls back to its characters, and a
character that is not there to the hexadecimal digits of its bytes: nothing is unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import regex

from txlab.engine.tokenizers.spelling import DIGITS, TextVocabulary
from txlab.engine.tokenizers.tokenizer import Ids, utf8
from txlab.errors import LabError

UNITS = regex.compile(r"[\p{L}\p{M}\p{N}_]+|[^\p{L}\p{M}\p{N}_]+")
INSIDE = regex.compile(r"[\p{L}\p{M}\p{N}_]")


class WordTokenizer(TextVocabulary):
    """V = 16 + the number of units; tokens 0 … 15 are the hexadecimal digits.

    >>> tokenizer = WordTokenizer.of("the cat the mouse")
    >>> [tokenizer.label(token) for token in tokenizer.encode("the cats")]
    ['the', ' ', 'c', 'a', 't', 's']
    """

    def __init__(self, units: Sequence[str]) -> None:
        """`units`: characters and units in the order of their ids, none twice; `of` makes them from a text."""
        if len(set(units)) < len(units) or "" in units:
            raise LabError("the units of a word tokenizer must be different texts, none of them empty")
        utf8("".join(units))
        super().__init__(tuple(units))

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
            yield unit, self.by_character(unit) if token is None else [token]
