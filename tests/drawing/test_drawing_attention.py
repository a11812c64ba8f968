"""A pattern drawn in a terminal says the same with and without colour, and fits the room it is given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from txlab.drawing.attention import draw_heads, max_pool, pattern_lines
from txlab.drawing.palette import heat
from txlab.drawing.text import width
from txlab.errors import LabError


def causal(size: int, seed: int = 0) -> np.ndarray:
    weights = np.random.default_rng(seed).random((size, size))
    weights[np.triu_indices(size, 1)] = np.nan
    return weights / np.nansum(weights, -1, keepdims=True)


def test_numbers_where_there_is_room_and_blanks_where_the_mask_forbids() -> None:
    weights = np.array([[1.0, np.nan, np.nan], [0.25, 0.75, np.nan], [0.0, 0.001, 0.999]])
    lines = [line.plain.rstrip() for line in pattern_lines(weights, "abc", "abc", 60).lines]
    assert lines == [
        "      a   b   c",
        "0 a 1.0",
        "1 b .25 .75",
        "2 c   ·   · 1.0",
    ]


@given(st.integers(1, 60), st.integers(1, 60), st.integers(30, 140), st.booleans(), st.booleans())
def test_no_line_is_wider_than_the_room(rows: int, columns: int, cells: int, ascii: bool, sums: bool) -> None:
    weights = np.random.default_rng(rows).dirichlet(np.ones(columns), rows)
    names = ["word\n", "日本", "é", "\x1b[31m"]
    queries, keys = ([names[i % 4] for i in range(count)] for count in (rows, columns))
    drawn = pattern_lines(weights, queries, keys, cells, ascii=ascii, sums=sums)
    for line in drawn.lines:
        assert width(line.plain.rstrip()) <= cells
        assert "\x1b" not in line.plain
        assert line.plain.isascii() or not ascii
    seen = -(-rows // drawn.tile[0])
    assert [line.plain.split()[0] for line in drawn.lines[-seen:]] == [str(i * drawn.tile[0]) for i in range(seen)]


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 5), st.integers(1, 5))
def test_pooling_keeps_the_largest_of_each_tile(rows: int, columns: int, tall: int, wide: int) -> None:
    weights = np.random.default_rng(rows * 31 + columns).random((rows, columns))
    weights[weights < 0.3] = np.nan
    small = max_pool(weights, (tall, wide))
    for row, column in np.ndindex(small.shape):
        tile = weights[row * tall : (row + 1) * tall, column * wide : (column + 1) * wide]
        expected = np.nan if np.isnan(tile).all() else np.nanmax(tile)
        assert small[row, column] == expected or (np.isnan(small[row, column]) and np.isnan(expected))


def test_each_colour_is_shown_with_its_glyph() -> None:
    weights = np.linspace(0, 1, 20)[None]
    drawn = pattern_lines(weights, ["q"], ["k"] * 20, 30, colours="truecolor")
    glyphs = drawn.lines[-1].plain[4:24]
    ramp = heat("truecolor")
    assert glyphs == "".join(ramp.glyphs[level] for level in ramp.level(weights[0]))
    fills = {span.style.bgcolor.triplet for span in drawn.lines[-1].spans if getattr(span.style, "bgcolor", None)}  # type: ignore[union-attr]
    assert len(fills) >= 15


def test_sums_are_those_of_the_rows() -> None:
    weights = np.array([[0.5, 0.25], [0.0, 0.1]])
    lines = [line.plain.split() for line in pattern_lines(weights, "ab", "cd", 60, sums=True).lines]
    assert (lines[0][-1], lines[1][-1], lines[2][-1]) == ("sum", ".75", ".10")


def test_a_window_keeps_the_positions_that_its_rows_have_in_the_text() -> None:
    lines = pattern_lines(np.ones((2, 1)), "ab", "c", 40, first_row=9).lines
    assert [line.plain.split()[0] for line in lines[-2:]] == ["9", "10"]


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_all_heads_in_one_picture(tmp_path: Path, suffix: str) -> None:
    pictures = [np.stack([causal(8, 3 * layer + head) for head in range(3)]) for layer in range(2)]
    out = draw_heads(pictures, tmp_path / f"heads{suffix}", title="$x$ \x1b")
    assert out.stat().st_size > 2000
    if suffix == ".png":
        assert Image.open(out).size[0] > 300
    else:
        assert "\x1b" not in out.read_text()


def test_a_picture_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="png"):
        draw_heads([np.ones((1, 2, 2))], tmp_path / "x.gif")
