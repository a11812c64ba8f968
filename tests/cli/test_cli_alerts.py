"""`txlab alerts` tells what went wrong, in words and as JSON, of one run or of all, since a moment."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

import txlab


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with two alerts, one of them in a branch that a rewind ended, and one without."""
    with txlab.record("bad", root=tmp_path) as run:
        run.log(1, loss=1.0)
        run.log(5, loss=math.nan)
        run.rewind(3)
        run.alert("[b]odd\x1b[31m", "it is", step=3)
    with txlab.record("good", root=tmp_path):
        pass
    return tmp_path


def test_alerts_are_printed_in_words_and_as_json(two: Path, ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TXLAB_RUNS", str(two))
    (line,) = ask_in(two, ask, monkeypatch, "alerts").out.splitlines()
    assert line.endswith("_bad  step 3  warning  [b]odd␛[31m: it is")
    (row,) = [json.loads(line) for line in ask_in(two, ask, monkeypatch, "alerts", "bad", "--json").out.splitlines()]
    assert (row["step"], row["title"], row["level"], row["text"]) == (3, "[b]odd\x1b[31m", "warning", "it is")
    assert ask_in(two, ask, monkeypatch, "alerts", "good").out == "no alerts\n"
    assert len(ask_in(two, ask, monkeypatch, "alerts", "--since", "1h").out.splitlines()) == 1
    later = str(row["time"] + 1)
    assert ask_in(two, ask, monkeypatch, "alerts", "--since", later).out == f"no alerts since {later}\n"
    assert ask_in(two, ask, monkeypatch, "alerts", "--json", "--since", "2100-01-01").out == ""
    assert "10m" in ask_in(two, ask, monkeypatch, "alerts", "--since", "soon").refused


def ask_in(root: Path, ask: Any, monkeypatch: pytest.MonkeyPatch, *words: str) -> Any:
    monkeypatch.setenv("TXLAB_RUNS", str(root))
    return ask(*words)
