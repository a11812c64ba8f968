"""A small GPT, run by the detached command: killed with SIGKILL and resumed, it equals one that was never killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from test_loop import metrics_of, rows_of

from txlab.runs import checkpoints
from txlab.runs.control import Request, send
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.events import read_rows
from txlab.runs.frames import FrameIndex
from txlab.runs.process import prepare
from txlab.runs.scenario import load_scenario

pytestmark = pytest.mark.evidence

torch = pytest.importorskip("torch")

SCENARIO = """
kind = "language-model"
seed = 7
[model]
layers = 2
heads = 2
width = 16
context = 16
dropout = 0.1
[train]
steps = 60
batch = 4
warmup = 5
validation_batches = 1
[sampling]
tokens = 8
[record]
evaluate_every = 20
sample_every = 30
frame_every = 6
checkpoint_every = 9
[compute]
device = "cpu"
dtype = "float32"
attention = "matmul"
threads = 1
compile = false
"""


def made(root: Path, changes: Sequence[str] = ()) -> RunDirectory:
    root.mkdir()
    (root / "small.toml").write_text(SCENARIO)
    return RunDirectory(prepare(load_scenario(root / "small.toml", list(changes)), root=root))


def start(run: RunDirectory) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "txlab.runs.process", str(run.path)])


def last_step(run: RunDirectory) -> int:
    rows, _ = read_rows(run.events)
    return rows[-1]["step"] if rows else -1


def equal(one: object, other: object) -> bool:
    """Whether two states are the same, bit for bit."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(equal(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return one == other


def test_a_gpt_killed_and_resumed_equals_one_never_killed(tmp_path: Path) -> None:
    run, plain = made(tmp_path / "killed"), made(tmp_path / "plain")
    # Both get the same change at step 0, by a request sent before they start; the kill comes after it.
    for one in (run, plain):
        send(one, Request("set", "lr", 0.002, by="ann@box", id="change"))
    whole = start(plain)
    life = start(run)
    while last_step(run) < 31:
        assert life.poll() is None, "the run ended before it could be killed"
        time.sleep(0.002)
    os.kill(life.pid, signal.SIGKILL)
    assert life.wait() == -signal.SIGKILL
    assert start(run).wait() == 0
    assert whole.wait() == 0
    assert metrics_of(run) == metrics_of(plain)
    assert len({step for step, values in metrics_of(run) if "loss" in values}) == 60
    assert equal(checkpoints.load(run, 60), checkpoints.load(plain, 60))
    samples = [(row["step"], row["prompt"], row["text"]) for row in rows_of(plain, "sample")]
    assert [(row["step"], row["prompt"], row["text"]) for row in rows_of(run, "sample")] == samples
    assert rows_of(run, "control")[-1]["to"] == 0.002
    ours, theirs = FrameIndex(run.frames), FrameIndex(plain.frames)
    ours.refresh()
    theirs.refresh()
    assert ours.steps.tolist() == theirs.steps.tolist() == list(range(0, 61, 6))
    for step in (0, 36, 60):
        for name, tensor in theirs.read(step).tensors.items():
            assert ours.read(step).tensors[name].tobytes() == tensor.tobytes()
    assert RunInfo.load(run).facts["compute"]["threads"] == 1


def test_a_detached_run_answers_sigterm_with_a_checkpoint_and_exit_status_130(tmp_path: Path) -> None:
    run = made(tmp_path / "terminated")
    send(run, Request("step", count=12))  # then it pauses, so that it is alive when the signal arrives
    life = start(run)
    while last_step(run) < 12 or RunInfo.load(run).status != "paused":
        assert life.poll() is None
        time.sleep(0.01)
    life.terminate()
    assert life.wait() == 130
    info = RunInfo.load(run)
    assert (info.status, info.step, checkpoints.newest(run)) == ("interrupted", 12, 12)
    assert "SIGTERM" in info.reason
