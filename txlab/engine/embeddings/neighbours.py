"""Queries to word vectors: nearest words, analogies, and pictures in the plane (MATH K6)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from txlab.engine.explain import Explaining, Explanation


def unit(vectors: np.ndarray) -> np.ndarray:
    """Each row at length 1; a row of zeros stays.

    A row is divided by its largest number first, since the squares of 1e20 and of 1e-30 are not float32 numbers.
    """
    largest = np.abs(vectors).max(-1, keepdims=True, initial=0)
    scaled: np.ndarray = vectors / np.where(largest == 0, 1, largest)
    scaled /= np.sqrt(np.einsum("...d,...d->...", scaled, scaled)).clip(1e-30)[..., None]  # 1 at least, or 0
    return scaled


def cosine(v: np.ndarray, w: np.ndarray) -> float:
    """cos(v, w) = v·w / (‖v‖ ‖w‖) of two vectors (D), in float64; 0 if one has length 0."""
    v, w = v.astype(np.float64), w.astype(np.float64)
    lengths = float(np.linalg.norm(v)) * float(np.linalg.norm(w))
    return float(v @ w) / lengths if lengths else 0.0


def nearest(units: np.ndarray, query: np.ndarray, count: int, without: Sequence[int] = ()) -> list[tuple[int, float]]:
    """The `count` rows of `units` (V, D), each of length 1, with the largest cosine to `query` (D), the largest first.

    without  rows to leave out, such as the words of the question; ties go to the more frequent (lower) row
    """
    # Not by BLAS, whose threads may be busy with another product: the console calls this between two keys.
    cosines = np.einsum("vd,d->v", units, unit(query).astype(units.dtype))
    cosines[list(without)] = -np.inf
    count = min(count, len(units) - len(set(without)))
    largest = np.argpartition(-cosines, count - 1)[:count] if 0 < count < len(units) else np.arange(len(units))
    order = largest[np.lexsort((largest, -cosines[largest]))][:count]
    return sorted(((int(row), cosine(units[row], query)) for row in order), key=lambda each: -each[1])


def analogy(units: np.ndarray, a: int, b: int, c: int, count: int) -> list[tuple[int, float]]:
    """The words nearest to a − b + c, as in "king − man + woman", without the three words asked (3CosAdd,
    Mikolov et al. 2013c)."""
    return nearest(units, units[a] - units[b] + units[c], count, without=(a, b, c))


def telling_analogy(units: np.ndarray, a: int, near: Sequence[int], others: Sequence[int]) -> tuple[int, int] | None:
    """b of `near` and c of `others` with the largest 2 cos(x, a − b + c) − max(cos(x, a), cos(x, c)) of the answer x:
    the step a − b leads to it, and it is not near a or c anyway. None without three different words."""
    pairs = [(b, c) for b in near for c in others if len({a, b, c}) == 3]
    if not pairs:
        return None
    b, c = np.array(pairs).T
    queries = unit(units[a] - units[b] + units[c])
    cosines = queries @ units.T
    for asked in (np.full(len(b), a), b, c):
        cosines[np.arange(len(b)), asked] = -np.inf
    answers = cosines.argmax(1)
    trivial = np.maximum(np.einsum("nd,nd->n", units[answers], units[c]), units[answers] @ units[a])
    best = int((2 * cosines[np.arange(len(b)), answers] - trivial).argmax())
    return int(b[best]), int(c[best])


def explain_similarity(words: tuple[str, str], v: np.ndarray, w: np.ndarray) -> Explanation:
    """Explain the cosine of two words from their vectors (D)."""
    result = cosine(v, w)
    v, w = v.astype(np.float64), w.astype(np.float64)
    dot, one, other = float(v @ w), float(np.linalg.norm(v)), float(np.linalg.norm(w))
    a, b = words
    why = Explaining(f"why are {a!r} and {b!r} alike by {result:.3f}?", result)
    why.equation("cos(v, w) = v·w / (‖v‖ ‖w‖)", "K6", "Mikolov et al. 2013c")
    why.input("v", v.tolist(), a)
    why.input("w", w.tolist(), b)
    why.step("v·w", f"Σ over {len(v)} components", dot)
    why.step("‖v‖", f"the length of {a}", one)
    why.step("‖w‖", f"the length of {b}", other)
    if result:
        why.compute("cos", "{} / ({} · {})", lambda x, y, z: x / (y * z), dot, one, other)
    else:
        why.step("cos", "a vector of length 0, or at right angles", 0.0)
    return why.result()


def principal_axes(vectors: np.ndarray, count: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """The `count` directions (count, D) along which the rows differ most, and each one's share of the variance.

    A direction points so that its largest component is positive; otherwise its sign would be arbitrary. Directions
    beyond the D-th are zeros; all shares are 0 where nothing varies.
    """
    centred = vectors - vectors.mean(0) if len(vectors) else vectors
    strengths, directions = np.linalg.eigh(centred.T.astype(np.float64) @ centred)
    axes, strengths = directions.T[::-1][:count], np.maximum(strengths[::-1], 0)
    missing = max(0, count - len(axes))
    axes, strengths = np.pad(axes, ((0, missing), (0, 0))), np.pad(strengths, (0, missing))
    largest = np.abs(axes).argmax(1)
    axes = axes * np.sign(axes[np.arange(len(axes)), largest])[:, None]
    return axes, strengths[:count] / max(strengths.sum(), np.finfo(float).tiny)


def named_axes(units: np.ndarray, pairs: Sequence[tuple[int, int]]) -> np.ndarray:
    """An axis for each pair of words, from the second to the first, at length 1: (len(pairs), D)."""
    return unit(np.stack([units[one] - units[other] for one, other in pairs]))


def rotation(vectors: np.ndarray, before: np.ndarray) -> np.ndarray:
    """R (D, D) = argmin ‖XR − Y‖ over orthogonal R, for X, Y (V, D): orthogonal Procrustes.

    R = U Wᵀ of the singular value decomposition XᵀY = U Σ Wᵀ (Schönemann 1966).
    """
    left, _, right = np.linalg.svd(vectors.T.astype(np.float64) @ before)
    rotation_matrix: np.ndarray = left @ right
    return rotation_matrix
