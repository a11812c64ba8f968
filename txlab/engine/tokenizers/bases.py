"""The base vocabularies that merges start from: the 256 bytes, or the letters of an alphabet (MATH K1, K2).

Notable: Becker-Kahn's base vocabulary has a symbol for the end of a word and one for the end of an artefact, neither of
which ever merges. Here the end of a word is the space, so that decoding loses nothing, and the end of an artefact is a
special token, which typed text cannot produce. Letters outside the alphabet are spelt out (tokenizer.spelled).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from txlab.engine.tokenizers.tokenizer import DIGITS, spell_bytes, utf8
from txlab.errors import LabError

MOST_TOKENS = 1 << 22  # every token id is below this; the largest vocabularies have 2^18


@dataclass(frozen=True)
class Bytes:
    """`ids`: the token of each byte value, 256 different ones; by default in the order of the values.

    >>> list(GPT2.symbols(b"!\\n")), GPT2.size
    ([0, 198], 256)
    """

    ids: tuple[int, ...] = tuple(range(256))

    # Every symbol of this base may merge; none is special and none is a spelling digit.
    fixed = 0
    digits: int | None = None

    def __post_init__(self) -> None:
        if len(self.ids) != 256 or len(set(self.ids)) != 256 or not (0 <= min(self.ids) <= max(self.ids) < MOST_TOKENS):
            raise LabError(f"a base of bytes has 256 different token ids below {MOST_TOKENS}, one for each byte value")

    @property
    def size(self) -> int:
        return 256

    @cached_property
    def after(self) -> int:
        """The first id after those of the base."""
        return max(self.ids) + 1

    @property
    def special(self) -> Mapping[str, int]:
        return {}

    @cached_property
    def tokens(self) -> Mapping[int, bytes]:
        return {token: bytes([byte]) for byte, token in enumerate(self.ids)}

    @cached_property
    def in_order(self) -> bool:
        return self.ids == tuple(range(256))

    def symbols(self, data: bytes) -> Sequence[int]:
        return data if self.in_order else [self.ids[byte] for byte in data]


def gpt2_order() -> bytes:
    """Bytes in the order of GPT-2's tokens 0 … 255: first the printable ones (in Latin-1), then all others.

    Source: OpenAI, gpt-2/src/encoder.py (2019), bytes_to_unicode.
    """
    prints = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return bytes(prints + [byte for byte in range(256) if byte not in prints])


BYTES = Bytes()
GPT2 = Bytes(tuple(gpt2_order().index(byte) for byte in range(256)))

END_OF_WORD, END_OF_ARTEFACT, FIRST_DIGIT = 0, 1, 2
FIRST_LETTER = FIRST_DIGIT + DIGITS


@dataclass(frozen=True)
class Alphabet:
    """Token 0 ends a word (it is the space), 1 ends an artefact, 2 … 17 are spelling digits, 18 … are the letters.

    `letters`: sorted by code point, without duplicates or a space; `of` collects them from texts (Becker-Kahn §1.1).

    >>> Alphabet("abc").symbols(b"a cab")
    [18, 0, 20, 18, 19]
    """

    letters: str
    end_of_artefact: str = "★"

    fixed = FIRST_LETTER  # tokens below this one never merge
    digits: int | None = FIRST_DIGIT

    def __post_init__(self) -> None:
        utf8(self.letters + self.end_of_artefact)
        if list(self.letters) != sorted(set(self.letters)) or " " in self.letters:
            raise LabError("the letters of an alphabet must be sorted by code point, none twice and no space")
        if not self.end_of_artefact:
            raise LabError("the end of an artefact needs a text to be written as")

    @classmethod
    def of(cls, texts: Iterable[str], end_of_artefact: str = "★") -> Alphabet:
        """The alphabet of the letters in these texts."""
        letters: set[str] = set()
        for text in texts:
            letters.update(text.replace(end_of_artefact, ""))
        return cls("".join(sorted(letters - {" "})), end_of_artefact)

    @property
    def size(self) -> int:
        return FIRST_LETTER + len(self.letters)

    @property
    def after(self) -> int:
        return self.size

    @property
    def special(self) -> Mapping[str, int]:
        return {self.end_of_artefact: END_OF_ARTEFACT}

    @cached_property
    def tokens(self) -> Mapping[int, bytes]:
        letters = {FIRST_LETTER + i: letter.encode() for i, letter in enumerate(self.letters)}
        return {END_OF_WORD: b" "} | {FIRST_DIGIT + digit: b"" for digit in range(DIGITS)} | letters

    @cached_property
    def token_of(self) -> Mapping[str, int]:
        return {" ": END_OF_WORD} | {letter: FIRST_LETTER + i for i, letter in enumerate(self.letters)}

    def symbols(self, data: bytes) -> Sequence[int]:
        ids: list[int] = []
        # surrogateescape represents a byte that is not UTF-8 as the surrogate U+DC80 + byte − 128.
        for letter in data.decode(errors="surrogateescape"):
            token = self.token_of.get(letter)
            if token is None:
                ids += spell_bytes(letter.encode(errors="surrogateescape"), FIRST_DIGIT)
            else:
                ids.append(token)
        return ids


Base = Bytes | Alphabet
