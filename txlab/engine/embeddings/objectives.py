"""Four objectives of word vectors, for a hidden vector h and the word o near it (MATH K4, K5).

    softmax               L = −ln p(o),  p(w) = exp(u_w·h) / Σₓ exp(uₓ·h)                        Wang (5)–(9)
    negative sampling     L = −ln σ(u_o·h) − Σₖ ln σ(−u_nₖ·h)                                     Wang (10)–(12)
    hierarchical softmax  L = −Σⱼ ln σ(sⱼ uⱼ·h), the nodes from the root to o, sⱼ = ±1             Morin & Bengio 2005
    noise contrastive     L = −ln σ(x_o) − Σₖ ln σ(−x_nₖ),  x_w = u_w·h − ln(K q(w))              Mnih & Teh 2012

In skip-gram h is the centre word's vector v, in CBOW the mean of the context's vectors (`windows`). All four score some
rows of one table, x_r = u_r·h, and are done once the error of each row is known:

    e_r = ∂L/∂x_r        ∂L/∂h = Σ_r e_r u_r        ∂L/∂u_r = e_r h

With the softmax e_r = p(r) − [r = o], so −∂L/∂v = u_o − Σₓ p(x) uₓ: the observed minus the expected context vector.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


class Scored(NamedTuple):
    """The rows that P examples score, and the errors there.

    rows    (P, R) rows of the table, or None = all of them in order
    errors  (P, R) e = ∂L/∂x; 0 where a row does not count
    loss    (P) nats
    """

    rows: Tensor | None
    errors: Tensor
    loss: Tensor

    def gradients(self, h: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        """∂ΣL/∂h (P, D) and ∂ΣL/∂u (R, D), the latter for the whole table."""
        table = torch.zeros_like(u)
        self.add_to_table(table, h, 1.0)
        return self.hidden_gradient(u), table

    def hidden_gradient(self, u: Tensor) -> Tensor:
        """∂L/∂h = Σ_r e_r u_r, (P, D)."""
        if self.rows is None:
            return self.errors @ u
        return torch.einsum("pr,prd->pd", self.errors, u[self.rows])

    def add_to_table(self, u: Tensor, h: Tensor, factor: float) -> None:
        """u ← u + factor · ∂ΣL/∂u, in place."""
        if self.rows is None:
            u.addmm_(self.errors.T, h, alpha=factor)
        else:
            moved = self.errors[:, :, None] * h[:, None, :]  # (P, R, D)
            u.index_add_(0, self.rows.reshape(-1), moved.reshape(-1, h.shape[1]), alpha=factor)


def softmax(h: Tensor, u: Tensor, targets: Tensor) -> Scored:
    """All V rows; h (P, D), u (V, D), targets (P)."""
    log_p = (h @ u.T).log_softmax(1)
    errors = log_p.exp()
    errors[torch.arange(len(targets)), targets] -= 1
    return Scored(None, errors, -log_p.gather(1, targets[:, None])[:, 0])


def negative_sampling(h: Tensor, u: Tensor, targets: Tensor, noise: Tensor) -> Scored:
    """The target and K drawn words, noise (P, K); one that equals the target is left out, as in the C program."""
    rows = torch.cat([targets[:, None], noise], 1)
    counts = rows != targets[:, None]
    counts[:, 0] = True
    return _against_noise(rows, torch.einsum("pd,prd->pr", h, u[rows]), counts)


def noise_contrastive(h: Tensor, u: Tensor, targets: Tensor, noise: Tensor, log_expected: Tensor) -> Scored:
    """The same with scores held against the noise, log_expected (V) = ln(K q(w)); every word drawn counts.

    Negative sampling ends at u_w·h = the pointwise mutual information − ln K, this at the log-probability itself.
    """
    rows = torch.cat([targets[:, None], noise], 1)
    scores = torch.einsum("pd,prd->pr", h, u[rows]) - log_expected[rows]
    return _against_noise(rows, scores, torch.ones_like(rows, dtype=torch.bool))


def _against_noise(rows: Tensor, scores: Tensor, counts: Tensor) -> Scored:
    sign = torch.full_like(scores, -1.0)
    sign[:, 0] = 1.0
    errors = (scores.sigmoid() - (sign > 0).to(scores)) * counts
    return Scored(rows, errors, -(logsigmoid(sign * scores) * counts).sum(1))


def hierarchical_softmax(h: Tensor, u: Tensor, nodes: Tensor, turns: Tensor) -> Scored:
    """The inner nodes on the way to each target: nodes (P, L), turns (P, L) = +1 left, −1 right, 0 after the leaf.

    u (V − 1, D) has a row for each inner node. p(o) = Πⱼ σ(sⱼ uⱼ·h), and Σ_o p(o) = 1 for any u.
    """
    scores = torch.einsum("pd,pld->pl", h, u[nodes])
    counts = turns != 0
    loss = -(logsigmoid(turns * scores) * counts).sum(1)
    errors = (scores.sigmoid() - (turns > 0).to(scores)) * counts
    return Scored(nodes, errors, loss)
