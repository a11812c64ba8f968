"""Newton's method and descent, one step at a time, and why a method fails when it does (MATH F1–F3).

Every method is a rule for the next point from the value, the gradient and, for Newton's, the second derivatives, all by
automatic differentiation in float64. A method that cannot continue ends with a sentence that says why; nothing retries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

Function = Callable[[Tensor], Tensor]  # (n,) float64 → ()

FURTHEST = 1e8  # a point with a larger coordinate is taken to be on its way to infinity
LONGEST_CYCLE = 12  # steps
SAME = 1e-12  # two points are the same if they differ by less than this share of their size


@dataclass(frozen=True)
class Settings:
    """rate γ · momentum μ · beta1, beta2, epsilon of Adam · anywhere 1: Newton's step also where f is not convex"""

    rate: float = 0.1
    momentum: float = 0.9
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    anywhere: float = 0.0


@dataclass(frozen=True)
class State:
    """x (n,) the point · m, v (n,) what momentum and Adam remember · t steps made"""

    x: Tensor
    m: Tensor
    v: Tensor
    t: int = 0

    @classmethod
    def at(cls, point: Sequence[float]) -> State:
        x = torch.tensor(point, dtype=torch.float64)
        return cls(x, torch.zeros_like(x), torch.zeros_like(x))


@dataclass(frozen=True)
class Step:
    """One step: the point before it, value and gradient there, the new state, and the letters of the rule with values.

    trouble  a sentence, if the method cannot continue; `after` is then the state before it
    """

    point: Tensor
    value: float
    gradient: Tensor
    after: State
    letters: dict[str, Tensor] = field(default_factory=dict)
    trouble: str = ""


@dataclass(frozen=True)
class Method:
    """A rule for the next point: `move(state, f, gradient, settings)` → (new state, letters). ValueError says what
    keeps it from moving."""

    name: str
    title: str
    rule: str
    math: str
    source: str
    move: Callable[[State, Function, Tensor, Settings], tuple[State, dict[str, Tensor]]]
    uses: tuple[str, ...] = ()
    """The settings that its rule has letters for."""
    one_variable: bool = False


def gradient_of(f: Function, x: Tensor) -> tuple[Tensor, Tensor]:
    """f(x) and ∇f(x)."""
    x = x.detach().clone().requires_grad_()
    with torch.enable_grad():
        value = f(x)
        (gradient,) = torch.autograd.grad(value, x, allow_unused=True)
    return value.detach(), torch.zeros_like(x).detach() if gradient is None else gradient


def hessian_of(f: Function, x: Tensor) -> Tensor:
    """(n, n): ∂²f / ∂xᵢ∂xⱼ, the gradient of each part of the gradient."""
    x = x.detach().clone().requires_grad_()
    rows = []
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(f(x), x, create_graph=True, allow_unused=True)
        for part in gradient if gradient is not None else ():
            row = torch.autograd.grad(part, x, retain_graph=True, allow_unused=True)[0] if part.requires_grad else None
            rows.append(torch.zeros_like(x) if row is None else row)
    return torch.stack(rows).detach() if rows else torch.zeros(len(x), len(x), dtype=x.dtype)


def newton_root(state: State, f: Function, gradient: Tensor, settings: Settings) -> tuple[State, dict[str, Tensor]]:
    if not bool(gradient.any()):
        raise ValueError("f′(x) = 0: the tangent is level and never meets the axis")
    change = f(state.x) / gradient
    return replace(state, x=state.x - change), {"f(x)/f′(x)": change}


def newton_minimum(state: State, f: Function, gradient: Tensor, settings: Settings) -> tuple[State, dict[str, Tensor]]:
    hessian = hessian_of(f, state.x)
    if not bool(hessian.isfinite().all()):
        raise ValueError("the second derivatives do not exist here")
    if float(torch.linalg.matrix_rank(hessian, hermitian=True)) < len(hessian):
        raise ValueError("f″(x) = 0 in some direction: there the parabola has no lowest point")
    if not settings.anywhere and float(torch.linalg.eigvalsh(hessian)[0]) < 0:
        raise ValueError("f is not convex here: Newton's step would lead to a maximum or a saddle")
    change = torch.linalg.solve(hessian, gradient)
    return replace(state, x=state.x - change), {"H": hessian, "H⁻¹∇f": change}


def sign_descent(state: State, f: Function, gradient: Tensor, settings: Settings) -> tuple[State, dict[str, Tensor]]:
    sign = gradient.sign()
    return replace(state, x=state.x - settings.rate * sign), {"sign ∇f": sign}


def gradient_descent(
    state: State, f: Function, gradient: Tensor, settings: Settings
) -> tuple[State, dict[str, Tensor]]:
    return replace(state, x=state.x - settings.rate * gradient), {}


def momentum(state: State, f: Function, gradient: Tensor, settings: Settings) -> tuple[State, dict[str, Tensor]]:
    m = settings.momentum * state.m + gradient
    return replace(state, x=state.x - settings.rate * m, m=m), {"m": m}


def adam(state: State, f: Function, gradient: Tensor, settings: Settings) -> tuple[State, dict[str, Tensor]]:
    t = state.t + 1
    m = settings.beta1 * state.m + (1 - settings.beta1) * gradient
    v = settings.beta2 * state.v + (1 - settings.beta2) * gradient**2
    m_hat, v_hat = m / (1 - settings.beta1**t), v / (1 - settings.beta2**t)
    x = state.x - settings.rate * m_hat / (v_hat.sqrt() + settings.epsilon)
    return replace(state, x=x, m=m, v=v), {"m̂": m_hat, "v̂": v_hat}


METHODS = {
    each.name: each
    for each in (
        Method("newton-root", "Newton for a root", "x ← x − f(x) / f′(x)", "F1", "Wang §1", newton_root, (), True),
        Method(
            *("newton-minimum", "Newton for a minimum", "x ← x − H⁻¹ ∇f(x)", "F1", "Wang §1", newton_minimum),
            uses=("anywhere",),
        ),
        Method("sign", "sign descent", "x ← x − γ sign ∇f(x)", "F2", "Wang (1)", sign_descent, ("rate",)),
        Method(
            "gradient", "gradient descent", "x ← x − γ ∇f(x)", "F2, F3", "Wang (2), (3)", gradient_descent, ("rate",)
        ),
        Method(
            "momentum",
            "momentum",
            "m ← μ m + ∇f(x),  x ← x − γ m",
            "F3",
            "Polyak 1964; Yang",
            momentum,
            ("rate", "momentum"),
        ),
        Method(
            "adam",
            "Adam",
            "m ← β₁ m + (1 − β₁) ∇f,  v ← β₂ v + (1 − β₂) ∇f²,  x ← x − γ m̂ / (√v̂ + ε)",
            "F3",
            "Kingma and Ba 2015, algorithm 1",
            adam,
            ("rate", "beta1", "beta2"),
        ),
        Method("sgd", "stochastic descent", "x ← x − γ ∇fᵢ(x)", "F4", "Wang (4), §2", gradient_descent, ("rate",)),
    )
}


def step(
    method: Method,
    f: Function,
    state: State,
    settings: Settings,
    noise: Tensor | None = None,
    sampled: Function | None = None,
) -> Step:
    """Make one step; `noise` (n,) is added to the gradient, as a sample of the data would. The gradient that is
    followed is that of `sampled`, if given: f of some of the data."""
    value, gradient = gradient_of(f, state.x)
    if sampled is not None:
        _, gradient = gradient_of(sampled, state.x)
    if noise is not None:
        gradient = gradient + noise
    here = Step(state.x, float(value), gradient, state)
    if not bool(value.isfinite()):
        return replace(here, trouble=f"f is not defined at {format_point(state.x)}")
    if not bool(gradient.isfinite().all()):
        return replace(here, trouble=f"f has no gradient at {format_point(state.x)}")
    try:
        after, letters = method.move(state, f, gradient, settings)
    except ValueError as error:
        return replace(here, trouble=f"at {format_point(state.x)}: {error}")
    if float(after.x.abs().max()) > FURTHEST or not bool(after.x.isfinite().all()):
        return replace(
            here,
            trouble=f"it diverges: the step from {format_point(state.x)} leads to {format_point(after.x)}",
            letters=letters,
        )
    if not bool(f(after.x).isfinite()):
        return replace(
            here,
            trouble=f"the step from {format_point(state.x)} leads to {format_point(after.x)}, where f is not defined",
        )
    return replace(here, after=replace(after, t=state.t + 1), letters=letters)


def format_point(x: Tensor) -> str:
    """ "x = 1.5", "(1.5, −2)" """
    numbers = [f"{float(each):.4g}".replace("-", "−") for each in x]
    return f"x = {numbers[0]}" if len(numbers) == 1 else f"({', '.join(numbers)})"


def cycle(path: Sequence[Tensor]) -> int:
    """After how many steps a path has returned to its current point, having moved in between; 0 = it has not."""
    here = path[-1]
    scale = 1 + float(here.abs().max())
    for back in range(2, min(LONGEST_CYCLE + 1, len(path))):
        if float((path[-1 - back] - here).abs().max()) <= SAME * scale:
            still = all(float((point - here).abs().max()) <= SAME * scale for point in path[-back:])
            return 0 if still else back
    return 0
