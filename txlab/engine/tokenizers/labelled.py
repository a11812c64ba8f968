"""A tokenizer whose tokens stand for nothing but the labels that they are shown by (MATH K1).

Notable: such tokens are not made of bytes; the bytes of their labels stand in for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np

from txlab.engine.tokenizers.tokenizer import Ids


class Said(Protocol):
    """What such a tokenizer says itself."""

    def encode(self, text: str) -> list[int]: ...

    def decode(self, ids: Iterable[int]) -> str: ...

    def label(self, token: int) -> str: ...


class Labelled:
    """What a tokenizer promises besides, from what it says itself."""

    def encode_bytes(self: Said, data: bytes) -> list[int]:
        return self.encode(data.decode(errors="backslashreplace"))

    def encode_long(self: Said, text: str) -> Ids:
        return np.array(self.encode(text), dtype=np.uint32)

    def token_bytes(self: Said, token: int) -> bytes:
        return self.label(token).encode()

    def decode_bytes(self: Said, ids: Iterable[int]) -> bytes:
        return self.decode(ids).encode()
