"""Linear regression: the mean squared error of a line v = w u + b as a function of w and b (MATH F4; Wang §2).

Erratum: Wang lets the inner loop of stochastic descent run over m, which is his letter for parameters; it runs over the
n samples, each once an epoch, in an order drawn afresh for each epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class LineData:
    """n points: u, v (n,) float64. Called with (w, b), or with many of them (2, …), it gives the error of each line."""

    u: Tensor
    v: Tensor

    def __call__(self, point: Tensor) -> Tensor:
        """(2, …) → (…): 1/n Σᵢ (w uᵢ + b − vᵢ)²."""
        w, b = point
        residuals: Tensor = w[..., None] * self.u + b[..., None] - self.v
        return (residuals**2).mean(-1)

    def sample(self, index: int) -> LineData:
        """One point: its error is fᵢ = (w uᵢ + b − vᵢ)²."""
        return LineData(self.u[index : index + 1], self.v[index : index + 1])

    def least_squares(self) -> tuple[float, float]:
        """The w and b with the smallest error: w = cov(u, v) / var(u), b = v̄ − w ū."""
        u, v = self.u - self.u.mean(), self.v - self.v.mean()
        w = float((u * v).sum() / (u * u).sum())
        return w, float(self.v.mean() - w * self.u.mean())


def line_data(points: int, slope: float, intercept: float, noise: float, draws: np.random.Generator) -> LineData:
    """u even in [−1, 2], v = slope · u + intercept + noise · N(0, 1)."""
    u = draws.uniform(-1.0, 2.0, points)
    v = slope * u + intercept + noise * draws.standard_normal(points)
    return LineData(torch.from_numpy(u), torch.from_numpy(v))


def sample_at(step: int, n: int, order_of: Callable[[int], np.ndarray]) -> int:
    """Which of n samples step 0, 1, … visits; `order_of(epoch)` is the order in which an epoch visits them."""
    return int(order_of(step // n)[step % n])
