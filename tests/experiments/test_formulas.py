"""The numbered formulas: whatever is cited anywhere in the project can be looked up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from txlab.errors import LabError
from txlab.experiments.formulas.content import content, formula_named
from txlab.experiments.schema import CHAPTERS
from txlab.runs.scenario import catalogue

ROOT = Path(__file__).resolve().parents[2]
NUMBER = r"[FKRTMGH]\d{1,2}"
CITED = re.compile(rf"(?:MATH |math ?= ?\"|math ?= ?\[)(\"?{NUMBER}\"?(?:(?:, |–| and |; )\"?{NUMBER}\"?)*)")


def numbers_in(citation: str) -> list[str]:
    """
    >>> numbers_in("T8–T11, R1")
    ['T8', 'T9', 'T10', 'T11', 'R1']
    """
    found = []
    for first, last in re.findall(rf"({NUMBER})\"?(?:–({NUMBER}))?", citation):
        chapter, low, high = first[0], int(first[1:]), int((last or first)[1:])
        found += [f"{chapter}{number}" for number in range(low, high + 1)]
    return found


def test_every_number_that_is_cited_exists() -> None:
    known, _ = content()
    places = [path for form in ("txlab/**/*.py", "scenarios/*.toml", "*.md", "docs/*.md") for path in ROOT.glob(form)]
    cited = {
        number: path.name
        for path in places
        for citation in CITED.findall(path.read_text(encoding="utf-8"))
        for number in numbers_in(citation)
    }
    assert len(cited) > 25
    assert {"T1", "T9", "M6", "K2", "H5", "G1", "R1"} <= set(cited)
    assert {number: place for number, place in cited.items() if number not in known} == {}


def test_the_scenarios_cite_numbers_of_formulas() -> None:
    known, _ = content()
    for entry in catalogue():
        assert set(entry.scenario.about.math) <= set(known), entry.name


def test_nothing_refers_to_a_list_that_is_not_in_the_repository() -> None:
    for path in [*ROOT.glob("txlab/**/*.py"), ROOT / "README.md", *ROOT.glob("docs/*.md")]:
        assert "MATH.md" not in path.read_text(encoding="utf-8"), path


def test_every_formula_is_printed_in_full_and_in_order() -> None:
    known, letters = content()
    assert list(dict.fromkeys(number[0] for number in known)) == list(CHAPTERS)
    for chapter in CHAPTERS:
        numbers = [int(number[1:]) for number in known if number.startswith(chapter)]
        assert numbers == list(range(1, len(numbers) + 1))
    for formula in known.values():
        assert formula.title, formula.number
        assert formula.formulas, formula.number
        assert len(formula.meaning) > 80, formula.number
        assert formula.source, formula.number
        assert max(map(len, formula.formulas)) <= 110, formula.number
    assert {"B", "T", "D", "H", "dₖ", "F", "N", "V"} <= set(letters)


@pytest.mark.parametrize("number", ["F4", "T1", "T6", "T8", "T10", "T11", "M2", "M6", "H2"])
def test_errata_of_a_lecture_text_are_reported(number: str) -> None:
    assert formula_named(number).erratum


def test_a_number_that_none_has_is_refused_with_the_nearest() -> None:
    assert formula_named("t1").number == "T1"
    with pytest.raises(LabError, match=r"no formula has the number 'T19' \(nearest: T9\)"):
        formula_named("T19")
