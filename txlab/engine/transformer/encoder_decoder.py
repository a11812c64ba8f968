"""The transformer of 2017: an encoder reads the source, a decoder writes the target (MATH T8).

Teacher forcing is one call with the whole target; generating step by step is the same call with caches. Positions are
sinusoids, interleaved as Wang and Vaswani write them or all sines first (Marian's weights), or learnt, or rotary in
the self-attentions only: in cross-attention, source and target positions count from different origins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txlab.engine.transformer.blocks import Activation, Block, Kernel, NormedStack, Placement, set_dropout
from txlab.engine.transformer.hooks import NO_HOOKS, Hooks
from txlab.engine.transformer.key_value_cache import LayerCache
from txlab.engine.transformer.masks import CAUSAL, NO_MASK, Mask
from txlab.engine.transformer.norms import LayerNorm
from txlab.engine.transformer.positions import rotary_angles, sinusoids


@dataclass(frozen=True)
class EncoderDecoderShape:
    """The configuration of a model; letters are those of `txlab formulas`.

    encoder_layers, decoder_layers N · heads H · width D · feed_forward F (0 = 4D) · context, the maximum number of
    positions of a source and of a target
    norm             "post" (as published) or "pre" (then each stack ends with a norm)
    positions        "sinusoidal", "learned" or "rotary"
    shared           source and target share one embedding table (and so one vocabulary)
    tied             the unembedding is the target's embedding table
    scale_embedding  embeddings are multiplied by √D
    output_bias      the logits have a bias (V)
    half_sinusoids   all sines first, then all cosines, instead of interleaved
    """

    encoder_layers: int
    decoder_layers: int
    heads: int
    width: int
    source_vocabulary: int
    target_vocabulary: int
    context: int
    feed_forward: int = 0
    norm: Placement = "post"
    activation: Activation = "relu"
    positions: str = "sinusoidal"
    shared: bool = True
    tied: bool = True
    scale_embedding: bool = True
    output_bias: bool = False
    half_sinusoids: bool = False
    epsilon: float = 1e-5
    dropout: float = 0.0
    bias: bool = True

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def inner(self) -> int:
        """F, with 0 read as 4D."""
        return self.feed_forward or 4 * self.width


class EncoderDecoder(nn.Module):
    """Source ids (B, S) and target ids (B, T) → logits (B, T, V): row t scores the target's token t + 1. MATH T8.

    Places: encoder.embedding (B, S, D), with positions · encoder.blocks.0.… · memory (B, S, D), the encoder's output ·
    decoder.embedding (B, T, D) · decoder.blocks.0.attention.…, decoder.blocks.0.cross.… · logits (B, T, V).
    """

    position_table: Tensor

    def __init__(self, shape: EncoderDecoderShape, generator: torch.Generator | None = None) -> None:
        super().__init__()
        if shape.shared and shape.source_vocabulary != shape.target_vocabulary:
            sizes = f"{shape.source_vocabulary} and {shape.target_vocabulary}"
            raise ValueError(f"one table cannot serve vocabularies of {sizes} tokens; shared = False gives two")
        self.shape = shape
        D = shape.width
        self.embed_target = nn.Embedding(shape.target_vocabulary, D)  # (V, D)
        self.embed_source = None if shape.shared else nn.Embedding(shape.source_vocabulary, D)
        learned = shape.positions == "learned"
        self.positions_source = nn.Embedding(shape.context, D) if learned else None
        self.positions_target = nn.Embedding(shape.context, D) if learned else None
        # Fixed tables are computed, not learnt, and so not saved: sinusoids (context, D) or angles (context, K/2).
        fixed = torch.empty(0)
        if shape.positions == "sinusoidal":
            fixed = sinusoids(shape.context, D, shape.half_sinusoids)
        elif shape.positions == "rotary":
            fixed = rotary_angles(shape.context, shape.head_width)
        self.register_buffer("position_table", fixed, persistent=False)
        self.dropout = nn.Dropout(shape.dropout)

        def stack(layers: int, crosses: bool) -> NormedStack:
            blocks = (
                Block(
                    D,
                    shape.heads,
                    shape.inner,
                    norm=shape.norm,
                    activation=shape.activation,
                    bias=shape.bias,
                    dropout=shape.dropout,
                    epsilon=shape.epsilon,
                    crosses=crosses,
                )
                for _ in range(layers)
            )
            return NormedStack(blocks, LayerNorm(D, shape.bias, shape.epsilon) if shape.norm == "pre" else None)

        self.encoder = stack(shape.encoder_layers, crosses=False)
        self.decoder = stack(shape.decoder_layers, crosses=True)
        self.unembed = None if shape.tied else nn.Linear(D, shape.target_vocabulary, bias=False)  # W_U (V, D)
        self.unembed_bias = nn.Parameter(torch.zeros(shape.target_vocabulary)) if shape.output_bias else None
        initialise_glorot(self, generator)

    def encode(self, source: Tensor, kernel: Kernel = "sdpa", mask: Mask = NO_MASK, hooks: Hooks = NO_HOOKS) -> Tensor:
        """Source ids (B, S) → the memory (B, S, D) that every decoder block attends to; `mask` is its padding."""
        inside = hooks.within("encoder")
        table = self.embed_target if self.embed_source is None else self.embed_source
        x, angles = self._embed(table, self.positions_source, source, 0)  # (B, S, D)
        x = self.dropout(inside("embedding", x))
        return hooks("memory", self.encoder(x, mask, kernel, angles, hooks=inside))

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        kernel: Kernel = "sdpa",
        *,
        source_mask: Mask = NO_MASK,
        target_mask: Mask = CAUSAL,
        hooks: Hooks = NO_HOOKS,
        caches: Sequence[LayerCache] | None = None,
        memory: Tensor | None = None,
    ) -> Tensor:
        """Teacher forcing: the target begins with its start token, and row t may attend to its tokens up to t.

        `source_mask`, the source's padding, applies in the encoder and in cross-attention. To generate step by step,
        pass `memory` from `encode` and caches (one per layer); `target` is then the tokens after those already read.
        ValueError past the context.
        """
        if memory is None:
            memory = self.encode(source, kernel, source_mask, hooks)
        read = caches[0].length if caches else 0
        inside = hooks.within("decoder")
        x, angles = self._embed(self.embed_target, self.positions_target, target, read)  # (B, T, D)
        x = self.dropout(inside("embedding", x))
        # Each block attends to its own stream, then to the memory: Q from the stream, K and V from the memory
        # (erratum T8: one of the lecture texts takes Q and K from the memory).
        x = self.decoder(x, target_mask, kernel, angles, caches, inside, memory, source_mask)
        return hooks("logits", self.unembed_output(x))

    def _embed(
        self, table: nn.Embedding, positions: nn.Embedding | None, ids: Tensor, read: int
    ) -> tuple[Tensor, Tensor | None]:
        """Return embeddings with positions (B, T, D), and the angles (T, K/2) if positions are rotary."""
        upto = read + ids.shape[-1]
        if upto > self.shape.context:
            raise ValueError(f"{upto} positions do not fit a context of {self.shape.context}")
        x = table(ids)
        if self.shape.scale_embedding:
            x = x * sqrt(self.shape.width)
        if positions is not None:
            return x + positions.weight[read:upto], None
        fixed = self.position_table[read:upto]
        return (x, fixed) if self.shape.positions == "rotary" else (x + fixed, None)

    def unembed_output(self, x: Tensor) -> Tensor:
        """Unembed the decoder's output: x W_Uᵀ + b: (…, D) → (…, V)."""
        return F.linear(x, self.embed_target.weight if self.unembed is None else self.unembed.weight, self.unembed_bias)

    def logits(self, x: Tensor) -> Tensor:
        """Unembed the decoder's residual stream, as the logit lens does after any layer."""
        return self.unembed_output(x if self.decoder.final_norm is None else self.decoder.final_norm(x))

    def empty_caches(self) -> list[LayerCache]:
        return [LayerCache() for _ in self.decoder.blocks]

    def set_dropout(self, share: float) -> None:
        """Set the dropout probability of embeddings, weights α and branch outputs."""
        set_dropout(self, share)


@torch.no_grad()
def initialise_glorot(model: nn.Module, generator: torch.Generator | None) -> None:
    """Maps U(±√(6/(in+out))), tables N(0, 1/D), norms' γ 1, all biases 0. Glorot & Bengio 2010, eq. 16.

    The initialisation of 2017: the output of a branch is about as large as its input, and a table of deviation 1/√D
    gives embeddings of deviation 1 once they are multiplied by √D, compared with sinusoids of .7. [W_Q; W_K; W_V]
    counts as three maps, not as one that is three times as tall.
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
