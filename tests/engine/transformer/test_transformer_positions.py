"""Sinusoids digit by digit, and what makes rotary positions relative (MATH T7)."""

import cmath
import math

import pytest
import torch

from txlab.engine.transformer.positions import Rotary, rotary_angles, rotate, sinusoids


def test_sinusoids_are_wangs_formula() -> None:
    table = sinusoids(50, 512)
    for i in (0, 1, 7, 49):
        for j in (0, 1, 2, 255, 510, 511):
            even = j if j % 2 == 0 else j - 1
            angle = i / 10_000 ** (even / 512)
            wanted = math.sin(angle) if j % 2 == 0 else math.cos(angle)
            assert float(table[i, j]) == pytest.approx(wanted, abs=1e-6)


def test_a_rotated_product_depends_on_the_distance_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 16, generator=generator, dtype=torch.float64)
    angles = rotary_angles(64, 16).double()
    products = {
        (i, j): float(rotate(q, angles[i : i + 1])[0] @ rotate(k, angles[j : j + 1])[0])
        for i, j in [(5, 2), (20, 17), (63, 60), (5, 3), (2, 5)]
    }
    assert products[5, 2] == pytest.approx(products[20, 17], abs=1e-5)
    assert products[5, 2] == pytest.approx(products[63, 60], abs=1e-5)
    assert abs(products[5, 2] - products[5, 3]) > 1e-2
    assert abs(products[5, 2] - products[2, 5]) > 1e-2


@pytest.mark.parametrize(("width", "base"), [(8, 10_000.0), (64, 10_000.0), (6, 500_000.0)])
def test_rotary_angles_and_turns_are_those_of_complex_numbers(width: int, base: float) -> None:
    """The pair n of position i, as x + iy, is multiplied by exp(i · place · base^(−2n/K)), one number at a time."""
    angles = rotary_angles(70, width, Rotary(base))
    x = torch.randn(70, width, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    turned = rotate(x, angles.double())
    for place in (0, 1, 2, 31, 69):
        for n in range(width // 2):
            theta = place * math.exp(-2 * n / width * math.log(base))
            assert float(angles[place, n]) == pytest.approx(theta, rel=1e-6)
            wanted = complex(*x[place, 2 * n : 2 * n + 2].tolist()) * cmath.exp(1j * theta)
            found = complex(*turned[place, 2 * n : 2 * n + 2].tolist())
            assert abs(found - wanted) < 1e-5


def test_turning_changes_no_length_and_position_zero_is_left_alone() -> None:
    x = torch.randn(3, 10, 8, generator=torch.Generator().manual_seed(1))
    turned = rotate(x, rotary_angles(10, 8))
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    torch.testing.assert_close(turned[:, 0], x[:, 0])


def test_an_odd_head_width_is_refused() -> None:
    with pytest.raises(ValueError, match="odd"):
        rotary_angles(4, 5)
