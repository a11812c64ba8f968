"""Learning from preferences without a value function: DPO's loss, and advantages within a group of answers (H4)."""

from __future__ import annotations

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
    """
    K = scores.shape[1]
    return scores - (scores.sum(1, keepdim=True) - scores) / (K - 1)


def grpo_advantages(scores: Tensor, divide: bool = True) -> Tensor:
    """A_i = (r_i − mean) / sd over the K answers to a prompt, the answer itself among them. Shao et al. 2024, §4.1.2.

    sd divides by K − 1. Without `divide` a prompt whose answers hardly differ has as little weight as it deserves (Liu
    et al. 2025).
    """
    centred = scores - scores.mean(1, keepdim=True)
    return centred / (scores.std(1, keepdim=True) + SMALLEST_SD) if divide else centred
