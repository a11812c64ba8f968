"""The decoder-only transformer: embed, N blocks, unembed (MATH T9).

Tying is functional, logits = x W_Eᵀ with the embedding's own matrix, so there is one parameter under one name. With
sinusoidal positions the embedding is scaled by √D (Vaswani et al. 2017, §3.4); otherwise waves of amplitude 1 would
drown weights of .02.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txlab.engine.tokenizers.tokenizer import embedding_product
from txlab.engine.transformer.blocks import (
    Activation,
    Biased,
    Block,
    Kernel,
    Order,
    Placement,
    Stack,
    has_bias,
    set_dropout,
)
from txlab.engine.transformer.hooks import NO_HOOKS, Hooks, together
from txlab.engine.transformer.key_value_cache import LayerCache
from txlab.engine.transformer.masks import CAUSAL, GraphMask, Mask
from txlab.engine.transformer.norms import Normalisation, norm_of
from txlab.engine.transformer.positions import BUCKETS, TURNED, Rotary, bucket, rotary_angles, sinusoids


@dataclass(frozen=True)
class GPTShape:
    """The configuration of a model; letters are those of `txlab formulas`.

    layers N · heads H · width D · feed_forward F (0 = 4D) · context T (0 = no limit) · vocabulary V
    positions      "learned", "sinusoidal", "rotary" (configured by `rotary`), or "relative": a bias per head and
                   distance bucket, added to the scores, shared by all layers (T5; Raffel et al. 2020, §2.1)
    norm           "pre" (with a final norm before the unembedding) or "post" (without)
    normalisation  "layer" or "rms"
    block          "sequential", "parallel", or "attention": no feed-forward, F = 0
    tied           W_U = W_Eᵀ
    bias           True, False, or the parts that have one: "qkv", "out", "feed_forward", "norm"
    gated          the feed-forward is gated (three matrices)
    kv_heads       G, heads of keys and values; 0 = H
    head_dim       K; 0 = D/H
    one_hot        tokens are looked up by a product with one-hot rows; the result is the same (MATH K3)
    edges          edges (j, i) of an attention graph: node i attends to node j, instead of all j ≤ i; () = causal
    """

    layers: int
    heads: int
    width: int
    context: int
    vocabulary: int
    feed_forward: int = 0
    positions: str = "learned"
    norm: Placement = "pre"
    block: Order = "sequential"
    activation: Activation = "gelu"
    tied: bool = True
    bias: Biased = True
    dropout: float = 0.0
    epsilon: float = 1e-5
    normalisation: Normalisation = "layer"
    gated: bool = False
    kv_heads: int = 0
    head_dim: int = 0
    rotary: Rotary = TURNED
    one_hot: bool = False
    edges: tuple[tuple[int, int], ...] = ()

    @property
    def head_width(self) -> int:
        """K, with 0 read as D/H."""
        return self.head_dim or self.width // self.heads

    @property
    def across(self) -> int:
        """H·K, the width of the concatenated heads; usually D."""
        return self.heads * self.head_width

    @property
    def groups(self) -> int:
        """G, with 0 read as H."""
        return self.kv_heads or self.heads

    @property
    def inner(self) -> int:
        """F, with 0 read as 4D; 0 in blocks of attention alone."""
        return 0 if self.block == "attention" else self.feed_forward or 4 * self.width

    @property
    def branches(self) -> int:
        """The number of sums in the residual stream: 2N, or N in blocks of attention alone."""
        return self.layers * (1 if self.block == "attention" else 2)


class GPT(nn.Module):
    """Token ids (B, T) → logits (B, T, V): row t scores every candidate for token t + 1. MATH T9.

    Places: embedding (B, T, D), with positions · blocks.0.…, see Block · logits (B, T, V).
    """

    position_table: Tensor

    def __init__(self, shape: GPTShape, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.shape = shape
        self.mask: Mask = GraphMask.of_edges(shape.context, shape.edges) if shape.edges else CAUSAL
        D = shape.width
        self.embed = nn.Embedding(shape.vocabulary, D)  # W_E (V, D)
        self.positions = nn.Embedding(shape.context, D) if shape.positions == "learned" else None
        relative = shape.positions == "relative"
        self.distances = nn.Embedding(BUCKETS, shape.heads) if relative else None  # one for all layers
        # Fixed tables are computed, not learnt, and so not saved: sinusoids (T, D) or rotary angles (T, r/2).
        fixed = torch.empty(0)
        if shape.positions == "sinusoidal":
            fixed = sinusoids(shape.context, D)
        elif shape.positions == "rotary":
            fixed = rotary_angles(shape.context, shape.head_width, shape.rotary)
        self.register_buffer("position_table", fixed, persistent=False)
        self.dropout = nn.Dropout(shape.dropout)
        self.blocks = Stack(
            Block(
                D,
                shape.heads,
                shape.inner,
                norm=shape.norm,
                order=shape.block,
                activation=shape.activation,
                bias=shape.bias,
                dropout=shape.dropout,
                epsilon=shape.epsilon,
                normalisation=shape.normalisation,
                gated=shape.gated,
                kv_heads=shape.groups,
                head_width=shape.head_width,
            )
            for _ in range(shape.layers)
        )
        self.final_norm = (
            norm_of(shape.normalisation, D, has_bias(shape.bias, "norm"), shape.epsilon)
            if shape.norm == "pre"
            else None
        )
        self.unembed = None if shape.tied else nn.Linear(D, shape.vocabulary, bias=False)  # W_U (V, D)
        initialise(self, generator)

    def forward(
        self,
        ids: Tensor,
        kernel: Kernel = "sdpa",
        mask: Mask | None = None,
        caches: Sequence[LayerCache] | None = None,
        hooks: Hooks = NO_HOOKS,
        places: Tensor | None = None,
        last: bool = False,
    ) -> Tensor:
        """With caches (one per layer), `ids` are the tokens after those already read. ValueError past T positions. The
        mask defaults to the model's own, causal or its graph.

        `places` (B, T): the position of each token, where it is not simply its index in the row (padding on the left
        shifts a text to the right). With `last`, only the logits of the last row are computed, (B, 1, V): all that the
        next token needs.
        """
        read = caches[0].length if caches else 0
        T = ids.shape[-1]
        if read + T > self.shape.context > 0:
            raise ValueError(f"{read + T} positions do not fit a context of {self.shape.context}")
        numbers = slice(read, read + T) if places is None else places
        if self.shape.one_hot:
            table = self.embed.weight  # W_Eᵀ (V, D)
            x = embedding_product(F.one_hot(ids, self.shape.vocabulary).to(table.dtype), table.T)  # (B, T, D)
        else:
            x = self.embed(ids)  # (B, T, D)
        angles = None
        if self.positions is not None:
            x = x + self.positions.weight[numbers]  # (B, T, D)
        elif self.shape.positions == "sinusoidal":
            x = x * sqrt(self.shape.width) + self.position_table[numbers]  # (B, T, D)
        elif self.distances is not None:
            hooks = together(self._distant(read, T), hooks)
        else:
            angles = self.position_table[numbers]  # (T, r/2)
            angles = angles if places is None else angles[:, None]  # (B, 1, T, r/2), the same for every head
        x = self.dropout(hooks("embedding", x))
        x = self.blocks(x, self.mask if mask is None else mask, kernel, angles, caches, hooks)
        return hooks("logits", self.logits(x[:, -1:] if last else x))

    def _distant(self, read: int, T: int) -> Hooks:
        """Return hooks that add each head's bias for the distance i − j to the scores of every layer."""
        assert self.distances is not None
        place = torch.arange(read + T, device=self.distances.weight.device)
        bias = self.distances(bucket(place[read:, None] - place)).permute(2, 0, 1)  # (H, T, S)
        return Hooks({"blocks.*.attention.scores": lambda name, scores: scores + bias})

    def logits(self, x: Tensor) -> Tensor:
        """Unembed a residual stream, after the last layer or any other (the logit lens): (…, D) → (…, V)."""
        if self.final_norm is not None:
            x = self.final_norm(x)
        return F.linear(x, self.embed.weight if self.unembed is None else self.unembed.weight)

    def empty_caches(self) -> list[LayerCache]:
        return [LayerCache() for _ in self.blocks]

    def set_dropout(self, share: float) -> None:
        """Set the dropout probability of embeddings, weights α and branch outputs."""
        set_dropout(self, share)


@torch.no_grad()
def initialise(model: GPT, generator: torch.Generator | None) -> None:
    """Weights N(0, .02²), biases 0, and the maps into the residual stream N(0, (.02/√(2N))²).

    Radford et al. 2019, §2.3. Each of the 2N branches (N without feed-forward) adds to the stream; dividing by √(2N)
    keeps its variance from growing with depth.
    """
    into_stream = 0.02 / sqrt(model.shape.branches)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.zero_()
        elif parameter.dim() >= 2:
            deviation = (
                into_stream if name.endswith(("attention.out_proj.weight", "feed_forward.down_proj.weight")) else 0.02
            )
            parameter.normal_(0.0, deviation, generator=generator)
