"""`txlab formulas`: the list, one formula, JSON, ASCII."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


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
    assert {"number", "title", "formulas", "meaning", "source", "erratum"} == set(rows[0])
    assert [row["number"] for row in rows][:2] == ["F1", "F2"]
    assert json.loads(ask("formulas", "M6", "--json").out)["number"] == "M6"


def test_everything_can_be_written_in_ascii(ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TXLAB_ASCII", "1")
    assert ask("formulas").out.isascii()
    for row in ask("formulas", "--json").out.splitlines():
        assert ask("formulas", json.loads(row)["number"]).out.isascii()


def test_an_unknown_number_is_one_sentence(ask) -> None:
    assert "(nearest: T9)" in ask("formulas", "T19").refused


def test_it_needs_no_torch() -> None:
    code = "import sys; sys.argv = ['txlab', 'formulas', 'T1']\nfrom txlab.cli import main\n"
    code += "try:\n    main()\nfinally:\n    assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
