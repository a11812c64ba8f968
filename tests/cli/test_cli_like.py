"""The scenario that a run has written down repeats it, bit for bit, however the machine would decide today."""

import json
from pathlib import Path
from typing import Any

import pytest

import txlab
from txlab.experiments.learning import autotune as probe
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.events import encode_row, read_rows
from txlab.runs.finding import find_run
from txlab.runs.folder import list_runs
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario

AUTO = [
    "compute.dtype=auto",
    "compute.attention=auto",
    "compute.threads=0",
    "compute.compile=auto",
    "compute.device=auto",
]


def numbers(run: Path) -> list[tuple[int, dict[str, float]]]:
    rows, _ = read_rows(RunDirectory(run).events)
    return [(row["step"], row["values"]) for row in rows if row["event"] == "metrics"]


@pytest.fixture
def decided(ask: Any, tiny_scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of which everything was decided by the probe; another probe would decide otherwise now."""
    monkeypatch.setenv("TXLAB_RUNS", str(tmp_path / "runs"))

    def choose(**chosen: Any) -> None:
        monkeypatch.setattr(
            probe,
            "decide",
            lambda asked, trial, say, uncompiled: (
                asked.model_copy(update={"device": "cpu", "compile": False, **chosen}),
                ["as the test says"],
            ),
        )

    choose(threads=1, dtype="float32", attention="matmul", thread_mode="operations")
    run = prepare(load_scenario(tiny_scenario, AUTO))
    assert execute(run).status == "done"
    choose(threads=2, dtype="bfloat16", attention="sdpa", thread_mode="batch")
    return run


def test_what_was_decided_is_written_down_and_repeats_the_run(
    decided: Path, tiny_scenario: Path, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = prepare(load_scenario(tiny_scenario, AUTO))
    assert execute(again).status == "done"
    assert numbers(again) != numbers(decided)  # the same command: another result
    monkeypatch.setattr(probe, "decide", None)  # it may not be asked
    for words in ([f"{decided}/scenario.toml"], ["--like", decided.name], ["--like", str(decided)]):
        said = ask("run", *words, "--json")
        assert said.status == 0, said.error
        repeated = list_runs()[0]
        assert repeated not in (decided, again)
        assert numbers(repeated) == numbers(decided)
        assert (repeated / "scenario.toml").read_bytes() == (decided / "scenario.toml").read_bytes()
        assert [json.loads(line)["event"] for line in said.out.splitlines()][-1] == "end"


def test_it_says_what_it_takes_over_and_what_is_changed(decided: Path, ask: Any) -> None:
    info = RunInfo.load(decided)
    info.versions["torch"] = "1.0"
    info.save(RunDirectory(decided))
    said = ask("run", "--like", "tiny", "--set", "train.steps=3", "--seed", "9")
    assert said.status == 0
    first, second, third, *_ = said.error.splitlines()
    assert first.startswith(f"like {decided.name}: seed 9, device cpu, dtype float32, attention matmul, threads 1")
    assert second == "but for train.steps=3, seed=9"
    assert third.startswith("so perhaps not bit for bit: torch 1.0 there, 2.")
    scenario = load_scenario(find_run("latest") / "scenario.toml").scenario
    assert (scenario.seed, scenario.length(), scenario.compute.threads) == (9, 3, 1)


def test_changes_by_hand_are_not_repeated_which_is_reported(decided: Path, ask: Any) -> None:
    change = {"event": "control", "time": 1.0, "step": 5, "request": "set", "key": "lr", "to": 0.1, "applied": True}
    with (decided / "events.jsonl").open("ab") as log:
        log.write(encode_row(change))
    said = ask("run", "--like", decided.name, "--set", "train.steps=2").error
    assert "so perhaps not bit for bit: 1 change by hand while it ran, which are not repeated" in said


def test_a_run_that_cannot_be_repeated_says_why(decided: Path, ask: Any, tmp_path: Path) -> None:
    def refused(*words: str) -> str:
        return ask("run", *words).refused

    assert "give a SCENARIO or --like RUN, not both" in refused("gpt-tiny", "--like", decided.name)
    assert "SCENARIO is missing" in refused()
    assert "there is no run 'nothing'" in refused("--like", "nothing")
    assert "train.steps" in refused("--like", decided.name, "--set", "train.stepz=3")
    txlab.record("mine", root=tmp_path / "runs").close()
    assert "recorded by another program" in refused("--like", "mine")
    file = decided / "scenario.toml"
    file.write_text(file.read_text().replace("[train]", "[train]\nmomentum = 0.9"))
    older = refused("--like", decided.name)
    assert "cannot be repeated as it is: " in older
    assert "momentum" in older
    file.unlink()
    assert "has no scenario.toml" in refused("--like", decided.name)
    assert len(list_runs()) == 2


def test_a_scenario_that_leaves_only_the_sharing_open_has_it_written_down(tiny_scenario: Path, tmp_path: Path) -> None:
    run = prepare(load_scenario(tiny_scenario, ["train.steps=1"]), root=tmp_path)
    execute(run)
    written = load_scenario(run / "scenario.toml").scenario.compute
    assert "auto" not in written.model_dump().values()
    assert written.thread_mode == "operations"
