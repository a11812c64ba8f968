"""Text of others: nothing of it reaches a terminal unescaped, and its width is what was said."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from txlab.drawing.text import cut, fit, formula, label, prefix, visible, visible_lines, width

ANYTHING = st.text(st.characters() | st.characters(categories=["Cc", "Cf", "Cs", "Mn", "Zs", "Zl", "Zp", "Co"]))
DANGEROUS = {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}


@given(ANYTHING)
def test_nothing_that_controls_a_terminal_or_reorders_a_line_comes_out(text: str) -> None:
    for shown in (visible(text), label(text), *visible_lines(text)):
        assert not [c for c in shown if unicodedata.category(c) in DANGEROUS]
        shown.encode("utf-8")  # no lone surrogates


@given(ANYTHING)
def test_ascii_mode_writes_ascii(text: str) -> None:
    for shown in (visible(text, ascii=True), label(text, ascii=True), formula(text, ascii=True)):
        assert shown.isascii()
        assert shown.isprintable()


@given(ANYTHING)
def test_a_visible_text_never_joins_the_text_before_it(text: str) -> None:
    shown = visible(text)
    assert cell_len("|" + shown) == 1 + cell_len(shown)
    assert not shown or cell_len(shown[0]) > 0


@given(ANYTHING, st.integers(0, 30), st.sampled_from(["left", "right", "center"]))
def test_what_is_fitted_takes_exactly_its_cells(text: str, cells: int, align: str) -> None:
    assert cell_len(fit(visible(text), cells, align)) == cells


@given(ANYTHING, st.integers(0, 12))
def test_a_cut_is_the_longest_beginning_that_fits(text: str, cells: int) -> None:
    shown = visible(text)
    begun = prefix(shown, cells)
    assert shown.startswith(begun)
    assert cell_len(begun) <= cells
    rest = shown[len(begun) :]
    if rest:  # one grapheme more would not fit
        following = rest[0] + "".join(c for c in rest[1:2] if cell_len(c) == 0)
        assert cell_len(begun) + cell_len(following) > cells


@pytest.mark.parametrize(
    ("given_text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("a\x00b", "a␀b"),
        ("a\x9b2Jb", "a\\x9b2Jb"),
        ("abc\u202edef", "abc\\u202edef"),
        ("line\nnext\tend\r", "line↵next⇥end␍"),
        ("\ud83d", "\\ud83d"),
        ("\u0301x", "◌\u0301x"),
        ("日本", "日本"),
        ("[b]not markup[/b]", "[b]not markup[/b]"),
    ],
)
def test_known_attacks_and_ordinary_text(given_text: str, shown: str) -> None:
    assert visible(given_text) == shown


def test_tokens_that_differ_by_a_space_have_different_labels() -> None:
    assert len({label("ed"), label(" ed"), label("ed "), label("  ed"), label(""), label("\n")}) == 6


def test_wide_and_combining_characters_are_measured_as_they_are_laid_out() -> None:
    assert width("日本") == 4
    assert width("e\u0301") == 1
    assert fit("日本", 3) == "日…"
    assert fit("日本", 2) == "… "
    assert cut("e\u0301e\u0301", 1) == "e\u0301"


def test_a_formula_is_spelt_out_where_there_is_only_ascii() -> None:
    assert formula("∂L/∂w = Σᵢ xᵢ²") == "∂L/∂w = Σᵢ xᵢ²"
    assert formula("∂L/∂w = Σᵢ xᵢ²", ascii=True) == "dL/dw = sum_i x_i^2"
    assert formula("αᵢⱼ ≤ √K", ascii=True) == "alpha_ij <= sqrt K"
