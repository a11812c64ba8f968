"""Words with their vectors, wherever they come from: a run of word2vec, the tokens of a language model, a file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from txlab.engine.embeddings.neighbours import unit
from txlab.errors import LabError, nearest

COMPARED = 20_000  # words that a mistyped one is compared with, the most frequent; a second


@lru_cache(maxsize=4)
def rows_of(words: tuple[str, ...]) -> dict[str, int]:
    """The row of each word; the frames of a run have the same words, so most of them find it made."""
    return {word: row for row, word in enumerate(words)}


@dataclass(frozen=True)
class Embedding:
    """V words, each once, the most frequent first where counts are known.

    vectors  (V, D) float32: v, the vectors of centres; those of contexts in CBOW
    counts   (V) int64 occurrences in the text, if known
    context  (V, D) float32: u, if there is one row a word
    title    where they come from, for display: "words-docs@1200", "glove.6B.100d.txt"
    broken   words of a file that were not UTF-8
    left_out words of a file that were duplicates, or empty after cleaning
    """

    words: tuple[str, ...]
    vectors: np.ndarray
    counts: np.ndarray | None = None
    context: np.ndarray | None = None
    title: str = ""
    broken: int = 0
    left_out: int = 0

    @cached_property
    def ids(self) -> dict[str, int]:
        return rows_of(self.words)

    @cached_property
    def units(self) -> np.ndarray:
        """The vectors at length 1, (V, D)."""
        return unit(self.vectors)

    def contexts(self) -> Embedding:
        """The same words with u, the vectors of contexts. LabError if there are none."""
        if self.context is None:
            raise LabError(f"{self.title or 'this'} has one vector a word, and none of its own for a word as context")
        return replace(self, vectors=self.context, context=None)

    def row(self, word: str) -> int:
        """LabError if the word has no vector."""
        try:
            return self.ids[word]
        except KeyError:
            raise LabError(f"the word {word!r} has no vector{nearest(word, self.words[:COMPARED])}") from None
