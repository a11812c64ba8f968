"""The encoder-only transformer and what it learns from: tokens that were hidden (MATH T10), read top to bottom.

Notable: the embeddings are normed before the first block, also where the blocks norm before their branches; and the
head is more than a table, a map with an activation and a norm stand before it (Devlin et al. 2019, and its code). The
pooled sentence and the guess whether one sentence follows another are left out: nothing here learns from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txlab.engine.transformer.attention import NO_MASK, Kernel, Mask
from txlab.engine.transformer.blocks import (
    ACTIVATIONS,
    Activation,
    Block,
    LayerNorm,
    NormedStack,
    Placement,
    set_dropout,
)
from txlab.engine.transformer.hooks import NO_HOOKS, Hooks

NOT_ASKED = -100  # the target of a position that is not asked for: what torch's cross entropy leaves out


@dataclass(frozen=True)
class BertShape:
    """What a model is before it has weights; letters are MATH.md's.

    layers N · heads H · width D · feed_forward F (0 = 4D) · context T · vocabulary V
    segments    kinds of text that a token may belong to (first or second sentence); 0 = it is not told (DistilBERT)
    padding     where positions count from padding + 1, as RoBERTa's: the token that has no position of its own
    norm        "post" (as published) or "pre"
    tied        W_U = W_Eᵀ; the bias of the head is its own either way
    """

    layers: int
    heads: int
    width: int
    context: int
    vocabulary: int
    feed_forward: int = 0
    segments: int = 2
    activation: Activation = "gelu"
    norm: Placement = "post"
    epsilon: float = 1e-12
    dropout: float = 0.0
    tied: bool = True
    padding: int | None = None

    @property
    def skipped(self) -> int:
        """Rows of the table of positions before the first one."""
        return 0 if self.padding is None else self.padding + 1

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def inner(self) -> int:
        """F, with 0 read as 4D."""
        return self.feed_forward or 4 * self.width


class Bert(nn.Module):
    """Token ids (B, T) → logits (B, T, V): row t scores every candidate for position t itself. MATH T10.

    Places: embedding (B, T, D), normed · encoder.blocks.0.…, see Block · logits (B, T, V).
    """

    def __init__(self, shape: BertShape, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.shape = shape
        D = shape.width
        self.embed = nn.Embedding(shape.vocabulary, D)  # W_E (V, D)
        self.positions = nn.Embedding(shape.skipped + shape.context, D)
        self.segments = nn.Embedding(shape.segments, D) if shape.segments else None
        self.embedding_norm = LayerNorm(D, epsilon=shape.epsilon)
        self.dropout = nn.Dropout(shape.dropout)
        self.encoder = NormedStack(
            (
                Block(
                    D,
                    shape.heads,
                    shape.inner,
                    norm=shape.norm,
                    activation=shape.activation,
                    dropout=shape.dropout,
                    epsilon=shape.epsilon,
                )
                for _ in range(shape.layers)
            ),
            LayerNorm(D, epsilon=shape.epsilon) if shape.norm == "pre" else None,
        )
        self.transform = nn.Linear(D, D)
        self.transform_norm = LayerNorm(D, epsilon=shape.epsilon)
        self.unembed = None if shape.tied else nn.Linear(D, shape.vocabulary, bias=False)  # W_U (V, D)
        self.unembed_bias = nn.Parameter(torch.zeros(shape.vocabulary))  # (V)
        initialise(self, generator)

    def forward(
        self,
        ids: Tensor,
        segments: Tensor | None = None,
        kernel: Kernel = "sdpa",
        mask: Mask = NO_MASK,
        hooks: Hooks = NO_HOOKS,
        places: Tensor | None = None,
    ) -> Tensor:
        """`segments` (B, T), 0 where not given; `mask` is padding, if anything; `places` (B, T), the positions' numbers
        where a token's is not simply its place in the row. ValueError past T positions."""
        length = ids.shape[-1]
        if length > self.shape.context:
            raise ValueError(f"{length} positions do not fit a context of {self.shape.context}")
        numbers = self._counted(ids) if places is None else places + self.shape.skipped
        x = self.embed(ids) + self.positions.weight[numbers]  # (B, T, D)
        if self.segments is not None:
            x = x + (self.segments.weight[0] if segments is None else self.segments(segments))  # (D) or (B, T, D)
        x = self.dropout(hooks("embedding", self.embedding_norm(x)))
        x = self.encoder(x, mask, kernel, hooks=hooks.within("encoder"))
        return hooks("logits", self.unembedded(x))

    def _counted(self, ids: Tensor) -> Tensor | slice:
        """Rows of the table of positions: 0, 1, …; or p + 1, p + 2, … over all tokens but padding, whose row is p."""
        p = self.shape.padding
        if p is None:
            return slice(0, ids.shape[-1])
        real = ids != p
        return real.cumsum(-1) * real + p  # (B, T)

    def unembedded(self, x: Tensor) -> Tensor:
        """The head, on what the encoder gave: LN(f(W x + b)) W_Uᵀ + b_U: (…, D) → (…, V)."""
        x = self.transform_norm(ACTIVATIONS[self.shape.activation](self.transform(x)))
        return F.linear(x, self.embed.weight if self.unembed is None else self.unembed.weight, self.unembed_bias)

    def logits(self, x: Tensor) -> Tensor:
        """The head on a residual stream, (…, D) → (…, V): what a layer "would say" (the logit lens)."""
        return self.unembedded(x if self.encoder.final_norm is None else self.encoder.final_norm(x))

    def set_dropout(self, share: float) -> None:
        """Drop this share of embeddings, weights α and branch outputs from now on."""
        set_dropout(self, share)


@torch.no_grad()
def initialise(model: Bert, generator: torch.Generator | None) -> None:
    """Weights N(0, .02²), biases 0, γ 1. Devlin et al. 2019 (their code cuts the normal off at 2σ; this does not)."""
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.zero_()
        elif parameter.dim() >= 2:
            parameter.normal_(0.0, 0.02, generator=generator)


def mask_tokens(
    ids: Tensor,
    generator: torch.Generator,
    share: float = 0.15,
    *,
    mask_id: int,
    vocabulary: int,
    never: Sequence[int] = (),
) -> tuple[Tensor, Tensor]:
    """Hide tokens to be guessed: ids (…) → inputs (…), targets (…), both a function of the ids and the generator alone.

    Each token is asked for with probability `share`; of those asked for 80 % become `mask_id`, 10 % an id drawn from
    all V (perhaps the same again) and 10 % stay, so that a model must also mind tokens that look right. Targets are the
    ids where asked and -100 elsewhere. Ids in `never` (padding, begin, end) are not asked for, and `mask_id`, which
    would give itself away, neither. The generator lives where the ids do. MATH T10; Devlin et al. 2019, §3.1.
    """
    ask, how = torch.rand((2, *ids.shape), generator=generator, device=ids.device)  # (…) each
    drawn = torch.randint(vocabulary, ids.shape, generator=generator, device=ids.device)
    spared = torch.tensor([mask_id, *never], device=ids.device)
    asked = (ask < share) & ~torch.isin(ids, spared)
    inputs = torch.where(asked & (how < 0.8), mask_id, ids)
    inputs = torch.where(asked & (how >= 0.9), drawn, inputs)
    return inputs, torch.where(asked, ids, NOT_ASKED)
