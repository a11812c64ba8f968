"""A recurrent language model: embed, layers of cells, unembed (MATH R1), and how it continues texts.

It is called as a GPT is (`engine/transformer/gpt.py`), so that scoring, sampling and beam search serve both. Its memory
is a state of fixed size: it reads texts of any length, and continuing a text costs nothing for the part already read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txlab.engine.recurrent.cells import CELLS, State
from txlab.engine.recurrent.network import Recurrent
from txlab.engine.transformer.costs import Costs, costs


@dataclass(frozen=True)
class RecurrentShape:
    """cell, layers N, width H (also of the embedding), vocabulary V

    window     T, steps of a training sequence; a text may be longer
    truncate   in training, gradients go back at most this number of steps (MATH R2); 0 = to the beginning of the window
    tied       W_U = W_Eᵀ
    """

    cell: str
    layers: int
    width: int
    vocabulary: int
    window: int
    truncate: int = 0
    tied: bool = True
    dropout: float = 0.0

    context = 0  # no limit
    edges = ()


@costs.register
def _(shape: RecurrentShape) -> Costs:
    """6 FLOPs a token for each entry of W, U and W_U; gates and products of states are left out."""
    N, H, V = shape.layers, shape.width, shape.vocabulary
    rows = len(CELLS[shape.cell].sums) * H
    weights = N * 2 * rows * H + V * H
    return Costs(weights + N * 2 * rows + (0 if shape.tied else V * H) + V, weights, 6 * weights)


class RecurrentLM(nn.Module):
    """Token ids (B, T) → logits (B, T, V): row t scores every candidate for token t + 1. MATH R1."""

    def __init__(self, shape: RecurrentShape, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.shape = shape
        H, V = shape.width, shape.vocabulary
        self.embed = nn.Embedding(V, H)  # W_E (V, H)
        self.dropout = nn.Dropout(shape.dropout)
        self.recurrent = Recurrent(shape.cell, H, H, shape.layers, dropout=shape.dropout, generator=generator)
        self.unembed = None if shape.tied else nn.Linear(H, V, bias=False)  # W_U (V, H)
        self.unembed_bias = nn.Parameter(torch.zeros(V))
        with torch.no_grad():
            self.embed.weight.normal_(0.0, 1 / sqrt(H), generator=generator)
            if self.unembed is not None:
                self.unembed.weight.normal_(0.0, 1 / sqrt(H), generator=generator)

    def forward(self, ids: Tensor, kernel: str = "sdpa") -> Tensor:
        """`kernel` is not used: it names a way to compute attention."""
        truncate = self.shape.truncate if self.training else 0
        h, _ = self.recurrent(self.embed_ids(ids), truncate=truncate)
        return self.logits(h)

    @torch.no_grad()
    def look_at(self, ids: Sequence[int]) -> tuple[Tensor, dict[str, Tensor]]:
        """Read a text without a batch: logits (T, V), and each gate and state by its name, (N, T, H)."""
        h, states = self.recurrent.look_at(self.embed_ids(torch.tensor(list(ids), device=self.embed.weight.device)))
        return self.logits(h), states

    def embed_ids(self, ids: Tensor) -> Tensor:
        """Rows of W_E times √H, so that they are of size 1: (…) → (…, H)."""
        return self.dropout(self.embed(ids) * sqrt(self.shape.width))  # type: ignore[no-any-return]

    def logits(self, h: Tensor) -> Tensor:
        table = self.embed.weight if self.unembed is None else self.unembed.weight
        return F.linear(self.dropout(h), table, self.unembed_bias)

    def set_dropout(self, share: float) -> None:
        self.dropout.p = self.recurrent.dropout.p = share

    def reading(self, texts: Sequence[Sequence[int]], cached: bool = True) -> StateReading:
        """The texts, to be continued; see `engine/transformer/generation.py`."""
        return StateReading(self, texts, cached)


class StateReading:
    """A batch of texts that a recurrent model continues: `logits` scores the next tokens, `go_on` appends those chosen.

    Without the cache, which here is the state, every text is reread for every token. ValueError for an empty text.
    """

    def __init__(self, model: RecurrentLM, texts: Sequence[Sequence[int]], cached: bool = True) -> None:
        if not all(texts):
            raise ValueError("there is nothing to continue: the prompt has no tokens")
        self.model, self.cached = model, cached
        self.texts = [list(text) for text in texts]
        self.state: list[State] | None = None

    def logits(self) -> Tensor:
        """Return the scores of every candidate for each text's next token: (B, V)."""
        fresh = [text[-1:] for text in self.texts] if self.state else self.texts
        longest = max(map(len, fresh))
        device = self.model.embed.weight.device
        ids = torch.tensor([[*text, *[0] * (longest - len(text))] for text in fresh], device=device)
        lengths = torch.tensor([len(text) for text in fresh], device=device)
        even = bool((lengths == longest).all())
        h, state = self.model.recurrent(self.model.embed_ids(ids), self.state, None if even else lengths)
        self.state = state if self.cached else None
        return self.model.logits(h[torch.arange(len(h), device=device), lengths - 1])

    def go_on(self, rows: Sequence[int], tokens: Sequence[int]) -> None:
        """Replace text i by what text `rows[i]` was, followed by `tokens[i]`."""
        if self.state is not None and list(rows) != list(range(len(self.texts))):
            index = torch.tensor(rows, device=self.state[0][0].device)
            self.state = [tuple(each[index] for each in one) for one in self.state]
        self.texts = [[*self.texts[row], token] for row, token in zip(rows, tokens, strict=True)]
