"""Words with their vectors, wherever they come from: a run of word2vec, the tokens of a language model, a file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from txlab.engine.embeddings.neighbours import unit
from txlab.errors import LabError, nearest


@dataclass(frozen=True)
class Embedding:
    """V words, each once, the most frequent first where counts are known.

    vectors  (V, D) float32: v, the vectors of centres; those of contexts in CBOW
    counts   (V) int64 occurrences in the text, if known
    context  (V, D) float32: u, if there is one row a word
    title    where they come from, for a person: "words-docs@1200", "glove.6B.100d.txt"
    """

    words: tuple[str, ...]
    vectors: np.ndarray
    counts: np.ndarray | None = None
    context: np.ndarray | None = None
    title: str = ""

    @cached_property
    def ids(self) -> dict[str, int]:
        return {word: row for row, word in enumerate(self.words)}

    @cached_property
    def units(self) -> np.ndarray:
        """The vectors at length 1, (V, D)."""
        return unit(self.vectors)

    def row(self, word: str) -> int:
        """LabError if the word has no vector."""
        try:
            return self.ids[word]
        except KeyError:
            raise LabError(f"the word {word!r} has no vector{nearest(word, self.words)}") from None
