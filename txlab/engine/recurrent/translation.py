"""Recurrent translation: an encoder reads the source in both directions, a decoder writes the target and attends to the
source (MATH R4; Bahdanau et al. 2015, Luong et al. 2015; GNMT: Wu et al. 2016).

The calls are those of the transformer's EncoderDecoder, so that the same functions generate, search and score. Notable:
attention comes *after* the decoder's recurrence and does not feed back into it (Luong et al.'s form, without input
feeding). So with teacher forcing the recurrence over the whole target is one call of torch's function for the cell, and
attention one product of matrices for all steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from txlab.engine.recurrent.cells import CELLS, State
from txlab.engine.recurrent.network import Recurrent, Steps
from txlab.engine.transformer.blocks import Kernel, pattern, set_dropout
from txlab.engine.transformer.blocks import scores as dot_scores
from txlab.engine.transformer.costs import Costs, costs
from txlab.engine.transformer.encoder_decoder import initialise_glorot
from txlab.engine.transformer.masks import NO_MASK, Mask, Padding

Attention = Literal["additive", "dot"]


@dataclass(frozen=True)
class RecurrentTranslatorShape:
    """The configuration of a model; letters are those of `txlab formulas`.

    cell        one of CELLS · layers N of encoder and of decoder · width H: of embeddings, of each direction of the
                encoder, of the decoder's state and of what attention compares
    attention   "additive" or "dot"
    context     the maximum number of positions of a source and of a target
    """

    cell: str
    layers: int
    width: int
    source_vocabulary: int
    target_vocabulary: int
    context: int
    attention: Attention = "additive"
    dropout: float = 0.0


def additive_scores(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """vᵀ tanh(qᵢ + kⱼ): q (B, T, H), k (B, S, H), v (H) → (B, T, S). MATH R4; Bahdanau et al. 2015, §A.1.2."""
    return (queries[:, :, None] + keys[:, None]).tanh() @ v


class Scores(nn.Module):
    """How well a decoder's state s (B, T, H) fits each place m (B, S, 2H) of the memory: (B, T, S).

    additive   vᵀ tanh(q + k), q = W s, k = U m
    dot        q · k / √H,     q = s,   k = U m: Luong et al. 2015, eq. 8, "general", divided as in a transformer. As
               published it is the same for another U, but Adam's steps change it √H = 11 times as much: after the 600
               steps of translate-recurrent, .79 instead of .998 of the sentences are right

    The keys do not depend on the target: they are projected once a source.
    """

    def __init__(self, attention: Attention, width: int) -> None:
        super().__init__()
        self.U = nn.Linear(2 * width, width, bias=False)
        self.W = nn.Linear(width, width, bias=False) if attention == "additive" else None
        self.v = nn.Parameter(torch.zeros(width)) if attention == "additive" else None

    def queries(self, states: Tensor) -> Tensor:
        return states if self.W is None else self.W(states)

    def forward(self, states: Tensor, keys: Tensor) -> Tensor:
        queries = self.queries(states)
        return dot_scores(queries, keys) if self.v is None else additive_scores(queries, keys, self.v)


class Looked(NamedTuple):
    """The decoder's results.

    states   of its last layer (B, T, H)           keys      the projected memory (B, S, H)
    scores   before the mask (B, T, S)             pattern   α (B, T, S)
    logits   (B, T, V)
    """

    states: Tensor
    keys: Tensor
    scores: Tensor
    pattern: Tensor
    logits: Tensor


class DecoderCache:
    """The decoder's progress through a batch of targets: their number of tokens, its states, and the projected
    memory."""

    def __init__(self) -> None:
        self.length = 0
        self.states: list[State] = []
        self.keys: Tensor | None = None

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch."""
        self.states = [tuple(each[rows] for each in state) for state in self.states]
        self.keys = None if self.keys is None else self.keys[rows]


class RecurrentTranslator(nn.Module):
    """Source ids (B, S) and target ids (B, T) → logits (B, T, V): row t scores the target's token t + 1. MATH R4.

    m = [h→; h←]   s₀ = tanh(W [h→_S; h←_1] + b)   s_t = cell(y_t, s_{t−1})   α_t = softmax_j a(s_t, m_j)
    logits_t = W_V tanh(W_c [Σ_j α_tj m_j; s_t] + b) + b
    """

    def __init__(self, shape: RecurrentTranslatorShape, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.shape, H = shape, shape.width
        cell, N = shape.cell, shape.layers
        self.embed_source = nn.Embedding(shape.source_vocabulary, H)
        self.embed_target = nn.Embedding(shape.target_vocabulary, H)
        self.encoder = Recurrent(cell, H, H, N, bidirectional=True, dropout=shape.dropout, generator=generator)
        self.decoder = Recurrent(cell, H, H, N, dropout=shape.dropout, generator=generator)
        self.begin = nn.Linear(2 * H, N * len(CELLS[cell].state) * H)  # of all states of all layers
        self.scores = Scores(shape.attention, H)
        self.combine = nn.Linear(3 * H, H)  # W_c
        self.unembed = nn.Linear(H, shape.target_vocabulary)
        self.dropout = nn.Dropout(shape.dropout)
        initialise_glorot(self, generator)
        for table in (self.embed_source, self.embed_target):
            nn.init.normal_(table.weight, generator=generator)
        if self.scores.v is not None:
            nn.init.normal_(self.scores.v, 0.0, H**-0.5, generator=generator)

    def encode(self, source: Tensor, kernel: Kernel = "sdpa", mask: Mask = NO_MASK) -> Tensor:
        """Source ids (B, S) → the memory (B, S, 2H), 0 at padding. ValueError past the context."""
        self._require_fitting(source.shape[1])
        x = self.dropout(self.embed_source(source))
        return self.encoder(x, lengths=lengths_of(mask), steps=steps_of(kernel))[0]  # type: ignore[no-any-return]

    def first_states(self, memory: Tensor, mask: Mask = NO_MASK) -> list[State]:
        """The decoder's states before the first token, from the final states of the encoder's last layer."""
        H, lengths = self.shape.width, lengths_of(mask)
        rows = torch.arange(len(memory), device=memory.device)
        last = memory[:, -1] if lengths is None else memory[rows, lengths.to(memory.device) - 1]
        ended = torch.cat((last[:, :H], memory[:, 0, H:]), -1)  # (B, 2H)
        parts = self.begin(ended).tanh().split(H, -1)
        many = len(parts) // self.shape.layers
        return [tuple(parts[many * layer : many * (layer + 1)]) for layer in range(self.shape.layers)]

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        kernel: Kernel = "sdpa",
        *,
        source_mask: Mask = NO_MASK,
        caches: Sequence[DecoderCache] | None = None,
        memory: Tensor | None = None,
    ) -> Tensor:
        """Teacher forcing: the target begins with its start token, and row t has read its tokens up to t.

        kernel   "sdpa": torch's functions for the recurrences; "matmul": cell by cell, in their formulas
        To generate step by step, pass `memory` from `encode` and `empty_caches()`; `target` is then the tokens after
        those already read. ValueError past the context.
        """
        return self.look(source, target, kernel, source_mask=source_mask, caches=caches, memory=memory).logits

    def look(
        self,
        source: Tensor,
        target: Tensor,
        kernel: Kernel = "sdpa",
        *,
        source_mask: Mask = NO_MASK,
        caches: Sequence[DecoderCache] | None = None,
        memory: Tensor | None = None,
    ) -> Looked:
        """The same, with the intermediate results."""
        cache = caches[0] if caches else DecoderCache()
        self._require_fitting(cache.length + target.shape[1])
        if memory is None:
            memory = self.encode(source, kernel, source_mask)
        if cache.keys is None:
            cache.keys, cache.states = self.scores.U(memory), self.first_states(memory, source_mask)
        x = self.dropout(self.embed_target(target))
        states, cache.states = self.decoder(x, cache.states, steps=steps_of(kernel))  # (B, T, H)
        cache.length += target.shape[1]
        scores = self.scores(states, cache.keys)
        allowed = source_mask.allowed_pairs(target.shape[1], memory.shape[1], memory.device)  # (B, 1, T, S), or None
        alpha = pattern(scores, None if allowed is None else allowed[:, 0])
        combined = self.combine(torch.cat((alpha.to(memory.dtype) @ memory, states), -1)).tanh()  # (B, T, H)
        return Looked(states, cache.keys, scores, alpha, self.unembed(self.dropout(combined)))

    def empty_caches(self) -> list[DecoderCache]:
        """One, of all layers."""
        return [DecoderCache()]

    def set_dropout(self, share: float) -> None:
        """Set the dropout probability of embeddings, between layers, and before the logits."""
        set_dropout(self, share)

    def _require_fitting(self, positions: int) -> None:
        if positions > self.shape.context:
            raise ValueError(f"{positions} positions do not fit a context of {self.shape.context}")


def lengths_of(mask: Mask) -> Tensor | None:
    """The lengths (B) of padded sources; None = all are as long as the batch is wide."""
    return torch.tensor(mask.lengths) if isinstance(mask, Padding) else None


def steps_of(kernel: Kernel) -> Steps:
    return "fused" if kernel == "sdpa" else "cells"


# What it costs


@dataclass(frozen=True)
class Products:
    """Entries of the matrices that a source token, a target token, and a pair as such (the first states) meet."""

    source: int
    target: int
    pair: int


def products(shape: RecurrentTranslatorShape) -> Products:
    cell, N, H = CELLS[shape.cell], shape.layers, shape.width
    G = len(cell.sums)
    encoder = 2 * G * (2 + 3 * (N - 1)) * H * H  # a layer reads both directions of the one below
    compared = H * H if shape.attention == "additive" else 0
    return Products(
        encoder + 2 * H * H,
        N * 2 * G * H * H + compared + 3 * H * H + shape.target_vocabulary * H,
        2 * H * N * len(cell.state) * H,
    )


@costs.register
def _(shape: RecurrentTranslatorShape) -> Costs:
    """At full context. A score costs 2 H FLOPs, its mixture 4 H; three times that with the backward pass: 18 T H."""
    cell, N, H, met = CELLS[shape.cell], shape.layers, shape.width, products(shape)
    biases = 3 * N * 2 * len(cell.sums) * H + N * len(cell.state) * H + H + shape.target_vocabulary
    tables = (shape.source_vocabulary + shape.target_vocabulary) * H + (H if shape.attention == "additive" else 0)
    weights = met.source + met.target
    return Costs(weights + met.pair + biases + tables, weights, 6 * weights + 18 * shape.context * H)


def flops_per_pair(shape: RecurrentTranslatorShape, lengths: Iterable[tuple[int, int]]) -> float:
    """Mean FLOPs, forward and backward, of pairs of S source and T target tokens; padding is not counted."""
    met = products(shape)
    made = [6 * (S * met.source + T * met.target + met.pair) + 18 * S * T * shape.width for S, T in lengths]
    return sum(made) / len(made)
