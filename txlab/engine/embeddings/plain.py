"""word2vec as the lectures write it, one pair at a time: for reading, and the reference for testing the fast forms
(MATH K4, K5).

>>> v, u = np.zeros((3, 2)), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
>>> towards(v, u, centre=0, context=1)       # observed u₁ minus the mean of all u, since p = 1/3 everywhere
array([-0.66666667,  0.33333333])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np


def pairs(tokens: Sequence[int], widths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(centre, context) for all contexts within the width of each centre's own window."""
    for i, (centre, width) in enumerate(zip(tokens, widths, strict=True)):
        for j in range(max(0, i - width), min(len(tokens), i + width + 1)):
            if j != i:
                yield centre, tokens[j]


def probabilities(v: np.ndarray, u: np.ndarray, centre: int) -> np.ndarray:
    """p(x | centre) = exp(uₓ·v) / Σ exp(uₓ′·v), (V).   MATH K4; Wang (6)"""
    scores = u @ v[centre]
    weights = np.exp(scores - scores.max())
    normal: np.ndarray = weights / weights.sum()
    return normal


def towards(v: np.ndarray, u: np.ndarray, centre: int, context: int) -> np.ndarray:
    """∂ ln p(context | centre) / ∂v = u_o − Σₓ p(x) uₓ: the observed minus the expected context vector.   Wang (9)"""
    expected = probabilities(v, u, centre) @ u
    moved: np.ndarray = u[context] - expected
    return moved


def learn_pair(
    v: np.ndarray, u: np.ndarray, centre: int, context: int, noise: Sequence[int], alpha: float, weight: float = 1.0
) -> None:
    """One pair by negative sampling, in place: with g = 1 or 0 minus σ(u·v), u ← u + α g v and v ← v + α Σ g u.

    `weight` counts each noise word, where fewer or more than K were drawn.   MATH K5; Wang (12)
    """
    h = v[centre].copy()
    moved = np.zeros_like(h)
    for word, label, share in [(context, 1.0, 1.0), *((word, 0.0, weight) for word in noise)]:
        g = share * (label - 1 / (1 + np.exp(-(u[word] @ h))))
        moved += g * u[word]
        u[word] += alpha * g * h
    v[centre] += alpha * moved
