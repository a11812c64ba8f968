"""`txlab presets` as a user types it: fits the terminal, says what does not agree, and is JSON for programs."""

from __future__ import annotations

import json
import re
import sys

import pytest

import txlab.cli
from txlab.drawing.text import width
from txlab.engine.transformer.presets import PRESETS, parameters


def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int, *words: str):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, "argv", ["txlab", "presets", *words])
    with pytest.raises(SystemExit) as ended:
        txlab.cli.main()
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


@pytest.mark.parametrize("columns", [80, 120, 144, 145])
def test_the_tables_fit_and_name_every_preset(monkeypatch, capsys, columns: int) -> None:
    status, out, _ = call(monkeypatch, capsys, columns)
    assert status == 0
    assert max(width(line) for line in out.splitlines()) < columns
    for name in PRESETS:
        assert sum(line.split()[:1] == [name] for line in out.splitlines()) == (1 if columns == 145 else 2)
    row = next(line for line in out.splitlines() if line.startswith("gpt2-xl"))
    assert row.split()[:7] == ["gpt2-xl", "48", "1600", "25", "6400", "1024", "50257"]


@pytest.mark.parametrize("name", PRESETS)
def test_one_preset_fits_and_its_parts_add_up(monkeypatch, capsys, name: str) -> None:
    status, out, _ = call(monkeypatch, capsys, 80, name)
    assert status == 0
    assert max(width(line) for line in out.splitlines()) < 80
    table = out[out.index("\nparameters") : out.index("\nmemory")]
    numbers = [int("".join(c for c in line.split("█")[0].split("░")[0] if c.isdigit())) for line in table.splitlines()
               if "█" in line or "░" in line]  # fmt: skip
    assert sum(numbers) == parameters(PRESETS[name].shape)
    for note in PRESETS[name].notes:
        assert note.split()[0] in out


def test_json_has_every_number(monkeypatch, capsys) -> None:
    status, out, _ = call(monkeypatch, capsys, 80, "--json")
    rows = {row["name"]: row for row in map(json.loads, out.splitlines())}
    assert status == 0
    assert list(rows) == list(PRESETS)
    assert rows["gpt2"]["parameters"] == 124_439_808
    assert rows["gpt2"]["memory"]["training"] == 16 * 124_439_808
    assert rows["lamda-137b"]["shape"]["T"] is None
    assert [name for name, row in rows.items() if not row["agrees"]] == [
        "vaswani-base",
        "vaswani-big",
        "llama-65b",
        "palm-540b",
    ]


def test_the_tables_head_their_columns_with_the_words_of_the_json(monkeypatch, capsys) -> None:
    """Each heading is a key of the JSON, and the cell below it is its value."""
    _, out, _ = call(monkeypatch, capsys, 144)
    _, said, _ = call(monkeypatch, capsys, 144, "gpt2", "--json")
    told = json.loads(said)
    flat = {**told["flops"], **told["memory"], **told["shape"], **told}
    head, *rows = out.splitlines()
    row = next(line for line in rows if line.startswith("gpt2 "))
    assert set(head.split()) <= set(flat)
    cells = re.split(r"  +", row)
    assert len(cells) == len(head.split())
    written = {"": 1.0, "M": 1e6, "MB": 1e6, "GB": 1e9, "%": 0.01}
    for name, cell in zip(head.split(), cells, strict=True):
        number, _, unit = cell.partition(" ")
        if name == "name":
            assert cell == "gpt2"
        elif number == "–":
            assert flat[name] is None
        else:
            value = float(number.replace("−", "-")) * written[unit]
            assert value == pytest.approx(flat[name], rel=0.01, abs=1e-3), name


def test_ascii_is_ascii(monkeypatch, capsys) -> None:
    monkeypatch.setenv("TXLAB_ASCII", "1")
    for words in ([], ["gpt3-xl"], ["vaswani-base"]):
        assert call(monkeypatch, capsys, 80, *words)[1].isascii()


def test_a_wrong_name_is_status_2_with_the_nearest(monkeypatch, capsys) -> None:
    status, out, error = call(monkeypatch, capsys, 80, "gtp2")
    assert (status, out) == (2, "")
    assert error.startswith("txlab: no preset or scenario is called 'gtp2' (nearest: gpt2)")
    assert "bert-base" not in error  # where one is near, the long list of the others only hides it
    assert "bert-base" in call(monkeypatch, capsys, 80, "zzzz")[2]
