"""Three lines in anybody's loop make a run; how it ends is in the run."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import txlab
from txlab.errors import LabError
from txlab.runs.control import Request, send
from txlab.runs.directory import RunDirectory, RunInfo, state_of
from txlab.runs.events import live_branch, read_rows
from txlab.runs.finding import find_run
from txlab.runs.frames import FrameIndex
from txlab.runs.process import execute
from txlab.runs.reader import RunReader


def test_three_lines_make_a_run_that_readers_open(tmp_path: Path) -> None:
    with txlab.record("mine", config={"lr": 3e-4, "none": None, "path": Path("/x")}, root=tmp_path) as run:
        for step in range(5):
            run.log(step, loss=1 / (step + 1), accuracy=np.float32(0.5))
    path = find_run("mine", tmp_path)
    assert path == run.path
    info = RunInfo.load(path)
    assert (info.kind, info.status, info.step) == ("recorded", "done", 4)
    reader = RunReader(path)
    reader.poll()
    assert reader.series("loss").values.tolist() == [1 / (step + 1) for step in range(5)]
    assert reader.scenario["config"] == {"lr": 3e-4, "path": "/x"}


def test_frames_samples_and_torch_values_are_taken(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    with txlab.record("mine", root=tmp_path) as run:
        run.log(1, loss=torch.tensor(0.25, requires_grad=True))
        run.frame(1, {"attention/pattern": torch.eye(3)[None, None]}, tokens={"probe": ["a", "b", "c"]})
        run.sample(1, "The", " end")
        run.note(1, "so far")
    rows = read_rows(RunDirectory(run.path).events)[0]
    assert [row["event"] for row in rows] == ["start", "metrics", "sample", "note", "end"]
    assert rows[1]["values"] == {"loss": 0.25}
    frame = FrameIndex(run.path / "frames").read(1)
    assert frame.tensors["attention/pattern"].shape == (1, 1, 3, 3)
    assert frame.tokens == {"probe": ["a", "b", "c"]}


def test_an_exception_is_the_reason_and_goes_on_to_the_caller(tmp_path: Path) -> None:
    run = txlab.record("mine", root=tmp_path)
    run.log(3, loss=1.0)
    with pytest.raises(ZeroDivisionError), run:
        run.log(4, loss=1 / 0)
    info = RunInfo.load(run.path)
    assert (info.status, info.reason, info.step) == ("failed", "ZeroDivisionError: division by zero", 3)
    assert "Traceback" in (run.path / "log.txt").read_text()


@pytest.mark.parametrize(("last", "status"), [("pass", "done"), ("1 / 0", "failed"), ("sys.exit(0)", "done")])
def test_a_run_that_nobody_closes_is_closed_at_the_end_of_the_program(tmp_path: Path, last: str, status: str) -> None:
    script = f"import sys, txlab\nrun = txlab.record('mine', root={str(tmp_path)!r})\nrun.log(1, loss=2.0)\n{last}\n"
    subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=False)
    info = RunInfo.load(find_run("mine", tmp_path))
    assert (info.status, info.step) == (status, 1)


def test_steps_do_not_go_back_unless_it_is_said(tmp_path: Path) -> None:
    with txlab.record("mine", root=tmp_path) as run:
        for step in range(5):
            run.log(step, loss=float(step))
        run.log(4, again=1.0)
        with pytest.raises(LabError, match=r"rewind\(2\)"):
            run.log(2, loss=0.0)
        run.rewind(2)
        run.log(3, loss=30.0)
    rows = live_branch(read_rows(RunDirectory(run.path).events)[0])
    assert [(row["step"], row["values"]) for row in rows if row["event"] == "metrics"] == [
        (0, {"loss": 0.0}), (1, {"loss": 1.0}), (2, {"loss": 2.0}), (3, {"loss": 30.0}),
    ]  # fmt: skip
    with pytest.raises(LabError, match="closed"):
        run.log(9, loss=0.0)


def test_requests_are_answered_and_such_a_run_is_not_executed(tmp_path: Path) -> None:
    with txlab.record("mine", root=tmp_path) as run:
        send(run.path, Request("pause"))
    (row,) = [row for row in read_rows(RunDirectory(run.path).events)[0] if row["event"] == "control"]
    assert (row["request"], row["applied"]) == ("pause", False)
    assert "another program" in row["error"]
    assert state_of(run.path).status == "done"
    with pytest.raises(LabError, match="only be looked at"):
        execute(run.path)


def test_steps_of_numpy_and_torch_are_rows_that_readers_see(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    with txlab.record("mine", root=tmp_path) as run:
        run.log(np.int64(3), loss=1.0)
        run.log(torch.tensor(5), loss=2.0)
        run.rewind(np.int32(4))
        run.log(np.uint8(5), loss=3.0)
        run.frame(np.int64(6), {"x": np.ones(2)})
        run.sample(np.int64(6), "a", "b")
    rows = live_branch(read_rows(RunDirectory(run.path).events)[0])
    assert [(row["step"], row["values"]["loss"]) for row in rows if row["event"] == "metrics"] == [(3, 1.0), (5, 3.0)]
    assert [row["step"] for row in rows if row["event"] == "sample"] == [6]
    assert RunInfo.load(run.path).step == 6


@pytest.mark.parametrize("step", [6.0, 6.5, "6", None, -1])
def test_what_is_no_step_is_refused_and_not_lost(tmp_path: Path, step: object) -> None:
    with txlab.record("mine", root=tmp_path) as run, pytest.raises(LabError, match="whole number"):
        run.log(step, loss=1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["abc", None, [1.0, 2.0], np.ones(3), 10**400])
def test_what_is_no_number_is_refused_with_its_name(tmp_path: Path, value: object) -> None:
    with txlab.record("mine", root=tmp_path) as run, pytest.raises(LabError, match=r"step 7: accuracy = .* one number"):
        run.log(7, accuracy=value)  # type: ignore[arg-type]
