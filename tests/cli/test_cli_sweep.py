"""`txlab plot` of runs of decisions: what is drawn unasked; `--sweep`: curves, table, picture; what is refused."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import txlab.cli
from txlab.cli import curves, terminal
from txlab.drawing import picture
from txlab.drawing.curve import Curve, without_the_beginning
from txlab.experiments.kinds.mdp_control import ControlScenario
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import LoadedScenario


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    control = {"runs": 3, "episodes": 6, "score": 6}
    swept = {"alpha": [0.1, 0.5], "epsilon": [0.1, 0.2]}
    for name, more in (("swept", swept), ("once", swept | {"runs": 1}), ("plain", {})):
        made = ControlScenario.model_validate({"control": control | more, "record": {"evaluate_every": 0}})
        execute(prepare(LoadedScenario(made, name, "a test"), out=root / name))
    return root


@pytest.fixture
def said(runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    monkeypatch.setenv("TXLAB_RUNS", str(runs))
    monkeypatch.setenv("COLUMNS", "90")

    def ask(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["txlab", "plot", *words])
        with pytest.raises(SystemExit) as ended:
            txlab.cli.main()
        found = capsys.readouterr()
        return int(ended.value.code or 0), found.out, found.err

    return ask


def test_curves_name_every_learner_and_the_best_of_all(said) -> None:  # type: ignore[no-untyped-def]
    status, out, _ = said("swept", "--sweep")
    assert status == 0
    assert out.startswith("mean return of the last 6 episodes\n")
    assert "sarsa" in out
    assert "best of all" in out
    across = said("swept", "--sweep", "--x", "alpha")[1]
    assert "ε = 0.2" in across
    assert across != out


def test_on_a_colour_terminal_curves_are_coloured_braille(said, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    assert "\x1b[" not in said("plain")[1]
    for each in (terminal, curves):
        monkeypatch.setattr(each, "depth", lambda: "256")
    out = said("plain")[1]
    assert "\x1b[38;5;" in out
    assert not set(out) & set("•×○□△")
    assert "\x1b[38;5;" in said("swept", "--sweep")[1]


def test_a_picture_ends_where_the_terminal_does(said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    steps = np.arange(100)
    far = [Curve("return", steps, np.concatenate([[-1750.0, -900.0, -300.0], np.linspace(-60, -20, 97)]))]
    monkeypatch.setattr(curves, "curves", lambda readers, metrics: far)
    monkeypatch.setattr(curves, "choose_metrics", lambda readers, metric: ["return"])
    shown: list[object] = []
    monkeypatch.setattr(picture, "strokes_of", lambda *given: [])
    monkeypatch.setattr(picture, "draw_curves", lambda *given, **named: shown.append(named["clipped"]) or tmp_path)  # type: ignore[func-returns-value]
    assert "1 500" not in said("plain")[1].replace("\u2009", " ")
    said("plain", "--out", str(tmp_path / "a.png"))
    said("plain", "--out", str(tmp_path / "a.png"), "--from", "0")
    window = without_the_beginning(far)
    assert window is not None
    assert shown == [(window.low, window.high), None]
    assert window.low > -70


def test_a_picture_is_clipped(tmp_path: Path) -> None:
    stroke = picture.Stroke("return", np.arange(4), np.array([-1750.0, -60.0, -40.0, -20.0]))
    whole, clipped = (
        picture.draw_curves([stroke], tmp_path / f"{at}.svg", clipped=at).read_text() for at in (None, (-60.0, -20.0))
    )
    assert "<!-- −1\u2009500 -->" in whole
    assert "500 -->" not in clipped
    assert "<!-- −40 -->" in clipped


def test_the_table_has_a_row_for_every_setting_and_one_mark(said) -> None:  # type: ignore[no-untyped-def]
    status, out, _ = said("swept", "--sweep", "--table")
    assert status == 0
    assert len(out.splitlines()) == 1 + 2 * 2 * 2
    assert out.count("★") == 1
    assert out.splitlines()[0].split()[:3] == ["learner", "alpha", "epsilon"]


def test_a_score_of_one_run_has_no_error(said, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    for name, known in (("swept", True), ("once", False)):
        assert ("±" in said(name, "--sweep")[1]) is known
        rows = said(name, "--sweep", "--table")[1].splitlines()[1:]
        assert {len(re.split(" {2,}", row.replace("★", "").strip())) for row in rows} == {5 if known else 4}
        said(name, "--sweep", "--out", str(tmp_path / f"{name}.svg"))
        assert ("standard error" in (tmp_path / f"{name}.svg").read_text()) is known


def test_a_picture_is_written_where_it_is_asked_for(said, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    assert said("swept", "--sweep", "--out", str(tmp_path / "a.svg"))[0] == 0
    assert "standard error" in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["plain", "--sweep"], "swept no settings"),
        (["swept", "--table"], "--table is for --sweep"),
        (["swept", "plain", "--sweep"], "a sweep is drawn of one run"),
        (["swept", "--sweep", "--x", "beta"], "is not an axis of this sweep"),
        (["swept", "--sweep", "--table", "--out", "a.png"], "one of them"),
        (["swept", "--sweep", "--out", "a.txt"], "neither .png nor .svg"),
    ],
)
def test_a_mistake_is_reported_in_one_line(said, words: list[str], sentence: str) -> None:  # type: ignore[no-untyped-def]
    status, out, error = said(*words)
    assert (status, out) == (2, "")
    assert sentence in error
    assert len(error.splitlines()) == 1


def test_without_a_metric_the_curves_are_those_that_the_run_is_about(said, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    status, out, error = said("plain")
    assert (status, error) == (0, "")
    legend = out.splitlines()[0]
    assert all(name in legend for name in ("return/sarsa", "return/q-learning"))
    assert not any(other in legend for other in ("loss", "length", "memory"))
    assert said("plain", "swept")[0] == 0
    assert said("plain", "--out", str(tmp_path / "curve.svg"))[0] == 0
    assert "nearest: length/sarsa" in said("plain", "--metric", "lenght/sarsa")[2]


def test_having_nothing_recorded_yet_is_reported(said, runs: Path) -> None:  # type: ignore[no-untyped-def]
    made = ControlScenario.model_validate({"control": {"runs": 1, "episodes": 1}})
    prepare(LoadedScenario(made, "waiting", "a test"), out=runs / "waiting")
    assert said("waiting")[::2] == (2, "txlab: waiting: nothing has been recorded yet\n")
