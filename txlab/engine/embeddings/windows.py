"""A text as centres with their windows: which words are kept, and how far each looks to both sides (MATH K5).

As in the C program of Mikolov et al., frequent words are thinned out first, so a window then reaches further in the
text; each centre draws its own width b from 1 … reach, so near words count more. No window crosses a boundary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from txlab.engine.embeddings.blocks import STRIP

BOUNDARY = -1  # separates two sentences


@dataclass(frozen=True)
class Windows:
    """`tokens` (n) that were kept, and how many words `before` and `after` (n) each sees, at most `reach`."""

    tokens: np.ndarray
    before: np.ndarray
    after: np.ndarray
    reach: int

    @property
    def pairs(self) -> int:
        return int(self.before.sum() + self.after.sum())

    def stretches(self, size: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Consecutive centres, `size` at a time: (tokens, before, after) see `blocks.Stretch`; the last one padded."""
        ends = np.zeros(self.reach, dtype=np.int64)
        missing = -len(self.tokens) % STRIP
        tokens = np.concatenate([ends, self.tokens, np.zeros(missing, np.int64), ends])
        before, after = (np.concatenate([side, np.zeros(missing, np.int64)]) for side in (self.before, self.after))
        for start in range(0, len(before), size):
            stop = min(start + size, len(before))
            yield tokens[start : stop + 2 * self.reach], before[start:stop], after[start:stop]


def windows(ids: np.ndarray, reach: int, kept: np.ndarray, draws: np.random.Generator, fixed: bool = False) -> Windows:
    """The windows of a text; ids (n), BOUNDARY between sentences; kept (V), see `Vocabulary.kept`.

    fixed   every window has the full width, as GloVe's and PyTorch's tutorials have it
    """
    ids = ids[(ids == BOUNDARY) | (draws.random(len(ids)) < kept[ids])]
    inside = ids != BOUNDARY
    tokens = ids[inside].astype(np.int64)
    sentence = np.cumsum(~inside)[inside]
    place = np.arange(len(tokens))
    first, last = np.searchsorted(sentence, sentence, "left"), np.searchsorted(sentence, sentence, "right") - 1
    width = np.full(len(tokens), reach) if fixed else draws.integers(1, reach + 1, len(tokens))
    return Windows(tokens, np.minimum(width, place - first), np.minimum(width, last - place), reach)
