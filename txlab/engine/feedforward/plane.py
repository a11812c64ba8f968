"""Data in the plane, made from a seed, and the features of a point that a network may see.

The sets are those of TensorFlow's Playground (Smilkov et al. 2017), in −6 … 6 of both coordinates: four for
classification, with targets −1 and 1, and two for regression. torch is not imported, so that a scenario can be checked
without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]  # float64 while they are made, float32 given

EDGE = 6.0  # the plane is −EDGE … EDGE in both coordinates
RADIUS = 5.0  # of what is drawn in it

FEATURES: dict[str, tuple[str, Callable[[Numbers, Numbers], Numbers]]] = {
    "x": ("x", lambda x, y: x),
    "y": ("y", lambda x, y: y),
    "x2": ("x²", lambda x, y: x * x),
    "y2": ("y²", lambda x, y: y * y),
    "xy": ("x·y", lambda x, y: x * y),
    "sin_x": ("sin x", lambda x, y: np.sin(x)),
    "sin_y": ("sin y", lambda x, y: np.sin(y)),
}
"""name → (its sign, the function)"""

CLASSES = ("circle", "xor", "clouds", "spiral")
REGRESSIONS = ("plane", "bumps")
BUMPS = np.array([[-4, 2.5, 1], [0, 2.5, -1], [4, 2.5, 1], [-4, -2.5, -1], [0, -2.5, 1], [4, -2.5, -1]])


def features(points: Numbers, names: tuple[str, ...]) -> Numbers:
    """points (n, 2) → (n, features) float32"""
    x, y = points[:, 0], points[:, 1]
    return np.stack([FEATURES[name][1](x, y) for name in names], 1).astype(np.float32)


def grid(size: int) -> Numbers:
    """(size · size, 2): the middles of the squares of the plane, row by row from the top."""
    middles = (np.arange(size) + 0.5) / size * 2 * EDGE - EDGE
    x, y = np.meshgrid(middles, -middles)
    return np.stack([x.ravel(), y.ravel()], 1)


def draw(name: str, count: int, noise: float, random: np.random.Generator) -> Numbers:
    """`count` points of a set, (count, 3) float32: x, y, target; in random order. noise is 0 to 1.

    circle   r ≤ R/2 is 1, .7 R ≤ r ≤ R is −1; noise moves the points before they are labelled
    xor      the sign of x y, at least .3 off the axes; noise as above
    clouds   two Gaussians around ± (2, 2), of variance .5 + 7 · noise
    spiral   two arms of 1.75 turns; noise moves the points after they are labelled
    plane    (x + y) / 10                                    } noise moves the points
    bumps    six cones of radius 2, of heights 1 and −1      } after they are given their targets
    """
    half = np.arange(count) % 2 == 0
    sign = np.where(half, 1.0, -1.0)
    u = random.random((count, 2))
    shift = noise * random.uniform(-1, 1, (count, 2))
    if name == "circle":
        radius = RADIUS * np.where(half, 0.5 * u[:, 0], 0.7 + 0.3 * u[:, 0])
        points = radius[:, None] * unit_vector(2 * np.pi * u[:, 1])
        moved = points + RADIUS * shift
        target = np.where(np.hypot(*moved.T) < RADIUS / 2, 1.0, -1.0)
    elif name == "xor":
        points = (2 * u - 1) * RADIUS
        points += np.where(points > 0, 0.3, -0.3)
        moved = points + RADIUS * shift
        target = np.where(moved[:, 0] * moved[:, 1] >= 0, 1.0, -1.0)
    elif name == "clouds":
        points = 2 * sign[:, None] + np.sqrt(0.5 + 7 * noise) * random.standard_normal((count, 2))
        points, target = points.clip(-EDGE, EDGE), sign
    elif name == "spiral":
        along = (np.arange(count) // 2 + u[:, 0]) / ((count + 1) // 2)
        arm = unit_vector(np.pi / 2 - 3.5 * np.pi * along - np.where(half, 0.0, np.pi))
        points, target = RADIUS * along[:, None] * arm + 2 * shift, sign
    else:
        points = (2 * u - 1) * EDGE
        target = target_of(name, points)
        points = points + shift
    rows: Numbers = np.concatenate([points.clip(-EDGE, EDGE), target[:, None]], 1).astype(np.float32)
    return random.permutation(rows)


def unit_vector(angle: Numbers) -> Numbers:
    return np.stack([np.cos(angle), np.sin(angle)], 1)


def target_of(name: str, points: Numbers) -> Numbers:
    """The regression target at points (n, 2)."""
    if name == "plane":
        flat: Numbers = points.sum(1) / 10
        return flat
    far = np.hypot(points[:, None, 0] - BUMPS[:, 0], points[:, None, 1] - BUMPS[:, 1])  # (n, 6)
    heights = BUMPS[:, 2] * np.clip(1 - far / 2, 0, 1)
    tallest: Numbers = heights[np.arange(len(points)), np.abs(heights).argmax(1)]
    return tallest
