"""Newton's method and descent against textbook iterations and torch's optimizers, and what stops them (MATH F1–F3)."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from txlab.engine.descent.expressions import expression
from txlab.engine.descent.methods import METHODS, Settings, State, cycle, gradient_of, hessian_of, step


def walked(
    name: str, text: str, start: list[float], steps: int, settings: Settings | None = None
) -> tuple[list[Tensor], str]:
    """The points that a method goes through, and what stopped it."""
    f, state = expression(text), State.at(start)
    path = [state.x]
    for _ in range(steps):
        made = step(METHODS[name], f, state, settings or Settings())
        if made.trouble:
            return path, made.trouble
        state = made.after
        path.append(state.x)
    return path, ""


def test_newton_finds_the_root_of_two_as_it_is_printed() -> None:
    """1, 3/2, 17/12, 577/408, 665857/470832: the fractions of the Babylonians, as every textbook has them."""
    path, _ = walked("newton-root", "x**2 - 2", [1.0], 4)
    assert [float(x) for x in path] == pytest.approx([1, 3 / 2, 17 / 12, 577 / 408, 665857 / 470832], rel=1e-15)


def test_newton_squares_the_error() -> None:
    path, _ = walked("newton-root", "cos(x) - x", [1.0], 4)
    root = 0.739085133215160641655312
    errors = [abs(float(x) - root) for x in path]
    assert errors[2] < 1e-4
    assert errors[3] < 2 * errors[2] ** 2
    assert errors[4] < 1e-15


def test_newton_finds_the_minimum_of_a_parabola_in_one_step() -> None:
    path, _ = walked("newton-minimum", "3*x**2 + 2*x*y + 2*y**2 - 4*x + y", [5.0, -7.0], 1)
    expected = torch.linalg.solve(torch.tensor([[6.0, 2.0], [2.0, 4.0]]).double(), torch.tensor([4.0, -1.0]).double())
    torch.testing.assert_close(path[1], expected, atol=1e-12, rtol=1e-12)


def test_descent_on_a_parabola_has_its_closed_form() -> None:
    """x_t = (1 − γ a)^t x₀ for f = ½ a x²."""
    path, _ = walked("gradient", "1.5*x**2", [4.0], 30, Settings(rate=0.25))
    assert [float(x) for x in path] == pytest.approx([4.0 * (1 - 0.75) ** t for t in range(31)], abs=1e-14)


def test_sign_descent_goes_fixed_steps() -> None:
    path, _ = walked("sign", "abs(x) + 3*y**2", [0.3, -0.2], 4, Settings(rate=0.1))
    expected = [[0.3, -0.2], [0.2, -0.1], [0.1, 0.0], [0.0, 0.0]]
    for x, point in zip(path, expected, strict=False):
        assert x.tolist() == pytest.approx(point, abs=1e-15)


ROSENBROCK = "(1 - x)**2 + 100*(y - x**2)**2"


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("gradient", lambda p: torch.optim.SGD(p, lr=1e-3)),
        ("momentum", lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.8)),
        ("adam", lambda p: torch.optim.Adam(p, lr=1e-3, betas=(0.7, 0.95), eps=1e-6)),
    ],
)
def test_the_rules_are_those_of_torch(name: str, theirs: Callable[[list[Tensor]], torch.optim.Optimizer]) -> None:
    settings = Settings(rate=1e-3, momentum=0.8, beta1=0.7, beta2=0.95, epsilon=1e-6)
    path, _ = walked(name, ROSENBROCK, [-1.2, 1.0], 100, settings)
    point = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
    optimizer = theirs([point])
    for x in path:
        torch.testing.assert_close(x, point.detach(), atol=1e-12, rtol=1e-12)
        optimizer.zero_grad()
        ((1 - point[0]) ** 2 + 100 * (point[1] - point[0] ** 2) ** 2).backward()
        optimizer.step()


def test_derivatives_are_exact() -> None:
    f, x = expression("sin(x)*exp(y) + x**3"), torch.tensor([0.7, -0.3], dtype=torch.float64)
    value, gradient = gradient_of(f, x)
    a, b = 0.7, -0.3
    assert float(value) == pytest.approx(math.sin(a) * math.exp(b) + a**3, rel=1e-15)
    assert gradient.tolist() == pytest.approx(
        [math.cos(a) * math.exp(b) + 3 * a * a, math.sin(a) * math.exp(b)], rel=1e-14
    )
    mixed = math.cos(a) * math.exp(b)
    expected = [[-math.sin(a) * math.exp(b) + 6 * a, mixed], [mixed, math.sin(a) * math.exp(b)]]
    assert hessian_of(f, x).tolist() == [pytest.approx(row, rel=1e-13) for row in expected]
    assert gradient_of(expression("2"), x)[1].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("name", "text", "start", "said"),
    [
        ("newton-root", "x**2 + 1", [0.0], "f′(x) = 0"),
        ("newton-root", "2", [1.0], "f′(x) = 0"),
        ("newton-root", "log(x)", [-1.0], "f is not defined at x = −1"),
        ("newton-root", "log(x)", [9.0], "leads to x = −10.78, where f is not defined"),
        ("newton-root", "x**(1/3)", [1.0], "leads to x = −2, where f is not defined"),
        ("newton-root", "atan(x)", [2.0], "it diverges"),
        ("newton-minimum", "x**3", [-1.0], "not convex"),
        ("newton-minimum", "x + y", [1.0, 1.0], "no lowest point"),
        ("newton-minimum", "x**2 - y**2", [1.0, 1.0], "not convex"),
        ("gradient", "x**4", [9.0], "it diverges"),
        ("gradient", "sqrt(x)", [0.0], "has no gradient at x = 0"),
    ],
)
def test_the_reason_why_a_method_stops_is_reported(name: str, text: str, start: list[float], said: str) -> None:
    path, trouble = walked(name, text, start, 200, Settings(rate=0.5))
    assert said in trouble
    assert all(bool(x.isfinite().all()) for x in path)


def test_a_cycle_is_seen_and_standing_still_is_none() -> None:
    path, _ = walked("newton-root", "x**3 - 2*x + 2", [0.0], 6)  # 0, 1, 0, 1, …
    assert [cycle(path[: n + 1]) for n in range(7)] == [0, 0, 2, 2, 2, 2, 2]
    resting, _ = walked("newton-root", "x**2 - 4", [2.0], 6)
    assert cycle(resting) == 0


def test_newton_goes_to_a_maximum_or_a_saddle_when_asked() -> None:
    path, _ = walked("newton-minimum", "x**3 - 3*x", [-0.8], 30, Settings(anywhere=1.0))
    assert float(path[-1]) == pytest.approx(-1)  # the maximum
    path, _ = walked("newton-minimum", "x**2 - y**2 + x", [1.0, 1.0], 2, Settings(anywhere=1.0))
    assert path[-1].tolist() == pytest.approx([-0.5, 0])  # the saddle
