"""Functions that the screen offers, the tangent, and the rate for an unknown function."""

from __future__ import annotations

from math import isfinite

import pytest
import torch

from txlab.engine.descent.expressions import expression
from txlab.engine.descent.known import KNOWN, Known, safe_rate
from txlab.engine.descent.methods import METHODS, Settings, State, gradient_of, hessian_of, step
from txlab.engine.descent.tangent import Tangent


@pytest.mark.parametrize("known", [each for each in KNOWN if each.data is None], ids=lambda each: each.name)
def test_each_known_function_is_defined_at_its_start_which_is_in_its_region(known: Known) -> None:
    f = expression(known.f)
    assert isfinite(float(f(torch.tensor(known.start, dtype=torch.float64))))
    assert ("y" in f.variables) == (len(known.start) == 2)
    assert all(abs(x - middle) <= 1.5 * known.half for x, middle in zip(known.start, known.middle, strict=True))
    assert all(METHODS[name].one_variable <= (len(known.start) == 1) for name in known.on)


@pytest.mark.parametrize("text", ["x**2 + y**2", "100*x**2 + y**2", "1e6*x**2 + 3*y", "x*y", "sin(5*x)*y", "abs(x)+y"])
def test_with_the_safe_rate_the_first_step_goes_down(text: str) -> None:
    f, start = expression(text), [0.7, 1.3]
    rate = safe_rate(f, torch.tensor(start, dtype=torch.float64))
    made = step(METHODS["gradient"], f, State.at(start), Settings(rate=rate))
    assert float(f(made.after.x)) < made.value
    assert 1e-6 <= rate <= 0.1


def test_the_safe_rate_of_a_cliff_is_the_smallest() -> None:
    assert safe_rate(expression("1/x"), torch.zeros(1, dtype=torch.float64)) == pytest.approx(0.1)
    assert safe_rate(expression("1e9*x**2"), torch.ones(1, dtype=torch.float64)) == pytest.approx(1e-6)


def test_second_derivatives_may_be_asked_for_first() -> None:
    f, x = expression("(1 - x)**2 + 100*(y - x**2)**2"), torch.tensor([-1.2, 1.0], dtype=torch.float64)
    assert hessian_of(f, x).tolist() == [[pytest.approx(2 - 400 * (1 - 3 * 1.44)), 480.0], [480.0, 200.0]]
    assert float(gradient_of(f, x)[0]) == pytest.approx(24.2)
    assert hessian_of(expression("3"), x).tolist() == hessian_of(expression("x - 2*y"), x).tolist() == [[0, 0], [0, 0]]


def test_the_tangent_has_newtons_next_point_and_the_planes_normal() -> None:
    line = Tangent((1.0,), -1.0, (2.0,))  # x² − 2 at 1: z = 2 x − 3
    assert (line.intercept, line.root, line.steepness) == (-3.0, 1.5, 2.0)
    assert Tangent((1.0,), -1.0, (0.0,)).root is None
    plane = Tangent((1.0, 2.0), 5.0, (2.0, 4.0))  # x² + y² at (1, 2)
    assert plane.normal == (2.0, 4.0, -1.0)
    for x, y in ((0.0, 0.0), (3.0, -1.0)):  # the normal is at right angles to every way within the plane
        z = plane.intercept + 2 * x + 4 * y
        assert sum(n * way for n, way in zip(plane.normal, (x - 1, y - 2, z - 5), strict=True)) == pytest.approx(0)
