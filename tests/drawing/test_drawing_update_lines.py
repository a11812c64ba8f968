"""The rule of an update with its numbers under its letters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from txlab.drawing.text import width
from txlab.drawing.update_lines import compact, term_lines

SARSA = [
    ("Q(s,a)", -7.41), ("←", None), ("Q(s,a)", -7.5), ("+", None), ("α", 0.5), ("[", None), ("r", -1.0), ("+", None),
    ("γ", 1.0), ("Q(s′,a′)", -6.32), ("−", None), ("Q(s,a)", -7.5), ("]", None),
]  # fmt: skip


def lines(pair: tuple[list[tuple[str, str]], list[tuple[str, str]]]) -> tuple[str, str]:
    above, below = ("".join(text for text, _ in row) for row in pair)
    return above, below


def test_every_number_begins_under_its_letters() -> None:
    (pair,) = term_lines(SARSA, 100)
    above, below = lines(pair)  # type: ignore[arg-type]
    assert above.split() == ["Q(s,a)", "←", "Q(s,a)", "+", "α", "[", "r", "+", "γ", "Q(s′,a′)", "−", "Q(s,a)", "]"]
    assert below.split() == ["−7.41", "←", "−7.5", "+", ".5", "[", "−1", "+", "1", "(−6.32)", "−", "(−7.5)", "]"]
    for letter, number in (("α", " .5 "), ("r ", "−1 "), ("γ", "1 ("), ("Q(s′,a′)", "(−6.32)"), ("]", "]")):
        assert above.index(letter) == below.index(number) + number.startswith(" ")


def test_in_ascii_letters_are_spelt_out() -> None:
    for pair in term_lines(SARSA, 60, ascii=True):
        for line in lines(pair):  # type: ignore[arg-type]
            assert line.isascii()


@given(st.lists(st.tuples(st.text(max_size=12), st.none() | st.floats()), max_size=20), st.integers(1, 120))
def test_nothing_is_wider_than_the_line(terms: list[tuple[str, float | None]], cells: int) -> None:
    for pair in term_lines(terms, cells):
        above, below = lines(pair)  # type: ignore[arg-type]
        assert width(above) == width(below)
        assert width(above.rstrip()) <= cells


@given(st.floats(-1e9, 1e9))
def test_a_compact_number_is_right_to_three_digits(value: float) -> None:
    read = float(compact(value).replace("−", "-").replace(" ", ""))
    assert abs(read - value) <= 0.006 * abs(value)


def test_two_factors_have_a_sign_between_them() -> None:
    (pair,) = term_lines([("r", -1.0), ("+", None), ("γ", 1.0), ("Q(s′,a′)", 0.0), ("−", None), ("V", 2.0)], 100)
    assert "+ 1 · 0 " in "".join(text for text, _ in pair[1])
