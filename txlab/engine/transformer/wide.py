"""A decoder whose head width K is its own number and not D/H, and whose feed-forward may be gated (MATH T11).

Notable: two published models need this to come out: LaMDA (128 heads of 128 in a width of 8192, three matrices in the
feed-forward, gains without shifts, relative positions as in T5) and GPT-3's 13 B (40 heads of 128 in a width of 5140).
Nothing here is trained; the module exists so that their parameters and FLOPs are counted on what would run.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txlab.engine.transformer.attention import CAUSAL, pattern, scores

BUCKETS = 32  # of distances, T5's


@dataclass(frozen=True)
class WideShape:
    """layers N · heads H · head_width K · width D · feed_forward F · context T, 0 = not published · vocabulary V

    gated      W₃ (gelu(W₁ x) ⊙ W₂ x), three matrices (Shazeer 2020), instead of two
    bias       maps have biases and norms shifts; without, a norm only divides by √(mean x² + ε) (Zhang & Sennrich 2019)
    positions  "learned", or "relative": a number for each head and bucket of distances, added to the scores (T5)
    """

    layers: int
    heads: int
    head_width: int
    width: int
    feed_forward: int
    context: int
    vocabulary: int
    gated: bool = False
    bias: bool = True
    positions: Literal["learned", "relative"] = "learned"
    epsilon: float = 1e-5

    @property
    def inner(self) -> int:
        return self.feed_forward


class WideDecoder(nn.Module):
    """Token ids (B, T) → logits (B, T, V), the unembedding tied; pre-LN, causal."""

    def __init__(self, shape: WideShape) -> None:
        super().__init__()
        self.shape = shape
        D = shape.width
        self.embed = nn.Embedding(shape.vocabulary, D)  # W_E (V, D)
        learned = shape.positions == "learned"
        self.positions = nn.Embedding(shape.context, D) if learned else None
        self.distances = None if learned else nn.Embedding(BUCKETS, shape.heads)  # one for all layers
        self.blocks = nn.ModuleList(WideBlock(shape) for _ in range(shape.layers))
        self.final_norm = _norm(shape)

    def forward(self, ids: Tensor) -> Tensor:
        T = ids.shape[-1]
        x = self.embed(ids)  # (B, T, D)
        if self.positions is not None:
            x = x + self.positions.weight[:T]
        far = None
        if self.distances is not None:
            place = torch.arange(T, device=ids.device)
            far = self.distances(bucket(place[:, None] - place)).permute(2, 0, 1)  # (H, T, T)
        for block in self.blocks:
            x = block(x, far)
        return F.linear(self.final_norm(x), self.embed.weight)


class WideBlock(nn.Module):
    """x ← x + Attn(LN₁ x);  x ← x + FF(LN₂ x), with H heads of width K: W_Q, W_K, W_V (H·K, D), W_O (D, H·K)."""

    def __init__(self, shape: WideShape) -> None:
        super().__init__()
        D, across, inner, bias = shape.width, shape.heads * shape.head_width, shape.inner, shape.bias
        self.heads = shape.heads
        self.attention_norm = _norm(shape)
        self.attention = nn.ModuleDict(
            {"qkv_proj": nn.Linear(D, 3 * across, bias), "out_proj": nn.Linear(across, D, bias)}
        )
        self.feed_forward_norm = _norm(shape)
        self.feed_forward = nn.ModuleDict(
            {"up_proj": nn.Linear(D, inner, bias), "down_proj": nn.Linear(inner, D, bias)}
        )
        if shape.gated:
            self.feed_forward["gate_proj"] = nn.Linear(D, inner, bias)

    def forward(self, x: Tensor, far: Tensor | None) -> Tensor:
        B, T, _ = x.shape
        q, k, v = (
            self.attention["qkv_proj"](self.attention_norm(x)).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        )
        s = scores(q, k) if far is None else scores(q, k) + far  # (B, H, T, T)
        mixed = pattern(s, CAUSAL.allowed(T, T, x.device)) @ v  # (B, H, T, K)
        x = x + self.attention["out_proj"](mixed.transpose(1, 2).reshape(B, T, -1))
        y = self.feed_forward_norm(x)
        neurons = F.gelu(self.feed_forward["up_proj"](y))  # (B, T, F)
        if "gate_proj" in self.feed_forward:
            neurons = neurons * self.feed_forward["gate_proj"](y)
        out: Tensor = x + self.feed_forward["down_proj"](neurons)
        return out


def _norm(shape: WideShape) -> nn.Module:
    return nn.LayerNorm(shape.width, shape.epsilon) if shape.bias else nn.RMSNorm(shape.width, shape.epsilon)


def bucket(distance: Tensor, buckets: int = BUCKETS, furthest: int = 128) -> Tensor:
    """Which of T5's buckets a distance i − j ≥ 0 falls into; what lies ahead counts as 0. Raffel et al. 2020, §2.1.

    The first half of the buckets are the distances themselves, the rest grow with the logarithm up to `furthest`.

    >>> bucket(torch.tensor([-3, 0, 15, 16, 127, 4000])).tolist()
    [0, 0, 15, 16, 31, 31]
    """
    distance = distance.clamp(min=0)
    exact = buckets // 2
    grown = (distance.clamp(min=1).float() / exact).log() / log(furthest / exact) * (buckets - exact)
    return torch.where(distance < exact, distance, (exact + grown.long()).clamp(max=buckets - 1))
