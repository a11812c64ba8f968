"""Eligibility traces: which weights answer for the error of this step, and how much (MATH M4).

Notable: `decay` is γλ. All start from zero where an episode begins; one δ serves every weight, w ← w + α δ e.
"""

from __future__ import annotations

import numpy as np


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
