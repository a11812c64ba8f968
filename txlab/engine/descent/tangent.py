"""The tangent of a function at a point, and the tangent plane with its normal (MATH F1, F3; Wang §1, Yang)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tangent:
    """z = f(x₀) + Σᵢ ∂f/∂xᵢ (xᵢ − x₀ᵢ)"""

    point: tuple[float, ...]
    value: float
    gradient: tuple[float, ...]

    @property
    def intercept(self) -> float:
        """Its height at the origin: f(x₀) − ∇f · x₀."""
        return self.value - sum(g * x for g, x in zip(self.gradient, self.point, strict=True))

    @property
    def normal(self) -> tuple[float, ...]:
        """(∂f/∂x, ∂f/∂y, −1), which stands upright on the plane."""
        return (*self.gradient, -1.0)

    @property
    def root(self) -> float | None:
        """Where the tangent of a function of one variable meets the axis: x₀ − f / f′, Newton's next point."""
        (x,), (slope,) = self.point, self.gradient
        return x - self.value / slope if slope else None

    @property
    def steepness(self) -> float:
        """‖∇f‖."""
        return float(sum(g * g for g in self.gradient) ** 0.5)
