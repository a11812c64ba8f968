"""Explanations as lines: long rows begin with what counts."""

from __future__ import annotations

from txlab.drawing.explanation import PARTS, explanation_lines
from txlab.engine.explain import Explanation, Step


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


def test_an_entry_that_is_no_number_comes_last() -> None:
    assert rows_of([float("-inf"), *[0.1] * 12, 0.4], 13)[0][-2] == "t13"
    assert rows_of([float("-inf"), *[0.1] * 12, 0.4], 13)[-1][-2] == "t0"


def test_a_short_row_keeps_its_order() -> None:
    assert [line[-2] for line in rows_of([0.1, 0.7, 0.2], 0)] == ["t0", "t1", "t2"]
