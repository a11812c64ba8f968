"""Every objective's closed-form gradient is autograd's, in fp64; and what the formulas promise of themselves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, logsigmoid

from txlab.engine.embeddings import objectives, plain
from txlab.engine.embeddings.huffman import huffman
from txlab.engine.embeddings.objectives import Scored

WORDS, WIDTH, EXAMPLES, NOISE = 11, 6, 9, 4
COUNTS = np.arange(WORDS, 0, -1) ** 2
SHARES = torch.from_numpy(COUNTS**0.75 / (COUNTS**0.75).sum())
LOG_EXPECTED = (NOISE * SHARES).log()
TREE = huffman(COUNTS)
NODES, TURNS = torch.from_numpy(TREE.nodes), torch.from_numpy(TREE.turns).double()

Loss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def sampled(h: Tensor, u: Tensor, targets: Tensor, noise: Tensor, shift: Tensor, every: bool = False) -> Tensor:
    """The sum written out pair by pair; `every`: a noise word that is the target counts too."""
    total = h.new_zeros(())
    for p, target in enumerate(targets.tolist()):
        total = total - logsigmoid(u[target] @ h[p] - shift[target])
        for word in noise[p].tolist():
            if every or word != target:
                total = total - logsigmoid(-(u[word] @ h[p] - shift[word]))
    return total


def hierarchical(h: Tensor, u: Tensor, targets: Tensor, noise: Tensor) -> Tensor:
    total = h.new_zeros(())
    for p, target in enumerate(targets.tolist()):
        for node, turn in zip(TREE.nodes[target], TREE.turns[target], strict=True):
            if turn:
                total = total - logsigmoid(int(turn) * (u[int(node)] @ h[p]))
    return total


CASES: dict[str, tuple[Callable[[Tensor, Tensor, Tensor, Tensor], Scored], Loss]] = {
    "softmax": (
        lambda h, u, o, n: objectives.softmax(h, u, o),
        lambda h, u, o, n: cross_entropy(h @ u.T, o, reduction="sum"),
    ),
    "sampling": (objectives.negative_sampling, lambda h, u, o, n: sampled(h, u, o, n, h.new_zeros(WORDS))),
    "nce": (
        lambda h, u, o, n: objectives.noise_contrastive(h, u, o, n, LOG_EXPECTED),
        lambda h, u, o, n: sampled(h, u, o, n, LOG_EXPECTED, True),
    ),
    "hierarchical": (lambda h, u, o, n: objectives.hierarchical_softmax(h, u, NODES[o], TURNS[o]), hierarchical),
}


@pytest.mark.parametrize("name", CASES)
def test_the_closed_form_gradient_is_that_of_autograd(name: str) -> None:
    score, loss = CASES[name]
    draws = torch.Generator().manual_seed(3)
    rows = WORDS - 1 if name == "hierarchical" else WORDS
    h = torch.randn(EXAMPLES, WIDTH, generator=draws, dtype=torch.float64, requires_grad=True)
    u = torch.randn(rows, WIDTH, generator=draws, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(0, WORDS, (EXAMPLES,), generator=draws)
    noise = torch.randint(0, WORDS, (EXAMPLES, NOISE), generator=draws)
    assert name in ("softmax", "hierarchical") or (noise == targets[:, None]).any()  # one that is left out
    wanted = loss(h, u, targets, noise)
    wanted.backward()
    with torch.no_grad():
        scored = score(h, u, targets, noise)
        to_h, to_u = scored.gradients(h, u)
        assert float(scored.loss.sum()) == pytest.approx(float(wanted), abs=1e-12)
        torch.testing.assert_close(to_h, h.grad, rtol=0, atol=1e-12)
        torch.testing.assert_close(to_u, u.grad, rtol=0, atol=1e-12)


def test_probabilities_of_the_tree_sum_to_one() -> None:
    draws = torch.Generator().manual_seed(4)
    u = 3 * torch.randn(WORDS - 1, WIDTH, generator=draws, dtype=torch.float64)
    h = torch.randn(1, WIDTH, generator=draws, dtype=torch.float64).expand(WORDS, WIDTH)
    loss = objectives.hierarchical_softmax(h, u, NODES, TURNS).loss
    assert float((-loss).exp().sum()) == pytest.approx(1.0, abs=1e-12)


def test_the_softmax_moves_a_centre_towards_observed_minus_expected() -> None:
    rng = np.random.default_rng(5)
    v, u = rng.normal(size=(WORDS, WIDTH)), rng.normal(size=(WORDS, WIDTH))
    scored = objectives.softmax(torch.from_numpy(v[[2]]), torch.from_numpy(u), torch.tensor([7]))
    to_h, _ = scored.gradients(torch.from_numpy(v[[2]]), torch.from_numpy(u))
    p = np.exp(u @ v[2]) / np.exp(u @ v[2]).sum()
    np.testing.assert_allclose(-to_h.numpy()[0], u[7] - p @ u, atol=1e-12)
    np.testing.assert_allclose(plain.towards(v, u, 2, 7), u[7] - p @ u, atol=1e-12)


def test_noise_contrastive_estimation_ends_at_the_probabilities_themselves() -> None:
    """With h fixed and unlimited noise, u_w·h = ln p(w) has no gradient, without any normalisation."""
    p = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    q, k = torch.tensor([0.2, 0.2, 0.6], dtype=torch.float64), 4
    x = p.log() - (k * q).log()
    gradient = -p * (1 - x.sigmoid()) + k * q * x.sigmoid()
    torch.testing.assert_close(gradient, torch.zeros(3, dtype=torch.float64), rtol=0, atol=1e-15)
    u, h = p.log()[:, None], torch.ones(1, 1, dtype=torch.float64)
    total = torch.zeros(3, 1, dtype=torch.float64)
    for target in range(3):  # the expectation over one noise word, K times
        for word in range(3):
            scored = objectives.noise_contrastive(h, u, torch.tensor([target]), torch.tensor([[word]]), (k * q).log())
            to_target, to_noise = scored.errors[0]
            total[target] += p[target] * q[word] * to_target
            total[word] += p[target] * q[word] * k * to_noise
    torch.testing.assert_close(total, torch.zeros(3, 1, dtype=torch.float64), rtol=0, atol=1e-14)
