"""x Wᵀ + b, also for one row on a CPU, which is what generation with a cache multiplies all day (MATH T9).

Notable: one row times a matrix is reading the matrix. torch hands that to the BLAS's matrix–vector product, and on an
AMD processor MKL's reads a row-major W at little more than half the speed at which the same W cut into slices, one
product of a batch each, is read: 283 against 526 µs for 2304 × 768, 391 against 720 for 3072 × 768, 6.4 against 11.9 ms
for 50257 × 768, float32, one thread. Nothing is copied; small matrices (768 × 768: 79 against 49 µs), batches, other
dtypes, and whatever learns, go the ordinary way.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SLICES = 16  # enough for as many threads; 2, 8 and 16 take the same time on one
SMALLEST = 2**20  # entries of a matrix; below, the ordinary way is as fast or faster


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b: x (…, D), weight (F, D), bias (F) → (…, F)."""
    alone = x.numel() == x.shape[-1] and not torch.is_grad_enabled()
    if not alone or weight.numel() < SMALLEST or not _plain(x, weight):
        return F.linear(x, weight, bias)
    into = weight.shape[1]
    whole = weight.shape[0] - weight.shape[0] % SLICES
    # As the transpose of a row: the same column with the strides of a row-major matrix takes six times as long.
    column = x.reshape(1, into).T  # (D, 1)
    out = torch.bmm(weight[:whole].view(SLICES, -1, into), column.expand(SLICES, into, 1)).view(whole)
    if whole < weight.shape[0]:
        out = torch.cat((out, weight[whole:] @ x.reshape(into)))
    return (out if bias is None else out + bias).view(*x.shape[:-1], -1)


def _plain(x: Tensor, weight: Tensor) -> bool:
    """Whether this is the case that was measured: float32 on a CPU, not compiled, not cast on the way."""
    return (
        x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and weight.is_contiguous()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


class Linear(nn.Linear):
    """torch's, by way of `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)
