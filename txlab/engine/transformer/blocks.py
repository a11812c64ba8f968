"""The building blocks of a transformer: norms, feed-forward, the block, the stack of blocks (MATH T5, T6, T8–T11).

LayerNorm divides by √(σ²+ε), as is standard (one lecture text writes σ+ε), and γ, β are vectors. Modules hold
parameters; masks, caches and hooks are arguments, so that the data flow is visible. An encoder's attention is not
causal (erratum T10: a lecture text says it is); its only mask is padding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txlab.engine.transformer.attention import NO_MASK, Biased, Kernel, LayerCache, Mask, MultiHeadAttention, biased
from txlab.engine.transformer.hooks import NO_HOOKS, Hooks

Activation = Literal["gelu", "gelu_tanh", "relu", "swish"]
ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "swish": F.silu,
}
Placement = Literal["pre", "post"]
Normalisation = Literal["layer", "rms"]
Order = Literal["sequential", "parallel", "attention"]


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


def norm_of(normalisation: Normalisation, width: int, bias: Biased, epsilon: float) -> Norm:
    return RMSNorm(width, epsilon) if normalisation == "rms" else LayerNorm(width, biased(bias, "norm"), epsilon)


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
    theirs (MATH T8); it must be sequential. Places: enter, middle (after attention, sequential only), crossed (after
    cross-attention), leave, each (B, T, D); inside: attention.…, cross.…, feed_forward.… (not in "attention" blocks).
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
        self.attention_norm = norm_of(normalisation, width, bias, epsilon)
        self.attention = MultiHeadAttention(width, heads, bias, dropout, kv_heads, head_width)
        self.cross_norm = norm_of(normalisation, width, bias, epsilon) if crosses else None
        self.cross = MultiHeadAttention(width, heads, bias, dropout, kv_heads, head_width) if crosses else None
        # The parallel post-LN block has a single sum and so a single norm, as has a block of attention alone.
        alone = order == "attention" or (norm == "post" and order == "parallel")
        self.feed_forward_norm = None if alone else norm_of(normalisation, width, bias, epsilon)
        self.feed_forward = (
            None
            if order == "attention"
            else FeedForward(width, feed_forward, activation, biased(bias, "feed_forward"), dropout, gated)
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
        x = hooks("enter", x)
        if self.feed_forward is None:
            return hooks("leave", self.residual(x, self.attention_norm, attention))
        feed_forward = partial(self.feed_forward, hooks=hooks.within("feed_forward"))
        if self.order == "parallel":
            if self.norm == "pre":
                assert self.feed_forward_norm is not None
                return hooks("leave", x + attention(self.attention_norm(x)) + feed_forward(self.feed_forward_norm(x)))
            return hooks("leave", self.attention_norm(x + attention(x) + feed_forward(x)))
        x = hooks("middle", self.residual(x, self.attention_norm, attention))
        if self.cross is not None:
            across = hooks.within("cross")
            cross = partial(self.cross, mask=memory_mask, kernel=kernel, cache=cache, hooks=across, memory=memory)
            x = hooks("crossed", self.residual(x, self.cross_norm, cross))
        return hooks("leave", self.residual(x, self.feed_forward_norm, feed_forward))

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


# Current names of parameters in checkpoints saved before a renaming: old part of a name → current part.
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
    """Return the current name of a parameter, whatever it was called when it was saved.

    >>> current_name("blocks.0.feed_forward.rise.weight"), current_name("blocks.0.attention.out_proj.bias")
    ('blocks.0.feed_forward.up_proj.weight', 'blocks.0.attention.out_proj.bias')
    """
    return ".".join(FORMER_NAMES.get(part, part) for part in parameter.split("."))
