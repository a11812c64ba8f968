"""Numbers as they are read, curves of one row, and explanations laid out as lines."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from txlab.drawing.explanation import PARTS, elide, explanation_lines
from txlab.drawing.formatting import align_numbers, count, number, plain, share
from txlab.drawing.spark import spark
from txlab.drawing.text import visible
from txlab.engine.explain import Explanation, Operand, Step


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_a_number_is_true_to_four_digits(value: float) -> None:
    read = float(number(value).replace("−", "-").replace(" ", ""))
    assert read == pytest.approx(value, rel=6e-4, abs=6e-4 if 1e-3 <= abs(value) < 1 else 1e-300)


@given(st.floats(min_value=1e-12, max_value=0.999))
def test_a_small_number_keeps_three_digits(value: float) -> None:
    assert float(number(value)) == pytest.approx(value, rel=5.01e-3)


def test_a_learning_rate_is_not_rounded_away() -> None:
    assert [number(value) for value in (0.0032, -0.00317, 0.012345, 0.62)] == ["0.0032", "−0.00317", "0.0123", "0.620"]


@given(st.lists(st.floats(), min_size=1, max_size=9))
def test_numbers_in_a_column_have_their_points_below_each_other(values: list[float]) -> None:
    column = align_numbers([number(value) for value in values])
    assert len({len(entry) for entry in column}) == 1
    assert len({entry.index(".") for entry in column if "." in entry}) <= 1
    assert [entry.strip() for entry in column] == [number(value) for value in values]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_non_number_is_still_printed(value: float) -> None:
    assert number(value) in ("NaN", "∞", "−∞")
    assert plain(number(value)).isascii()
    assert plain(share(value)).isascii()
    assert count(value) == number(value)


def test_a_spark_keeps_shape_ends_and_gaps() -> None:
    assert spark(np.arange(8.0), 8) == "▁▂▃▄▅▆▇█"
    assert spark(np.arange(8000.0), 8) == "▁▂▃▄▅▆▇█"
    assert spark(np.array([1.0, np.nan, 2.0]), 5) == "  ▁ █"
    assert spark(np.full(4, 3.0), 4) == "▁▁▁▁"
    assert spark(np.empty(0), 3) == "   "
    assert spark(np.array([np.inf, -np.inf]), 2) == "  "
    assert spark(np.arange(3.0), 0) == ""
    assert spark(np.arange(50.0), 9, ascii=True).isascii()


@given(st.lists(st.floats(), max_size=60), st.integers(0, 40))
def test_a_spark_is_as_wide_as_asked(values: list[float], cells: int) -> None:
    assert cell_len(spark(np.array(values), cells)) == cells


WORDS = ["the", " cat", "[/x]", "\x1b[31m", "日本"]
ROW = [0.1, 0.2, 0.4, 0.2, 0.1]


def explanation(**changed: object) -> Explanation:
    fields: dict[str, object] = {
        "question": "why does ' mice' look at '[/x]' with .40?",
        "equation": "αᵢⱼ = exp(sᵢⱼ) / Σⱼ′ exp(sᵢⱼ′)",
        "math": "T1",
        "source": "Vaswani et al. 2017, eq. 1",
        "operands": [Operand("q₇", list(np.linspace(-1, 1, 64)), "query"), Operand("M", [[1, 2], [3, 4]], "a matrix")],
        "steps": [Step("s", "q·k/√K", 1.73, "score"), Step("α", "exp(sⱼ) / 9.1", ROW)],
        "labels": WORDS,
        "asked": 2,
    }
    return Explanation(**{**fields, **changed})  # type: ignore[arg-type]


STYLE = dict.fromkeys(PARTS, "none")


@pytest.mark.parametrize("cells", [20, 40, 100])
@pytest.mark.parametrize("ascii", [True, False])
def test_an_explanation_says_everything_and_nothing_dangerous(cells: int, ascii: bool) -> None:
    lines = [line.plain for line in explanation_lines(explanation(), cells, STYLE, ascii)]
    text = "\n".join(lines)
    assert "\x1b" not in text
    assert not ascii or text.isascii()
    for part in ("MATH T1", "Vaswani", "goes in", "step by step", "the row", "result"):
        assert part in text
    assert "0.4" in text
    if cells == 100:
        assert "…" in text or "..." in text  # 64 entries are elided
        assert max(cell_len(line) for line in lines) <= cells


@pytest.mark.parametrize("place", range(len(WORDS)))
def test_the_entry_that_was_asked_about_is_marked(place: int) -> None:
    """Also among equal weights: the engine says which one was asked about, the page does not guess it from numbers."""
    marked = [line.plain for line in explanation_lines(explanation(asked=place), 80, STYLE) if "▸" in line.plain]
    assert len(marked) == 1
    assert marked[0].split()[-1] == f"{ROW[place]:g}"
    assert visible(WORDS[place]) in marked[0]


def test_where_no_entry_was_asked_about_none_is_marked() -> None:
    unasked = explanation(asked=None, steps=[Step("α", "exp(sⱼ) / 9.1", ROW), Step("Σ", "", 1.0)])
    assert not [line for line in explanation_lines(unasked, 80, STYLE) if "▸" in line.plain]


def test_a_result_that_is_not_a_number_breaks_nothing() -> None:
    odd = explanation(steps=[Step("α", "0/0", [math.nan] * 5)])
    assert "NaN" in "\n".join(line.plain for line in explanation_lines(odd, 60, STYLE))
    bare = explanation(operands=[], steps=[Step("α", "", 0.4)], labels=[])
    assert explanation_lines(bare, 60, STYLE)


@given(st.lists(st.integers(-999, 999), min_size=1, max_size=60), st.integers(12, 60))
def test_an_elided_row_fits_and_keeps_its_first_entry(row: list[int], cells: int) -> None:
    text = elide([str(entry) for entry in row], cells)
    assert cell_len(text) <= max(cells, cell_len(f"[ {row[0]} {row[-1]} ]"), cell_len(f"[ {row[0]} … {row[-1]} ]"))
    assert text.split()[1] == str(row[0])
