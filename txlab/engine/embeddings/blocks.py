"""Skip-gram with negative sampling in blocks: many pairs from three matrix products (MATH K5).

A block is cut into strips of STRIP centres. The centres of a strip, v_i, are scored against the words of the strip and
its surroundings, u_j, and against N noise words u_nₖ that the strip draws for itself. With M_ij = 1 where j is in the
window of i, and cᵢ = Σⱼ M_ij,

    L = −Σ_ij M_ij ln σ(v_i·u_j) − (K/N) Σ_ik cᵢ ln σ(−v_i·u_nₖ)

is the sum over Σᵢ cᵢ pairs, each with the N noise words of its strip at the weight K/N instead of K words drawn for it
alone. All gradients are taken at the weights before the block.

Notable: a noise word that is also the context counts as noise (the C program skips it). Sequential steps shrink as a
pair is learnt; their sum does not, and a word that occurs in many pairs of a block would overshoot, further each time.
So no row moves by more than LONGEST in one block.

The operations of a block are small: starting one costs about as much as its arithmetic. So everything that does not
depend on the tables is precomputed for a whole stretch of text (`cut`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

STRIP = 16
LONGEST = 0.25  # benchmarks/RESULTS.md, "Words"; without it, 256 centres a block diverge on Python's source


@dataclass(frozen=True)
class Stretch:
    """B centres and their surroundings; B is a multiple of STRIP.

    tokens         (B + 2 reach) word ids, the centres in the middle
    before, after  (B) how many words before and after belong to each window; 0 and 0 = not a centre
    """

    tokens: Tensor
    before: Tensor
    after: Tensor

    @property
    def reach(self) -> int:
        return (len(self.tokens) - len(self.before)) // 2

    @property
    def centres(self) -> Tensor:
        """(B) word ids."""
        return self.tokens[self.reach : len(self.tokens) - self.reach]

    @property
    def around(self) -> Tensor:
        """The words of each strip and its surroundings, (strips, STRIP + 2 reach)."""
        return self.tokens.unfold(0, STRIP + 2 * self.reach, STRIP)

    def mask(self) -> Tensor:
        """M, (strips, STRIP, STRIP + 2 reach) boolean: row i, column j is the word j − i − reach away."""
        places = torch.arange(STRIP + 2 * self.reach, device=self.tokens.device, dtype=torch.int16)
        away = places - places[:STRIP, None] - self.reach
        before, after = (side.to(torch.int16).view(-1, STRIP, 1) for side in (self.before, self.after))
        return (away != 0) & (away >= -before) & (away <= after)


class Places(NamedTuple):
    """Where each word occurs in a list of words: words[k] at order[starts[k]], …, order[starts[k + 1] − 1]."""

    words: Tensor
    order: Tensor
    starts: Tensor

    def descend(self, table: Tensor, gradient: Tensor, alpha: float) -> None:
        """Subtract α Σ `gradient` (P, D), summed over the places of each word, from its row; at most LONGEST of it."""
        total = torch.embedding_bag(gradient, self.order, self.starts)[0]  # (words, D)
        total *= (LONGEST / torch.linalg.vector_norm(total, dim=1, keepdim=True)).clamp_(max=alpha)
        table.index_add_(0, self.words, total, alpha=-1)


def places(words: Tensor, size: int) -> list[Places]:
    """The places of each `size` of the words, by one sort of numbers made of block, word and place.

    >>> places(torch.tensor([7, 3, 7, 9]), 3)[0]
    Places(words=tensor([3, 7]), order=tensor([1, 0, 2]), starts=tensor([0, 1]))
    """
    ids = words.cpu().numpy()
    block, place = np.divmod(np.arange(len(ids)), size)
    bits, most = size.bit_length(), int(ids.max()) + 1
    numbers = np.sort((block * most + ids) << bits | place)  # three times as fast as an argsort
    kind = numbers >> bits
    first = np.flatnonzero(np.diff(kind, prepend=-1))
    ends = np.searchsorted(first, np.arange(size, len(ids), size)).tolist()
    occurrences = (kind[first] % most, numbers & ((1 << bits) - 1), first % size)
    each, order, starts = (words.new_tensor(numbers) for numbers in occurrences)
    return [*map(Places, each.tensor_split(ends), torch.split(order, size), starts.tensor_split(ends))]


class Block(NamedTuple):
    """S strips as they are scored, each centre against R = STRIP + 2 reach + N words.

    centres  (S · STRIP) word ids      weights  (S, STRIP, R)  M_ij, then K/N cᵢ for noise
    rows     (S · R) word ids          labels   (R)  1 for the columns of M, 0 for noise
    """

    centres: Tensor
    rows: Tensor
    weights: Tensor
    centre_places: Places
    row_places: Places
    labels: Tensor

    @property
    def pairs(self) -> Tensor:
        """Σᵢ cᵢ."""
        return (self.weights * self.labels).sum()

    def loss(self, scores: Tensor) -> Tensor:
        """L in nats, for scores (S, STRIP, R)."""
        return -(logsigmoid((2 * self.labels - 1) * scores) * self.weights).sum()


def cut(stretch: Stretch, noise: Tensor, negatives: float, size: int, dtype: torch.dtype) -> Iterator[Block]:
    """Blocks of `size` centres; noise (strips, N); negatives = K; dtype = that of the tables."""
    rows = torch.cat([stretch.around, noise], 1)  # (strips, R)
    counts = (stretch.before + stretch.after).to(dtype).view(-1, STRIP, 1)
    share = (counts * (negatives / noise.shape[1])).expand(-1, -1, noise.shape[1])
    weights = torch.cat([stretch.mask().to(dtype), share], 2)
    labels = (torch.arange(rows.shape[1], device=rows.device) < stretch.around.shape[1]).to(dtype)
    many, across = size // STRIP, size // STRIP * rows.shape[1]
    rows = rows.view(-1)
    parts = (torch.split(stretch.centres, size), torch.split(rows, across), torch.split(weights, many))
    for part in zip(*parts, places(stretch.centres, size), places(rows, across), strict=True):
        yield Block(*part, labels)


class Gradients(NamedTuple):
    """∂L/∂v (S · STRIP, D) of the centres, ∂L/∂u (S · R, D) of the rows, and the scores (S, STRIP, R)."""

    centres: Tensor
    rows: Tensor
    scores: Tensor


def gradients(block: Block, v: Tensor, u: Tensor) -> Gradients:
    """The gradients of L for tables v and u (V, D)."""
    strips, width = len(block.weights), v.shape[1]
    centres = v.index_select(0, block.centres).view(strips, STRIP, width)
    rows = u.index_select(0, block.rows).view(strips, -1, width)
    scores = torch.bmm(centres, rows.transpose(1, 2))  # (S, STRIP, R)
    errors = (scores.sigmoid() - block.labels).mul_(block.weights)
    to_centres, to_rows = torch.bmm(errors, rows), torch.bmm(errors.transpose(1, 2), centres)
    return Gradients(to_centres.view(-1, width), to_rows.view(-1, width), scores)


def learn(block: Block, v: Tensor, u: Tensor, alpha: float) -> Gradients:
    """v ← v − α ∂L/∂v, u ← u − α ∂L/∂u, in place, no row by more than LONGEST."""
    made = gradients(block, v, u)
    block.centre_places.descend(v, made.centres, alpha)
    block.row_places.descend(u, made.rows, alpha)
    return made
