"""Vectors in the plane: successive pictures of the same words, in which only what really moves moves (MATH K6).

During training, vectors may rotate as a whole, which changes no cosine, and their principal axes may swap. Each picture
is therefore rotated (orthogonal Procrustes over the words that both have) onto the one before, and drawn on the same
two axes. These are the principal axes of the first picture; when others show much more of the variance, they replace
them, rotated so that the picture changes as little as possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from txlab.engine.embeddings.embedding import Embedding
from txlab.engine.embeddings.neighbours import named_axes, principal_axes, rotation

FITTED = 5000  # words that turns and axes are computed from, the most frequent; all are turned and drawn
FLAT = 1e-12  # variance of vectors of length 1: below it there is only rounding
FAITHFUL = 0.7  # of the variance that the best two axes show; below it the axes are replaced

Pair = tuple[str, str]


@dataclass(frozen=True)
class Plane:
    """points (V, 2); `share` of the variance that both axes show, NaN for named axes; `pairs` that name the axes."""

    points: np.ndarray
    share: float
    pairs: tuple[Pair, ...] = ()


class Projection:
    """Projects embeddings onto the plane, each aligned with the one before.

    pairs  two pairs of words name the axes, each from the second word to the first; none = principal axes
    """

    def __init__(self, pairs: Sequence[Pair] = ()) -> None:
        self.pairs = tuple(pairs)
        self.words: tuple[str, ...] = ()
        self.vectors = np.empty((0, 0))  # of the last picture, at length 1, and how they were turned
        self.turn = np.empty((0, 0))
        self.points = np.empty((0, 2))
        self.axes = np.empty((0, 0))
        self.mean = np.empty(0)

    def lay(self, embedding: Embedding, vectors: np.ndarray) -> Plane:
        """The picture of `vectors` (V, D), at length 1, of an embedding's words. Where they do not differ, as context
        vectors before the first step, all points are equal; numbers that are not finite count as 0.

        LabError if a word of `pairs` has no vector.
        """
        vectors = np.nan_to_num(vectors, nan=0.0, posinf=0.0, neginf=0.0)
        if self.pairs:
            axes = named_axes(vectors, [(embedding.row(one), embedding.row(other)) for one, other in self.pairs])
            return Plane(vectors @ axes.T, float("nan"), self.pairs)
        mine, before = self._common(embedding.words)
        known = len(mine) > 1
        turn = np.eye(vectors.shape[1])
        if known and self.vectors.shape[1] == vectors.shape[1]:
            turn = self._turn_to_last(vectors[mine], before)
        fitted = vectors[:FITTED] @ turn
        spread = float(fitted.var(0).sum()) if len(fitted) else 0.0
        if spread < FLAT:
            return Plane(np.zeros((len(vectors), 2)), 0.0)  # nothing to rotate the next one onto
        best, shares = principal_axes(fitted)
        points, share = np.zeros((len(vectors), 2)), -1.0
        if known and self.axes.shape[1] == vectors.shape[1]:
            points = place_in_plane(vectors, turn, self.axes, self.mean)
            share = float(points[:FITTED].var(0).sum() / spread)
        if share < FAITHFUL * shares.sum():
            mean, share = fitted.mean(0), float(shares.sum())
            points = place_in_plane(vectors, turn, best, mean)
            if known:
                swing = rotation(points[mine] - points[mine].mean(0), self.points[before] - self.points[before].mean(0))
                best, points = swing.T @ best, points @ swing
            self.axes, self.mean = best, mean
        self.words, self.vectors, self.turn, self.points = embedding.words, vectors, turn, points
        return Plane(points, share)

    def place(self, embedding: Embedding, vectors: np.ndarray) -> np.ndarray:
        """Points (V, 2) of another picture of these words on the present axes, without becoming the present one."""
        if self.pairs:
            return self.lay(embedding, vectors).points
        vectors = np.nan_to_num(vectors, nan=0.0, posinf=0.0, neginf=0.0)
        if self.vectors.shape[1] != vectors.shape[1]:  # the present picture is flat
            return np.zeros((len(vectors), 2))
        mine, before = self._common(embedding.words)
        return place_in_plane(vectors, self._turn_to_last(vectors[mine], before), self.axes, self.mean)

    def _turn_to_last(self, vectors: np.ndarray, before: np.ndarray) -> np.ndarray:
        """The rotation R (D, D) of vectors onto those rows of the last picture."""
        return rotation(vectors, self.vectors[before] @ self.turn)

    def _common(self, words: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        """The rows of the words that the last picture has too: here, and there."""
        if words is self.words or words == self.words:
            every = np.arange(min(len(words), FITTED))
            return every, every
        there = {word: row for row, word in enumerate(self.words)}
        both = [(row, there[word]) for row, word in enumerate(words) if word in there]
        rows = np.array(both[:FITTED], dtype=np.int64).reshape(-1, 2)
        return rows[:, 0], rows[:, 1]


def place_in_plane(vectors: np.ndarray, turn: np.ndarray, axes: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """(X R − mean) Aᵀ of vectors X (V, D), as X (R Aᵀ) − mean Aᵀ: two columns for each word, and not D to be turned.

    50 000 words of 100 numbers take 3 ms so on one thread, where turning all of them first took 59.
    """
    points: np.ndarray = vectors @ (turn @ axes.T).astype(vectors.dtype) - mean @ axes.T
    return points
