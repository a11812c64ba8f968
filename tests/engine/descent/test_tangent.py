"""The triangle of the tangent plane (Wang, example 1): its corners, its steepest line, and the normal, by geometry."""

from __future__ import annotations

import numpy as np
import pytest

from txlab.drawing.plane import HERE, Shows
from txlab.drawing.tangent_plane import tangent_sheet
from txlab.engine.descent.tangent import Tangent

GRADIENTS = [(-2.0, -1.0), (3.0, -0.5), (-215.6, -88.0), (0.7, 0.7)]


def above(at: Tangent, x: float, y: float) -> float:
    """The plane's height at a point given from O."""
    return at.value + at.gradient[0] * x + at.gradient[1] * y


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("value", [5.0, -3.0, 0.0])
def test_the_corners_are_on_the_plane_and_cd_is_the_shortest_way_to_ab(
    gradient: tuple[float, float], value: float
) -> None:
    at = Tangent((0.3, -1.0), value, gradient)
    figure = at.figure
    assert figure is not None
    assert figure.a is not None
    assert figure.b is not None
    assert figure.height > 0
    assert figure.level + figure.height == pytest.approx(value)
    for x, y in ((figure.a, 0.0), (0.0, figure.b), figure.d):
        assert above(at, x, y) == pytest.approx(figure.level)
    a, b, c = (np.array(each) for each in ((figure.a, 0, 0), (0, figure.b, 0), (0, 0, figure.height)))
    places = a + np.linspace(-1, 2, 300_001)[:, None] * (b - a)  # D is between A and B
    nearest = places[np.linalg.norm(places - c, axis=1).argmin()]
    assert nearest == pytest.approx(np.array([*figure.d, 0]), abs=2e-5 * float(np.linalg.norm(b - a)))
    for along in (a - c, b - c):
        assert np.dot(at.normal, along) == pytest.approx(
            0, abs=1e-9 * float(np.hypot(*gradient)) * float(np.linalg.norm(along))
        )
    assert np.dot(figure.d, gradient) == pytest.approx(-np.linalg.norm(figure.d) * np.linalg.norm(gradient))


def test_it_is_the_figure_of_the_text_where_f_is_positive_and_falls() -> None:
    """OA = OC / |∂f/∂x|, OB = OC / |∂f/∂y|, and the coordinates of D by the text's own equations."""
    figure = Tangent((0.0, 0.0), 6.0, (-2.0, -3.0)).figure
    assert figure is not None
    assert (figure.level, figure.height, figure.a, figure.b) == (0.0, 6.0, 3.0, 2.0)
    square = figure.d[0] ** 2 + figure.d[1] ** 2
    assert figure.d == pytest.approx((square / 6 * 2, square / 6 * 3))


def test_there_is_none_where_the_plane_is_level_and_of_one_variable() -> None:
    assert Tangent((1.0, 1.0), 2.0, (0.0, 0.0)).figure is None
    assert Tangent((1.0,), 2.0, (3.0,)).figure is None
    assert Tangent((1.0, 1.0), float("inf"), (1.0, 0.0)).figure is None
    assert Tangent((1.0, 1.0), 2.0, (1e308, 1e308)).figure is None
    figure = Tangent((1.0, 1.0), 2.0, (0.0, -1.0)).figure
    assert figure is not None
    assert figure.a is None


@pytest.mark.parametrize("ascii", [False, True])
@pytest.mark.parametrize("gradient", [*GRADIENTS, (0.0, -1.0), (1e-9, 5.0)])
def test_every_corner_is_drawn_where_it_is_near_and_the_steepest_way_has_the_colour_of_the_method(
    gradient: tuple[float, float], ascii: bool
) -> None:
    figure = Tangent((1.0, 1.0), 2.0, gradient).figure
    assert figure is not None
    for room in ((18, 70), (8, 30), (1, 4)):
        sheet = tangent_sheet(figure, room, 3, ascii)
        assert sheet.characters.shape == room
        if room == (18, 70):
            drawn = set(sheet.characters.ravel().tolist())
            assert {"O", "C", "D", "n", "z"} <= drawn
            assert ("A" in drawn) == (abs(gradient[0]) > 0.32 * np.hypot(*gradient))
            assert ("B" in drawn) == (abs(gradient[1]) > 0.32 * np.hypot(*gradient))
            assert {3, HERE + 3, Shows.TANGENT, Shows.CURVE, Shows.AXIS} <= set(sheet.shows.ravel().tolist())
            assert not ascii or all(each.isascii() for each in drawn)
