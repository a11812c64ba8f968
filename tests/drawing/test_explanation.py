"""Explanations as lines: long rows begin with what counts."""

from __future__ import annotations

import re

import pytest

from txlab.drawing.explanation import PARTS, comparison_lines, computation_lines, explanation_lines, formula_lines
from txlab.drawing.text import width
from txlab.engine.explain import Explaining, Explanation, Operand, Step

PLAIN = dict.fromkeys(PARTS, "")


def rows_of(weights: list[float], asked: int) -> list[list[str]]:
    """The lines of the table below "the row": mark, label and weight."""
    labels = [f"t{place}" for place in range(len(weights))]
    given = Explanation("why?", "y = x", "T1", "", [], [Step("a", "x", weights)], labels, asked)
    lines = [line.plain for line in explanation_lines(given, 80, dict.fromkeys(PARTS, ""))]
    begin = next(at for at, line in enumerate(lines) if line.startswith("the row"))
    return [line.split() for line in lines[begin + 2 : begin + 2 + len(weights)]]


def test_a_long_row_lists_its_largest_entries_first_and_marks_the_one_asked_about() -> None:
    weights = [0.01, 0.3, -0.5, *[0.001 * place for place in range(20)], 0.02]
    shown = rows_of(weights, 1)
    order = [line[-2] for line in shown]
    assert order[:3] == ["t2", "t1", "t23"]
    assert sorted(order) == sorted(f"t{place}" for place in range(len(weights)))
    assert shown[1][0] == "▸"
    assert [abs(weights[int(name[1:])]) for name in order] == sorted(map(abs, weights), reverse=True)


def test_an_entry_that_is_not_a_number_comes_last() -> None:
    assert rows_of([float("-inf"), *[0.1] * 12, 0.4], 13)[0][-2] == "t13"
    assert rows_of([float("-inf"), *[0.1] * 12, 0.4], 13)[-1][-2] == "t0"


def test_a_short_row_keeps_its_order() -> None:
    assert [line[-2] for line in rows_of([0.1, 0.7, 0.2], 0)] == ["t0", "t1", "t2"]


def steps(*named: tuple[str, float]) -> Explanation:
    return Explanation("why?", "y = x", "T1", "", [], [Step(name, "a · b", value) for name, value in named])


@pytest.mark.parametrize("cells", range(24, 60))
def test_no_result_is_cut_off_wherever_the_line_ends(cells: int) -> None:
    given = [Step("h", "tanh(1 · 0 + 0.9 · 0.4896)", 0.41423, "of step 3"), Step("row", "q · k", [1.5, 2.5])]
    lines = [
        line.plain for line in explanation_lines(Explanation("why?", "y", "T1", "", [], given, (), 0), cells, PLAIN)
    ]
    text = " ".join(" ".join(lines).split())
    for said in ("= 0.414", "of step 3", "[ 1.5 2.5 ]"):
        assert said in text
    assert max(map(width, lines)) <= cells


def test_a_computation_begins_with_the_question_and_its_answer() -> None:
    given = Explanation("how much?", "y = 2 x", "T1", "", [Operand("x", 1.5)], [Step("y", "2 · 1.5", 3.0)])
    lines = [line.plain for line in computation_lines(given, 60, PLAIN)]
    assert lines[0] == "how much?  3"
    assert lines[-1].split() == ["y", "=", "2", "·", "1.5", "=", "3"]
    assert "y = 2 x" not in "\n".join(lines)
    assert "x  1.5" in "\n".join(lines)


def test_two_forms_share_their_steps_until_they_part() -> None:
    right = steps(("a", 1.0), ("b", 2.0), ("d", 4.0))
    wrong = steps(("a", 1.0), ("b", 3.0), ("c", 7.0), ("d", 9.0))
    narrow = [line.plain for line in comparison_lines(right, wrong, 50, PLAIN)]
    assert narrow[0] == "they part at b: 2 against 3"
    assert [(line[0], line.split("=")[0].split()[-1], line.split()[-1]) for line in narrow[2:]] == [
        (" ", "a", "1"),
        ("≠", "b", "2"),
        ("✗", "b", "3"),
        ("✗", "c", "7"),
        (" ", "d", "4"),
        ("✗", "d", "9"),
    ]
    wide = [line.plain for line in comparison_lines(right, wrong, 100, PLAIN)]
    assert [line.split("=")[0].split() for line in wide[3:]] == [["a"], ["≠", "b"], ["c"], ["d"]]
    assert [line.split()[-1] for line in wide[3:]] == ["1", "3", "7", "9"]
    assert max(map(width, wide)) <= 100


def test_forms_with_the_same_numbers_are_said_to_agree() -> None:
    lines = [line.plain for line in comparison_lines(steps(("a", 1.0)), steps(("a", 1.0)), 60, PLAIN)]
    assert lines[0] == "with these inputs both forms give the same numbers"
    assert not [line for line in lines if line.startswith(("≠", "✗"))]


def test_an_equation_is_broken_before_an_operator_outside_of_brackets() -> None:
    assert formula_lines("p(o | c) = exp(u_o · v_c) / Σ_w exp(u_w · v_c)", 34) == [
        "p(o | c) = exp(u_o · v_c)",
        "    / Σ_w exp(u_w · v_c)",
    ]
    assert formula_lines("loss = first + second · (third + fourth + fifth)", 40) == [
        "loss = first + second",
        "    · (third + fourth + fifth)",
    ]
    assert formula_lines("Adam:  m ← β₁ m + g,  v ← β₂ v + g²", 26) == ["Adam:  m ← β₁ m + g,", "v ← β₂ v + g²"]


def test_one_number_is_written_in_one_way_in_question_inputs_expression_and_result() -> None:
    """Of −0.5 there were "-.5", "−0.500" and "−0.5" in one dialog."""
    why = Explaining("why -0.500 for down in (3,0)?", -0.5)
    why.equation("δ = α r", "M5", "")
    why.input("α", 0.5)
    why.compute("δ", "{} · {}", lambda a, r: a * r, 0.5, -1.0)
    text = "\n".join(line.plain for line in explanation_lines(why.result(), 80, PLAIN))
    assert set(re.findall(r"[-−]?\d*\.\d+", text)) == {"−0.5", "0.5"}


def test_whole_numbers_of_a_row_are_not_grouped() -> None:
    """Four code points of a row read as eight: 128 512 127 995 …"""
    why = Explanation("which?", "c", "K1", "", [], [Step("c", "", [128512, 127995, 1240.0]), Step("n", "", 128512)])
    lines = [line.plain for line in explanation_lines(why, 80, PLAIN)]
    assert any("[ 128512 127995 1240 ]" in line for line in lines)
    assert any("128 512" in line for line in lines)


@pytest.mark.parametrize(
    ("value", "form"),
    [(0.17472, "0.1747"), (-0.0312, "−0.0312"), (0.00029, "0.00029"), (12345.6, "12 346"), (0.25, "0.25"), (3.0, "3")],
)
def test_one_number_has_one_form_in_question_inputs_steps_and_result(value: float, form: str) -> None:
    why = Explaining(f"why {value:.5f} for 'the' at step 12?", value)
    why.input("x", value)
    why.compute("y", "{}", lambda x: x, value)
    text = "\n".join(line.plain for line in explanation_lines(why.result(), 60, PLAIN))
    assert f"why {form} for 'the' at step 12?" in text
    assert f"result  {form}" in text
    written = set(re.findall(r"[−\d][\d .]*\d|\d", text.replace("step 12", "")))
    assert abs(value) > 1e4 or written == {form}
