"""Ramps and curve colours: even to the eye, distinct in every depth, and never the only carrier of what they say."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from rich.color import Color, ColorSystem

from txlab.drawing.curve import ASCII_MARKS, MARKS
from txlab.drawing.palette import ASCII_SHADES, Colours, diverging, heat, lines, rgb_to_oklab

DEPTHS: tuple[Colours, ...] = ("truecolor", "256", "16", "none")


def lightness(rgb: tuple[int, int, int]) -> float:
    """CIE L* (1976), by its own formula and not by that of the module."""
    linear = [(c / 255 / 12.92) if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
    y = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return 116 * y ** (1 / 3) - 16 if y > 0.008856 else 903.3 * y


@pytest.mark.parametrize("dark", [True, False])
@pytest.mark.parametrize("depth", ["truecolor", "256"])
def test_a_ramp_gets_lighter_or_darker_at_every_step(depth: Colours, dark: bool) -> None:
    seen = [lightness(fill) for fill in heat(depth, dark).fill if fill]
    steps = np.diff(seen) * (1 if dark else -1)
    assert (steps > 0).all()


@pytest.mark.parametrize("dark", [True, False])
def test_the_truecolor_ramp_is_fine_and_even(dark: bool) -> None:
    ramp = heat("truecolor", dark)
    assert ramp.levels >= 32
    steps = np.abs(np.diff([lightness(fill) for fill in ramp.fill if fill]))
    assert steps.max() < 3 * np.median(steps)


@pytest.mark.parametrize("dark", [True, False])
@pytest.mark.parametrize("depth", ["truecolor", "256", "16"])
def test_the_signs_of_differences_have_distinct_hues_at_the_levels_of_a_heatmap(depth: Colours, dark: bool) -> None:
    above, below = diverging(depth, dark)
    assert above.levels == below.levels == heat(depth, dark).levels
    for ramp in (above, below):
        steps = np.diff([lightness(fill) for fill in ramp.fill if fill]) * (1 if dark else -1)
        assert (steps > 0).all()
    for level in range(above.levels // 3, above.levels):
        (red, _, blue), (cold_red, _, cold_blue) = (
            ramp.fill[level] or ramp.ink[level] or (0, 0, 0) for ramp in (above, below)
        )
        assert red > blue
        assert cold_blue > cold_red


def test_black_and_white_have_the_lightness_they_are_defined_to_have() -> None:
    assert rgb_to_oklab((0, 0, 0)) == pytest.approx((0, 0, 0), abs=1e-6)
    assert rgb_to_oklab((255, 255, 255)) == pytest.approx((1, 0, 0), abs=1e-4)
    assert rgb_to_oklab((255, 0, 0)) == pytest.approx((0.628, 0.2249, 0.1258), abs=1e-3)  # from Ottosson's article


@pytest.mark.parametrize("dark", [True, False])
def test_reduced_ramps_are_exact_entries_and_stay_distinct(dark: bool) -> None:
    fills = [Color.from_rgb(*fill) for fill in heat("256", dark).fill if fill]
    reduced = [colour.downgrade(ColorSystem.EIGHT_BIT) for colour in fills]
    assert len({colour.number for colour in reduced}) == len(fills) >= 8
    for colour, kept in zip(fills, reduced, strict=True):
        assert tuple(kept.get_truecolor()) == colour.triplet
    inks = [Color.from_rgb(*ink) for ink in heat("16", dark).ink if ink]
    assert len({ink.downgrade(ColorSystem.STANDARD).number for ink in inks}) == len(inks) == 5


@pytest.mark.parametrize("dark", [True, False])
def test_every_ink_of_16_colours_is_seen_on_the_surface(dark: bool) -> None:
    """A quarter of a cell in dark blue on black was not."""
    for ink in heat("16", dark).ink:
        assert ink is not None
        assert abs(rgb_to_oklab(ink)[0] - (0.0 if dark else 1.0)) > 0.4


@pytest.mark.parametrize("ascii", [True, False])
@pytest.mark.parametrize("depth", DEPTHS)
def test_glyphs_tell_the_level_without_colour(depth: Colours, ascii: bool) -> None:
    ramp = heat(depth, ascii=ascii)
    order = ASCII_SHADES if ascii else "·░▒▓█"
    ranks = [order.index(glyph) for glyph in ramp.glyphs]
    assert ranks == sorted(ranks)
    assert set(ranks) == set(range(len(order)))
    assert len(ramp.fill) == len(ramp.ink) == ramp.levels
    assert not ascii or ramp.glyphs.isascii()


@pytest.mark.parametrize("depth", DEPTHS)
def test_levels_cover_the_interval_and_survive_non_numbers(depth: Colours) -> None:
    ramp = heat(depth)
    values = np.array([0.0, 1.0, 0.5, np.nan, -3.0, 7.0, np.inf, -np.inf])
    last = ramp.levels - 1
    assert ramp.level(values).tolist() == [0, last, round(last / 2), 0, 0, last, last, 0]
    fine = ramp.level(np.linspace(0, 1, 2000))
    assert fine.dtype == np.uint8
    assert set(fine.tolist()) == set(range(ramp.levels))
    assert (np.diff(fine.astype(int)) >= 0).all()


def deuteranope(rgb: tuple[int, int, int]) -> np.ndarray:
    """What is seen without the middle cones (Viénot, Brettel & Mollon 1999), in linear RGB."""
    linear = ((np.array(rgb) / 255) ** 2.2)[:, None]
    matrix = np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]])
    return (matrix @ linear)[:, 0].clip(0, 1) ** (1 / 2.2) * 255


@pytest.mark.parametrize("dark", [True, False])
@pytest.mark.parametrize("depth", ["truecolor", "256"])
def test_six_curves_are_distinguished_also_by_the_colour_blind(depth: Colours, dark: bool) -> None:
    colours = [colour for colour in lines(depth, dark)[:6] if colour]
    assert len(set(colours)) == 6
    for one, other in combinations(colours, 2):
        seen = [rgb_to_oklab(tuple(deuteranope(colour).tolist())) for colour in (one, other)]  # type: ignore[arg-type]
        assert np.linalg.norm(np.subtract(*seen)) > 0.04, (one, other)


@pytest.mark.parametrize("dark", [True, False])
def test_curves_have_distinct_marks_and_colours(dark: bool) -> None:
    for marks in (MARKS, ASCII_MARKS):
        assert len(set(marks)) == len(marks) >= 6
    assert ASCII_MARKS.isascii()
    for depth in DEPTHS:
        assert len(lines(depth, dark)) == 8
    numbers = [Color.from_rgb(*colour).downgrade(ColorSystem.STANDARD).number for colour in lines("16", dark) if colour]
    assert len(set(numbers)) == len(numbers) == 8


@pytest.mark.parametrize("dark", [True, False])
def test_curves_can_be_read_on_their_background(dark: bool) -> None:
    ground = lightness((14, 16, 19) if dark else (251, 250, 247))
    for depth in ("truecolor", "256"):
        for colour in lines(depth, dark):  # type: ignore[arg-type]
            assert colour is not None
            assert abs(lightness(colour) - ground) > 35


def test_neighbouring_levels_of_the_light_and_the_dark_ramp_run_opposite_ways() -> None:
    dark, light = ([lightness(fill) for fill in heat("256", each).fill if fill] for each in (True, False))
    assert all(a < b for a, b in pairwise(dark))
    assert all(a > b for a, b in pairwise(light))
