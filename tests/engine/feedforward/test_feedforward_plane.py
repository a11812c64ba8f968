"""Points in the plane: as described, and the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from txlab.engine.feedforward.plane import CLASSES, EDGE, FEATURES, REGRESSIONS, draw, features, grid, target_of


@pytest.mark.parametrize("name", [*CLASSES, *REGRESSIONS])
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_points_are_in_the_plane_and_depend_on_the_seed_alone(name: str, noise: float) -> None:
    one, same, other = (draw(name, 301, noise, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert one.shape == (301, 3)
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    assert np.abs(one[:, :2]).max() <= EDGE
    if name in CLASSES:
        assert set(one[:, 2]) == {-1.0, 1.0}
        assert abs(one[:, 2].mean()) < 0.5
    else:
        assert np.abs(one[:, 2]).max() <= 1.2


def test_the_sets_are_what_their_names_say() -> None:
    random = np.random.default_rng(0)
    x, y, side = draw("circle", 500, 0.0, random).T
    assert np.array_equal(side > 0, np.hypot(x, y) < 2.6)
    x, y, side = draw("xor", 500, 0.0, random).T
    assert np.array_equal(side > 0, x * y > 0)
    x, y, side = draw("clouds", 500, 0.0, random).T
    assert ((side > 0) == (x + y > 0)).mean() > 0.98
    x, y, side = draw("spiral", 500, 0.0, random).T  # an arm is found by its angle, which grows with the radius
    angle = np.arctan2(y, x) + 3.5 * np.pi * np.hypot(x, y) / 5
    assert np.array_equal(side > 0, np.cos(angle - np.pi / 2) > 0)
    points = draw("bumps", 500, 0.0, random)
    assert np.allclose(points[:, 2], target_of("bumps", points[:, :2]), atol=1e-6)


def test_features_are_those_of_their_signs() -> None:
    found = features(np.array([[2.0, -3.0]]), tuple(FEATURES))[0]
    assert found.tolist() == pytest.approx([2, -3, 4, 9, -6, np.sin(2), np.sin(-3)])


def test_the_grid_begins_at_the_top_left() -> None:
    assert grid(3).tolist()[:2] == [[-4.0, 4.0], [0.0, 4.0]]
