"""The words of a text with their counts, and what depends on the counts: noise and subsampling (MATH K5).

noise         q(w) ∝ count(w)^¾
subsampling   of the occurrences of a word with share f, a word is kept with probability
              √(t/f) + t/f   in the C program of Mikolov et al.;   √(t/f)   in their paper (2013b, eq. 5)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from txlab.errors import LabError

MOST_DISTINCT = 4_000_000  # while counting, some 600 MB; beyond it the rarest are forgotten, as in the C program

Subsampling = Literal["program", "paper"]


@dataclass(frozen=True)
class Vocabulary:
    """`words`, the most frequent first, with their `counts` (V); `tokens`: words of the text, of them `known` here.

    Equally frequent words are in alphabetical order, so that the same text gives the same ids.
    """

    words: tuple[str, ...]
    counts: np.ndarray
    tokens: int

    @cached_property
    def ids(self) -> dict[str, int]:
        return {word: index for index, word in enumerate(self.words)}

    @property
    def known(self) -> int:
        return int(self.counts.sum())

    def noise(self, power: float = 0.75) -> np.ndarray:
        """q (V), the distribution that negatives are drawn from."""
        weights = self.counts.astype(np.float64) ** power
        normal: np.ndarray = weights / weights.sum()
        return normal

    def keep_probability(self, threshold: float, form: Subsampling) -> np.ndarray:
        """The probability (V) that an occurrence of each word is kept; a threshold of 0 keeps all."""
        if not threshold:
            return np.ones(len(self.words))
        rare = threshold / (self.counts / self.known)
        share = np.sqrt(rare) + rare if form == "program" else np.sqrt(rare)
        bounded: np.ndarray = np.minimum(share, 1.0)
        return bounded


def count_words(words: Iterable[str], minimum: int = 1, most: int | None = None) -> Vocabulary:
    """Count a stream of words; those rarer than `minimum` are left out, and all but the `most` frequent.

    Raises LabError if fewer than two words are left.
    """
    counts: Counter[str] = Counter()
    tokens, forgotten = 0, 0
    for word in words:
        counts[word] += 1
        tokens += 1
        if len(counts) > MOST_DISTINCT:
            forgotten += 1
            counts = Counter({kept: count for kept, count in counts.items() if count > forgotten})
    ranked = sorted(((-count, word) for word, count in counts.items() if count >= minimum))[:most]
    if len(ranked) < 2:
        raise LabError(f"the text has {len(ranked)} words that occur at least {minimum} times; two are needed")
    return Vocabulary(tuple(word for _, word in ranked), np.array([-count for count, _ in ranked], np.int64), tokens)
