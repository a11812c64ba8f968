"""The life of a run that several processes compute: killed, stopped, paused, hanging, started again, by others."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest
from test_loop import metrics_of, rows_of
from test_runs_exactness import SCENARIO, equal, last_step
from waiting import LONGEST, wait_for

from txlab.runs import checkpoints
from txlab.runs.control import Request, send
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.process import prepare
from txlab.runs.ranks.launch import set_processes
from txlab.runs.scenario import load_scenario

pytestmark = pytest.mark.evidence

torch = pytest.importorskip("torch")

CHANGES = [
    "compute.processes=2",
    "compute.timeout=600",
    "model.dropout=0",
    "train.epsilon=1e-4",
    "record.sample_every=0",
    "record.frame_every=0",
]


def made(root: Path, name: str, changes: Sequence[str] = ()) -> RunDirectory:
    (root / "small.toml").write_text(SCENARIO)
    return RunDirectory(prepare(load_scenario(root / "small.toml", [*CHANGES, *changes]), out=root / name))


def start(run: RunDirectory) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "txlab.runs.process", str(run.path)])


def ended(process: subprocess.Popen[bytes]) -> int:
    return process.wait(timeout=LONGEST)


def rank(process: subprocess.Popen[bytes], wanted: int) -> psutil.Process:
    """The process of that rank among those that a command has started."""
    for child in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if child.environ().get("RANK") == str(wanted):
                return child
    raise AssertionError(f"there is no process {wanted}")


def meetings(process: subprocess.Popen[bytes]) -> list[int]:
    """How often each of two processes has met the other, as they tell each other in the launcher's store."""
    around = rank(process, 0).environ()
    store = torch.distributed.TCPStore(around["MASTER_ADDR"], int(around["MASTER_PORT"]), is_master=False)
    return [int(store.get(f"txlab/0/told/beat/{each}").split()[1]) for each in (0, 1)]


def test_several_processes_begin_with_the_weights_of_another_run(tmp_path: Path) -> None:
    short = ["train.steps=3", "record.checkpoint_every=3"]
    first = made(tmp_path, "first", short)
    assert ended(start(first)) == 0
    second = made(tmp_path, "second", [*short, f"start.run={first.path}", "train.learning_rate=1e-12"])
    assert ended(start(second)) == 0
    assert RunInfo.load(second).status == "done"
    for name, weight in checkpoints.load(first, 3)["model"].items():
        torch.testing.assert_close(checkpoints.load(second, 3)["model"][name], weight, rtol=0, atol=1e-6)


def test_killed_and_resumed_by_as_many_it_is_the_same_and_by_others_nearly(tmp_path: Path) -> None:
    whole = made(tmp_path, "whole")
    assert ended(start(whole)) == 0
    run = made(tmp_path, "killed")
    for victim, step in ((1, 12), (0, 30)):
        process = start(run)
        wait_for(lambda step=step: last_step(run) >= step, process)  # type: ignore[misc]
        with contextlib.suppress(psutil.NoSuchProcess):
            rank(process, victim).kill()
        assert ended(process) == 1
        info = RunInfo.load(run)
        assert info.status == "failed"
        assert f"process {victim} of 2" in info.reason
        assert "last good checkpoint" in info.reason
    # What others may have left in a checkpoint's folder runs nothing: a pickle, and one of torch's distributed ones.
    folder = run.checkpoints / f"{checkpoints.steps(run)[-1]:08d}"
    for name in (".metadata", "state.pkl", "__0_0.distcp"):
        (folder / name).write_bytes(pickle.dumps(Planted(tmp_path / "ran")))
    assert ended(start(run)) == 0
    assert not (tmp_path / "ran").exists()
    assert metrics_of(run) == metrics_of(whole)
    assert equal(checkpoints.load(run, 60), checkpoints.load(whole, 60))

    for count in (1, 3):
        set_processes(run.path, count)
        words = [sys.executable, "-m", "txlab.runs.process", str(run.path), "--rewind-to", "27"]
        again = subprocess.run(words, timeout=LONGEST, check=False)
        assert again.returncode == 0
        assert RunInfo.load(run).status == "done"
        one, other = checkpoints.load(run, 60), checkpoints.load(whole, 60)
        for name, weight in one["model"].items():
            torch.testing.assert_close(weight, other["model"][name], rtol=1e-5, atol=1e-5)


class Planted:
    """Unpickled, it creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, int]]:
        return os.open, (str(self.path), os.O_CREAT)


def test_the_user_pauses_changes_steps_saves_and_stops_it(tmp_path: Path) -> None:
    run = made(tmp_path, "run", ["train.steps=100000", "compute.parallel=fsdp"])
    process = start(run)
    wait_for(lambda: last_step(run) >= 3, process)
    send(run, Request("pause"))
    wait_for(lambda: RunInfo.load(run).status == "paused", process)
    paused = last_step(run)
    before = meetings(process)
    wait_for(lambda: all(now > then + 20 for now, then in zip(meetings(process), before, strict=True)), process)
    assert last_step(run) == paused
    send(run, Request("set", "lr", 1e-4))
    send(run, Request("step", count=4))
    wait_for(lambda: last_step(run) >= paused + 4, process)
    send(run, Request("checkpoint"))
    wait_for(lambda: paused + 4 in checkpoints.steps(run), process)
    send(run, Request("resume"))
    wait_for(lambda: last_step(run) >= paused + 20, process)
    psutil.Process(process.pid).send_signal(signal.SIGINT)
    psutil.Process(process.pid).send_signal(signal.SIGINT)
    assert ended(process) == 130
    info = RunInfo.load(run)
    assert (info.status, info.reason) == ("interrupted", f"SIGINT received at step {info.step}")
    assert checkpoints.newest(run) == info.step
    controls = [row for row in rows_of(run, "control") if row["applied"]]
    assert [row["request"] for row in controls] == ["pause", "set", "step", "checkpoint", "resume"]
    rates = {row["step"]: row["values"]["lr"] for row in rows_of(run, "metrics") if "lr" in row["values"]}
    assert rates[paused + 4] < rates[paused] / 2


def test_a_process_that_hangs_ends_the_run_and_is_named(tmp_path: Path) -> None:
    run = made(tmp_path, "run", ["train.steps=100000", "compute.timeout=30"])
    process = start(run)
    wait_for(lambda: last_step(run) >= 10, process)
    rank(process, 1).suspend()
    assert ended(process) == 1
    info = RunInfo.load(run)
    assert info.status == "failed"
    assert "process 1 of 2 did not finish a step within compute.timeout = 30 s; last good checkpoint" in info.reason


def torchrun(*arguments: str) -> list[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--rdzv-backend=c10d"]
    return [*launcher, "--rdzv-endpoint=localhost:0", *arguments]


def test_torchrun_starts_it_again_where_it_was_and_passes_signals_on(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SCENARIO)
    out = tmp_path / "run"
    run = RunDirectory(out)
    changes = [f"--set={each}" for each in CHANGES if "processes" not in each]
    command = ["-m", "txlab", "run", str(tmp_path / "small.toml"), *changes, "--set=train.steps=100000"]
    process = subprocess.Popen(
        torchrun("--max-restarts=3", *command, f"--out={out}"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_for(lambda: last_step(run) >= 20, process)
    rank(process, 1).kill()
    wait_for(lambda: rows_of(run, "rewind") and last_step(run) >= 40, process)
    notes = [row["text"] for row in rows_of(run, "note")]
    assert "2 processes compute it together (ddp); restart 1 after one of them had failed" in notes
    rank(process, 1).send_signal(signal.SIGUSR1)  # as Slurm sends it; to one of them is enough
    assert ended(process) == 0
    info = RunInfo.load(run)
    assert info.status == "interrupted"
    assert info.reason.startswith("SIGUSR1 received at step")
    assert checkpoints.newest(run) == info.step
    assert load_scenario(run.scenario_file).scenario.compute.processes == 2
