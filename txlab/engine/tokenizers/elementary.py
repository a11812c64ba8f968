"""Tokenizers without merges: bytes, characters, words, numbers (MATH K1; Becker-Kahn §1.1).

Characters and words that are not in the vocabulary are spelt as the hexadecimal digits of their UTF-8 bytes, so every
text and every byte string comes back unchanged.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import regex

from txlab.engine.tokenizers.tokenizer import DIGITS, Ids, Tokenizer, legible, spell_bytes, unknown_token, utf8
from txlab.errors import LabError


@dataclass(frozen=True)
class ByteTokenizer(Tokenizer):
    """V = 256.

    >>> ByteTokenizer().encode("é")
    [195, 169]
    """

    @property
    def vocabulary(self) -> int:
        return 256

    def encode(self, text: str) -> list[int]:
        return list(utf8(text))

    def encode_bytes(self, data: bytes) -> list[int]:
        return list(data)

    def encode_long(self, text: str) -> Ids:
        return np.frombuffer(utf8(text), dtype=np.uint8).astype(np.uint32)

    def token_bytes(self, token: int) -> bytes:
        if not 0 <= token < 256:
            raise unknown_token(token, 256)
        return bytes([token])


class TextVocabulary(Tokenizer):
    """Sixteen digits and then `texts`, in the order of their ids; shared by character and word tokenizers."""

    digits = 0  # the token of the first digit

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts

    @property
    def vocabulary(self) -> int:
        return DIGITS + len(self.texts)

    @cached_property
    def token_of(self) -> dict[str, int]:
        return {text: DIGITS + i for i, text in enumerate(self.texts)}

    def by_character(self, text: str) -> list[int]:
        """Each character as its token, or spelt out; surrogateescape stands for bytes that are not UTF-8."""
        ids: list[int] = []
        for character in text:
            token = self.token_of.get(character)
            ids += spell_bytes(character.encode(errors="surrogateescape")) if token is None else [token]
        return ids

    def token_bytes(self, token: int) -> bytes:
        """The bytes of a token; b"" for a digit, which alone stands for no byte."""
        if not 0 <= token < self.vocabulary:
            raise unknown_token(token, self.vocabulary)
        return self.texts[token - DIGITS].encode() if token >= DIGITS else b""

    def label(self, token: int) -> str:
        """The token as text; a hexadecimal digit is shown as ⟨c⟩."""
        data = self.token_bytes(token)
        return legible(data) if token >= DIGITS else f"⟨{token:x}⟩"


class CharacterTokenizer(TextVocabulary):
    """V = 16 + the number of characters; tokens 0 … 15 are the hexadecimal digits.

    >>> CharacterTokenizer("abc").encode("cab")
    [18, 16, 17]
    >>> CharacterTokenizer("abc").encode("é")  # c3 a9
    [12, 3, 10, 9]
    """

    def __init__(self, characters: str) -> None:
        """`characters`: sorted by code point, without duplicates; `of` collects them from a text."""
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


UNITS = regex.compile(r"[\p{L}\p{M}\p{N}_]+|[^\p{L}\p{M}\p{N}_]+")


class WordTokenizer(TextVocabulary):
    """V = 16 + the number of units; tokens 0 … 15 are the hexadecimal digits.

    >>> tokenizer = WordTokenizer.of("the cat the mouse")
    >>> [tokenizer.label(token) for token in tokenizer.encode("the cats")]
    ['the', ' ', 'c', 'a', 't', 's']
    """

    def __init__(self, units: Sequence[str]) -> None:
        """`units`: characters and longer units in the order of their ids, all different; `of` collects them."""
        if len(set(units)) < len(units) or "" in units:
            raise LabError("the units of a word tokenizer must be different texts, none of them empty")
        utf8("".join(units))
        super().__init__(tuple(units))

    @classmethod
    def of(cls, text: str, vocabulary: int | None = None) -> WordTokenizer:
        """The characters of `text` by code point, then its longer units, most frequent first, ties by code point.

        `vocabulary`: the most tokens allowed; raises LabError if the digits and characters alone are more.
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

    def stretches(self, text: str) -> Iterator[tuple[str, list[int]]]:
        """The units of a text with the tokens of each."""
        for match in UNITS.finditer(text):
            unit = match.group()
            token = self.token_of.get(unit)
            yield unit, self.by_character(unit) if token is None else [token]


class Labelled(Protocol):
    """A tokenizer whose tokens represent only their labels.

    Such tokens are not made of bytes; the bytes of their labels are used instead.
    """

    def encode(self, text: str) -> list[int]: ...

    def decode(self, ids: Iterable[int]) -> str: ...

    def label(self, token: int) -> str: ...

    def encode_bytes(self, data: bytes) -> list[int]:
        return self.encode(data.decode(errors="backslashreplace"))

    def encode_long(self, text: str) -> Ids:
        return np.array(self.encode(text), dtype=np.uint32)

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        return self.decode(ids).encode()

    def token_bytes(self, token: int) -> bytes:
        return self.label(token).encode()


BETWEEN = re.compile(r"[\s,]+")


@dataclass(frozen=True)
class NumberTokenizer(Labelled):
    """Text made of the ids 0 … vocabulary − 1, for a model that came without a tokenizer.

    The ids are separated by white space or commas; any other text is refused.

    >>> NumberTokenizer(10).encode("3, 1 4"), NumberTokenizer(10).decode([3, 1, 4])
    ([3, 1, 4], '3 1 4')
    """

    vocabulary: int
    kind = "numbers"

    def encode(self, text: str) -> list[int]:
        ids = []
        for word in filter(None, BETWEEN.split(text)):
            if not (word.isascii() and word.isdecimal()):
                raise LabError(
                    f"this model came without a tokenizer, and {word[:40]!r} is not a token id; allowed: numbers from "
                    f"0 to {self.vocabulary - 1}, with spaces between them"
                )
            token = int(word[:20])
            if token >= self.vocabulary:
                raise unknown_token(token, self.vocabulary)
            ids.append(token)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        return " ".join(map(self.label, ids))

    def label(self, token: int) -> str:
        if not 0 <= token < self.vocabulary:
            raise unknown_token(token, self.vocabulary)
        return str(token)
