"""The page of a formula: its letters, what it is made of, its place in the console, and the texts that contain it."""

from __future__ import annotations

import re

import pytest

from txlab.experiments.formulas.content import content, formula_named, lecture_texts, used_by
from txlab.experiments.formulas.example import examples
from txlab.runs.scenario import catalogue
from txlab.tui.screen_registry import SCREENS

KNOWN = content()[0]
WITH_EXAMPLE = [number for number in KNOWN if number in examples(number[0])]


def test_every_formula_is_in_a_lecture_text() -> None:
    texts = lecture_texts()
    assert list(texts) == ["wang", "yang", "becker-kahn", "sull", "mehlig"]
    for name, text in texts.items():
        titles = [title for title, _ in text.sections]
        assert len(set(titles)) == len(titles), name
        assert all(formulas for _, formulas in text.sections), name
    found = {number for text in texts.values() for _, formulas in text.sections for number in formulas}
    assert found == set(KNOWN)


@pytest.mark.parametrize("number", WITH_EXAMPLE)
def test_a_formula_with_an_example_names_its_letters_and_its_place(number: str) -> None:
    formula = KNOWN[number]
    equations = " ".join(formula.formulas)
    equations += equations.replace("ₜ", " t ")  # an index that is nowhere else
    assert formula.letters
    for letters, meaning in formula.letters.items():
        assert meaning
        for letter in re.split(r", (?![^()[\]]*[)\]])", letters):
            begin = re.split("[…·]", letter)[0].strip().rstrip(")")  # "p(yₜ | …)", "r(x, y)" of "r(x, y_w)"
            assert begin, letter
            assert begin in equations, letter
    assert formula.place.screen in {entry.name for entry in SCREENS}
    assert formula.place.scenario in {"", *(entry.name for entry in catalogue())}


def test_no_formula_is_made_of_itself() -> None:
    def check(number: str, above: tuple[str, ...]) -> None:
        assert number not in above, above
        for each in formula_named(number).uses:
            check(each, (*above, number))

    for number in KNOWN:
        check(number, ())
    assert {"T1", "K4", "R4"} <= set(used_by("F5"))
