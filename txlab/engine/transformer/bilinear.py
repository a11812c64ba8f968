"""A head as two bilinear forms: W_QK says who looks at whom, W_OV what is carried over; and heads after heads.

MATH T3, T4. Notable: Becker-Kahn's forms have no biases; a trained head has. A bias is one more column, with every x
continued by a 1, so the two forms stay exact for the heads that one really has. Two heads one after the other are a
head again, with the pattern A²A¹ and the form W_OV² W_OV¹; it counts only what the first head *adds* to the stream, and
is exact where nothing stands between the two but the sum (no norm).
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
    K = module.head_width
    q, k, v = (each[head] for each in module.maps())  # (K, D) each
    return HeadWeights(q, k, v, module.out.weight[:, head * K : (head + 1) * K], module.out.bias)


def query_key_form(head: HeadWeights) -> Tensor:
    """W_QK = W_Qᵀ W_K (D, D): the score of (i, j) is xᵢᵀ W_QK xⱼ / √K. MATH T3; Becker-Kahn §3.2."""
    return head.q.T @ head.k


def output_value_form(head: HeadWeights) -> Tensor:
    """W_OV = W_O W_V (D_out, D): looking at xⱼ adds W_OV xⱼ. MATH T3; Becker-Kahn §3.3."""
    return head.o @ head.v


def affine(module: MultiHeadAttention, x: Tensor) -> Tensor:
    """x as the forms want it: (…, D), or (…, D + 1) with a last feature of 1 for a head that has biases."""
    return x if module.qkv.bias is None else torch.cat((x, torch.ones_like(x[..., :1])), dim=-1)


def bilinear_pattern(
    module: MultiHeadAttention, head: int, x: Tensor, mask: Mask, memory: Tensor | None = None
) -> Tensor:
    """A = pattern(x W_QK yᵀ / √K), y the memory (B, S, D) or x itself (B, T, D): (B, T, S). MATH T3, T8.

    In cross-attention the form pairs two different streams: its left side reads the decoder, its right the encoder.
    """
    K = module.head_width
    y = x if memory is None else memory
    allowed = mask.allowed(x.shape[-2], y.shape[-2], x.device)
    if allowed is not None and allowed.dim() == 4:
        allowed = allowed[:, 0]  # (B, T, S): one head at a time here
    form = query_key_form(head_weights(module, head))
    return pattern(affine(module, x) @ form @ affine(module, y).transpose(-2, -1) / sqrt(K), allowed)


def bilinear_attention(module: MultiHeadAttention, x: Tensor, mask: Mask, memory: Tensor | None = None) -> Tensor:
    """Σ_h A_h y W_OVᵀ, y the memory (B, S, D) or x itself: (B, T, D) → (B, T, D). MATH T3, T8.

    Equal to `module(x, mask)` to rounding, and with a memory to the module's cross-attention.
    """
    y = affine(module, x if memory is None else memory)  # (B, S, D)
    out = torch.zeros_like(x)
    for h in range(module.heads):
        form = output_value_form(head_weights(module, h))  # (D, D)
        out = out + bilinear_pattern(module, h, x, mask, memory) @ y @ form.T  # (B, T, D)
    return out if module.out.bias is None else out + module.out.bias


@dataclass(frozen=True)
class VirtualHead:
    """A² A¹ (B, T, S), who gets through to whom in two steps, and W_OV² W_OV¹ (D, D), what arrives. MATH T4."""

    pattern: Tensor
    form: Tensor

    def __call__(self, y: Tensor) -> Tensor:
        """(A²A¹ ⊗ W_OV²W_OV¹) y: (B, S, D) → (B, T, D), y as `affine` makes it for the first head."""
        return self.pattern @ y @ self.form.T


def virtual_head(first: HeadWeights, first_pattern: Tensor, second: HeadWeights, second_pattern: Tensor) -> VirtualHead:
    """The head that two heads one after the other are: what `second` moves of what `first` added. MATH T4.

    (A² ⊗ W_OV²)(A¹ ⊗ W_OV¹) = A²A¹ ⊗ W_OV²W_OV¹; Becker-Kahn rem. 3.1, who counts from the second; Elhage et al. 2021.
    Patterns (B, T, R) and (B, R, S). The second head's bias of V does not depend on the first and is no part of it.
    """
    D = first.o.shape[0]
    form = output_value_form(second)[:, :D] @ output_value_form(first)
    return VirtualHead(second_pattern @ first_pattern, form)
