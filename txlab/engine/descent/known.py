"""Functions for comparing methods, each with a start and a part of the plane where the methods differ visibly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from txlab.engine.descent.methods import Function

DOWN = ("gradient", "momentum", "adam", "newton-minimum")
"""The methods that seek a minimum, of one variable or two."""


@dataclass(frozen=True)
class Known:
    """A function, where methods begin, the region (middle, half its height) and what to look for; `rates` of methods;
    `on`, the methods that take part."""

    name: str
    f: str
    start: tuple[float, ...]
    middle: tuple[float, ...]
    half: float
    about: str
    rates: Mapping[str, float] = field(default_factory=dict)
    on: tuple[str, ...] = DOWN
    data: Mapping[str, float] | None = None
    """Points to fit a line to, instead of f: the table [data] of a scenario."""


def rates(gradient: float, adam: float) -> dict[str, float]:
    return {"gradient": gradient, "momentum": gradient, "adam": adam, "sign": adam}


ROOT = ("newton-root",)
KNOWN = (
    Known("Rosenbrock", "(1 - x)**2 + 100*(y - x**2)**2", (-1.2, 1.0), (0.0, 0.9), 1.6,
          "a bent valley, steep across", rates(0.001, 0.1)),
    Known("Himmelblau", "(x**2 + y - 11)**2 + (x + y**2 - 7)**2", (1.5, 4.5), (0.0, 0.0), 5.0,
          "four minima, all 0: which one is reached depends", rates(0.01, 0.3)),
    Known("Beale", "(1.5 - x + x*y)**2 + (2.25 - x + x*y**2)**2 + (2.625 - x + x*y**3)**2", (1.0, 1.5), (1.5, 0.5), 2.2,
          "flat far out, minimum at (3, 0.5)", rates(0.01, 0.1)),
    Known("a ravine", "10*x**2 + y**2", (1.0, 2.0), (0.0, 0.6), 2.0,
          "the gradient points across", rates(0.08, 0.2)),
    Known("a saddle", "x**2 - y**2", (1.5, 0.001), (0.0, 0.0), 2.0,
          "Newton refuses; the others fall off", rates(0.05, 0.1)),
    Known("waves in a bowl", "x**2 + y**2 - 3*cos(3*x) - 3*cos(3*y)", (3.1, 2.3), (0.6, 0.4), 3.4,
          "many minima; momentum passes some", rates(0.03, 0.3)),
    Known("a corner", "abs(x) + abs(y)", (1.6, 1.1), (0.0, 0.0), 2.0,
          "no gradient settles it: f is not smooth", rates(0.15, 0.2)),
    Known("a line through points", "", (-2.0, 3.0), (0.6, 0.4), 3.2, "least squares; D takes a point a step",
          {"gradient": 0.1, "momentum": 0.02, "adam": 0.2, "sign": 0.05, "sgd": 0.1},
          ("gradient", "sgd", "momentum", "adam"), {"points": 30, "slope": 1.5, "intercept": -0.5, "noise": 0.5}),
    Known("square root of 2", "x**2 - 2", (3.0,), (1.5,), 2.2,
          "Newton for a root: digits double", rates(0.1, 0.2), ROOT),
    Known("Newton's circle", "x**3 - 2*x + 2", (0.0,), (-0.4,), 2.2,
          "from 0 it goes 0, 1, 0, 1, …", rates(0.05, 0.1), ROOT),
    Known("cos x = x", "cos(x) - x", (-1.0,), (0.5,), 3.0,
          "a root without a formula", rates(0.1, 0.1), ROOT),
    Known("fading waves", "sin(x)*exp(-0.1*x**2)", (0.9,), (0.0,), 6.0,
          "the nearest minimum, or beyond", rates(0.3, 0.2)),
    Known("|x|", "abs(x)", (1.05,), (0.0,), 2.0,
          "a fixed rate jumps to and fro", rates(0.1, 0.1), ("sign", "gradient", "momentum", "adam")),
    Known("a double well", "x**4 - 2*x**2 + 0.3*x", (0.1,), (0.0,), 1.7,
          "two minima, one lower", rates(0.05, 0.05), ("gradient", "momentum", "adam", "newton-minimum")),
)  # fmt: skip


def safe_rate(f: Function, start: Tensor) -> float:
    """A rate with which gradient descent begins to go down: at most half of 1/L, L the largest curvature |λ(H)| at the
    start; 1, 2 or 5 times a power of ten between 10⁻⁶ and 0.1."""
    import torch

    from txlab.engine.descent.methods import hessian_of

    hessian = hessian_of(f, start)
    largest = float(torch.linalg.eigvalsh(hessian).abs().max()) if bool(hessian.isfinite().all()) else 0.0
    wanted = 0.5 / largest if largest > 5 else 0.1
    steps = [digit * 10.0**power for power in range(-6, 0) for digit in (1, 2, 5)]
    return max([each for each in steps if each <= min(wanted, 0.1) * (1 + 1e-9)], default=steps[0])
