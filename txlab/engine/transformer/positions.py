"""Where a token stands: fixed sinusoids, learned vectors, rotary angles (MATH T7).

Notable: the sinusoids are interleaved, sine at even and cosine at odd features, as Wang and Vaswani write them; the
same numbers with all sines first are another convention, that of Marian's weights. Rotary turns queries and keys, so
that their product depends on i − j alone.
"""

from __future__ import annotations

import torch
from torch import Tensor


def sinusoids(positions: int, width: int, half: bool = False) -> Tensor:
    """p[i, j] = sin(i / 10000^(j/D)) for even j, cos(i / 10000^((j−1)/D)) for odd j: (positions, width) float32.

    With `half` the even features stand first, then the odd ones. MATH T7; Wang §5; Vaswani et al. 2017, §3.5. Computed
    in float64, so that far positions keep their angle.
    """
    feature = torch.arange(width, dtype=torch.float64)
    even = feature - feature % 2  # j, or j − 1 where j is odd
    angle = torch.arange(positions, dtype=torch.float64)[:, None] / 10_000 ** (even / width)  # (T, D)
    table = torch.where(feature % 2 == 0, angle.sin(), angle.cos()).float()
    return torch.cat((table[:, 0::2], table[:, 1::2]), dim=1) if half else table


def rotary_angles(positions: int, head_width: int, base: float = 10_000.0) -> Tensor:
    """θ[i, n] = i · base^(−2n/K): (positions, K/2) float32. MATH T7; Su et al. 2021, eq. 15."""
    if head_width % 2:
        raise ValueError(f"rotary positions turn pairs of features; a head width of {head_width} is odd")
    frequency = base ** (-torch.arange(0, head_width, 2, dtype=torch.float64) / head_width)  # (K/2)
    return (torch.arange(positions, dtype=torch.float64)[:, None] * frequency).float()


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Turn the pair (x₂ₙ, x₂ₙ₊₁) of position i by θ[i, n]: x (…, T, K), angles (T, K/2) → (…, T, K).

    Then rotate(q, θᵢ) · rotate(k, θⱼ) is a function of q, k and i − j. MATH T7; Su et al. 2021, eq. 34.
    """
    cos, sin = angles.cos(), angles.sin()
    first, second = x[..., 0::2], x[..., 1::2]  # (…, T, K/2) each
    turned = torch.stack((first * cos - second * sin, first * sin + second * cos), dim=-1)  # (…, T, K/2, 2)
    return turned.flatten(-2).to(x.dtype)  # (…, T, K)
