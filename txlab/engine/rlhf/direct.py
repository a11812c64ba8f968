"""Learning from preferences without a value function: DPO's loss, advantages within a group of answers, and the best of
n answers, a policy that needs no training (MATH H4, H5)."""

from __future__ import annotations

from math import comb, log

import torch
import torch.nn.functional as F
from torch import Tensor

SMALLEST_SD = 1e-6


def dpo_loss(policy_w: Tensor, policy_l: Tensor, reference_w: Tensor, reference_l: Tensor, beta: float) -> Tensor:
    """−mean log σ(β [(log π − log ρ)(y_w) − (log π − log ρ)(y_l)]), of log-probabilities (B,) summed over an answer.

    At π = ρ it is log 2. Rafailov et al. 2023, eq. 7.
    """
    return -F.logsigmoid(beta * ((policy_w - reference_w) - (policy_l - reference_l))).mean()


def rloo_advantages(scores: Tensor) -> Tensor:
    """A_i = r_i − mean of the others, of K answers to a prompt; (P, K) → (P, K), and each row adds up to 0.

    The baseline does not depend on the answer itself, so the gradient stays unbiased. Ahmadian et al. 2024, eq. 6.
    ValueError for K = 1.
    """
    K = group_size(scores)
    return scores - (scores.sum(1, keepdim=True) - scores) / (K - 1)


def grpo_advantages(scores: Tensor, divide: bool = True) -> Tensor:
    """A_i = (r_i − mean) / sd over the K answers to a prompt, the answer itself among them. Shao et al. 2024, §4.1.2.

    sd divides by K − 1. Without `divide` a prompt whose answers hardly differ has as little weight as it deserves (Liu
    et al. 2025). ValueError for K = 1.
    """
    group_size(scores)
    centred = scores - scores.mean(1, keepdim=True)
    return centred / (scores.std(1, keepdim=True) + SMALLEST_SD) if divide else centred


def group_size(scores: Tensor) -> int:
    """K of scores (P, K). ValueError unless each prompt has several answers, which are compared with each other."""
    K = scores.shape[1]
    if K < 2:
        raise ValueError(f"an advantage within a group needs at least 2 answers to each prompt; given {K}")
    return K


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
