"""What word vectors are asked: nearest words, analogies, and pictures in the plane (MATH K6)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def unit(vectors: np.ndarray) -> np.ndarray:
    """Each row at length 1; a row of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: np.ndarray = vectors / np.where(lengths == 0, 1, lengths)
    return scaled


def nearest(units: np.ndarray, query: np.ndarray, count: int, without: Sequence[int] = ()) -> list[tuple[int, float]]:
    """The `count` rows of `units` (V, D), each of length 1, with the largest cosine to `query` (D), the largest first.

    without  rows that are no answer, such as the words of the question; of equal ones the more frequent (lower) first
    """
    cosines = units @ unit(query).astype(units.dtype)
    cosines[list(without)] = -np.inf
    count = min(count, len(units) - len(set(without)))
    found = np.argpartition(-cosines, count - 1)[:count] if 0 < count < len(units) else np.arange(len(units))
    order = found[np.lexsort((found, -cosines[found]))][:count]
    return [(int(row), float(cosines[row])) for row in order]


def analogy(units: np.ndarray, a: int, b: int, c: int, count: int) -> list[tuple[int, float]]:
    """The words nearest to a − b + c, as in "king − man + woman", without the three words asked (3CosAdd,
    Mikolov et al. 2013c)."""
    return nearest(units, units[a] - units[b] + units[c], count, without=(a, b, c))


def principal_axes(vectors: np.ndarray, count: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """The `count` directions (count, D) along which the rows differ most, and each one's share of the variance.

    A direction points so that its largest component is positive; otherwise its sign would be arbitrary.
    """
    centred = vectors - vectors.mean(0)
    strengths, directions = np.linalg.eigh(centred.T.astype(np.float64) @ centred)
    axes, strengths = directions.T[::-1][:count], np.maximum(strengths[::-1], 0)
    largest = np.abs(axes).argmax(1)
    axes = axes * np.sign(axes[np.arange(len(axes)), largest])[:, None]
    return axes, strengths[:count] / max(strengths.sum(), np.finfo(float).tiny)


def named_axes(units: np.ndarray, pairs: Sequence[tuple[int, int]]) -> np.ndarray:
    """An axis for each pair of words, from the second to the first, at length 1: (len(pairs), D)."""
    return unit(np.stack([units[one] - units[other] for one, other in pairs]))


def aligned(vectors: np.ndarray, before: np.ndarray) -> np.ndarray:
    """`vectors` (V, D) turned as a whole so that they lie as near to `before` as possible.

    Orthogonal Procrustes: R = argmin ‖XR − Y‖ = U Wᵀ of the singular value decomposition XᵀY = U Σ Wᵀ
    (Schönemann 1966). Only what moves against the others still moves in the picture.
    """
    left, _, right = np.linalg.svd(vectors.T.astype(np.float64) @ before)
    turned: np.ndarray = vectors @ (left @ right)
    return turned
