"""A run whose whole steps are replayed keeps what every run promises: exact resume, live control, refused updates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from txlab.experiments.kind import kind_named
from txlab.experiments.learning.gradient import GradientExperiment
from txlab.runs.control import Request, send
from txlab.runs.directory import RunDirectory
from txlab.runs.events import Row, live_branch, read_rows
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import LoadedScenario

COMPUTE = {"device": "cpu", "dtype": "float32", "attention": "sdpa", "threads": 1, "thread_mode": "operations"}


@pytest.fixture(autouse=True)
def _requests_are_taken_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txlab.runs.loop.POLL_EVERY", 0.0)


def prepared(root: Path, graphs: bool) -> RunDirectory:
    scenario: Any = kind_named("language-model").schema.model_validate(
        {
            "model": {"layers": 1, "heads": 2, "width": 16, "context": 16, "dropout": 0.1},
            "data": {"source": "induction", "vocabulary": 16},
            "sampling": {"prompts": ["ab"], "tokens": 3},
            "train": {"steps": 24, "batch": 4, "clip": 0.0},
            "record": {"evaluate_every": 8, "sample_every": 12, "frame_every": 8, "checkpoint_every": 6},
            "compute": COMPUTE | {"compile": False, "cuda_graphs": graphs},
        }
    )
    return RunDirectory(prepare(LoadedScenario(scenario, "graphed", "a test"), root=root))


def metrics_of(run: RunDirectory) -> list[Any]:
    rows = live_branch(read_rows(run.events)[0])
    return [(row["step"], row["values"]) for row in rows if row["event"] == "metrics"]


def at(run: RunDirectory, requests: dict[int, Request]) -> Any:
    def observe(row: Row) -> None:
        if row["event"] == "metrics" and row["step"] in requests:
            send(run, requests.pop(row["step"]))

    return observe


def test_a_run_of_whole_steps_stopped_resumed_and_steered_is_the_ordinary_run(tmp_path: Path) -> None:
    turned = {5: Request("set", "lr", 0.01), 9: Request("set", "weight_decay", 0.5), 13: Request("set", "dropout", 0.3)}
    plain, whole = prepared(tmp_path / "plain", False), prepared(tmp_path / "whole", True)
    assert execute(plain, at(plain, dict(turned))).status == "done"
    assert execute(whole, at(whole, turned | {16: Request("stop")})).status == "stopped"
    info = execute(whole)
    assert (info.status, info.step) == ("done", 24)
    assert metrics_of(whole) == metrics_of(plain)
    assert info.facts["compute"]["cuda_graphs"] is True


def test_what_an_experiment_has_to_tell_is_in_the_log_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txlab.runs.loop.MACHINE_EVERY", 0.0)
    left = ["graphs off: the step cannot be recorded (a reason)"]
    monkeypatch.setattr(GradientExperiment, "notes", lambda self: [left.pop()] if left else [])
    run = prepared(tmp_path, True)
    execute(run)
    notes = [row["text"] for row in read_rows(run.events)[0] if row["event"] == "note"]
    assert notes == ["graphs off: the step cannot be recorded (a reason)"]
