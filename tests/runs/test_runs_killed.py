"""kill −9 at any moment, then resume: the same metrics and weights, bit for bit, as in a run that was never killed.

Each attempt is a process of its own (forked from one that has imported torch, so that twenty take seconds).
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest
from regression_kind import RegressionScenario, Train, register
from test_loop import metrics_of, rows_of, weights_of
from test_runs_exactness import made as gpt
from waiting import wait_for

from txlab.errors import LabError
from txlab.experiments.schema import Record
from txlab.runs import checkpoints
from txlab.runs.control import Request, send
from txlab.runs.directory import RunDirectory, RunInfo, process_is_alive, state_of
from txlab.runs.events import read_rows
from txlab.runs.frames import FrameIndex
from txlab.runs.process import execute, pending_changes, prepare
from txlab.runs.scenario import LoadedScenario

pytestmark = pytest.mark.evidence

pytest.importorskip("safetensors.torch")
register()

RECORD = Record(evaluate_every=6, sample_every=15, frame_every=1, checkpoint_every=7, checkpoints_kept=2)
STEPS = 250


def made(root: Path, **train: Any) -> RunDirectory:
    scenario = RegressionScenario(record=RECORD, train=Train(**{"steps": STEPS, **train}))
    return RunDirectory(prepare(LoadedScenario(scenario, "regression", "a test"), root=root))


def one_life(run: RunDirectory, request_at: dict[int, Request] | None = None) -> int:
    """Fork a process that executes the run; returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    try:

        def observe(row: dict[str, Any]) -> None:
            if request_at and row["event"] == "metrics" and "loss" in row["values"] and row["step"] in request_at:
                send(run, request_at[row["step"]])

        status = execute(run, observer=observe).status
        os._exit(0 if status == "done" else 3)
    except BaseException:
        os._exit(4)


def wait_for_step(run: RunDirectory, pid: int, step: int) -> None:
    """Wait until this process, not one before it, has recorded that step, or until it has ended."""
    while process_is_alive(pid):
        rows, _ = read_rows(run.events)
        own = any(row["event"] == "start" and row["pid"] == pid for row in rows)
        if own and rows[-1]["step"] >= step:
            return
        time.sleep(0.001)


def kill(pid: int) -> int:
    os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def test_a_run_killed_twenty_times_equals_one_never_killed(tmp_path: Path) -> None:
    run = made(tmp_path, wait_ms=1.0)
    moments = random.Random(5)
    killed = 0
    while killed < 20:
        pid = one_life(run)
        # About every third process is killed before it has recorded anything, the others a few steps later.
        time.sleep(moments.uniform(0.0, 0.05))
        if moments.random() < 0.7:
            reached = checkpoints.newest(run) or 0
            wait_for_step(run, pid, min(STEPS - 5, reached + moments.randrange(1, 16)))
        killed += os.WIFSIGNALED(kill(pid))
        RunInfo.load(run)  # every reader can open the remains
        assert state_of(run).status in ("created", "lost")
    assert os.waitstatus_to_exitcode(os.waitpid(one_life(run), 0)[1]) == 0
    plain = made(tmp_path / "plain")
    execute(plain)
    assert metrics_of(run) == metrics_of(plain)
    assert weights_of(run, STEPS) == weights_of(plain, STEPS)
    assert sum(row["event"] == "rewind" for row in read_rows(run.events)[0]) >= 5
    index = FrameIndex(run.frames)
    index.refresh()
    assert index.steps.tolist() == list(range(STEPS + 1))
    assert index.read(200).tensors["weights"].tobytes() == frame_of(plain, 200)


def test_a_gpt_killed_twenty_times_equals_one_never_killed(tmp_path: Path) -> None:
    changes = ["train.steps=300", "record.frame_every=3", "record.checkpoint_every=7"]
    plain, run = gpt(tmp_path / "plain", changes), gpt(tmp_path / "killed", changes)
    assert execute(plain).status == "done"
    moments = random.Random(6)
    killed = 0
    while killed < 20:
        pid = one_life(run)
        reached = checkpoints.newest(run) or 0
        wait_for_step(run, pid, min(295, reached + moments.randrange(0, 18)))
        time.sleep(moments.uniform(0.0, 0.01))
        killed += os.WIFSIGNALED(kill(pid))
    assert os.waitstatus_to_exitcode(os.waitpid(one_life(run), 0)[1]) == 0
    assert checkpoints.newest(run) == 300
    assert metrics_of(run) == metrics_of(plain)
    assert [row["text"] for row in live(run, "sample")] == [row["text"] for row in live(plain, "sample")]
    one, other = (checkpoints.take_apart(checkpoints.load(which, 300)) for which in (run, plain))
    assert one[0] == other[0]
    assert {name: tensor.numpy().tobytes() for name, tensor in one[1].items()} == {
        name: tensor.numpy().tobytes() for name, tensor in other[1].items()
    }


@pytest.mark.parametrize(("event", "step"), [("start", 0), ("metrics", 1), ("metrics", 8)])
def test_why_compute_was_decided_survives_a_kill_before_the_first_checkpoint(
    tmp_path: Path, event: str, step: int
) -> None:
    run = gpt(tmp_path / "killed", ["compute.dtype=auto", "train.steps=12", "record.checkpoint_every=9"])
    pid = os.fork()
    if pid == 0:

        def die(row: dict[str, Any]) -> None:
            if (row["event"], row["step"]) == (event, step):
                os._exit(9)

        try:
            execute(run, observer=die)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert checkpoints.newest(run) is None
    assert 'dtype = "auto"' not in run.scenario_file.read_text()
    told = RunInfo.load(run).facts["compute"]["why"]
    assert len(told) >= 3
    assert execute(run).status == "done"
    assert RunInfo.load(run).facts["compute"]["why"] == told
    for saved in checkpoints.steps(run):
        assert checkpoints.load(run, saved)["why"] == told


def live(run: RunDirectory, event: str) -> list[dict[str, Any]]:
    """The rows that no later rewind has taken back."""
    kept: list[dict[str, Any]] = []
    for row in read_rows(run.events)[0]:
        if row["event"] == "rewind":
            kept = [earlier for earlier in kept if earlier["step"] <= row["step"]]
        elif row["event"] == event:
            kept.append(row)
    return kept


def frame_of(run: RunDirectory, step: int) -> bytes:
    index = FrameIndex(run.frames)
    return bytes(index.read(step).tensors["weights"].tobytes())


def test_a_user_change_is_repeated_after_kills_at_the_same_step(tmp_path: Path) -> None:
    """The change at 30 comes after checkpoint 28; two processes are killed before the next checkpoint, one of them
    before it reaches 30 again."""
    change = {30: Request("set", "lr", 0.2, by="ann@box", id="the-change")}
    run = made(tmp_path, wait_ms=5.0, steps=80)
    pid = one_life(run, change)
    while not rows_of(run, "control"):
        time.sleep(0.001)
    kill(pid)
    (first,) = rows_of(run, "control")
    assert checkpoints.newest(run) is not None
    for _ in range(2):
        pid = one_life(run)
        seen = len(rows_of(run, "rewind"))
        while len(rows_of(run, "rewind")) == seen:
            time.sleep(0.0005)
        kill(pid)
    assert os.waitstatus_to_exitcode(os.waitpid(one_life(run), 0)[1]) == 0
    last = rows_of(run, "control")[-1]
    assert (last["id"], last["step"], last["replayed"], last["by"]) == ("the-change", first["step"], True, "ann@box")
    expected = made(tmp_path / "expected", steps=80)
    _execute_with_change_at(expected, first["step"])
    assert metrics_of(run) == metrics_of(expected)
    assert weights_of(run, 80) == weights_of(expected, 80)


def _execute_with_change_at(run: RunDirectory, step: int) -> None:
    """The never-killed run with the change at exactly that step, requested in the pause before it."""
    send(run, Request("step", count=step))

    def observe(row: dict[str, Any]) -> None:
        if row["event"] == "metrics" and row["step"] == step and "loss" in row["values"]:
            send(run, Request("set", "lr", 0.2))
            send(run, Request("resume"))

    assert execute(run, observer=observe).status == "done"
    assert [row["step"] for row in rows_of(run, "control")] == [0, step, step]


def control(step: int, name: str, replayed: bool = False) -> dict[str, Any]:
    return {
        "event": "control", "request": "set", "applied": True, "step": step, "key": "lr", "to": 0.1, "by": "",
        "asked": 0, "id": name, "replayed": replayed,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("known", "rows", "expected"),
    [
        ([], [control(5, "a"), control(3, "b")], ["b", "a"]),
        ([control(9, "a")], [control(9, "a", True), control(9, "b")], ["a", "b"]),
        ([], [control(8, "a"), {"event": "rewind", "step": 4}, control(6, "b")], ["b", "a"]),
        ([], [control(3, "a"), control(8, "b"), {"event": "rewind", "step": 4, "explicit": True}], ["a"]),
        ([], [control(3, "a") | {"applied": False}, control(3, "b") | {"request": "pause"}], []),
    ],
)
def test_the_changes_to_repeat_are_those_the_checkpoint_does_not_hold(
    known: list[dict[str, Any]], rows: list[dict[str, Any]], expected: list[str]
) -> None:
    assert [change["id"] for change in pending_changes(known, rows)] == expected


def test_a_torn_log_and_a_half_written_checkpoint_are_got_over_on_resume(tmp_path: Path) -> None:
    run, plain = made(tmp_path), made(tmp_path / "plain")
    execute(plain)
    pid = one_life(run)
    wait_for_step(run, pid, 60)
    kill(pid)
    with run.events.open("ab") as file:
        file.write(b'{"event":"metrics","time":17' + b"\0" * 9000)
    newest = run.checkpoints / f"{checkpoints.newest(run):08d}"
    tensors = newest / "state.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-5])
    assert execute(run).status == "done"
    assert metrics_of(run) == metrics_of(plain)
    notes = " / ".join(row["text"] for row in rows_of(run, "note") + read_rows(run.events)[0] if "text" in row)
    assert "is damaged" in notes
    assert "cut off" in notes
    assert b"\0" not in run.events.read_bytes()


def test_a_second_writer_is_refused_and_told_who_has_the_run(tmp_path: Path) -> None:
    run = made(tmp_path, wait_ms=20.0)
    pid = one_life(run)
    wait_for_step(run, pid, 1)
    before = run.run_file.read_bytes()
    with pytest.raises(LabError, match=f"process {pid} on "):
        execute(run)
    assert run.run_file.read_bytes() == before
    kill(pid)


def test_the_detached_command_outlives_its_parent_and_its_session(tmp_path: Path) -> None:
    """A parent starts the run in a session of its own and exits; the run must finish by itself."""
    kind = Path(__file__).with_name("regression_kind.py")
    run = made(tmp_path, wait_ms=2.0, steps=100)
    script = f"""
import os, subprocess, sys
sys.path.insert(0, {str(kind.parent)!r})
import regression_kind; regression_kind.register()
import txlab.runs.process as process
popen = subprocess.Popen
def of_the_test(command, **rest):
    return popen([sys.executable, {str(kind)!r}, *command[4:]], **rest)
subprocess.Popen = of_the_test
print(process.start_detached({str(run.path)!r}))
"""
    inherited = os.open(tmp_path, os.O_RDONLY)
    parent = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, pass_fds=[inherited], timeout=300
    )
    os.close(inherited)
    pid = int(parent.stdout)
    while not (rows := read_rows(run.events)[0]) or rows[-1]["step"] < 2:
        assert "Traceback" not in run.log.read_text(), run.log.read_text()
        time.sleep(0.01)
    assert os.getsid(pid) == pid
    process = Path(f"/proc/{pid}")
    if process.exists() and sys.platform == "linux":
        assert (process / "cwd").readlink() == Path("/")
        assert (process / "fd/0").readlink() == Path("/dev/null")
        assert (process / "fd/1").readlink() == run.log
        for link in (process / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                assert link.readlink() != tmp_path
    while state_of(run).status in ("created", "running"):
        time.sleep(0.02)
    assert state_of(run).status == "done"
    assert RunInfo.load(run).pid == pid


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_ends_a_run_that_is_being_prepared(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, begun = made(tmp_path), tmp_path / "begun"

    def slow(*_: Any) -> None:
        begun.touch()
        while True:  # as building a million layers, in small calls
            time.sleep(0.01)

    monkeypatch.setattr("txlab.runs.process.build", slow)
    pid = one_life(run)
    while not begun.exists():
        time.sleep(0.01)
    os.kill(pid, number)
    assert ended_within(pid, 300) == 3
    info = RunInfo.load(run)
    assert (info.status, info.reason) == ("interrupted", f"{number.name} received while it was being prepared")
    monkeypatch.undo()
    assert execute(run).status == "done"


def test_a_stop_is_answered_while_a_run_is_being_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, begun = made(tmp_path), tmp_path / "begun"

    def slow(*_: Any) -> None:
        begun.touch()
        thing = threading.Event()
        kept = weakref.ref(thing, lambda _: time.sleep(5))  # as in torch's compiler, what is raised there is dropped
        del thing
        assert kept() is None
        while True:
            time.sleep(0.01)

    monkeypatch.setattr("txlab.runs.process.build", slow)
    pid = one_life(run)
    wait_for(begun.exists)
    send(run, Request("set", key="lr", value=0.1))
    send(run, Request("stop", by="a test"))
    assert ended_within(pid, 300) == 3
    info = RunInfo.load(run)
    assert (info.status, info.reason) == ("stopped", "a test asked for it during preparation")
    answers = {row["request"]: row["applied"] for row in read_rows(run.events)[0] if row["event"] == "control"}
    assert answers == {"set": False, "stop": True}
    monkeypatch.undo()
    assert execute(run).status == "done"


def ended_within(pid: int, seconds: float) -> int | None:
    """The exit status of a process; None if it had to be killed after this number of seconds."""
    deadline = time.monotonic() + seconds
    while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            kill(pid)
            return None
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(ended[1])
