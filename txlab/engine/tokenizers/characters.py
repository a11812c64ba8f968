"""The characters of a training text as tokens, in the order of their code points (MATH K1; Becker-Kahn §1.1).

Notable: a character that training never saw is spelled as the hexadecimal digits of its UTF-8 bytes, with sixteen
tokens kept for that; so every text, and every byte string, still comes back unchanged, where an "unknown" token
would lose it.
"""

from __future__ import annotations

import itertools

import numpy as np

from txlab.engine.tokenizers.spelling import DIGITS, TextVocabulary
from txlab.engine.tokenizers.tokenizer import Ids, utf8
from txlab.errors import LabError


class CharacterTokenizer(TextVocabulary):
    """V = 16 + the number of characters; tokens 0 … 15 are the hexadecimal digits.

    >>> CharacterTokenizer("abc").encode("cab")
    [18, 16, 17]
    >>> CharacterTokenizer("abc").encode("é")  # c3 a9
    [12, 3, 10, 9]
    """

    def __init__(self, characters: str) -> None:
        """`characters`: sorted by code point, none twice; `of` makes them from a text."""
        if any(a >= b for a, b in itertools.pairwise(characters)):
            raise LabError("the characters of a character tokenizer must be sorted by code point, none of them twice")
        utf8(characters)
        super().__init__(characters)
        self.characters = characters

    @classmethod
    def of(cls, text: str) -> CharacterTokenizer:
        """The tokenizer whose characters are those of `text`."""
        return cls("".join(sorted(set(text))))

    def encode(self, text: str) -> list[int]:
        utf8(text)
        return self.by_character(text)

    def encode_bytes(self, data: bytes) -> list[int]:
        return self.by_character(data.decode(errors="surrogateescape"))

    def encode_long(self, text: str) -> Ids:
        utf8(text)
        points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
        known = np.frombuffer(self.characters.encode("utf-32-le"), dtype=np.uint32)
        place = np.searchsorted(known, points)
        seen = known[np.minimum(place, max(len(known) - 1, 0))] == points if len(known) else np.zeros(len(points), bool)
        if bool(seen.all()):
            return (place + DIGITS).astype(np.uint32)
        return np.array(self.encode(text), dtype=np.uint32)
