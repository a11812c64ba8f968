"""The encoder-only transformer and its training task, masked tokens (MATH T10).

The embeddings are normalised before the first block, also with pre-LN blocks; the head has a map with an activation and
a norm before the table (Devlin et al. 2019, and their code). The pooled output and next-sentence prediction are left
out: nothing here trains on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txlab.engine.transformer.blocks import ACTIVATIONS, Activation, Block, Kernel, NormedStack, Placement, set_dropout
from txlab.engine.transformer.hooks import NO_HOOKS, Hooks
from txlab.engine.transformer.masks import NO_MASK, Mask
from txlab.engine.transformer.norms import LayerNorm

NOT_ASKED = -100  # the target of a position that is not predicted: torch's cross entropy ignores it


@dataclass(frozen=True)
class BertShape:
    """The configuration of a model; letters are those of `txlab formulas`.

    layers N · heads H · width D · feed_forward F (0 = 4D) · context T · vocabulary V
    segments    number of segments of a text (first or second sentence); 0 = none (DistilBERT)
    padding     the padding token, which has no position, if positions count from padding + 1, as RoBERTa's do
    norm        "post" (as published) or "pre"
    tied        W_U = W_Eᵀ; the head has its own bias either way
    classes     of a classifier, see `classifier`; 0 = the head is that of masked tokens
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
    classes: int = 0

    @property
    def skipped(self) -> int:
        """Unused rows at the start of the position table."""
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
        """The arguments are those of `encode`."""
        return hooks("logits", self.unembed_output(self.encode(ids, segments, kernel, mask, hooks, places)))

    def encode(
        self,
        ids: Tensor,
        segments: Tensor | None = None,
        kernel: Kernel = "sdpa",
        mask: Mask = NO_MASK,
        hooks: Hooks = NO_HOOKS,
        places: Tensor | None = None,
    ) -> Tensor:
        """The encoder's output without the head, (B, T, D).

        `segments` (B, T), 0 if not given; `mask`, the padding, if any; `places` (B, T), the position of each token
        where it is not simply its index in the row. ValueError past T positions.
        """
        length = ids.shape[-1]
        if length > self.shape.context:
            raise ValueError(f"{length} positions do not fit a context of {self.shape.context}")
        numbers = self._rows_of_positions(ids) if places is None else places + self.shape.skipped
        x = self.embed(ids) + self.positions.weight[numbers]  # (B, T, D)
        if self.segments is not None:
            x = x + (self.segments.weight[0] if segments is None else self.segments(segments))  # (D) or (B, T, D)
        x = self.dropout(hooks("embedding", self.embedding_norm(x)))
        output: Tensor = self.encoder(x, mask, kernel, hooks=hooks.within("encoder"))
        return output

    def _rows_of_positions(self, ids: Tensor) -> Tensor | slice:
        """Return rows of the position table: 0, 1, …; or p + 1, p + 2, … for all tokens but padding, whose row is p."""
        p = self.shape.padding
        if p is None:
            return slice(0, ids.shape[-1])
        real = ids != p
        return real.cumsum(-1) * real + p  # (B, T)

    def unembed_output(self, x: Tensor) -> Tensor:
        """Apply the head to the encoder's output: LN(f(W x + b)) W_Uᵀ + b_U: (…, D) → (…, V)."""
        x = self.transform_norm(ACTIVATIONS[self.shape.activation](self.transform(x)))
        return F.linear(x, self.embed.weight if self.unembed is None else self.unembed.weight, self.unembed_bias)

    def logits(self, x: Tensor) -> Tensor:
        """Apply the head to a residual stream, (…, D) → (…, V), as the logit lens does after any layer."""
        return self.unembed_output(x if self.encoder.final_norm is None else self.encoder.final_norm(x))

    def set_dropout(self, share: float) -> None:
        """Set the dropout probability of embeddings, weights α and branch outputs."""
        set_dropout(self, share)


@torch.no_grad()
def initialise(model: Bert, generator: torch.Generator | None) -> None:
    """Weights N(0, .02²), biases 0, γ 1. Devlin et al. 2019 (their code truncates the normal at 2σ; this does not)."""
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
    """Mask tokens for prediction: ids (…) → inputs (…), targets (…), determined by the ids and the generator alone.

    Each token is selected with probability `share`; 80 % of the selected become `mask_id`, 10 % an id drawn from all V
    (possibly the same) and 10 % stay, so that a model cannot trust unmasked tokens either. Targets are the ids of
    selected tokens and -100 elsewhere. Ids in `never` (padding, begin, end) and `mask_id` itself are not selected. The
    generator is on the device of the ids. MATH T10; Devlin et al. 2019, §3.1.
    """
    ask, how = torch.rand((2, *ids.shape), generator=generator, device=ids.device)  # (…) each
    drawn = torch.randint(vocabulary, ids.shape, generator=generator, device=ids.device)
    spared = torch.tensor([mask_id, *never], device=ids.device)
    asked = (ask < share) & ~torch.isin(ids, spared)
    inputs = torch.where(asked & (how < 0.8), mask_id, ids)
    inputs = torch.where(asked & (how >= 0.9), drawn, inputs)
    return inputs, torch.where(asked, ids, NOT_ASKED)
