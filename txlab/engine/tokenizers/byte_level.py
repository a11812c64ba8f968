"""The 256 bytes as tokens: the id of a byte is its value (MATH K1). Nothing to learn, nothing unknown."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from txlab.engine.tokenizers.tokenizer import Ids, legible, unknown_token, utf8


@dataclass(frozen=True)
class ByteTokenizer:
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

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        return b"".join(map(self.token_bytes, ids))

    def decode(self, ids: Iterable[int]) -> str:
        return self.decode_bytes(ids).decode(errors="replace")

    def label(self, token: int) -> str:
        return legible(self.token_bytes(token))
