"""`txlab run NAME --dry-run`: it prices, refuses as the run would, writes nothing; its figures are those of a run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import txlab.cli
from txlab.drawing.text import width
from txlab.runs import trial
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario

SMALL = ["model.width=16", "model.heads=2", "model.layers=1", "train.steps=12", "train.batch=2", "record.frame_every=5"]
DECIDED = ["compute.dtype=float32", "compute.attention=matmul", "compute.threads=1", "compute.compile=false"]
SETTINGS = [*SMALL, *DECIDED, "compute.device=cpu", "record.checkpoint_every=6", "record.evaluate_every=4"]


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    monkeypatch.setenv("TXLAB_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(trial, "SECONDS", 0.05)
    monkeypatch.setattr("txlab.runs.writing.set_up_process", lambda: None)  # this process is that of the tests
    monkeypatch.setattr("txlab.cli.price.peak_here", lambda: 1e12)

    def ask(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["txlab", "run", *words, "--dry-run"])
        with pytest.raises(SystemExit) as ended:
            txlab.cli.main()
        found = capsys.readouterr()
        return int(ended.value.code or 0), found.out, found.err

    return ask


def overrides(settings: list[str]) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


def test_parameters_flops_and_disk_are_those_of_the_run_and_nothing_is_left(said, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    status, out, _ = said("gpt-tiny", *overrides(SETTINGS), "--json")
    price = json.loads(out)
    assert status == 0
    assert not (tmp_path / "runs").exists()
    run = prepare(load_scenario("gpt-tiny", SETTINGS), out=tmp_path / "once")
    facts = execute(run).facts
    assert price["parameters"] == facts["parameters"]
    assert price["flops"] == 12 * facts["flops_per_step"]
    assert (price["units"], price["unit"], price["steps"]) == (12 * facts["units_per_step"], "tokens", 12)
    checkpoints = sum(file.stat().st_size for file in run.glob("checkpoints/*/*"))
    frames = sum(file.stat().st_size for file in (run / "frames").iterdir())
    assert price["disk"]["checkpoints"] == pytest.approx(checkpoints, rel=0.02)
    assert price["disk"]["frames"] == pytest.approx(frames, rel=0.1)
    assert price["memory_total"] == sum(price["memory"].values()) > 50e6
    assert price["memory"]["weights"] == 4 * price["parameters"]
    assert set(price["seconds"]) == {"beginning", "step", "evaluation", "sample", "frame", "checkpoint"}
    assert price["refused"] == []


def test_the_table_fits_and_a_scenario_without_a_model_has_a_price(said) -> None:  # type: ignore[no-untyped-def]
    status, out, _ = said("cliff", "--set", "control.runs=3")
    assert status == 0
    assert max(map(width, out.splitlines())) < 80
    for word in ("memory", "time", "disk", "free"):
        assert word in out
    assert "parameters" not in out


def test_a_preset_is_priced_without_being_built(said) -> None:  # type: ignore[no-untyped-def]
    status, out, _ = said("gpt3-175b")
    assert status == 0
    assert "174 604 259 328" in out.replace("\u202f", " ")
    assert "years" in out
    assert "GB of memory" in out


def test_a_model_that_is_too_large_is_timed_by_a_smaller_one(said, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(trial, "LARGEST_STEP", 1e6)
    built: list[Any] = []
    monkeypatch.setattr("txlab.runs.process.build", lambda *rest: built.append(rest))
    status, out, _ = said("gpt-tiny", *overrides(SETTINGS), "--json")
    price = json.loads(out)
    assert status == 0
    assert not built
    assert price["memory_how"].startswith("computed")
    assert price["seconds_total"] > 0
    assert price["memory"]["moments of the optimizer"] == 8 * price["parameters"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["gpt-finetune", "--set", "start.run=nowhere"], "there is no run 'nowhere'"),
        (["gpt-tiny", "--set", "data.text=/nowhere.txt"], "/nowhere.txt"),
        (["gpt-tiny", "--set", "model.width=65536", "--set", "model.layers=400"], "needs at least"),
    ],
)
def test_what_would_refuse_the_run_is_the_answer(said, words: list[str], why: str) -> None:  # type: ignore[no-untyped-def]
    status, out, err = said(*words)
    assert status == 2
    assert why in " ".join((out + err).split())


def test_an_unknown_name_is_refused_as_by_run(said) -> None:  # type: ignore[no-untyped-def]
    status, _, err = said("gpt-tyni")
    assert status == 2
    assert "gpt-tiny" in err


class Clock:
    """A clock that moves only when what it times says so."""

    now = 100.0

    def perf_counter(self) -> float:
        return self.now

    def process_time(self) -> float:
        return 0.5


def test_what_only_the_first_frame_costs_is_paid_once_and_frames_that_grow_are_larger_later(
    said, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    from txlab.experiments.kinds.descent.experiment import Descent

    clock, made = Clock(), []
    frame, step = Descent.frame, Descent.step

    def slow_at_first(self: Descent) -> Any:
        clock.now += 0.001 if made else 3.0
        made.append(frame(self))
        return made[-1]

    def timed(self: Descent) -> Any:
        clock.now += 0.01
        return step(self)

    monkeypatch.setattr(Descent, "frame", slow_at_first)
    monkeypatch.setattr(Descent, "step", timed)
    monkeypatch.setattr(trial, "time", clock)
    monkeypatch.setattr("txlab.cli.price.time", clock)
    status, out, _ = said("linear-regression", "--json")
    price = json.loads(out)
    assert status == 0
    assert price["seconds"]["frame"] == pytest.approx(0.001 * 121)  # every 5 steps of 600, and at the start
    assert price["seconds"]["beginning"] == pytest.approx(0.5 + 3.0 - 0.001)
    assert price["seconds"]["step"] == pytest.approx(0.01 * 600)
    monkeypatch.undo()
    run = prepare(load_scenario("linear-regression"), out=tmp_path / "once")
    execute(run)
    frames = sum(file.stat().st_size for file in (run / "frames").iterdir())
    assert price["disk"]["frames"] == pytest.approx(frames, rel=0.2)
