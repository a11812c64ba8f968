"""Returns: the sum of the rewards after a time step, in full, over n steps, or as a weighted mean of those (MATH M3,
M4).

All are computed backwards from the end of the episode, with one addition per step. `values` has T + 1 rows,
V(s₀) … V(s_T); the last is 0 if the episode ended and V(s_T) if it was cut off. Rows may be arrays over settings.
"""

from __future__ import annotations

import numpy as np


def returns(rewards: np.ndarray, gamma: float, last: float | np.ndarray = 0.0) -> np.ndarray:
    """Gₜ = rₜ₊₁ + γ Gₜ₊₁, with G_T = `last`: 0 if the episode ended, else the value of s_T.

    rewards (T), or (T, …); result (T, …).                                       Sutton and Barto 2018, eq. 3.9
    """
    discounted = np.empty(np.broadcast_shapes(rewards.shape, (len(rewards), *np.shape(last))))
    after: float | np.ndarray = last
    for t in range(len(rewards) - 1, -1, -1):
        after = discounted[t] = rewards[t] + gamma * after
    return discounted


def n_step_returns(rewards: np.ndarray, values: np.ndarray, n: int, gamma: float) -> np.ndarray:
    """G_{t:t+n} = rₜ₊₁ + … + γⁿ⁻¹ rₜ₊ₙ + γⁿ V(sₜ₊ₙ); shorter where the episode is over sooner.

    rewards (T) or (T, …), values (T + 1, …); result (T, …).                     Sutton and Barto 2018, eq. 7.1
    """
    T = len(rewards)
    reached = np.minimum(np.arange(T) + n, T)
    sums = values[reached].astype(np.float64)
    for back in range(n - 1, -1, -1):  # the reward `back` steps later, where there is one
        at = np.flatnonzero(np.arange(T) + back < T)
        sums[at] = rewards[at + back] + gamma * sums[at]
    return sums


def lambda_returns(rewards: np.ndarray, values: np.ndarray, lam: float | np.ndarray, gamma: float) -> np.ndarray:
    """Gₜ^λ = rₜ₊₁ + γ [ (1 − λ) V(sₜ₊₁) + λ Gₜ₊₁^λ ], with G_T^λ = V(s_T).

    This is the mean of the n-step returns with weights (1 − λ) λⁿ⁻¹, the last taking all the remaining weight.
    rewards (T), values (T + 1, …), λ a number or (…); result (T, …).           Sutton and Barto 2018, eq. 12.2, 12.18
    """
    mixed = np.empty((len(rewards), *np.broadcast_shapes(values.shape[1:], np.shape(lam))))
    after: np.ndarray = values[-1]
    for t in range(len(rewards) - 1, -1, -1):
        after = mixed[t] = rewards[t] + gamma * ((1 - lam) * values[t + 1] + lam * after)
    return mixed


def accumulating(e: np.ndarray, x: np.ndarray, decay: float) -> np.ndarray:
    """e ← γλ e + x. The sum of Mehlig's TD(λ),  Σ_τ≤t λ^{t−τ} s_τ.           (D), (D) → (D). Sutton 1988; eq. 12.5

    >>> accumulating(np.array([1.0, 0.5]), np.array([1.0, 0.0]), 0.5)
    array([1.5 , 0.25])
    """
    grown: np.ndarray = decay * e + x
    return grown


def replacing(e: np.ndarray, x: np.ndarray, decay: float) -> np.ndarray:
    """e ← 1 where x is not 0, else γλ e; for features of zeros and ones.     (D), (D) → (D). Singh and Sutton 1996

    >>> replacing(np.array([1.0, 0.5]), np.array([1.0, 0.0]), 0.5)
    array([1.  , 0.25])
    """
    return np.where(x != 0, x, decay * e)


def dutch(e: np.ndarray, x: np.ndarray, decay: float, alpha: float) -> np.ndarray:
    """e ← γλ e + (1 − α γλ eᵀx) x, the trace of true on-line TD(λ).          (D), (D) → (D). Sutton & Barto 2018, 12.11

    >>> dutch(np.array([1.0, 0.5]), np.array([1.0, 0.0]), 0.5, 1.0)
    array([1.  , 0.25])
    """
    faded = decay * e
    grown: np.ndarray = faded + (1 - alpha * (faded @ x)) * x
    return grown
