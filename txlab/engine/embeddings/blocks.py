"""Skip-gram with negative sampling in blocks: many pairs from three matrix products (MATH K5).

A block is cut into strips of STRIP centres. The centres of a strip, v_i, are scored against the words of the strip and
its surroundings, u_j, and against N noise words u_nₖ that the strip draws for itself. With M_ij = 1 where j is in the
window of i, and cᵢ = Σⱼ M_ij,

    L = −Σ_ij M_ij ln σ(v_i·u_j) − (K/N) Σ_ik cᵢ ln σ(−v_i·u_nₖ)

is the sum over Σᵢ cᵢ pairs, each with the N noise words of its strip at the weight K/N in place of K words of its own.
All gradients are taken at the weights before the block.

Notable: a noise word that is also the context counts as noise (the C program skips it). Steps that are made one after
the other end where a pair is learnt; their sum does not, and a word that stands in many pairs of a block would be
thrown past its place, further each time. So a row's step is shortened where it would move its own scores by more than
MOST: they move by at most α Σ |eₚ| |xₚ|², xₚ being the other vector of its p-th pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

STRIP = 16
MOST = 2.0  # nats; without it, 512 centres a block diverge on a text, 16 on a table of equal words


@dataclass(frozen=True)
class Block:
    """B centres and what stands around them; B is a multiple of STRIP.

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
        device = self.tokens.device
        column, row = torch.arange(STRIP + 2 * self.reach, device=device), torch.arange(STRIP, device=device)
        away = column - row[:, None] - self.reach
        before, after = self.before.view(-1, STRIP, 1), self.after.view(-1, STRIP, 1)
        return (away != 0) & (away >= -before) & (away <= after)


@dataclass(frozen=True)
class BlockGradients:
    """∂L/∂v (B, D) of the centres; ∂L/∂u (rows.numel(), D) of the words in `rows`; and how far a step of each at α = 1
    moves its scores, Σ |e| |x|², (B) and (rows.numel()), to be added up over the places of a word.

    `scores`, `labels` and `weights` (strips, STRIP, R) are what they come from.
    """

    centres: Tensor
    centre_moves: Tensor
    rows: Tensor
    table: Tensor
    table_moves: Tensor
    scores: Tensor
    labels: Tensor
    weights: Tensor

    def loss(self) -> Tensor:
        """L in nats."""
        return -(logsigmoid((2 * self.labels - 1) * self.scores) * self.weights).sum()


def gradients(block: Block, noise: Tensor, negatives: float, v: Tensor, u: Tensor) -> BlockGradients:
    """The gradients of L for tables v and u (V, D); noise (strips, N); negatives = K."""
    rows = torch.cat([block.around, noise], 1)  # (strips, R), R = STRIP + 2 reach + N
    v_strips = v[block.centres].view(len(rows), STRIP, -1)
    u_strips = u[rows]
    scores = torch.bmm(v_strips, u_strips.transpose(1, 2))  # (strips, STRIP, R)

    mask = block.mask().to(v)
    counts = (block.before + block.after).to(v).view(-1, STRIP, 1)
    share = (counts * (negatives / noise.shape[1])).expand(-1, -1, noise.shape[1])
    weights = torch.cat([mask, share], 2)
    labels = torch.zeros_like(scores[0, 0])
    labels[: block.around.shape[1]] = 1
    errors = (scores.sigmoid() - labels) * weights

    to_centres = torch.bmm(errors, u_strips).view(-1, v.shape[1])
    to_table = torch.bmm(errors.transpose(1, 2), v_strips).view(-1, v.shape[1])
    sizes = errors.abs()
    centre_moves = torch.bmm(sizes, u_strips.square().sum(2, keepdim=True)).view(-1)
    table_moves = torch.bmm(sizes.transpose(1, 2), v_strips.square().sum(2, keepdim=True)).view(-1)
    return BlockGradients(to_centres, centre_moves, rows, to_table, table_moves, scores, labels, weights)


def learn(block: Block, noise: Tensor, negatives: float, v: Tensor, u: Tensor, alpha: float) -> BlockGradients:
    """v ← v − α ∂L/∂v, u ← u − α ∂L/∂u, in place; see the top of the file for steps that are shortened."""
    made = gradients(block, noise, negatives, v, u)
    descend(v, block.centres, made.centres, made.centre_moves, alpha)
    descend(u, made.rows.view(-1), made.table, made.table_moves, alpha)
    return made


def descend(table: Tensor, words: Tensor, gradient: Tensor, moves: Tensor, alpha: float) -> None:
    """Add −α `gradient` (P, D) to the rows `words` (P) of a table (V, D); a row's scores move by MOST at most."""
    far = table.new_zeros(len(table)).index_add_(0, words, moves, alpha=alpha / MOST)
    table.index_add_(0, words, gradient / far[words].clamp_(min=1)[:, None], alpha=-alpha)
