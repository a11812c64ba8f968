"""A text that is nothing but token ids, written as numbers: for a model that came without a tokenizer (MATH K1).

Notable: it promises less than the others: a text that is no row of numbers has no tokens, and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from txlab.engine.tokenizers.tokenizer import Ids, unknown_token
from txlab.errors import LabError

BETWEEN = re.compile(r"[\s,]+")


@dataclass(frozen=True)
class NumberTokenizer:
    """ids of 0 … vocabulary − 1, with white space or commas between them.

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
                    f"this model came without a tokenizer, and {word[:40]!r} is no token id; allowed: numbers from 0 "
                    f"to {self.vocabulary - 1}, with spaces between them"
                )
            token = int(word[:20])
            if token >= self.vocabulary:
                raise unknown_token(token, self.vocabulary)
            ids.append(token)
        return ids

    def encode_bytes(self, data: bytes) -> list[int]:
        return self.encode(data.decode(errors="backslashreplace"))

    def encode_long(self, text: str) -> Ids:
        return np.array(self.encode(text), dtype=np.uint32)

    def token_bytes(self, token: int) -> bytes:
        return self.label(token).encode()

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        return self.decode(ids).encode()

    def decode(self, ids: Iterable[int]) -> str:
        return " ".join(map(self.label, ids))

    def label(self, token: int) -> str:
        if not 0 <= token < self.vocabulary:
            raise unknown_token(token, self.vocabulary)
        return str(token)
