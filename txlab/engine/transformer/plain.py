"""A transformer in its plainest form, to read alongside a lecture: one text, no batch, no cache (MATH T1–T9).

Notable: nothing here is fast, and no code is shared with the trainable models; tests compare the two in float64.
`weights` are a GPT's parameters by name (`dict(model.named_parameters())`): learnt positions, pre-LN blocks, biases
everywhere, the unembedding tied to the embedding, as in GPT-2.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import torch
from torch import Tensor


def softmax(x: Tensor) -> Tensor:
    """exp(xⱼ) / Σⱼ′ exp(xⱼ′) along the last axis, with the largest x subtracted to avoid overflow. MATH F5."""
    e = (x - x.max(-1, keepdim=True).values).exp()
    return e / e.sum(-1, keepdim=True)


def layer_norm(x: Tensor, w: Mapping[str, Tensor], epsilon: float = 1e-5) -> Tensor:
    """γ ⊙ (x − μ) / √(σ² + ε) + β, of each row of x (T, D) by itself. MATH T6."""
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return w["weight"] * (x - mean) / (variance + epsilon).sqrt() + w["bias"]


def head(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, b_Q: Tensor, b_K: Tensor, b_V: Tensor) -> Tensor:
    """One causal attention head: softmax(QKᵀ/√dₖ) V, x (T, D) → (T, K). MATH T1, T2; Vaswani et al. 2017, eq. 1."""
    T, K = len(x), len(W_Q)
    Q, keys, V = x @ W_Q.T + b_Q, x @ W_K.T + b_K, x @ W_V.T + b_V  # (T, K) each
    mixed = torch.zeros_like(V)
    for i in range(T):
        scores = Q[i] @ keys[: i + 1].T / sqrt(K)  # (i + 1): position i sees j ≤ i
        mixed[i] = softmax(scores) @ V[: i + 1]
    return mixed


def attention(x: Tensor, w: Mapping[str, Tensor], heads: int) -> Tensor:
    """The heads side by side, mixed by W_O: (T, D) → (T, D). MATH T3."""
    W_Q, W_K, W_V = (rows.chunk(heads) for rows in w["qkv_proj.weight"].chunk(3))  # H times (K, D) each
    b_Q, b_K, b_V = (rows.chunk(heads) for rows in w["qkv_proj.bias"].chunk(3))
    each = [head(x, W_Q[h], W_K[h], W_V[h], b_Q[h], b_K[h], b_V[h]) for h in range(heads)]
    return torch.cat(each, -1) @ w["out_proj.weight"].T + w["out_proj.bias"]


def feed_forward(x: Tensor, w: Mapping[str, Tensor]) -> Tensor:
    """W₂ gelu(W₁ x + b₁) + b₂ with gelu(x) = x Φ(x): (T, D) → (T, D). MATH T5."""
    inner = x @ w["up_proj.weight"].T + w["up_proj.bias"]  # (T, F)
    gelu = inner * (1 + torch.erf(inner / sqrt(2))) / 2
    return gelu @ w["down_proj.weight"].T + w["down_proj.bias"]


def block(x: Tensor, w: Mapping[str, Tensor], heads: int) -> Tensor:
    """x ← x + Attn(LN₁ x);  x ← x + FF(LN₂ x), pre-LN: (T, D) → (T, D). MATH T5, T6."""
    x = x + attention(layer_norm(x, part(w, "attention_norm.")), part(w, "attention."), heads)
    return x + feed_forward(layer_norm(x, part(w, "feed_forward_norm.")), part(w, "feed_forward."))


@torch.no_grad()
def gpt(ids: Tensor, weights: Mapping[str, Tensor], layers: int, heads: int) -> Tensor:
    """Token ids (T) → logits (T, V): row t scores every candidate for token t + 1. MATH T9."""
    x = weights["embed.weight"][ids] + weights["positions.weight"][: len(ids)]  # (T, D)
    for layer in range(layers):
        x = block(x, part(weights, f"blocks.{layer}."), heads)
    return layer_norm(x, part(weights, "final_norm.")) @ weights["embed.weight"].T


def part(weights: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the weights whose names begin with `prefix`, with the prefix removed."""
    return {name.removeprefix(prefix): tensor for name, tensor in weights.items() if name.startswith(prefix)}
