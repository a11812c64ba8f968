"""Going back: a new run from a checkpoint, checkpoints enough to go back to, and the time that a run has taken."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import orjson
import pytest
from safetensors.numpy import save
from test_loop import metrics_of, rows_of

from txlab.errors import LabError
from txlab.runs import checkpoints
from txlab.runs.branch import branch
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.folder import list_runs
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario

FEW = [
    "control.episodes=40",
    "control.runs=4",
    "record.checkpoint_every=4",
    "record.frame_every=8",
    "compute.threads=1",
]


def finished(root: Path, *changes: str) -> RunDirectory:
    run = prepare(load_scenario("cliff", [*FEW, *changes]), root=root)
    execute(run)
    return RunDirectory(run)


def content(run: RunDirectory) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(run.path.rglob("*")) if path.is_file()}


def test_a_branch_continues_as_its_run_did_and_leaves_it_alone(tmp_path: Path) -> None:
    run = finished(tmp_path)
    before = content(run)
    new = branch(run, 12)
    info = RunInfo.load(new)
    assert (info.status, info.step, info.branched) == ("created", 12, {"run": run.name, "step": 12})
    done = execute(new)
    assert done.status == "done"
    assert metrics_of(RunDirectory(new)) == metrics_of(run)  # bit for bit, from the first step on
    assert content(run) == before
    assert f"branched from {run.name} at checkpoint 12" in str(rows_of(RunDirectory(new)))


def test_a_branch_of_a_branch_and_of_a_run_with_weights_has_its_files(tmp_path: Path) -> None:
    new = branch(branch(finished(tmp_path), 8), 8)
    assert checkpoints.steps(RunDirectory(new)) == [8]
    assert execute(new).status == "done"


@pytest.mark.parametrize("step", [3, 4000])
def test_a_branch_of_no_checkpoint_is_refused_and_leaves_nothing(tmp_path: Path, step: int) -> None:
    run = finished(tmp_path)
    with pytest.raises(LabError, match=f"no checkpoint of step {step}; there are: 4, 8"):
        branch(run, step)
    assert [path.name for path in tmp_path.iterdir()] == [run.name]


@pytest.mark.parametrize("name", ["events.jsonl", "scenario.toml"])
def test_a_log_that_is_a_hole_of_any_size_is_not_copied(tmp_path: Path, name: str) -> None:
    run = finished(tmp_path)
    os.truncate(run.path / name, 1 << 40)
    file = run.path / "checkpoints" / "00000008" / checkpoints.STATE
    file.write_bytes(orjson.dumps(orjson.loads(file.read_bytes()) | {"log_bytes": 1 << 40}))
    with pytest.raises(LabError, match=rf"{name} is damaged: it has a zero byte at \d+"):
        branch(run, 8)
    assert [path.name for path in tmp_path.iterdir()] == [run.name]


def test_of_the_weights_it_began_with_a_branch_copies_the_tensors_only(tmp_path: Path) -> None:
    run = finished(tmp_path)
    content = save({"w": np.zeros(3, np.float32)})
    (run.path / "start.safetensors").write_bytes(content)
    os.truncate(run.path / "start.safetensors", 1 << 40)
    assert (branch(run, 8) / "start.safetensors").read_bytes() == content


def test_a_damaged_checkpoint_is_not_branched_from(tmp_path: Path) -> None:
    run = finished(tmp_path)
    file = run.path / "checkpoints" / "00000008" / "state.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(LabError, match=r"checkpoint 8 .* is damaged"):
        branch(run, 8)
    assert len(list(tmp_path.iterdir())) == 1


def test_every_checkpoint_stays_within_the_budget(tmp_path: Path) -> None:
    run = finished(tmp_path)
    assert checkpoints.steps(run) == list(range(4, 41, 4))


def test_beyond_the_budget_those_left_are_spread_over_the_run(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    for step in range(10, 401, 10):
        checkpoints.save(run, step, {"numbers": [0.5] * 100})
    size = sum(path.stat().st_size for path in (tmp_path / "checkpoints" / "00000100").iterdir())
    removed = checkpoints.prune(run, keep=3, budget=10 * size + size // 2)
    kept = checkpoints.steps(run)
    assert sorted([*kept, *removed]) == list(range(10, 401, 10))
    assert 9 <= len(kept) <= 10
    assert kept[-3:] == [380, 390, 400]
    gaps = [later - earlier for earlier, later in zip([0, *kept], kept[:-2], strict=False)]
    assert max(gaps) <= 4 * min(gaps)  # no stretch of the run is without one


def test_a_budget_of_nothing_keeps_the_newest_and_the_best(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    for step in range(10, 101, 10):
        checkpoints.save(run, step, {}, checkpoints.CheckpointInfo(step, val_loss=abs(step - 40.0)))
    checkpoints.prune(run, keep=2)
    assert checkpoints.steps(run) == [40, 90, 100]


def test_the_time_that_a_run_has_taken_survives_a_resume(tmp_path: Path) -> None:
    run = finished(tmp_path)
    info = RunInfo.load(run)
    assert info.started is not None
    info.started -= 1000.0  # it took a quarter of an hour
    info.save(run)
    took = info.seconds()
    assert took >= 1000
    execute(run, rewind_to=20)
    again = RunInfo.load(run)
    assert again.spent == pytest.approx(took)
    assert took <= again.seconds() < took + 900


def test_the_time_of_a_killed_process_counts_to_its_last_heartbeat(tmp_path: Path) -> None:
    run = finished(tmp_path)
    info = RunInfo.load(run)
    now = time.time()
    info.status, info.ended, info.started = "running", None, now - 500.0
    info.pid = 2**22 + 1  # no such process
    info.save(run)
    beat = run.path / "heartbeat"
    text = beat.read_text()
    beat.write_bytes(orjson.dumps(orjson.loads(text) | {"time": now - 200.0}))
    execute(run)
    assert RunInfo.load(run).spent == pytest.approx(300.0, abs=1.0)


def killed_after(operations: int, work: Callable[[], object]) -> bool:
    """Whether something ended in a process that dies at its n-th operation on files, without cleaning up."""
    child = os.fork()
    if child == 0:
        done = 0

        def count(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal done
            if event in ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "shutil.rmtree"):
                done += 1
                if done > operations:
                    os._exit(9)

        sys.addaudithook(count)
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("way", ["in the same folder", "at a path"])
def test_a_branch_that_is_killed_at_any_point_is_complete_or_absent(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = finished(tmp_path / "runs")
    monkeypatch.setattr("txlab.runs.folder.NOT_YET_LOCKED", -1.0)
    out = tmp_path / "out" / "new" if way == "at a path" else None
    place = out.parent if out else run.path.parent
    for operations in range(0, 400, 2):
        ended = killed_after(operations, lambda: branch(run, 12, out=out))
        made = [path for path in list_runs(place) if path != run.path]
        for path in made:
            info = RunInfo.load(path)
            assert (info.name, info.status, info.step) == (path.name, "created", 12)
            assert checkpoints.load(RunDirectory(path), 12)["step"] == 12
            assert (path / "events.jsonl").stat().st_size == checkpoints.read(run, 12).about.log_bytes
            shutil.rmtree(path)
        if ended:
            break
    assert ended
    assert operations > 20
    assert made
    left = [path.name for path in place.iterdir() if path != run.path]
    assert left == []  # each try removed what the killed one before it had left


def test_a_leftover_of_the_old_branching_is_not_a_run_that_restarts(tmp_path: Path) -> None:
    run = finished(tmp_path)
    left = tmp_path / "left"
    for folder in ("frames", "checkpoints", "inbox"):
        (left / folder).mkdir(parents=True)
    for name in ("scenario.toml", "events.jsonl"):
        (left / name).write_bytes((run.path / name).read_bytes())
    with pytest.raises(LabError, match="it is what is left of a copy that was interrupted"):
        execute(left)


@pytest.mark.parametrize("number", range(0, 40, 3))
def test_a_branch_that_the_disk_refuses_leaves_nothing(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = finished(tmp_path)
    write, calls = os.write, []

    def refuse(descriptor: int, data: object) -> int:
        calls.append(1)
        if len(calls) > number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)  # type: ignore[arg-type]

    with monkeypatch.context() as full:
        full.setattr(os, "write", refuse)
        with contextlib.suppress(LabError):
            assert RunInfo.load(branch(run, 12)).step == 12
            assert len(calls) <= number
            return
    assert [path.name for path in tmp_path.iterdir()] == [run.name]
