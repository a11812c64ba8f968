"""Stacks of blocks: an encoder's, in which every position sees every other, and a decoder's, which reads an encoder.

MATH T8, T10. Notable: an encoder's attention is not causal (erratum T10: a lecture text calls it so); its only mask is
padding. With norms placed before the branches the sum that leaves the last block was never normed, so such a
stack ends with a LayerNorm of its own; with norms placed after, it does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import torch
from torch import Tensor, nn

from txlab.engine.transformer.attention import CAUSAL, NO_MASK, Kernel, Mask
from txlab.engine.transformer.blocks import Activation, Block, LayerCache, LayerNorm, Placement
from txlab.engine.transformer.hooks import Hooks


class Stack(nn.Module):
    """N blocks and, pre-LN, a last norm. What an encoder and a decoder are made of."""

    def __init__(
        self,
        layers: int,
        heads: int,
        width: int,
        feed_forward: int,
        *,
        norm: Placement,
        activation: Activation,
        bias: bool = True,
        dropout: float = 0.0,
        epsilon: float = 1e-5,
        crosses: bool = False,
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            Block(
                width,
                heads,
                feed_forward,
                norm=norm,
                activation=activation,
                bias=bias,
                dropout=dropout,
                epsilon=epsilon,
                crosses=crosses,
            )
            for _ in range(layers)
        )
        self.final_norm = LayerNorm(width, bias, epsilon) if norm == "pre" else None


class Encoder(Stack):
    """Residual stream (B, S, D) → (B, S, D), where every position sees every position that the mask leaves. MATH T10.

    Places: blocks.0.…, see Block.
    """

    def forward(
        self,
        x: Tensor,
        mask: Mask = NO_MASK,
        kernel: Kernel = "sdpa",
        angles: Tensor | None = None,
        hooks: Hooks | None = None,
    ) -> Tensor:
        for layer, block in enumerate(self.blocks):
            x = block(x, mask, kernel, angles, None, None if hooks is None else hooks.within(f"blocks.{layer}"))
        return x if self.final_norm is None else self.final_norm(x)


class Decoder(Stack):
    """Residual stream (B, T, D) and the encoder's output (B, S, D) → (B, T, D). MATH T8; Vaswani et al. 2017, §3.1.

    Each block looks back at its own stream, then at the memory: Q from the stream, **K and V from the memory** (erratum
    T8: one of the lecture texts takes Q and K from there). Places: blocks.0.attention.…, blocks.0.cross.…, see Block.
    """

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Mask = CAUSAL,
        memory_mask: Mask = NO_MASK,
        kernel: Kernel = "sdpa",
        angles: Tensor | None = None,
        caches: Sequence[LayerCache] | None = None,
        hooks: Hooks | None = None,
    ) -> Tensor:
        for layer, block in enumerate(self.blocks):
            inside = None if hooks is None else hooks.within(f"blocks.{layer}")
            x = block(x, mask, kernel, angles, caches[layer] if caches else None, inside, memory, memory_mask)
        return x if self.final_norm is None else self.final_norm(x)


@torch.no_grad()
def initialise_glorot(model: nn.Module, generator: torch.Generator | None) -> None:
    """Maps U(±√(6/(in+out))), tables N(0, 1/D), norms' γ 1, all biases 0. Glorot & Bengio 2010, eq. 16.

    What the models of 2017 began with: a branch is about as large as what it reads, and a table of deviation 1/√D gives
    embeddings of deviation 1 once they are multiplied by √D, beside sinusoids of .7. [W_Q; W_K; W_V] is three maps, not
    one that is three times as tall.
    """
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            module.weight.normal_(0.0, module.embedding_dim**-0.5, generator=generator)
        elif isinstance(module, nn.Linear):
            out, into = module.weight.shape
            out = into if out == 3 * into else out
            bound = sqrt(6 / (into + out))
            module.weight.uniform_(-bound, bound, generator=generator)
            if module.bias is not None:
                module.bias.zero_()
