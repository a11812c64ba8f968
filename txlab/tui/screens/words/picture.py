"""The Words screen's view of an embedding: its words in the plane, nearest words, analogies, and explanations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from txlab.engine.embeddings.embedding import Embedding, rows_of
from txlab.engine.embeddings.function_words import content_rows
from txlab.engine.embeddings.neighbours import analogy, nearest, rotation, telling_analogy
from txlab.engine.embeddings.plane import FITTED, Pair, Plane, Projection
from txlab.errors import LabError
from txlab.experiments.protocol import Frame

NEAREST = 40  # words listed
NEAR, OTHERS = 5, 60  # words b and c that a suggested analogy is chosen from


@dataclass(frozen=True)
class Look:
    """The view of an embedding: centre or context vectors, two principal axes or two pairs of words, and the objective
    of a run ("" = its first)."""

    context: bool = False
    pairs: tuple[Pair, ...] = ()
    objective: str = ""


@dataclass(frozen=True)
class Laid:
    """An embedding in the plane by a `projection`. `step` of its run, None for a file or a model; `of` words
    in all; learnt by `objective`, if its run has several."""

    embedding: Embedding
    look: Look
    plane: Plane
    projection: Projection
    step: int | None = None
    of: int = 0
    objective: str = ""

    @cached_property
    def units(self) -> np.ndarray:
        """The selected vectors, at length 1, (V, D)."""
        return vectors_of(self.embedding, self.look)

    def nearest(self, row: int, count: int = NEAREST) -> list[tuple[int, float]]:
        return nearest(self.units, self.units[row], count, [row])

    def analogy(self, words: Sequence[str], count: int = NEAREST) -> list[tuple[int, float]]:
        """Answers to a − b + c. LabError if any of the words has no vector."""
        a, b, c = (self.embedding.row(word) for word in words)
        return analogy(self.units, a, b, c, count)

    @cached_property
    def named(self) -> np.ndarray:
        """The rows that a map may name: words that say something by themselves."""
        return np.array(content_rows(self.embedding.words), np.int64)

    def telling_analogy(self, row: int) -> tuple[str, str, str] | None:
        """a, b, c among the words of this embedding, a being that of the row, whose a − b + c has a telling answer."""
        near = [each for each, _ in self.nearest(row) if each in self.named][:NEAR]
        among = self.named[self.named < FITTED][:OTHERS].tolist()
        units = self.units[: max([FITTED, row, *near]) + 1]
        found = telling_analogy(units, row, near, among)
        words = self.embedding.words
        return None if found is None else (words[row], words[found[0]], words[found[1]])

    def groups(self, marked: Sequence[int]) -> np.ndarray:
        """(V) the nearest marked row of each word."""
        groups: np.ndarray = (self.units @ self.units[list(marked)].T).argmax(1)
        return groups

    def frequencies(self) -> np.ndarray | None:
        """(V) the power of ten of each word's count, 0 … 5; None if counts are not known."""
        counts = self.embedding.counts
        return None if counts is None else np.log10(np.maximum(counts, 1)).astype(np.int64).clip(0, 5)


def vectors_of(embedding: Embedding, look: Look) -> np.ndarray:
    """The selected vectors, at length 1. LabError if context vectors are requested and there are none."""
    return embedding.contexts().units if look.context else embedding.units


def embedding_of_frame(frame: Frame, title: str, objective: str = "") -> Embedding:
    """The words of a recorded frame. LabError if it has none, or its parts do not fit together."""
    behind = f"/{objective}" if objective else ""
    vectors, words = frame.tensors.get(f"words/v{behind}"), tuple(frame.tokens.get("words", ()))
    if vectors is None and objective:
        raise LabError(f"{title}: the frame at step {frame.step} has no vectors by {objective}; b shows others")
    if vectors is None:
        raise LabError(f"{title} has recorded no word vectors; o opens its model, if it has one")
    vectors = np.asarray(vectors, dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(words) or len(rows_of(words)) != len(words) or len(words) < 2:
        raise LabError(f"{title}: the frame at step {frame.step} has {len(words)} words for vectors {vectors.shape}")
    if not np.isfinite(vectors).all():
        raise LabError(f"{title}: a vector at step {frame.step} is not finite")
    context, counts = frame.tensors.get(f"words/u{behind}"), frame.facts.get("counts")
    context = None if context is None or np.shape(context) != vectors.shape else np.asarray(context, np.float32)
    if context is not None and not np.isfinite(context).all():
        context = None
    known = isinstance(counts, list) and len(counts) == len(words)
    return Embedding(words, vectors, np.array(counts, np.int64) if known else None, context, title)


def lay(
    embedding: Embedding,
    look: Look,
    projection: Projection,
    step: int | None = None,
    of: int = 0,
    objective: str = "",
) -> Laid:
    plane = projection.lay(embedding, vectors_of(embedding, look))
    return Laid(embedding, look, plane, projection, step, of or len(embedding.words), objective)


def turn_to(laid: Laid, other: Laid) -> Laid:
    """`laid` with its picture aligned to another embedding's by the shared words."""
    ids = other.embedding.ids
    both = np.array([(row, ids[word]) for row, word in enumerate(laid.embedding.words) if word in ids]).reshape(-1, 2)
    if len(both) < 2 or laid.look.pairs:
        return laid
    mine, theirs = laid.plane.points[both[:, 0]], other.plane.points[both[:, 1]]
    turn = rotation(mine - mine.mean(0), theirs - theirs.mean(0))
    points = (laid.plane.points - mine.mean(0)) @ turn
    return replace(laid, plane=replace(laid.plane, points=points))
