"""What a transformer is stacked from: norms, feed-forward, multi-head attention, the block (MATH T3, T5, T6, T9, T11).

Notable: LayerNorm divides by √(σ²+ε), as everybody does (one lecture text writes σ+ε), and γ, β are vectors. Modules
hold parameters; masks, caches and hooks are arguments, so that data flow stays in sight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txlab.engine.transformer.attention import NO_MASK, Kernel, Mask, attention
from txlab.engine.transformer.hooks import Hooks
from txlab.engine.transformer.linear import Linear
from txlab.engine.transformer.positions import rotate

Activation = Literal["gelu", "gelu_tanh", "relu", "swish"]
ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "swish": F.silu,
}
Placement = Literal["pre", "post"]
Normalisation = Literal["layer", "rms"]
# Whether maps and norms have biases: all, none, or those named: "qkv", "out", "feed_forward", "norm".
Biased = bool | tuple[str, ...]
Order = Literal["sequential", "parallel"]


@dataclass
class LayerCache:
    """What a layer need not compute again: keys and values (B, H, S, K) of the positions already read, and those of
    the encoder's output, which stay the same from token to token. None before the first.

    Where no gradient is wanted keys and values lie in `room` (2, B, H, places, K), which is made twice as large when it
    is full: adding a token then copies that token, not all before it (benchmarks/transformer.py, "cache").
    """

    keys: Tensor | None = None
    values: Tensor | None = None
    memory_keys: Tensor | None = None
    memory_values: Tensor | None = None
    room: Tensor | None = None

    @property
    def length(self) -> int:
        """How many positions were read already."""
        return 0 if self.keys is None else self.keys.shape[-2]

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append the newest keys and values, and return all of them."""
        if self.keys is None or self.values is None:
            self.keys, self.values = k, v
        elif torch.is_grad_enabled() and k.requires_grad:  # a gradient needs what was there, not what overwrote it
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
        """Keep these rows of the batch, in this order; a row may come several times."""
        length = self.length
        if self.room is not None:
            self.room = self.room[:, rows]
            self.keys, self.values = self.room[0, ..., :length, :], self.room[1, ..., :length, :]
        elif self.keys is not None and self.values is not None:
            self.keys, self.values = self.keys[rows], self.values[rows]
        if self.memory_keys is not None and self.memory_values is not None:
            self.memory_keys, self.memory_values = self.memory_keys[rows], self.memory_values[rows]


def biased(bias: Biased, part: str) -> bool:
    return bias if isinstance(bias, bool) else part in bias


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
        """√(σ² + ε), what each position is divided by: (…, D) → (…, 1)."""
        return (x.var(-1, correction=0, keepdim=True) + self.epsilon).sqrt()

    def before(self, w: Tensor) -> Tensor:
        """What reads the norm's input as w reads its output, but for the scale: w Γ C, where C takes out the mean."""
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
        """√(mean x² + ε), what each position is divided by: (…, D) → (…, 1)."""
        return (x.square().mean(-1, keepdim=True) + self.epsilon).sqrt()

    def before(self, w: Tensor) -> Tensor:
        """What reads the norm's input as w reads its output, but for the scale: w Γ."""
        return w * self.weight.to(w.dtype)


Norm = LayerNorm | RMSNorm


def norm_of(normalisation: Normalisation, width: int, bias: Biased, epsilon: float) -> Norm:
    return RMSNorm(width, epsilon) if normalisation == "rms" else LayerNorm(width, biased(bias, "norm"), epsilon)


class FeedForward(nn.Module):
    """W₂ f(W₁ x + b₁) + b₂: (…, D) → (…, D). MATH T5. Gated: W₂ (f(W₃ x + b₃) ⊙ (W₁ x + b₁)) + b₂. MATH T11.

    f = "relu", max(0, x); "gelu", x Φ(x) (Hendrycks & Gimpel 2016); "gelu_tanh", the approximation that GPT-2's
    weights were trained with; "swish", x σ(x), which Marian's were. The exact gelu is the default: on a CPU torch
    vectorises erf and not tanh, 174 against 748 µs for 768 × 512 numbers forward. Gated with swish it is SwiGLU, which
    Llama has (Shazeer 2020, eq. 6).

    Places: neurons (…, F), what W₂ reads · out (…, D).
    """

    def __init__(
        self, width: int, feed_forward: int, activation: Activation, bias: bool, dropout: float, gated: bool = False
    ) -> None:
        super().__init__()
        self.up_proj = Linear(width, feed_forward, bias)  # W₁ (F, D)
        self.gate_proj = Linear(width, feed_forward, bias) if gated else None  # W₃ (F, D)
        self.down_proj = Linear(feed_forward, width, bias)  # W₂ (D, F)
        self.activation = activation
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, hooks: Hooks | None = None) -> Tensor:
        f = ACTIVATIONS[self.activation]
        neurons = f(self.up_proj(x)) if self.gate_proj is None else f(self.gate_proj(x)) * self.up_proj(x)  # (…, F)
        if hooks is not None:
            neurons = hooks("neurons", neurons)
        out: Tensor = self.dropout(self.down_proj(neurons))
        return out if hooks is None else hooks("out", out)


class MultiHeadAttention(nn.Module):
    """H heads side by side, each with its own W_Q, W_K, W_V, mixed by W_O: (B, T, D) → (B, T, D). MATH T3.

    The three input maps are rows of one matrix, [W_Q; W_K; W_V], one product instead of three: (3D, D), where K = D/H.
    With G < H heads of keys and values, head h looks at those of number ⌊h G/H⌋: (H·K + 2 G·K, D). Ainslie et al.
    2023 (grouped queries), Shazeer 2019 (G = 1). With `memory` (B, S, D) it is cross-attention: Q comes from x, K and V
    from the memory (MATH T8).

    Places: query (B, H, T, K), key and value (B, H, S, K), as they enter the product, after rotary turning and with
    what a cache held, each head with those it looks at · scores and pattern (B, H, T, S) · heads (B, H, T, K), each
    head's α V · out (B, T, D).
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
        self.qkv_proj = Linear(width, sum(self.sizes), biased(bias, "qkv"))
        self.out_proj = Linear(heads * K, width, biased(bias, "out"))  # W_O (D, H·K)
        self.weight_dropout = dropout  # of the weights α
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        mask: Mask,
        kernel: Kernel,
        angles: Tensor | None = None,
        cache: LayerCache | None = None,
        hooks: Hooks | None = None,
        memory: Tensor | None = None,
    ) -> Tensor:
        if memory is None:
            q, k, v = map(
                self._by_heads, torch.split(self.qkv_proj(x), self.sizes, -1)
            )  # (B, H, T, K), (B, G, T, K) twice
            if angles is not None:
                q, k = rotate(q, angles), rotate(k, angles)
            if cache is not None:
                k, v = cache.extend(k, v)  # (B, G, S, K)
        else:
            q, k, v = self._across(x, memory, cache)
        if self.kv_heads < self.heads:  # each as often as heads look at it
            k, v = (each.repeat_interleave(self.heads // self.kv_heads, 1) for each in (k, v))  # (B, H, S, K)
        if hooks is not None:
            q, k, v = hooks("query", q), hooks("key", k), hooks("value", v)
        mixed = attention(q, k, v, mask, kernel, self.weight_dropout if self.training else 0.0, hooks)  # (B, H, T, K)
        if hooks is not None:
            mixed = hooks("heads", mixed)
        out: Tensor = self.dropout(self.out_proj(mixed.transpose(1, 2).flatten(2)))  # (B, T, H·K) → (B, T, D)
        return out if hooks is None else hooks("out", out)

    def _across(self, x: Tensor, memory: Tensor, cache: LayerCache | None) -> tuple[Tensor, Tensor, Tensor]:
        """Q of the decoder's x (B, H, T, K); K and V of the encoder's output (B, G, S, K), computed once a text."""
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
        """W_Q, W_K, W_V (H, K, D) of each head, with biases as a last column (H, K, D + 1) where there are any."""
        weight = self.qkv_proj.weight
        if self.qkv_proj.bias is not None:
            weight = torch.cat((weight, self.qkv_proj.bias[:, None]), dim=1)
        q, k, v = (part.view(-1, self.head_width, part.shape[-1]) for part in torch.split(weight, self.sizes))
        times = self.heads // self.kv_heads
        return q, k.repeat_interleave(times, 0), v.repeat_interleave(times, 0)


class Block(nn.Module):
    """Attention and feed-forward, each added to the residual stream: (B, T, D) → (B, T, D).

    sequential, pre   x ← x + Attn(LN₁ x);  x ← x + FF(LN₂ x)          GPT-2
    sequential, post  x ← LN₁(x + Attn x);  x ← LN₂(x + FF x)          Vaswani et al. 2017
    parallel, pre     x ← x + Attn(LN₁ x) + FF(LN₂ x)                  MATH T9; Becker-Kahn §4
    parallel, post    x ← LN₁(x + Attn x + FF x)

    A decoder's block that also reads an encoder (`crosses`) has a third branch between the two, placed as they are
    (MATH T8); it is sequential. Places: enter, middle (after attention, sequential only), crossed (after
    cross-attention), leave, each (B, T, D); inside: attention.…, cross.…, feed_forward.….
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
        if crosses and order == "parallel":
            raise ValueError("a block that reads an encoder is sequential: its branches need one another's results")
        self.norm, self.order = norm, order
        self.attention_norm = norm_of(normalisation, width, bias, epsilon)
        self.attention = MultiHeadAttention(width, heads, bias, dropout, kv_heads, head_width)
        self.cross_norm = norm_of(normalisation, width, bias, epsilon) if crosses else None
        self.cross = MultiHeadAttention(width, heads, bias, dropout, kv_heads, head_width) if crosses else None
        # One sum, one norm: the parallel post-LN block has no second one.
        alone = norm == "post" and order == "parallel"
        self.feed_forward_norm = None if alone else norm_of(normalisation, width, bias, epsilon)
        self.feed_forward = FeedForward(width, feed_forward, activation, biased(bias, "feed_forward"), dropout, gated)

    def forward(
        self,
        x: Tensor,
        mask: Mask,
        kernel: Kernel,
        angles: Tensor | None = None,
        cache: LayerCache | None = None,
        hooks: Hooks | None = None,
        memory: Tensor | None = None,
        memory_mask: Mask = NO_MASK,
    ) -> Tensor:
        """`memory` (B, S, D), the encoder's output, of which `memory_mask` says what may be looked at."""
        if hooks is not None:
            x = hooks("enter", x)
        first, second, pre = self.attention_norm, self.feed_forward_norm, self.norm == "pre"
        seen, across, inner = (
            (None, None, None) if hooks is None else map(hooks.within, ("attention", "cross", "feed_forward"))
        )
        if self.order == "parallel":
            looked = self.attention(first(x) if pre else x, mask, kernel, angles, cache, seen)
            if second is None:
                x = first(x + looked + self.feed_forward(x, inner))
            else:
                x = x + looked + self.feed_forward(second(x), inner)
            return x if hooks is None else hooks("leave", x)
        looked = self.attention(first(x) if pre else x, mask, kernel, angles, cache, seen)
        x = x + looked if pre else first(x + looked)
        if hooks is not None:
            x = hooks("middle", x)
        if self.cross is not None and self.cross_norm is not None:
            third = self.cross_norm
            read = self.cross(third(x) if pre else x, memory_mask, kernel, None, cache, across, memory)
            x = x + read if pre else third(x + read)
            if hooks is not None:
                x = hooks("crossed", x)
        assert second is not None  # only the parallel post-LN block has no second norm
        thought = self.feed_forward(second(x) if pre else x, inner)
        x = x + thought if pre else second(x + thought)
        return x if hooks is None else hooks("leave", x)


def set_dropout(model: nn.Module, share: float) -> None:
    """Drop this share of embeddings, weights α and branch outputs of a model from now on."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = share
        elif isinstance(module, MultiHeadAttention):
            module.weight_dropout = share


# What the parameters of a checkpoint from before a renaming are called today: (old part of a name, today's).
FORMER_NAMES = {
    "norm_attention": "attention_norm",
    "norm_cross": "cross_norm",
    "norm_feed_forward": "feed_forward_norm",
    "norm_embedding": "embedding_norm",
    "norm_transform": "transform_norm",
    "last_norm": "final_norm",
    "qkv": "qkv_proj",
    "out": "out_proj",
    "rise": "up_proj",
    "gate": "gate_proj",
    "fall": "down_proj",
}


def current_name(parameter: str) -> str:
    """The name that a parameter has today, whatever it was called when it was saved.

    >>> current_name("blocks.0.feed_forward.rise.weight"), current_name("blocks.0.attention.out_proj.bias")
    ('blocks.0.feed_forward.up_proj.weight', 'blocks.0.attention.out_proj.bias')
    """
    return ".".join(FORMER_NAMES.get(part, part) for part in parameter.split("."))
