"""What a vocabulary of characters or words lacks, spelled out: two hexadecimal digits for each UTF-8 byte (MATH K1).

Notable: sixteen tokens buy that every text, and every byte string, comes back unchanged, where an "unknown" token
would lose it and 256 bytes would often outnumber the alphabet itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

from txlab.engine.tokenizers.tokenizer import legible, unknown_token

DIGITS = 16


def spelled(data: bytes, first: int = 0) -> list[int]:
    """Bytes as digit tokens, of which `first` is the digit 0: b"\\xc3" → [12, 3]."""
    return [first + digit for byte in data for digit in divmod(byte, DIGITS)]


def parts(ids: Iterable[int], token_bytes: Callable[[int], bytes], first: int | None) -> Iterator[bytes]:
    """What each token adds to the bytes. The second digit of a pair carries the byte; the first adds b"".

    A digit without its partner (a model may write one) stands for nothing. `first` None: there are no digits.

    >>> list(parts([6, 1, 16], lambda token: b"z", 0))
    [b'', b'a', b'z']
    """
    high: int | None = None
    for token in ids:
        if first is None or not first <= token < first + DIGITS:
            high = None
            yield token_bytes(token)
        elif high is None:
            high = token - first
            yield b""
        else:
            yield bytes([DIGITS * high + token - first])
            high = None


class TextVocabulary:
    """Sixteen digits and then `texts`, in the order of their ids: what tokenizers of characters and of words share."""

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
        """Each character as its token, or spelled out; a byte that is no UTF-8 comes as surrogateescape writes it."""
        ids: list[int] = []
        for character in text:
            token = self.token_of.get(character)
            ids += spelled(character.encode(errors="surrogateescape")) if token is None else [token]
        return ids

    def token_bytes(self, token: int) -> bytes:
        """A digit token alone stands for no byte: b""."""
        if not 0 <= token < self.vocabulary:
            raise unknown_token(token, self.vocabulary)
        return self.texts[token - DIGITS].encode() if token >= DIGITS else b""

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        return b"".join(parts(ids, self.token_bytes, self.digits))

    def decode(self, ids: Iterable[int]) -> str:
        return self.decode_bytes(ids).decode(errors="replace")

    def label(self, token: int) -> str:
        """A hexadecimal digit is shown as ⟨c⟩."""
        data = self.token_bytes(token)
        return legible(data) if token >= DIGITS else f"⟨{token:x}⟩"
