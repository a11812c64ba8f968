"""A text that is nothing but token ids, written as numbers: for a model that came without a tokenizer (MATH K1).

Notable: it promises less than the others: a text that is no row of numbers has no tokens, and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from txlab.engine.tokenizers.labelled import Labelled
from txlab.engine.tokenizers.tokenizer import unknown_token
from txlab.errors import LabError

BETWEEN = re.compile(r"[\s,]+")


@dataclass(frozen=True)
class NumberTokenizer(Labelled):
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

    def decode(self, ids: Iterable[int]) -> str:
        return " ".join(map(self.label, ids))

    def label(self, token: int) -> str:
        if not 0 <= token < self.vocabulary:
            raise unknown_token(token, self.vocabulary)
        return str(token)
