"""A transformer's layer, from the scores of attention to the stack of blocks (MATH T1–T6, T8–T11).

Attention consists of `scores`, `pattern` and the product with V; explanations call the same functions, so they cannot
disagree with the model. The softmax runs along each row (erratum T1: one of the lecture texts normalises over the whole
matrix). Two kernels compute the same result: "matmul" writes the formula out and is faster for short contexts in
bfloat16 on a CPU; "sdpa" is torch's fused kernel and is faster for long ones. An encoder's attention is not causal
(erratum T10: a lecture text says it is); its only mask is padding.
Modules hold parameters; masks, caches and hooks are arguments, so that the data flow is visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import sqrt
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txlab.engine.transformer.hooks import NO_HOOKS, Hooks
from txlab.engine.transformer.key_value_cache import LayerCache
from txlab.engine.transformer.masks import NO_MASK, Causal, Mask
from txlab.engine.transformer.norms import Norm, Normalisation, norm_of
from txlab.engine.transformer.positions import rotate

Kernel = Literal["matmul", "sdpa"]
Activation = Literal["gelu", "gelu_tanh", "relu", "swish"]
ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "swish": F.silu,
}
Placement = Literal["pre", "post"]
Order = Literal["sequential", "parallel", "attention"]
# Which maps and norms have biases: all, none, or those named: "qkv", "out", "feed_forward", "norm".
Biased = bool | tuple[str, ...]


def has_bias(bias: Biased, part: str) -> bool:
    return bias if isinstance(bias, bool) else part in bias


def scores(q: Tensor, k: Tensor, bias: Tensor | None = None) -> Tensor:
    """sᵢⱼ = qᵢ·kⱼ / √dₖ (+ biasᵢⱼ): q (…, T, K), k (…, S, K), bias (T, S) → (…, T, S).

    MATH T1; Vaswani et al. 2017, eq. 1. With a bias, the product, scaling and sum take one pass: 106 instead of 172 µs
    in bfloat16 for 48 heads of 64 positions, forward.
    """
    if bias is None:
        return q @ k.transpose(-2, -1) / sqrt(q.shape[-1])
    flat_q, flat_k = q.flatten(0, -3), k.flatten(0, -3)  # (B·H, T, K), (B·H, S, K)
    flat = torch.baddbmm(bias, flat_q, flat_k.transpose(-2, -1), alpha=1 / sqrt(q.shape[-1]))  # (B·H, T, S)
    return flat.view(*q.shape[:-1], k.shape[-2])  # (B, H, T, S)


def pattern(scores: Tensor, allowed: Tensor | None) -> Tensor:
    """αᵢⱼ = exp(sᵢⱼ) / Σⱼ′ exp(sᵢⱼ′) over the allowed j′ of row i, 0 elsewhere: (…, T, S) → (…, T, S). MATH T1, T2.

    A row with no allowed key is all zeros: its softmax would be 0/0, and the NaN would reach every weight through the
    gradient, so such a row gets finite scores first and is zeroed afterwards.
    """
    if allowed is None:
        return scores.softmax(-1)
    any_allowed = allowed.any(-1, keepdim=True)  # (…, T, 1)
    visible = scores.masked_fill(any_allowed & ~allowed, float("-inf"))
    return visible.softmax(-1) * any_allowed.to(scores.dtype)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask,
    kernel: Kernel = "matmul",
    dropout: float = 0.0,
    hooks: Hooks = NO_HOOKS,
) -> Tensor:
    """softmax(QKᵀ/√dₖ) V along rows: q (…, T, K), k and v (…, S, K) → (…, T, K). MATH T1; Vaswani et al. 2017, eq. 1.

    `dropout` drops weights α (training only; the caller passes 0 otherwise). If a hook is registered at `scores`
    (before the mask) or `pattern` (α, before dropout), both are formed whatever the kernel.
    """
    queries, keys = q.shape[-2], k.shape[-2]
    if hooks.want("scores", "pattern"):
        alpha = pattern(hooks("scores", scores(q, k)), mask.allowed_pairs(queries, keys, q.device))
        return F.dropout(hooks("pattern", alpha), dropout) @ v
    if isinstance(mask, Causal):
        return _causal(q, k, v, kernel, dropout)
    allowed = mask.allowed_pairs(queries, keys, q.device)
    if kernel == "sdpa" and allowed is None:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout)
    if kernel == "sdpa" and allowed is not None:
        # For a fully masked row some of torch's kernels return zeros, others NaN: unmask the row, then zero it.
        any_allowed = allowed.any(-1, keepdim=True)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed | ~any_allowed, dropout_p=dropout)
        return mixed * any_allowed.to(mixed.dtype)
    return F.dropout(pattern(scores(q, k), allowed), dropout) @ v


def _causal(q: Tensor, k: Tensor, v: Tensor, kernel: Kernel, dropout: float) -> Tensor:
    """`attention` under the causal mask, where every row sees at least itself, so empty rows need no handling."""
    queries, keys = q.shape[-2], k.shape[-2]
    if kernel == "sdpa":
        if queries == keys or queries == 1:
            # With one query, is_causal would hide all keys but the first; a single query needs no mask.
            return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=queries > 1)
        allowed = Causal().allowed_pairs(queries, keys, q.device)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=dropout)
    bias = causal_bias(queries, keys, q) if queries > 1 else None
    return F.dropout(scores(q, k, bias).softmax(-1), dropout) @ v


def causal_bias(queries: int, keys: int, like: Tensor) -> Tensor:
    """Return (queries, keys): 0 where allowed, −∞ elsewhere. Adding it saves one pass over a masked fill."""
    return torch.full((queries, keys), float("-inf"), dtype=like.dtype, device=like.device).triu(keys - queries + 1)


class MultiHeadAttention(nn.Module):
    """H heads side by side, each with its own W_Q, W_K, W_V, mixed by W_O: (B, T, D) → (B, T, D). MATH T3.

    The three input maps are rows of one matrix, [W_Q; W_K; W_V], one product instead of three: (3D, D), where K = D/H.
    With G < H heads of keys and values, head h uses number ⌊h G/H⌋ of them: (H·K + 2 G·K, D). Ainslie et al. 2023
    (grouped queries), Shazeer 2019 (G = 1). With `memory` (B, S, D) it is cross-attention: Q comes from x, K and V
    from the memory (MATH T8).

    Places: query (B, H, T, K), key and value (B, H, S, K), as they enter the product, after rotary rotation, including
    cached positions, and repeated for each head · scores and pattern (B, H, T, S) · heads (B, H, T, K), each head's
    α V · out (B, T, D).
    """

    def __init__(
        self, width: int, heads: int, bias: Biased, dropout: float, kv_heads: int = 0, head_width: int = 0
    ) -> None:
        super().__init__()
        self.heads = heads
        self.kv_heads = kv_heads or heads  # G
        self.head_width = head_width or width // heads  # K
        K = self.head_width
        self.sizes = [heads * K, self.kv_heads * K, self.kv_heads * K]  # rows of W_Q, W_K, W_V
        self.qkv_proj = nn.Linear(width, sum(self.sizes), has_bias(bias, "qkv"))
        self.out_proj = nn.Linear(heads * K, width, has_bias(bias, "out"))  # W_O (D, H·K)
        self.weight_dropout = dropout  # of the weights α
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        mask: Mask,
        kernel: Kernel,
        angles: Tensor | None = None,
        cache: LayerCache | None = None,
        hooks: Hooks = NO_HOOKS,
        memory: Tensor | None = None,
    ) -> Tensor:
        if memory is None:
            # (B, H, T, K), (B, G, T, K) twice
            q, k, v = map(self._by_heads, torch.split(self.qkv_proj(x), self.sizes, -1))
            if angles is not None:
                q, k = rotate(q, angles), rotate(k, angles)
            if cache is not None:
                k, v = cache.extend(k, v)  # (B, G, S, K)
        else:
            q, k, v = self._across(x, memory, cache)
        if self.kv_heads < self.heads:  # repeat each for the heads that share it
            k, v = (each.repeat_interleave(self.heads // self.kv_heads, 1) for each in (k, v))  # (B, H, S, K)
        q, k, v = hooks("query", q), hooks("key", k), hooks("value", v)
        dropout = self.weight_dropout if self.training else 0.0
        mixed = hooks("heads", attention(q, k, v, mask, kernel, dropout, hooks))  # (B, H, T, K)
        return hooks("out", self.dropout(self.out_proj(mixed.transpose(1, 2).flatten(2))))  # (B, T, H·K) → (B, T, D)

    def _across(self, x: Tensor, memory: Tensor, cache: LayerCache | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return Q of the decoder's x (B, H, T, K), and K and V of the encoder's output (B, G, S, K), computed once."""
        rows, bias = self.sizes[0], self.qkv_proj.bias
        q = self._by_heads(
            F.linear(x, self.qkv_proj.weight[:rows], None if bias is None else bias[:rows])
        )  # (B, H, T, K)
        if cache is not None and cache.memory_keys is not None and cache.memory_values is not None:
            return q, cache.memory_keys, cache.memory_values
        both = F.linear(memory, self.qkv_proj.weight[rows:], None if bias is None else bias[rows:])  # (B, S, 2 G·K)
        k, v = map(self._by_heads, torch.split(both, self.sizes[1:], -1))  # (B, G, S, K) each
        if cache is not None:
            cache.memory_keys, cache.memory_values = k, v
        return q, k, v

    def _by_heads(self, x: Tensor) -> Tensor:
        """(B, T, H·K) → (B, H, T, K)."""
        return x.view(*x.shape[:2], -1, self.head_width).transpose(1, 2)

    def maps(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return W_Q, W_K, W_V (H, K, D) of each head; biases, if any, are a last column (H, K, D + 1)."""
        weight = self.qkv_proj.weight
        if self.qkv_proj.bias is not None:
            weight = torch.cat((weight, self.qkv_proj.bias[:, None]), dim=1)
        q, k, v = (part.view(-1, self.head_width, part.shape[-1]) for part in torch.split(weight, self.sizes))
        times = self.heads // self.kv_heads
        return q, k.repeat_interleave(times, 0), v.repeat_interleave(times, 0)


class FeedForward(nn.Module):
    """W₂ f(W₁ x + b₁) + b₂: (…, D) → (…, D). MATH T5. Gated: W₂ (f(W₃ x + b₃) ⊙ (W₁ x + b₁)) + b₂. MATH T11.

    f = "relu", max(0, x); "gelu", x Φ(x) (Hendrycks & Gimpel 2016); "gelu_tanh", the approximation that GPT-2 was
    trained with; "swish", x σ(x), used by Marian. The exact gelu is the default: on a CPU torch vectorises erf but not
    tanh, 174 against 748 µs for 768 × 512 numbers forward. Gated with swish it is SwiGLU, used by Llama (Shazeer 2020,
    eq. 6).

    Places: neurons (…, F), the input of W₂ · out (…, D).
    """

    def __init__(
        self, width: int, feed_forward: int, activation: Activation, bias: bool, dropout: float, gated: bool = False
    ) -> None:
        super().__init__()
        self.up_proj = nn.Linear(width, feed_forward, bias)  # W₁ (F, D)
        self.gate_proj = nn.Linear(width, feed_forward, bias) if gated else None  # W₃ (F, D)
        self.down_proj = nn.Linear(feed_forward, width, bias)  # W₂ (D, F)
        self.activation = activation
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, hooks: Hooks = NO_HOOKS) -> Tensor:
        f = ACTIVATIONS[self.activation]
        neurons = f(self.up_proj(x)) if self.gate_proj is None else f(self.gate_proj(x)) * self.up_proj(x)  # (…, F)
        return hooks("out", self.dropout(self.down_proj(hooks("neurons", neurons))))


class Block(nn.Module):
    """Attention and feed-forward, each added to the residual stream: (B, T, D) → (B, T, D).

    sequential, pre   x ← x + Attn(LN₁ x);  x ← x + FF(LN₂ x)          GPT-2
    sequential, post  x ← LN₁(x + Attn x);  x ← LN₂(x + FF x)          Vaswani et al. 2017
    parallel, pre     x ← x + Attn(LN₁ x) + FF(LN₂ x)                  MATH T9; Becker-Kahn §4
    parallel, post    x ← LN₁(x + Attn x + FF x)
    attention, pre    x ← x + Attn(LN₁ x)                              Elhage et al. 2021, attention-only
    attention, post   x ← LN₁(x + Attn x)

    A decoder block that also reads an encoder (`crosses`) has a third branch between the two, with its norm placed like
    theirs (MATH T8); it must be sequential. Places: resid_pre, resid_mid (after attention, sequential only),
    resid_cross (after cross-attention), leave, each (B, T, D); inside: attention.…, cross.…, feed_forward.… (not in
    "attention" blocks).
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
        bias: Biased = True,
        dropout: float = 0.0,
        epsilon: float = 1e-5,
        crosses: bool = False,
        normalisation: Normalisation = "layer",
        gated: bool = False,
        kv_heads: int = 0,
        head_width: int = 0,
    ) -> None:
        super().__init__()
        if crosses and order != "sequential":
            raise ValueError("a block that reads an encoder is sequential: its branches need one another's results")
        self.norm, self.order = norm, order
        self.attention_norm = norm_of(normalisation, width, has_bias(bias, "norm"), epsilon)
        self.attention = MultiHeadAttention(width, heads, bias, dropout, kv_heads, head_width)
        self.cross_norm = norm_of(normalisation, width, has_bias(bias, "norm"), epsilon) if crosses else None
        self.cross = MultiHeadAttention(width, heads, bias, dropout, kv_heads, head_width) if crosses else None
        # The parallel post-LN block has a single sum and so a single norm, as has a block of attention alone.
        alone = order == "attention" or (norm == "post" and order == "parallel")
        self.feed_forward_norm = None if alone else norm_of(normalisation, width, has_bias(bias, "norm"), epsilon)
        self.feed_forward = (
            None
            if order == "attention"
            else FeedForward(width, feed_forward, activation, has_bias(bias, "feed_forward"), dropout, gated)
        )

    def forward(
        self,
        x: Tensor,
        mask: Mask,
        kernel: Kernel,
        angles: Tensor | None = None,
        cache: LayerCache | None = None,
        hooks: Hooks = NO_HOOKS,
        memory: Tensor | None = None,
        memory_mask: Mask = NO_MASK,
    ) -> Tensor:
        """`memory` (B, S, D) is the encoder's output, masked by `memory_mask`."""
        attention = partial(
            self.attention, mask=mask, kernel=kernel, angles=angles, cache=cache, hooks=hooks.within("attention")
        )
        x = hooks("resid_pre", x)
        if self.feed_forward is None:
            return hooks("resid_post", self.residual(x, self.attention_norm, attention))
        feed_forward = partial(self.feed_forward, hooks=hooks.within("feed_forward"))
        if self.order == "parallel":
            if self.norm == "pre":
                assert self.feed_forward_norm is not None
                return hooks(
                    "resid_post", x + attention(self.attention_norm(x)) + feed_forward(self.feed_forward_norm(x))
                )
            return hooks("resid_post", self.attention_norm(x + attention(x) + feed_forward(x)))
        x = hooks("resid_mid", self.residual(x, self.attention_norm, attention))
        if self.cross is not None:
            across = hooks.within("cross")
            cross = partial(self.cross, mask=memory_mask, kernel=kernel, cache=cache, hooks=across, memory=memory)
            x = hooks("resid_cross", self.residual(x, self.cross_norm, cross))
        return hooks("resid_post", self.residual(x, self.feed_forward_norm, feed_forward))

    def residual(self, x: Tensor, norm: Norm | None, f: Callable[[Tensor], Tensor]) -> Tensor:
        """Return x + f(LN x) for pre-LN, LN(x + f x) for post-LN. MATH T6."""
        assert norm is not None  # a block with a single sum lacks its second norm, and does not call this with it
        return x + f(norm(x)) if self.norm == "pre" else norm(x + f(x))


class Stack(nn.ModuleList):
    """N blocks one after another: the residual stream (B, T, D) → (B, T, D). Places: blocks.0.…, see Block."""

    def forward(
        self,
        x: Tensor,
        mask: Mask,
        kernel: Kernel,
        angles: Tensor | None = None,
        caches: Sequence[LayerCache] | None = None,
        hooks: Hooks = NO_HOOKS,
        memory: Tensor | None = None,
        memory_mask: Mask = NO_MASK,
    ) -> Tensor:
        for layer, block in enumerate(self):
            cache = caches[layer] if caches else None
            x = block(x, mask, kernel, angles, cache, hooks.within(f"blocks.{layer}"), memory, memory_mask)
        return x


class NormedStack(nn.Module):
    """A stack that ends in a final norm if its blocks are pre-LN: the encoder or decoder of an encoder–decoder.

    The output of the last pre-LN block is not normalised; a post-LN block ends in a norm anyway. MATH T8, T10.
    """

    def __init__(self, blocks: Iterable[Block], final_norm: Norm | None) -> None:
        super().__init__()
        self.blocks = Stack(blocks)
        self.final_norm = final_norm

    def forward(
        self,
        x: Tensor,
        mask: Mask = NO_MASK,
        kernel: Kernel = "sdpa",
        angles: Tensor | None = None,
        caches: Sequence[LayerCache] | None = None,
        hooks: Hooks = NO_HOOKS,
        memory: Tensor | None = None,
        memory_mask: Mask = NO_MASK,
    ) -> Tensor:
        """Residual stream → residual stream; each block attends to its own stream, then to `memory` if given."""
        x = self.blocks(x, mask, kernel, angles, caches, hooks, memory, memory_mask)
        return x if self.final_norm is None else self.final_norm(x)


def set_dropout(model: nn.Module, share: float) -> None:
    """Set the dropout probability of a model's embeddings, weights α and branch outputs."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = share
        elif isinstance(module, MultiHeadAttention):
            module.weight_dropout = share
