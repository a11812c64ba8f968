"""What a transformer is stacked from: LayerNorm, feed-forward, multi-head attention, the block (MATH T3, T5, T6, T9).

Notable: LayerNorm divides by √(σ²+ε), as everybody does (one lecture text writes σ+ε), and γ, β are vectors. Modules
hold parameters; masks, caches and the trace of what was seen are arguments, so that data flow stays in sight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txlab.engine.transformer.attention import Kernel, attention
from txlab.engine.transformer.masks import Mask
from txlab.engine.transformer.positions import rotate

Activation = Literal["gelu", "gelu_tanh", "relu"]
ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
}
Placement = Literal["pre", "post"]
Order = Literal["sequential", "parallel"]


@dataclass
class Trace:
    """What a block did on the way, kept only when somebody asks: one entry a layer.

    queries, keys  (B, H, T, K) as they enter the product, after rotary turning
    values         (B, H, T, K)
    residuals      (B, T, D), the stream after the block
    """

    queries: list[Tensor] = field(default_factory=list)
    keys: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)
    residuals: list[Tensor] = field(default_factory=list)


@dataclass
class LayerCache:
    """Keys and values of the positions already read, (B, H, S, K) each; None before the first."""

    keys: Tensor | None = None
    values: Tensor | None = None

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append the newest keys and values, and return all of them."""
        if self.keys is not None and self.values is not None:
            k, v = torch.cat((self.keys, k), -2), torch.cat((self.values, v), -2)
        self.keys, self.values = k, v
        return k, v


class LayerNorm(nn.Module):
    """γ ⊙ (x − μ) / √(σ² + ε) + β over the D features of each position: (…, D) → (…, D). MATH T6; Ba et al. 2016."""

    def __init__(self, width: int, bias: bool = True, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))  # γ (D)
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None  # β (D)
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.epsilon)


class FeedForward(nn.Module):
    """W₂ f(W₁ x + b₁) + b₂: (…, D) → (…, D). MATH T5.

    f = "relu", max(0, x); "gelu", x Φ(x) (Hendrycks & Gimpel 2016); or "gelu_tanh", the approximation that GPT-2's
    weights were trained with. The exact one is the default: on a CPU torch vectorises erf and not tanh, 174 against
    748 µs for 768 × 512 numbers forward.
    """

    def __init__(self, width: int, feed_forward: int, activation: Activation, bias: bool, dropout: float) -> None:
        super().__init__()
        self.rise = nn.Linear(width, feed_forward, bias)  # W₁ (F, D)
        self.fall = nn.Linear(feed_forward, width, bias)  # W₂ (D, F)
        self.activation = activation
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self.rise(x)  # (…, F)
        out: Tensor = self.dropout(self.fall(ACTIVATIONS[self.activation](x)))
        return out


class MultiHeadAttention(nn.Module):
    """H heads side by side, each with its own W_Q, W_K, W_V, mixed by W_O: (B, T, D) → (B, T, D). MATH T3.

    The three input maps are rows of one matrix, [W_Q; W_K; W_V] (3D, D): one product instead of three.
    """

    def __init__(self, width: int, heads: int, bias: bool, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias)
        self.out = nn.Linear(width, width, bias)  # W_O (D, D)
        self.weight_dropout = dropout  # of the weights α
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        mask: Mask,
        kernel: Kernel,
        angles: Tensor | None = None,
        cache: LayerCache | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        B, T, D = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)  # (B, H, T, K) each
        if angles is not None:
            q, k = rotate(q, angles), rotate(k, angles)
        if trace is not None:
            trace.queries.append(q)
            trace.keys.append(k)
            trace.values.append(v)
        if cache is not None:
            k, v = cache.extend(k, v)  # (B, H, S, K)
        mixed = attention(q, k, v, mask, kernel, self.weight_dropout if self.training else 0.0)  # (B, H, T, K)
        out: Tensor = self.dropout(self.out(mixed.transpose(1, 2).reshape(B, T, D)))
        return out


class Block(nn.Module):
    """Attention and feed-forward, each added to the residual stream: (B, T, D) → (B, T, D).

    sequential, pre   x ← x + Attn(LN₁ x);  x ← x + FF(LN₂ x)          GPT-2
    sequential, post  x ← LN₁(x + Attn x);  x ← LN₂(x + FF x)          Vaswani et al. 2017
    parallel, pre     x ← x + Attn(LN₁ x) + FF(LN₂ x)                  MATH T9; Becker-Kahn §4
    parallel, post    x ← LN₁(x + Attn x + FF x)
    """

    def __init__(
        self,
        width: int,
        heads: int,
        feed_forward: int,
        *,
        norm: Placement = "pre",
        order: Order = "sequential",
        activation: Activation = "gelu",
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.norm, self.order = norm, order
        self.norm_attention = LayerNorm(width, bias)
        self.attention = MultiHeadAttention(width, heads, bias, dropout)
        # One sum, one norm: the parallel post-LN block has no second one.
        self.norm_feed_forward = None if norm == "post" and order == "parallel" else LayerNorm(width, bias)
        self.feed_forward = FeedForward(width, feed_forward, activation, bias, dropout)

    def forward(
        self,
        x: Tensor,
        mask: Mask,
        kernel: Kernel,
        angles: Tensor | None = None,
        cache: LayerCache | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        first, second, look, think = self.norm_attention, self.norm_feed_forward, self.attention, self.feed_forward
        if second is None:
            x = first(x + look(x, mask, kernel, angles, cache, trace) + think(x))
        elif self.order == "parallel":
            x = x + look(first(x), mask, kernel, angles, cache, trace) + think(second(x))
        elif self.norm == "pre":
            x = x + look(first(x), mask, kernel, angles, cache, trace)
            x = x + think(second(x))
        else:
            x = first(x + look(x, mask, kernel, angles, cache, trace))
            x = second(x + think(x))
        if trace is not None:
            trace.residuals.append(x)
        return x
