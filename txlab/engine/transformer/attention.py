"""Scaled dot-product attention: masks, scores, pattern and weighted sum (MATH T1, T2).

Attention consists of `scores`, `pattern` and the product with V; explanations call the same functions, so they cannot
disagree with the model. A mask is a boolean matrix of allowed pairs; how attention applies it (−∞ before the softmax,
zeros for a row with no allowed key) is decided here. Following Yang, attention passes messages along the edges of a
directed graph, and the causal mask is one such graph. The softmax runs along each row (erratum T1: one of the lecture
texts normalises over the whole matrix). Two kernels compute the same result: "matmul" writes the formula out and is
faster for short contexts in bfloat16 on a CPU; "sdpa" is torch's fused kernel and is faster for long ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txlab.engine.transformer.hooks import NO_HOOKS, Hooks
from txlab.engine.transformer.positions import rotate


class Mask(Protocol):
    """A mask: `name` appears in frames, `allowed` says which keys each query may attend to."""

    @property
    def name(self) -> str: ...

    def allowed(self, queries: int, keys: int, device: torch.device | None = None) -> Tensor | None:
        """Return (queries, keys) or (B, 1, queries, keys) booleans, True = allowed; None = everything is allowed.

        With fewer queries than keys, the queries are the last positions: a cache holds the keys before them.
        """


@dataclass(frozen=True)
class NoMask:
    """Every position sees every position (an encoder)."""

    name: str = "none"

    def allowed(self, queries: int, keys: int, device: torch.device | None = None) -> Tensor | None:
        return None


@dataclass(frozen=True)
class Causal:
    """Position i sees j ≤ i: −∞ above the diagonal (Vaswani et al. 2017, §3.2.3)."""

    name: str = "causal"

    def allowed(self, queries: int, keys: int, device: torch.device | None = None) -> Tensor | None:
        if queries == 1:
            return None  # the newest position sees everything in the cache
        return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


@dataclass(frozen=True)
class Padding:
    """Hides the padding of each sequence; `lengths` has one entry per sequence.

    Padding follows the sequence, or precedes it with `left`, as generation needs: the last position of every row is
    then a real token.
    """

    lengths: tuple[int, ...]
    left: bool = False
    name: str = "padding"

    def allowed(self, queries: int, keys: int, device: torch.device | None = None) -> Tensor | None:
        lengths = torch.tensor(self.lengths, device=device)[:, None]  # (B, 1)
        place = torch.arange(keys, device=device)  # (S)
        real = place >= keys - lengths if self.left else place < lengths  # (B, S)
        return real[:, None, None, :].expand(-1, 1, queries, -1)


@dataclass(frozen=True)
class GraphMask:
    """Node i sees node j exactly where `sees[i][j]`: attention as message passing along a directed graph (Yang).

    A text shorter than the graph occupies its first nodes.
    """

    sees: tuple[tuple[bool, ...], ...]
    name: str = "graph"

    @classmethod
    def of_edges(cls, nodes: int, edges: Iterable[tuple[int, int]]) -> GraphMask:
        """Return the graph in which a message travels from j to i for each edge (j, i).

        >>> GraphMask.of_edges(2, [(0, 1)]).sees
        ((False, False), (True, False))
        """
        arrows = set(edges)
        return cls(tuple(tuple((j, i) in arrows for j in range(nodes)) for i in range(nodes)))

    def allowed(self, queries: int, keys: int, device: torch.device | None = None) -> Tensor | None:
        if keys > len(self.sees):
            raise ValueError(f"a graph on {len(self.sees)} nodes cannot mask {keys} positions")
        return torch.tensor(self.sees, dtype=torch.bool, device=device)[keys - queries : keys, :keys]


@dataclass(frozen=True)
class Every:
    """The intersection of several masks, e.g. causal and padding."""

    masks: Sequence[Mask]

    @property
    def name(self) -> str:
        return " and ".join(mask.name for mask in self.masks)

    def allowed(self, queries: int, keys: int, device: torch.device | None = None) -> Tensor | None:
        together: Tensor | None = None
        for mask in self.masks:
            one = mask.allowed(queries, keys, device)
            if one is not None:
                together = one if together is None else together & one
        return together


CAUSAL = Causal()
NO_MASK = NoMask()


Kernel = Literal["matmul", "sdpa"]


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
    somebody = allowed.any(-1, keepdim=True)  # (…, T, 1)
    visible = scores.masked_fill(somebody & ~allowed, float("-inf"))
    return visible.softmax(-1) * somebody.to(scores.dtype)


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
        alpha = pattern(hooks("scores", scores(q, k)), mask.allowed(queries, keys, q.device))
        return F.dropout(hooks("pattern", alpha), dropout) @ v
    if isinstance(mask, Causal):
        return _causal(q, k, v, kernel, dropout)
    allowed = mask.allowed(queries, keys, q.device)
    if kernel == "sdpa" and allowed is None:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout)
    if kernel == "sdpa" and allowed is not None:
        # For a fully masked row some of torch's kernels return zeros, others NaN: unmask the row, then zero it.
        somebody = allowed.any(-1, keepdim=True)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed | ~somebody, dropout_p=dropout)
        return mixed * somebody.to(mixed.dtype)
    return F.dropout(pattern(scores(q, k), allowed), dropout) @ v


def _causal(q: Tensor, k: Tensor, v: Tensor, kernel: Kernel, dropout: float) -> Tensor:
    """`attention` under the causal mask, where every row sees at least itself, so empty rows need no handling."""
    queries, keys = q.shape[-2], k.shape[-2]
    if kernel == "sdpa":
        if queries == keys or queries == 1:
            # With one query, is_causal would hide all keys but the first; a single query needs no mask.
            return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=queries > 1)
        allowed = Causal().allowed(queries, keys, q.device)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=dropout)
    bias = causal_bias(queries, keys, q) if queries > 1 else None
    return F.dropout(scores(q, k, bias).softmax(-1), dropout) @ v


def causal_bias(queries: int, keys: int, like: Tensor) -> Tensor:
    """Return (queries, keys): 0 where allowed, −∞ elsewhere. Adding it saves one pass over a masked fill."""
    return torch.full((queries, keys), float("-inf"), dtype=like.dtype, device=like.device).triu(keys - queries + 1)


@dataclass
class LayerCache:
    """The key–value cache of one layer: keys and values (B, H, S, K) of the positions already read, and those of the
    encoder's output, which do not change from token to token. None before the first.

    Without gradients, keys and values are stored in `room` (2, B, H, places, K), which doubles in size when it is full:
    appending a token then copies only that token (benchmarks/transformer.py, "cache").
    """

    keys: Tensor | None = None
    values: Tensor | None = None
    memory_keys: Tensor | None = None
    memory_values: Tensor | None = None
    room: Tensor | None = None

    @property
    def length(self) -> int:
        """The number of positions already read."""
        return 0 if self.keys is None else self.keys.shape[-2]

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append the newest keys and values, and return all of them."""
        if self.keys is None or self.values is None:
            self.keys, self.values = k, v
        elif torch.is_grad_enabled() and k.requires_grad:  # autograd needs the old values, so nothing is overwritten
            self.keys, self.values = torch.cat((self.keys, k), -2), torch.cat((self.values, v), -2)
        else:
            before, after = self.length, self.length + k.shape[-2]
            room = self.room
            if room is None or room.shape[-2] < after:
                room = k.new_empty((2, *k.shape[:-2], max(64, 2 * after), k.shape[-1]))
                room[0, ..., :before, :], room[1, ..., :before, :] = self.keys, self.values
            room[0, ..., before:after, :], room[1, ..., before:after, :] = k, v
            self.room = room
            self.keys, self.values = room[0, ..., :after, :], room[1, ..., :after, :]
        return self.keys, self.values

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order; a row may appear several times."""
        length = self.length
        if self.room is not None:
            self.room = self.room[:, rows]
            self.keys, self.values = self.room[0, ..., :length, :], self.room[1, ..., :length, :]
        elif self.keys is not None and self.values is not None:
            self.keys, self.values = self.keys[rows], self.values[rows]
        if self.memory_keys is not None and self.memory_values is not None:
            self.memory_keys, self.memory_values = self.memory_keys[rows], self.memory_values[rows]


# Which maps and norms have biases: all, none, or those named: "qkv", "out", "feed_forward", "norm".
Biased = bool | tuple[str, ...]


def biased(bias: Biased, part: str) -> bool:
    return bias if isinstance(bias, bool) else part in bias


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
        self.qkv_proj = nn.Linear(width, sum(self.sizes), biased(bias, "qkv"))
        self.out_proj = nn.Linear(heads * K, width, biased(bias, "out"))  # W_O (D, H·K)
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
