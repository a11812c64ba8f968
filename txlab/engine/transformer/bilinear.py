"""A head as two bilinear forms: W_QK says who looks at whom, W_OV what is carried over (MATH T3).

Notable: Becker-Kahn's forms have no biases; a trained head has. A bias is one more column, with every x continued by a
1, so the two forms stay exact for the heads that one really has.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from txlab.engine.transformer.attention import pattern
from txlab.engine.transformer.blocks import MultiHeadAttention
from txlab.engine.transformer.masks import Mask


@dataclass(frozen=True)
class HeadWeights:
    """One head's matrices, biases appended as a last column where it has them (then D + 1 stands for D)."""

    q: Tensor  # W_Q (K, D)
    k: Tensor  # W_K (K, D)
    v: Tensor  # W_V (K, D)
    o: Tensor  # W_O (D_out, K), this head's columns
    o_bias: Tensor | None  # (D_out), shared by all heads: added once, not once a head


def head_weights(module: MultiHeadAttention, head: int) -> HeadWeights:
    """Cut head `head` out of [W_Q; W_K; W_V] and W_O. MATH T3."""
    width = module.out.weight.shape[0]
    K = width // module.heads
    weight = module.qkv.weight  # (3D, D)
    if module.qkv.bias is not None:
        weight = torch.cat((weight, module.qkv.bias[:, None]), dim=1)  # (3D, D + 1)
    q, k, v = weight.view(3, module.heads, K, -1)[:, head]  # (K, D) each
    return HeadWeights(q, k, v, module.out.weight[:, head * K : (head + 1) * K], module.out.bias)


def query_key_form(head: HeadWeights) -> Tensor:
    """W_QK = W_Qᵀ W_K (D, D): the score of (i, j) is xᵢᵀ W_QK xⱼ / √K. MATH T3; Becker-Kahn §3.2."""
    return head.q.T @ head.k


def output_value_form(head: HeadWeights) -> Tensor:
    """W_OV = W_O W_V (D_out, D): looking at xⱼ adds W_OV xⱼ. MATH T3; Becker-Kahn §3.3."""
    return head.o @ head.v


def bilinear_attention(module: MultiHeadAttention, x: Tensor, mask: Mask) -> Tensor:
    """Σ_h A_h x W_OVᵀ with A_h = pattern(x W_QK xᵀ / √K): (B, T, D) → (B, T, D). MATH T3.

    Equal to `module(x, mask)` to rounding.
    """
    K = module.out.weight.shape[0] // module.heads
    allowed = mask.allowed(x.shape[-2], x.shape[-2], x.device)
    if allowed is not None and allowed.dim() == 4:
        allowed = allowed[:, 0]  # (B, T, T): one head at a time here
    if module.qkv.bias is not None:
        x = torch.cat((x, torch.ones_like(x[..., :1])), dim=-1)  # (B, T, D + 1)
    heads = [head_weights(module, h) for h in range(module.heads)]
    out = torch.zeros(*x.shape[:-1], module.out.weight.shape[0], dtype=x.dtype, device=x.device)
    for head in heads:
        alpha = pattern(x @ query_key_form(head) @ x.transpose(-2, -1) / sqrt(K), allowed)  # (B, T, T)
        out = out + alpha @ x @ output_value_form(head).T  # (B, T, D)
    return out if heads[0].o_bias is None else out + heads[0].o_bias
