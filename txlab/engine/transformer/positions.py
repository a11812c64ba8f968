"""Position encodings: fixed sinusoids, rotary angles, T5's relative distances (MATH T7).

The sinusoids are interleaved, sine at even and cosine at odd features, as Wang and Vaswani write them; the same numbers
with all sines first are the convention of Marian's weights. Rotary positions rotate queries and keys, so that their
product depends on i − j alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, tau

import torch
from torch import Tensor

BUCKETS = 32  # of relative distances, as in T5


def sinusoids(positions: int, width: int, half: bool = False, dtype: torch.dtype = torch.float32) -> Tensor:
    """p[i, j] = sin(i / 10000^(j/D)) for even j, cos(i / 10000^((j−1)/D)) for odd j: (positions, width).

    With `half` the even features come first, then the odd ones. MATH T7; Wang §5; Vaswani et al. 2017, §3.5. Computed
    in float64, so that the angles of distant positions stay accurate, and rounded at the end.
    """
    feature = torch.arange(width, dtype=torch.float64)
    even = feature - feature % 2  # j, or j − 1 where j is odd
    angle = torch.arange(positions, dtype=torch.float64)[:, None] / 10_000 ** (even / width)  # (T, D)
    table = torch.where(feature % 2 == 0, angle.sin(), angle.cos()).to(dtype)
    return torch.cat((table[:, 0::2], table[:, 1::2]), dim=1) if half else table


@dataclass(frozen=True)
class Rotary:
    """The configuration of rotary positions.

    base     of the frequencies
    width    r, how many of a head's K features are rotated, the first ones; 0 = all
    stretch  frequencies are divided by this (position interpolation: Chen et al. 2023)
    slow, fast, trained   with fast > slow: waves with more than `fast` periods in `trained` positions keep their
             frequency, those with fewer than `slow` are stretched, with a ramp in between (Llama 3.1)
    """

    base: float = 10_000.0
    width: int = 0
    stretch: float = 1.0
    slow: float = 0.0
    fast: float = 0.0
    trained: int = 0

    def frequencies(self, head_width: int) -> Tensor:
        """ω[n] = base^(−2n/r), stretched: (r/2) float64. ValueError for an odd r."""
        width = self.width or head_width
        if width % 2:
            raise ValueError(f"rotary positions turn pairs of features; a head width of {width} is odd")
        frequency = self.base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        if self.fast <= self.slow:
            return frequency / self.stretch
        turns = self.trained * frequency / tau
        kept = ((turns - self.slow) / (self.fast - self.slow)).clamp(0, 1)
        return kept * frequency + (1 - kept) * frequency / self.stretch


TURNED = Rotary()


def rotary_angles(
    positions: int, head_width: int, rotary: Rotary = TURNED, dtype: torch.dtype = torch.float32
) -> Tensor:
    """θ[i, n] = i ω[n], ω[n] = base^(−2n/r): (positions, r/2). MATH T7; Su et al. 2021, eq. 15.

    Computed in float64 and rounded at the end, a column at a time: with a context of 131 072 the table alone is 34 MB.
    """
    place, frequency = torch.arange(positions, dtype=torch.float64), rotary.frequencies(head_width)
    table = torch.empty(positions, len(frequency), dtype=dtype)
    for n in range(len(frequency)):
        table[:, n] = place * frequency[n]
    return table


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate the pair (x₂ₙ, x₂ₙ₊₁) of position i by θ[i, n]: x (…, T, K), angles (T, r/2) → (…, T, K).

    Then rotate(q, θᵢ) · rotate(k, θⱼ) is a function of q, k and i − j. If r < K, the features after the first r are
    unchanged. MATH T7; Su et al. 2021, eq. 34.
    """
    cos, sin = angles.cos(), angles.sin()
    width = 2 * angles.shape[-1]  # r
    first, second = x[..., 0:width:2], x[..., 1:width:2]  # (…, T, r/2) each
    turned = torch.stack((first * cos - second * sin, first * sin + second * cos), dim=-1)  # (…, T, r/2, 2)
    turned = turned.flatten(-2).to(x.dtype)  # (…, T, r)
    return turned if width == x.shape[-1] else torch.cat((turned, x[..., width:]), dim=-1)


def bucket(distance: Tensor, buckets: int = BUCKETS, furthest: int = 128) -> Tensor:
    """Return T5's bucket of a distance i − j ≥ 0; negative distances count as 0. Raffel et al. 2020, §2.1.

    The first half of the buckets are single distances; the rest are spaced logarithmically up to `furthest`.

    >>> bucket(torch.tensor([-3, 0, 15, 16, 127, 4000])).tolist()
    [0, 0, 15, 16, 31, 31]
    """
    distance = distance.clamp(min=0)
    exact = buckets // 2
    grown = (distance.clamp(min=1).float() / exact).log() / log(furthest / exact) * (buckets - exact)
    return torch.where(distance < exact, distance, (exact + grown.long()).clamp(max=buckets - 1))
