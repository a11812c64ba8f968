"""`txlab plan`: fits the terminal, is the arithmetic of the engine, and refuses what cannot be planned."""

from __future__ import annotations

import json
import sys

import pytest

import txlab.cli
from txlab.drawing.text import width
from txlab.engine.transformer.parallelism import CARDS, best_plan
from txlab.engine.transformer.presets import PRESETS


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    monkeypatch.setenv("COLUMNS", "100")

    def ask(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["txlab", "plan", *words])
        with pytest.raises(SystemExit) as ended:
            txlab.cli.main()
        found = capsys.readouterr()
        return int(ended.value.code or 0), found.out, found.err

    return ask


@pytest.mark.parametrize("columns", ["80", "100", "160"])
def test_the_tables_fit(said, monkeypatch, columns: str) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("COLUMNS", columns)
    for words in (["gpt3-175b", "--cards", "1024"], ["gpt-docs", "--cards", "2"], ["bert-large", "--cards", "1"]):
        status, out, _ = said(*words)
        assert status == 0
        assert max(map(width, out.splitlines())) < int(columns)


def test_json_has_each_form_and_the_best_for_each_number_of_cards(said) -> None:  # type: ignore[no-untyped-def]
    status, out, _ = said(
        "gpt3-175b", "--cards", "64", "--card", "a100", "--tokens", "300e9", "--batch", "3.2e6", "--json"
    )
    rows = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert [row["form"] for row in rows] == ["data-parallel", "FSDP", "tensor", "pipeline", *["best"] * 5]
    assert [row["cards"] for row in rows[4:]] == [16, 32, 64, 128, 256]
    best = best_plan(PRESETS["gpt3-175b"].shape, CARDS["a100"], 64, 3.2e6, 300e9)
    assert rows[6]["days"] == best.days
    assert rows[6]["memory"] == dict(best.memory)
    assert rows[0]["limit"] == "memory"
    assert all(row["data"] * row["tensor"] * row["pipeline"] == row["cards"] for row in rows)


def test_a_scenario_has_its_own_tokens_and_a_context_can_be_given(said) -> None:  # type: ignore[no-untyped-def]
    _, out, _ = said("gpt-tiny", "--cards", "1")
    assert "307.2 k tokens" in out.replace("0.3072 M", "307.2 k") or "steps of 768" in out
    _, out, _ = said("lamda-137b", "--cards", "64", "--tokens", "1e12", "--context", "2048")
    assert "64 × H100" in out.replace("\u202f", " ")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["gpt9"], "no preset or scenario is called 'gpt9'"),
        (["cliff"], "trains no transformer"),
        (["recurrent-docs"], "trains no transformer"),
        (["gpt2"], "give --tokens"),
        (["lamda-137b", "--tokens", "1e9"], "give --context"),
        (["gpt2", "--tokens", "1e9", "--card", "h10"], "no card is called 'h10'"),
        (["gpt2", "--tokens", "1e9", "--batch", "100"], "less than a sequence of 1024"),
        (["gpt2", "--tokens", "-5"], "not a number of tokens"),
        (["gpt2", "--tokens", "nan"], "not a number of tokens"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_a_sentence(said, words: list[str], why: str) -> None:  # type: ignore[no-untyped-def]
    status, _, err = said(*words)
    assert status == 2
    assert why in err
