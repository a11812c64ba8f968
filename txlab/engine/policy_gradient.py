"""Advantages and clipped losses of policy gradients, for the tokens of an answer or the steps of a world (MATH M8, H4).

Everything is (B, T), time last; `mask` is True where a row has a step, and padding never counts. Pure functions:
collecting rollouts and taking gradients is up to the caller.
"""

from __future__ import annotations

import torch
from torch import Tensor

SMALLEST_VARIANCE = 1e-8


def zero_padding(x: Tensor, mask: Tensor | None) -> Tensor:
    """x with 0 past the end of each row. Every input of a loss passes through here first: masking a −∞ or NaN only in
    the result leaves the gradient 0 · NaN."""
    return x if mask is None else x.masked_fill(~mask, 0.0)


def masked_mean(x: Tensor, mask: Tensor | None = None) -> Tensor:
    """(1/#mask) Σ_mask x, a scalar."""
    return x.mean() if mask is None else zero_padding(x, mask).sum() / mask.sum()


def gae(
    rewards: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    gamma: float = 1.0,
    lam: float = 0.95,
    bootstrap: Tensor | None = None,
    ended: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Generalised advantage estimates: (δ, A, R), each (B, T) and 0 where the mask is.

        δ_t = r_t + γ V_{t+1} − V_t        A_t = δ_t + γλ A_{t+1}        R_t = A_t + V_t

    bootstrap  (B,) V after the last step of each row; None = 0, as after the last token of an answer
    ended      (B, T) steps after which an episode ended: V_{t+1} = A_{t+1} = 0 there

    λ = γ = 1 gives the reward-to-go minus the value; λ = 0 the TD error. MATH M8; Schulman et al. 2016, eq. 16.
    """
    mask = torch.ones_like(rewards, dtype=torch.bool) if mask is None else mask
    rewards, values = zero_padding(rewards, mask), zero_padding(values, mask)
    after = torch.zeros_like(values[:, 0]) if bootstrap is None else bootstrap
    following = torch.cat([values[:, 1:], after[:, None]], 1)
    goes_on = torch.ones_like(rewards) if ended is None else (~ended).to(rewards.dtype)
    deltas = (rewards + gamma * following * goes_on - values).masked_fill(~mask, 0.0)
    advantages, later = torch.zeros_like(deltas), torch.zeros_like(deltas[:, 0])
    for t in reversed(range(deltas.shape[1])):
        later = deltas[:, t] + gamma * lam * goes_on[:, t] * later
        advantages[:, t] = later
    return deltas, advantages, advantages + values


def whiten(x: Tensor, mask: Tensor | None = None, shift_mean: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """((x − μ) / √(σ² + 1e-8), μ, σ) over the masked entries; without `shift_mean` μ is added again.

    σ² divides by n, not n − 1, as in lm-human-preferences: the two forms differ by √((n − 1) / n). Without `shift_mean`
    the mean stays, but x is not merely divided by σ: (1 − 1/σ) μ is added to each entry.
    """
    x = zero_padding(x, mask)
    mean = masked_mean(x, mask)
    variance = masked_mean((x - mean) ** 2, mask)
    whitened = (x - mean) * (variance + SMALLEST_VARIANCE).rsqrt()
    if not shift_mean:
        whitened = whitened + mean
    return zero_padding(whitened, mask), mean, variance.sqrt()


def clipped_policy_loss(
    logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, mask: Tensor | None, clip: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(loss, ratio, clipped) with loss = mean of max(−A ρ, −A clamp(ρ, 1 − ε, 1 + ε)) and ρ = π / π_old.

    ratio (B, T), 1 behind the end of a row; clipped (B, T) bool, where the clamped term is the greater one, so that no
    gradient flows (as TRL counts them; CleanRL counts every |ρ − 1| > ε). MATH M8; Schulman et al. 2017, eq. 7 (there a
    maximum of the negative).
    """
    logprobs, old_logprobs, advantages = (zero_padding(each, mask) for each in (logprobs, old_logprobs, advantages))
    ratio = (logprobs - old_logprobs).exp()
    free, clamped = -advantages * ratio, -advantages * ratio.clamp(1 - clip, 1 + clip)
    return masked_mean(torch.maximum(free, clamped), mask), ratio, clamped > free


def clipped_value_loss(
    values: Tensor, old_values: Tensor, returns: Tensor, mask: Tensor | None, clip: float
) -> tuple[Tensor, Tensor]:
    """(loss, clipped): loss = ½ mean of max((V − R)², (V′ − R)²), V′ = V_old + clamp(V − V_old, ±clip).

    clipped (B, T) bool, where the second is the greater one.
    """
    values, old_values, returns = (zero_padding(each, mask) for each in (values, old_values, returns))
    moved = values - old_values
    # Where nothing is clamped V′ is V itself: V_old + (V − V_old) differs from it by rounding, and half of those
    # differences would count as clipped.
    near = torch.where(moved.abs() <= clip, values, old_values + moved.clamp(-clip, clip))
    free, clamped = (values - returns) ** 2, (near - returns) ** 2
    return 0.5 * masked_mean(torch.maximum(free, clamped), mask), clamped > free


def explained_variance(returns: Tensor, values: Tensor) -> float:
    """1 − Var(R − V) / Var(R) over the masked entries (…): 1 is perfect, 0 a constant prediction; 1 for a single
    number."""
    residual, spread = (returns - values).var(correction=0), returns.var(correction=0)
    return float(1 - residual / spread.clamp(min=1e-12))


def token_entropy(logits: Tensor) -> Tensor:
    """(…, V) → (…): H = −Σ p log p, in nats; 0 log 0 = 0."""
    logprobs = logits.log_softmax(-1)
    return -(logprobs.exp() * logprobs.masked_fill(logprobs == -torch.inf, 0.0)).sum(-1)
