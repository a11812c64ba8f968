"""The divergence of a policy π from its reference ρ: exact, by three estimates, and as a penalty (MATH H4, H5)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


def exact_kl(logits: Tensor, reference: Tensor) -> Tensor:
    """(…, V) → (…): KL(π‖ρ) = Σ_v π_v (log π_v − log ρ_v) over the vocabulary, in nats.

    A token that π never says adds nothing, whatever ρ says; one that only ρ never says makes it infinite.
    """
    logprobs = logits.log_softmax(-1)
    difference = (logprobs - reference.log_softmax(-1)).masked_fill(logprobs == -torch.inf, 0.0)
    return (logprobs.exp() * difference).sum(-1)


def k1(logprobs: Tensor, reference: Tensor) -> Tensor:
    """log π(a) − log ρ(a) for a ~ π: unbiased, of great variance, negative as often as not."""
    return logprobs - reference


def k2(logprobs: Tensor, reference: Tensor) -> Tensor:
    """½ (log π(a) − log ρ(a))²: never negative, biased."""
    return 0.5 * (logprobs - reference) ** 2


def k3(logprobs: Tensor, reference: Tensor) -> Tensor:
    """e^d − 1 − d with d = log ρ(a) − log π(a): never negative and unbiased; far from 0 its rare large values are
    missed, and it says too little. Schulman 2020, "Approximating KL divergence"."""
    difference = reference - logprobs
    return difference.exp() - 1 - difference


def token_rewards(scores: Tensor, divergence: Tensor, beta: float, mask: Tensor) -> Tensor:
    """r_t = −β (log π − log ρ)_t, and the score added on the last token of each answer: Σ_t r_t = score − β Σ_t k1.

    scores (B,); divergence (B, T), k1 of each token; mask (B, T). The end token is the last one, and never its padding.
    ValueError for an answer without tokens: its score would have no place.
    """
    if not bool(mask.any(1).all()):
        raise ValueError("an answer has at least one token")
    rewards = (-beta * divergence).masked_fill(~mask, 0.0)
    last = mask.sum(1) - 1
    return rewards.scatter_add(1, last[:, None], scores.to(rewards.dtype)[:, None])


@dataclass(frozen=True)
class AdaptiveKL:
    """β that holds the KL near a target: β ← β (1 + clip(KL/target − 1, ±0.2) · n/horizon). Ziegler et al. 2019, §2.2.

    target   nats an answer, summed over its tokens
    horizon  number of answers over which β can change by a fifth
    """

    target: float
    horizon: int

    def update_weight(self, beta: float, kl: float, answers: int) -> float:
        """β after `answers` answers that were `kl` nats away on average."""
        error = min(max(kl / self.target - 1, -0.2), 0.2)
        return beta * (1 + error * answers / self.horizon)
