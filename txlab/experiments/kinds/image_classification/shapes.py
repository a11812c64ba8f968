"""Images of shapes, generated from a seed (MATH T14).

A shape is a signed distance function: the distance of a point from the edge (negative inside), in units of the shape's
radius. So rotating, moving and scaling act on the coordinates, edges are smooth over one pixel at every size, and a
hundred images take a few NumPy operations. The colours of shape and background are drawn in the same way for every
class, so that neither brightness nor colour gives the class away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from txlab.experiments.kinds.image_classification.schema import Name, ShapeImages
from txlab.experiments.randomness import generator

if TYPE_CHECKING:
    import torch

Numbers = NDArray[Any]  # float32
CONTRAST = 0.3  # least distance between the colours of shape and background, as a mean over the channels


@dataclass(frozen=True)
class Images:
    """pixels (B, 3, Y, X) float32, 0 to 1 plus noise · classes (B) int64"""

    pixels: Numbers
    classes: NDArray[np.int64]


SLOPE = np.float32(np.sqrt(0.75))


def cross(u: Numbers, v: Numbers) -> Numbers:
    """The union of two bars."""
    a, b = np.abs(u), np.abs(v)
    return np.minimum(np.maximum(a - 0.95, b - 0.3), np.maximum(a - 0.3, b - 0.95))


OUTSIDE: dict[Name, Callable[[Numbers, Numbers], Numbers]] = {
    "circle": lambda u, v: np.hypot(u, v) - 0.8,
    "square": lambda u, v: np.maximum(np.abs(u), np.abs(v)) - 0.7,
    # Three half-planes, each .5 from the centre; the corners are on the unit circle.
    "triangle": lambda u, v: np.maximum(np.maximum(SLOPE * u + 0.5 * v, -SLOPE * u + 0.5 * v), -v) - 0.5,
    "cross": cross,
    "ring": lambda u, v: np.abs(np.hypot(u, v) - 0.65) - 0.2,
    # A disc partly covered by another one.
    "crescent": lambda u, v: np.maximum(np.hypot(u, v) - 0.9, 0.7 - np.hypot(u - 0.35, v - 0.35)),
}


def draw(data: ShapeImages, count: int, seed: int, purpose: str, step: int) -> Images:
    """`count` images, a pure function of the arguments."""
    random = generator(seed, purpose, step)
    side = data.image
    classes = random.integers(len(data.shapes), size=count)
    radius = random.uniform(data.smallest, data.largest, count) * side  # pixels
    angle = random.uniform(0, 2 * np.pi, count)
    # The whole shape is always inside the image, because its corners are within its radius.
    middle = radius[:, None] + random.uniform(0, 1, (count, 2)) * (side - 2 * radius[:, None])  # x, y
    cosine, sine = (np.cos(angle) / radius)[:, None, None], (np.sin(angle) / radius)[:, None, None]
    grid = np.arange(side) + 0.5
    x = grid[None, None, :] - middle[:, 0, None, None]  # (B, 1, X)
    y = grid[None, :, None] - middle[:, 1, None, None]  # (B, Y, 1)
    u, v = (cosine * x + sine * y).astype(np.float32), (cosine * y - sine * x).astype(np.float32)  # (B, Y, X) each
    outside = np.empty((count, side, side), np.float32)
    for number, name in enumerate(data.shapes):
        of_it = classes == number
        outside[of_it] = OUTSIDE[name](u[of_it], v[of_it])
    # The edge falls from 1 to 0 over one pixel: a point half a pixel outside has none of the shape's colour.
    covered = np.clip(0.5 - outside * radius[:, None, None].astype(np.float32), 0, 1)[:, None]  # (B, 1, Y, X)
    ground, ink = colours(random, count)
    pixels = ground[..., None, None] + (ink - ground)[..., None, None] * covered
    pixels = pixels + np.float32(data.noise) * random.standard_normal(pixels.shape, np.float32)
    return Images(pixels.astype(np.float32, copy=False), classes)


def as_tensors(images: Images, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Pixels scaled for the model, from −1 (black) to 1 (white), and classes, on the device."""
    import torch

    pixels = torch.from_numpy(images.pixels).to(device) * 2 - 1  # (B, 3, Y, X)
    return pixels, torch.from_numpy(images.classes).to(device)


def colours(random: np.random.Generator, count: int) -> tuple[Numbers, Numbers]:
    """Colours of the background, from the darker half, and of the shape, from the lighter half: (B, 3) each.

    In each channel they differ by at least CONTRAST.
    """
    half = (1 - CONTRAST) / 2
    ground, ink = random.uniform(0, half, (2, count, 3)).astype(np.float32)
    return ground, ink + np.float32(half + CONTRAST)
