"""The best of n answers: a policy that needs no training, and how far it is from the one that is sampled (MATH H5)."""

from __future__ import annotations

from math import comb, log

import torch
from torch import Tensor


def best_of_n_kl(n: int) -> float:
    """ln n − (n − 1)/n nats: the KL of the best of n from one sample, if no two answers are equal.

    >>> best_of_n_kl(1), round(best_of_n_kl(4), 4)
    (0.0, 0.6363)
    """
    return log(n) - (n - 1) / n


def expected_best(by: Tensor, of: Tensor, n: int) -> Tensor:
    """E[of(best of n by `by`)] from N ≥ n samples, without bias: (P, N), (P, N) → (P,).

        Σ_i C(i − 1, n − 1) / C(N, n) · of_(i)        i = 1 … N in ascending order of `by`

    the weight being the share of the n-subsets whose best is the i-th.
    """
    N = by.shape[1]
    if not 1 <= n <= N:
        raise ValueError(f"n must be 1 to {N}, the number of samples; given {n}")
    ordered = of.double().gather(1, by.argsort(dim=1, stable=True))
    weights = [comb(i - 1, n - 1) / comb(N, n) for i in range(1, N + 1)]
    return (ordered * torch.tensor(weights, dtype=torch.float64)).sum(1)
