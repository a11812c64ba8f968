"""What every tokenizer promises: text → UTF-8 bytes → tokens → the same bytes (MATH K1).

Notable: the round trip holds for byte strings too, not only for text; so a token may be half of a character, and
`decode` of such a token alone shows U+FFFD while `decode_bytes` loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from txlab.errors import LabError

Ids = NDArray[np.uint32]


class Tokenizer(Protocol):
    """decode_bytes(encode_bytes(b)) == b for every b, and encode(s) == encode_bytes(utf8(s)) for every text s."""

    @property
    def vocabulary(self) -> int:
        """V: the ids are 0 … V−1."""

    def encode(self, text: str) -> list[int]: ...

    def encode_bytes(self, data: bytes) -> list[int]: ...

    def encode_long(self, text: str) -> Ids:
        """The ids of `encode`, as an array and fast; for corpora."""

    def token_bytes(self, token: int) -> bytes:
        """The bytes that this token stands for; LabError for an id outside 0 … V−1."""

    def decode_bytes(self, ids: Iterable[int]) -> bytes: ...

    def decode(self, ids: Iterable[int]) -> str:
        """Text of the tokens; bytes that are not UTF-8 become U+FFFD."""

    def label(self, token: int) -> str:
        """One token as text to show; bytes that are not UTF-8 on their own are written \\xe2."""


def utf8(text: str) -> bytes:
    """The UTF-8 bytes of a text; LabError at a lone surrogate, which UTF-8 cannot write.

    >>> utf8("é")
    b'\\xc3\\xa9'
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise LabError(
            f"the text has a lone surrogate U+{ord(text[error.start]):04X} at character {error.start}, "
            "which is half of a character and has no UTF-8 form"
        ) from None


def legible(data: bytes) -> str:
    """Bytes as text to show: what is UTF-8 as it is, the rest as \\xe2. Not reversible.

    >>> legible(b"a\\xe2")
    'a\\\\xe2'
    """
    return data.decode(errors="backslashreplace")


def unknown_token(token: int, vocabulary: int) -> LabError:
    return LabError(f"token {token} is not in the vocabulary; allowed: 0 … {vocabulary - 1}")
