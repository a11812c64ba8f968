"""Sinusoids digit by digit, and what makes rotary positions relative (MATH T7)."""

import math

import pytest
import torch

from txlab.engine.transformer.positions import rotary_angles, rotate, sinusoids


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


def test_turning_changes_no_length_and_position_zero_is_left_alone() -> None:
    x = torch.randn(3, 10, 8, generator=torch.Generator().manual_seed(1))
    turned = rotate(x, rotary_angles(10, 8))
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    torch.testing.assert_close(turned[:, 0], x[:, 0])


def test_an_odd_head_width_is_refused() -> None:
    with pytest.raises(ValueError, match="odd"):
        rotary_angles(4, 5)
