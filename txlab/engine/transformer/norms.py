"""The normalisations of a transformer (MATH T6).

LayerNorm divides by √(σ²+ε), as is standard (one lecture text writes σ+ε), and γ, β are vectors.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Normalisation = Literal["layer", "rms"]


class LayerNorm(nn.Module):
    """γ ⊙ (x − μ) / √(σ² + ε) + β over the D features of each position: (…, D) → (…, D). MATH T6; Ba et al. 2016."""

    def __init__(self, width: int, bias: bool = True, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))  # γ (D)
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None  # β (D)
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.epsilon)

    def scale(self, x: Tensor) -> Tensor:
        """Return √(σ² + ε), the divisor of each position: (…, D) → (…, 1)."""
        return (x.var(-1, correction=0, keepdim=True) + self.epsilon).sqrt()

    def before(self, w: Tensor) -> Tensor:
        """Return w Γ C, which reads the norm's input as w reads its output, up to the scale; C subtracts the mean."""
        read = w * self.weight.to(w.dtype)
        return read - read.mean(-1, keepdim=True)


class RMSNorm(nn.Module):
    """γ ⊙ x / √(mean x² + ε): (…, D) → (…, D). LayerNorm without the mean and without β. Zhang & Sennrich 2019."""

    bias = None

    def __init__(self, width: int, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))  # γ (D)
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, self.epsilon)

    def scale(self, x: Tensor) -> Tensor:
        """Return √(mean x² + ε), the divisor of each position: (…, D) → (…, 1)."""
        return (x.square().mean(-1, keepdim=True) + self.epsilon).sqrt()

    def before(self, w: Tensor) -> Tensor:
        """Return w Γ, which reads the norm's input as w reads its output, up to the scale."""
        return w * self.weight.to(w.dtype)


Norm = LayerNorm | RMSNorm


def norm_of(normalisation: Normalisation, width: int, bias: bool, epsilon: float) -> Norm:
    return RMSNorm(width, epsilon) if normalisation == "rms" else LayerNorm(width, bias, epsilon)
