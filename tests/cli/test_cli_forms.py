"""Every answer that is a table has the same rows as JSON and as CSV, and two forms at once are refused."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import txlab.cli.output
from txlab.cli import app
from txlab.cli.output import finite, flat, print_csv
from txlab.engine.embeddings.embedding import Embedding
from txlab.engine.embeddings.formats import write_vectors

Ask = Any
ROWS = [
    ["runs"],
    ["formulas", "T1"],
    ["scenarios", "cliff"],
    ["presets", "gpt2"],
    ["verify", "--only", "gambler"],
    ["doctor", "--no-torch"],
    ["plot", "latest", "--metric", "loss"],
]
ANSWERS = {  # the commands whose JSON is one object → the key of the rows that are CSV, "" for all of it
    ("tokenize", "a b a", "--tokenizer", "bytes"): "pieces",
    ("score", "latest", "a text"): "tokens",
    ("words", "neighbours", "royal.txt", "queen"): "answers",
    ("words", "analogy", "royal.txt", "king", "man", "woman"): "answers",
    ("words", "similarity", "royal.txt", "king", "man"): "pairs",
    ("match", "perfect", "random", "--game", "tictactoe", "--games", "4"): "",
}


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text), strict=True))


def cells(row: dict[str, Any]) -> dict[str, str]:
    """A row of JSON as CSV has it, written anew: what is nested by dots, lists as JSON, nothing as nothing."""
    found = {}
    for key, value in row.items():
        if isinstance(value, dict):
            found |= {f"{key}.{inner}": cell for inner, cell in cells(value).items()}
        elif value is None or isinstance(value, str):
            found[key] = value or ""
        else:
            found[key] = json.dumps(value)
    return found


def timeless(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Without what differs from one moment to the next, and without empty cells."""
    now = re.compile(r"load [\d.]+|[\d.]+ GiB free")
    return [
        {key: now.sub("", cell) for key, cell in row.items() if cell and key not in ("heartbeat_age", "found")}
        for row in rows
    ]


@pytest.mark.parametrize("words", ROWS, ids=lambda words: words[0])
def test_rows_are_the_same_as_json_and_as_csv(ask: Ask, words: list[str]) -> None:
    rows = [cells(json.loads(line)) for line in ask(*words, "--json").out.splitlines()]
    assert rows
    assert timeless(table(ask(*words, "--csv").out)) == timeless(rows)


@pytest.mark.parametrize(("words", "key"), ANSWERS.items(), ids=lambda each: " ".join(each[:2]))
def test_the_csv_of_an_answer_is_its_table(
    ask: Ask, words: tuple[str, ...], key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    vectors = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1.1]], dtype=np.float32)
    write_vectors(Embedding(("man", "king", "woman", "queen"), vectors), tmp_path / "royal.txt", "glove")
    told = ask(*words, "--json").json
    assert timeless(table(ask(*words, "--csv").out)) == timeless([cells(row) for row in (told[key] if key else [told])])


def commands(group: Any, *before: str) -> list[tuple[tuple[str, ...], Any]]:
    from typer.main import get_command

    found = []
    for name, command in (get_command(group) if hasattr(group, "registered_commands") else group).commands.items():
        found += commands(command, *before, name) if hasattr(command, "commands") else [((*before, name), command)]
    return found


def test_each_form_is_declared_once_and_excludes_the_others(ask: Ask) -> None:
    """Whatever else is given: the forms are looked at before anything is computed."""
    seen = 0
    for words, command in commands(app):
        flags = {option: each for each in command.params for option in each.opts}
        if "--csv" in flags:
            assert "--json" in flags, words
            arguments = ["x" for each in command.params if each.param_type_name == "argument" and each.required] * 2
            for first, second in (("--json", "--csv"), ("--csv", "--json")):
                said = ask(*words, *arguments, first, second).refused
                assert said == "txlab: --json and --csv are two forms of the same answer; give one of them", words
            seen += 1
    assert seen >= 16


@pytest.mark.parametrize(
    ("words", "forms"),
    [
        (["plot", "latest", "--out", "x.png", "--json"], ("out", "json")),
        (["plot", "latest", "--sweep", "--table", "--csv"], ("table", "csv")),
        (["attend", "latest", "a", "--json", "--out", "x.png"], ("out", "json")),
        (["tokenize", "a", "--csv", "--ids"], ("ids", "csv")),
    ],
)
def test_two_forms_are_refused(ask: Ask, words: list[str], forms: tuple[str, str]) -> None:
    said = "txlab: --{} and --{} are two forms of the same answer; give one of them"
    assert ask(*words).refused == said.format(*forms)


def test_what_is_written_as_csv_reads_back(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"name": 'a "b", c\nd', "number": 0.1, "more": {"x": float("nan"), "y": [1, 2]}},
        {"name": "=1+1", "further": "ω", "more": {"x": -1e300}},
    ]
    print_csv(rows)
    assert table(capsys.readouterr().out) == [
        {"name": 'a "b", c\nd', "number": "0.1", "more.x": "", "more.y": "[1, 2]", "further": ""},
        {"name": "=1+1", "number": "", "more.x": "-1e+300", "more.y": "", "further": "ω"},
    ]
    print_csv([])
    assert capsys.readouterr().out == ""


def test_a_terminal_gets_no_escapes_of_csv(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_csv([{"name": "\x1b]0;owned\x07"}])
    assert "\x1b" not in capsys.readouterr().out


def test_json_has_no_number_that_json_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    txlab.cli.output.print_json({"a": float("nan"), "b": [float("inf"), 1.5], "c": "é"})
    out = capsys.readouterr().out
    assert json.loads(out, parse_constant=lambda name: pytest.fail(name)) == {"a": None, "b": [None, 1.5], "c": "é"}
    assert out.isascii()
    assert dict(flat(finite({"a": {"b": {"c": 1}}, "d": {}}))) == {"a.b.c": 1}


def test_a_picture_is_refused_before_the_run_is_looked_for(ask: Ask) -> None:
    assert "neither .png nor .svg" in ask("plot", "nothing", "--out", "a.txt").refused
