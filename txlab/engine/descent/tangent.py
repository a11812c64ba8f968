"""The tangent of a function at a point, and the tangent plane with its normal (MATH F1, F3; Wang §1, Yang)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite


@dataclass(frozen=True)
class PlaneFigure:
    """The tangent plane as a triangle ABC over the origin O, which is below its point C (Wang, example 1, figure 1).

        OA = −OC / (∂f/∂x),  OB = −OC / (∂f/∂y),  OD = −OC ∇f / ‖∇f‖²

    level    the height of O: 0 if f > 0 at the point, as in the figure; else f − ‖∇f‖, where OD is 1
    height   OC, above 0
    a, b     where the plane meets the axes of x and y, from O; None = nowhere, since the slope along that axis is 0
    d        the foot of the perpendicular from O to the line AB: CD is the steepest way down, and OD points to −∇f

    Wang's ratios Δz/Δx have no sign; in his figure, where f falls along both axes, both derivatives are negative.
    """

    level: float
    height: float
    a: float | None
    b: float | None
    d: tuple[float, float]


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
        """(∂f/∂x, ∂f/∂y, −1), which is normal to the plane."""
        return (*self.gradient, -1.0)

    @property
    def figure(self) -> PlaneFigure | None:
        """The plane cut by a level below the point; None where it is level itself, or of one variable. MATH F3."""
        steepness = self.steepness
        if len(self.gradient) != 2 or not 0 < steepness < inf or not isfinite(self.value):
            return None
        height = self.value if self.value > 0 else steepness
        across, along = self.gradient
        a, b = (-height / slope if slope else None for slope in self.gradient)
        d = (-height * across / steepness**2, -height * along / steepness**2)
        return PlaneFigure(self.value - height, height, a, b, d)

    @property
    def root(self) -> float | None:
        """Where the tangent of a function of one variable meets the axis: x₀ − f / f′, Newton's next point."""
        (x,), (slope,) = self.point, self.gradient
        return x - self.value / slope if slope else None

    @property
    def steepness(self) -> float:
        """‖∇f‖."""
        return float(sum(g * g for g in self.gradient) ** 0.5)
