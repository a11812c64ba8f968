"""The characters of a training text as tokens, in the order of their code points (MATH K1; Becker-Kahn §1.1).

Notable: a character that training never saw is spelled as the hexadecimal digits of its UTF-8 bytes, with sixteen
tokens kept for that; so every text, and every byte string, still comes back unchanged, where an "unknown" token
would lose it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import cached_property

import numpy as np

from txlab.engine.tokenizers.spelling import DIGITS, parts, spelled
from txlab.engine.tokenizers.tokenizer import Ids, legible, unknown_token, utf8
from txlab.errors import LabError

__all__ = ["DIGITS", "CharacterTokenizer", "spelled"]


class CharacterTokenizer:
    """V = 16 + the number of characters; tokens 0 … 15 are the hexadecimal digits.

    >>> CharacterTokenizer("abc").encode("cab")
    [18, 16, 17]
    >>> CharacterTokenizer("abc").encode("é")  # c3 a9
    [12, 3, 10, 9]
    """

    digits = 0  # the token of the first digit

    def __init__(self, characters: str) -> None:
        """`characters`: sorted by code point, none twice; `of` makes them from a text."""
        if any(a >= b for a, b in itertools.pairwise(characters)):
            raise LabError("the characters of a character tokenizer must be sorted by code point, none of them twice")
        utf8(characters)
        self.characters = characters

    @classmethod
    def of(cls, text: str) -> CharacterTokenizer:
        """The tokenizer whose characters are those of `text`."""
        return cls("".join(sorted(set(text))))

    @property
    def vocabulary(self) -> int:
        return DIGITS + len(self.characters)

    @cached_property
    def token_of(self) -> dict[str, int]:
        return {character: DIGITS + i for i, character in enumerate(self.characters)}

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for character in text:
            token = self.token_of.get(character)
            if token is None:
                ids += spelled(utf8(character))
            else:
                ids.append(token)
        return ids

    def encode_bytes(self, data: bytes) -> list[int]:
        ids: list[int] = []
        # surrogateescape carries a byte that is not UTF-8 as the surrogate U+DC80 + byte − 128.
        for character in data.decode(errors="surrogateescape"):
            token = self.token_of.get(character)
            ids += spelled(character.encode(errors="surrogateescape")) if token is None else [token]
        return ids

    def encode_long(self, text: str) -> Ids:
        utf8(text)
        points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
        known = np.frombuffer(self.characters.encode("utf-32-le"), dtype=np.uint32)
        place = np.searchsorted(known, points)
        seen = known[np.minimum(place, max(len(known) - 1, 0))] == points if len(known) else np.zeros(len(points), bool)
        if bool(seen.all()):
            return (place + DIGITS).astype(np.uint32)
        return np.array(self.encode(text), dtype=np.uint32)

    def token_bytes(self, token: int) -> bytes:
        """A digit token alone stands for no byte: b""."""
        if not 0 <= token < self.vocabulary:
            raise unknown_token(token, self.vocabulary)
        return self.characters[token - DIGITS].encode() if token >= DIGITS else b""

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Digits count in pairs; a digit without its partner (a model may write one) stands for nothing."""
        return b"".join(parts(ids, self.token_bytes, self.digits))

    def decode(self, ids: Iterable[int]) -> str:
        return self.decode_bytes(ids).decode(errors="replace")

    def label(self, token: int) -> str:
        """A hexadecimal digit is shown as ⟨c⟩."""
        data = self.token_bytes(token)
        return legible(data) if token >= DIGITS else f"⟨{token:x}⟩"
