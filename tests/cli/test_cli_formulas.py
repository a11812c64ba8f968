"""`txlab formulas`: the list, one formula, JSON, ASCII."""

from __future__ import annotations

import csv
import io
import json
import shlex
import subprocess
import sys

import pytest

from txlab.drawing.explanation import format_lines
from txlab.experiments.formulas.content import content, lecture_texts
from txlab.experiments.formulas.example import example_of


def test_the_list_has_every_chapter_and_number(ask) -> None:
    said = ask("formulas", columns=160)
    assert said.status == 0
    lines = said.out.splitlines()
    assert sum(line.split()[:1] == ["T1"] for line in lines) == 1
    assert "T  Transformers" in lines
    assert any(line.startswith("H7 ") for line in lines)
    assert any(line.startswith("dₖ ") for line in lines)


def test_one_is_shown_with_equations_erratum_and_source(ask) -> None:
    said = ask("formulas", "t1")
    assert "A = softmax(Q Kᵀ / √dₖ)" in said.out
    for part in ("Scaled dot-product attention", "Erratum: Becker-Kahn", "Source: Vaswani"):
        assert part in said.out
    assert max(map(len, said.out.splitlines())) <= 100


def test_json_is_one_object_a_formula(ask) -> None:
    rows = [json.loads(line) for line in ask("formulas", "--json").out.splitlines()]
    page = {"number", "title", "formulas", "meaning", "source", "erratum", "letters", "uses", "place"}
    assert page == set(rows[0])
    assert [row["number"] for row in rows][:2] == ["F1", "F2"]
    assert json.loads(ask("formulas", "M6", "--json").out)["number"] == "M6"


def test_everything_can_be_written_in_ascii(ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TXLAB_ASCII", "1")
    assert ask("formulas").out.isascii()
    for row in ask("formulas", "--json").out.splitlines():
        assert ask("formulas", json.loads(row)["number"]).out.isascii()


def test_an_unknown_number_is_a_readable_error(ask) -> None:
    assert "(nearest: T9)" in ask("formulas", "T19").refused


def test_it_needs_no_torch() -> None:
    code = "import sys; sys.argv = ['txlab', 'formulas', 'T1']\nfrom txlab.cli import main\n"
    code += "try:\n    main()\nfinally:\n    assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_the_list_says_which_have_misprints(ask) -> None:
    lines = {line.split()[0]: line for line in ask("formulas", columns=160).out.splitlines() if line.strip()}
    for each in content()[0].values():
        assert ("  erratum  " in lines[each.number]) == bool(each.erratum), each.number


@pytest.mark.parametrize("name", lecture_texts())
def test_the_formulas_of_a_text_are_listed_by_its_sections(ask, name: str) -> None:
    lines = ask("formulas", "--text", name, columns=200).out.splitlines()
    expected = []
    for title, numbers in lecture_texts()[name].sections:
        expected += [title, *numbers]
    titles = {title for title, _ in lecture_texts()[name].sections}
    known = content()[0]
    found = [
        line if line in titles else line.split()[0] for line in lines if line in titles or line[:3].strip() in known
    ]
    assert found == expected


def test_an_example_has_every_number_of_its_steps(ask) -> None:
    answer = ask("formulas", "t1", "--example", "--json").json
    example = example_of("T1")
    assert answer["inputs"] == example.values()
    assert answer["explanation"] == json.loads(json.dumps(example.explain(**example.values()).as_json()))
    said = ask("formulas", "T1", "--example").out
    assert "what does position 1 receive?" in said
    assert "result  0.7225" in said
    assert "misprinted" not in said


def test_an_input_is_set_and_what_is_printed_can_be_run_again(ask) -> None:
    said = ask("formulas", "T1", "--set", "q=1,0; 0,1; 1,1", "--set", "row=2").out
    answer = ask("formulas", "T1", "--set", "q=1,0; 0,1; 1,1", "--set", "row=2", "--json").json
    assert answer["inputs"]["q"] == [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    assert answer["inputs"]["row"] == 2
    example = example_of("T1")
    q = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    assert answer["explanation"]["result"] == example.explain(**{**example.values(), "q": q, "row": 2}).result
    result = format_lines(answer["explanation"]["result"], 20)[0]
    assert f"result  {result}" in said
    again = shlex.split(said.splitlines()[-1])
    assert again[0] == "txlab"
    assert ask(*again[1:]).out == said


def test_an_erratum_prints_both_forms_and_where_they_part(ask) -> None:
    said = ask("formulas", "T1", "--erratum", columns=120).out
    example = example_of("T1")
    values = example.values()
    right = example.explain(**values)
    for name, misprint in example.misprints.items():
        wrong = misprint.explain(**values)
        assert name in said
        assert f"they part at {misprint.parts}: " in said
        assert format_lines(wrong.result, 20)[0] in said
    assert said.count("≠ ") == len(example.misprints)
    assert format_lines(right.result, 20)[0] in said
    errata = ask("formulas", "T1", "--erratum", "--json").json["errata"]
    assert {name: each["parts"] for name, each in errata.items()} == {
        name: each.parts for name, each in example.misprints.items()
    }


def test_an_example_as_csv_has_a_row_a_step(ask) -> None:
    rows = list(csv.DictReader(io.StringIO(ask("formulas", "H2", "--erratum", "--csv").out)))
    example = example_of("H2")
    assert [row["name"] for row in rows if not row["form"]] == [
        step.name for step in example.explain(**example.values()).steps
    ]
    assert {row["form"] for row in rows} == {"", *example.misprints}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["T1", "--set", "x=1"], "the example of T1 has no input 'x'; allowed: q, k, v, row"),
        (["T1", "--set", "q"], "--set 'q' has no value"),
        (["T1", "--set", "row=9"], "row=9 is not allowed; allowed: numbers from 1 to 3"),
        (["K1", "--erratum"], "K1 has no known misprint"),
        (["--example"], "an example is of one formula"),
        (["--text", "wong"], "no lecture text is called 'wong' (nearest: wang)"),
        (["T1", "--text", "wang"], "not both"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_a_sentence(ask, words: list[str], sentence: str) -> None:
    assert sentence in ask("formulas", *words).refused


def test_every_example_can_be_printed_in_ascii(ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TXLAB_ASCII", "1")
    for each in content()[0]:
        given = "--erratum" if example_of(each).misprints else "--example"
        said = ask("formulas", each, given)
        assert said.status == 0, said.error
        assert said.out.isascii(), (each, {sign for sign in said.out if not sign.isascii()})
