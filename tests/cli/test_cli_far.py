"""HOST:RUN in the shell: lists, control, plot, export, and what cannot be done from here."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from far_machine import stand_in

import txlab
from txlab.cli import app
from txlab.cli.follow import follow
from txlab.errors import LabError, RunFailed
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.finding import find_run
from txlab.runs.label import read_label
from txlab.runs.recording import Recording
from txlab.runs.remote import mirroring
from txlab.runs.remote.state import RemoteState


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recording]:
    """An open run of the machine `box`."""
    runs = tmp_path / "far" / "runs"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TXLAB_SSH", stand_in(tmp_path, runs=runs))
    monkeypatch.setenv("TXLAB_RUNS", str(tmp_path / "here"))
    monkeypatch.delenv("TEXTUAL_DRIVER", raising=False)
    with txlab.record("model", root=runs) as run:
        for step in range(30):
            run.log(step, loss=1 / (1 + step))
        yield run
    mirroring.close_all()


def say(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    app(list(words), standalone_mode=False)
    return capsys.readouterr().out


def test_runs_of_several_machines_are_one_table(far: Recording, capsys: pytest.CaptureFixture[str]) -> None:
    shown = say(capsys, "runs", "--hosts", f"box,other:{far.path.parent}")
    lines = shown.splitlines()
    assert lines[0].split()[:2] == ["machine", "name"]
    assert sorted(line.split()[0] for line in lines[1:3]) == ["box", "other"]
    assert all(far.path.name in line and "running" in line for line in lines[1:3])
    [row] = map(json.loads, say(capsys, "runs", "--hosts", "box", "--json").splitlines())
    assert row["machine"] == "box"
    assert row["status"] == "running"
    assert row["value"] == pytest.approx(1 / 30)
    assert row["stale"] == ""


def test_a_machine_that_does_not_answer_is_named_and_its_copies_are_listed(
    far: Recording, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    say(capsys, "runs", "--hosts", "box")
    mirroring.close_all()
    monkeypatch.setenv("TXLAB_SSH", "false")
    app(["runs", "--hosts", "box"], standalone_mode=False)
    said = capsys.readouterr()
    assert "the connection to box ended" in said.err
    assert far.path.name in said.out
    assert "box" in said.out.splitlines()[2]
    mirroring.close_all()
    with pytest.raises(RunFailed):
        app(["runs", "--hosts", "nowhere"], standalone_mode=False)


def test_plot_export_name_and_follow_take_a_run_of_another_machine(
    far: Recording, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "loss" in say(capsys, "plot", "box:model")
    assert say(capsys, "export", "box:model", "csv").count("\n") >= 30
    assert "mine" in say(capsys, "name", "box:model", "mine")
    mirroring.close_all()  # as at the end of the command
    assert read_label(far.path).name == "mine"
    threading.Timer(0.5, far.close).start()
    assert f"{far.path.name} done at step 29" in say(capsys, "attach", "box:mine", "--lines")


def test_a_control_is_answered_by_the_run_there(far: Recording) -> None:
    ended = threading.Event()

    def learn() -> None:
        step = 30
        while not ended.wait(0.05):
            far.log(step, loss=0.1)
            step += 1

    learner = threading.Thread(target=learn)
    learner.start()
    try:
        with pytest.raises(LabError, match="recorded by another program, which takes no requests"):
            app(["control", "box:latest", "pause"], standalone_mode=False)
    finally:
        ended.set()
        learner.join()


def test_an_action_possible_only_on_the_other_machine_is_reported(far: Recording) -> None:
    far.close("stopped")
    with pytest.raises(LabError, match="is a run of box, and this is its mirror; ssh box txlab resume"):
        app(["resume", "box:latest"], standalone_mode=False)
    with pytest.raises(LabError):
        app(["generate", "box:latest", "a"], standalone_mode=False)


def test_attach_says_when_the_line_is_lost_and_when_it_is_back(
    far: Recording, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = find_run("box:latest")
    mirroring.close_all()
    states = [
        RemoteState(host="box", run=path.name, line=line, seen=time.time(), written=time.time(), why=why)
        for line, why in (("connected", ""), ("lost", "it broke\x1b[2J"), ("lost", ""), ("connected", ""))
    ]

    def far_state(run: Path) -> RemoteState:
        if len(states) == 1:
            info = RunInfo.load(path)
            info.status = "done"
            info.save(RunDirectory(path))
        return states.pop(0)

    monkeypatch.setattr("txlab.runs.remote.state.remote_state", far_state)
    assert follow(path, json=False) == 0
    lost, back = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"txlab: connection to box lost \d+ s ago, trying again \(it broke.\[2J\)", lost)
    assert "\x1b" not in lost
    assert back == "txlab: connected to box again"
