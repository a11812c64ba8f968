"""A full disk ends a run, and the directory says so: its end is written, every reader opens it, it can be resumed."""

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from regression_kind import RegressionScenario, Train, register

import txlab
from txlab.errors import LabError
from txlab.experiments.schema import Record
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory, RunInfo, state_of
from txlab.runs.events import read_rows
from txlab.runs.folder import list_runs
from txlab.runs.frames import FrameIndex
from txlab.runs.process import execute, prepare
from txlab.runs.reader import RunReader
from txlab.runs.scenario import LoadedScenario

register()


def made(root: Path) -> RunDirectory:
    record = Record(
        evaluate_every=10, sample_every=3, frame_every=1, checkpoint_every=10, checkpoints_kept=1, checkpoints_mb=0
    )
    record = record.model_copy(update={"checkpoints_mb": 0.0})
    scenario = RegressionScenario(record=record, train=Train(steps=20_000))
    return RunDirectory(prepare(LoadedScenario(scenario, "regression", "a test"), root=root))


def check_what_is_left(run: RunDirectory, info: RunInfo) -> None:
    assert info.status == "failed"
    assert info.reason.startswith(f"no space left on the disk that holds {run.path}; last checkpoint ")
    saved = int(info.reason.rsplit(" ", 1)[1])
    assert checkpoints.newest(run) == saved
    assert checkpoints.load(run, saved)["step"] == saved
    assert RunInfo.load(run).reason == info.reason
    rows, consumed = read_rows(run.events)
    assert consumed == run.events.stat().st_size
    assert (rows[-1]["event"], rows[-1]["status"], rows[-1]["reason"]) == ("end", "failed", info.reason)
    assert state_of(run).status == "failed"
    assert list_runs(run.path.parent) == [run.path]
    index = FrameIndex(run.frames)
    index.refresh()
    assert len(index) > 5
    assert [index.read(int(step)).step for step in index.steps] == index.steps.tolist()
    reader = RunReader(run.path)
    reader.poll()
    assert len(reader.series("loss").values) > 5


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte; skipped where this user may not mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    try:
        mounted = subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("mounting a small file system needs more rights")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_on_a_real_full_disk_the_end_is_written(small_disk: Path) -> None:
    run = made(small_disk)
    check_what_is_left(run, execute(run))
    for path in run.frames.iterdir():  # space is freed, and the run continues
        path.unlink()
    seen: list[dict[str, Any]] = []
    assert execute(run, observer=seen.append).status == "failed"
    assert seen[0]["event"] in ("rewind", "note")
    assert max(row["step"] for row in seen) > checkpoints.steps(run)[0] - 10


@contextlib.contextmanager
def refusing_after(root: Path, allowance: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """os.write into `root` fails with ENOSPC when more than `allowance` bytes are there; deleting makes room again."""
    real = os.write

    def used() -> int:
        total = 0
        for folder, _, names in os.walk(root):
            for name in names:
                with contextlib.suppress(OSError):
                    total += Path(folder, name).stat().st_size
        return total

    def write(descriptor: int, data: bytes) -> int:
        try:
            inside = str(Path(f"/proc/self/fd/{descriptor}").readlink()).startswith(str(root))
        except OSError:
            inside = False
        if inside and (room := allowance - used()) < len(data):
            if room > 0:
                return real(descriptor, bytes(data)[:room])
            raise OSError(28, "No space left on device")
        return real(descriptor, data)

    with monkeypatch.context() as patch:
        patch.setattr("os.write", write)
        yield


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the injected fault finds its files through /proc")
@pytest.mark.parametrize("extra", [0, 1, 37, 300])
def test_on_a_disk_that_refuses_writes_the_end_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extra: int
) -> None:
    run = made(tmp_path / "disk")
    with refusing_after(tmp_path / "disk", 256 * 1024 + 40_000 + extra, monkeypatch):
        info = execute(run)
    check_what_is_left(run, info)
    assert not run.reserve.exists()


def test_a_run_that_cannot_be_prepared_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with refusing_after(tmp_path / "disk", 100, monkeypatch), pytest.raises(LabError, match="No space left"):
        made(tmp_path / "disk")
    assert list((tmp_path / "disk").iterdir()) == []


def refused_recording(root: Path, **named: Any) -> None:
    with pytest.raises(LabError, match=r"No space left on device") as refusal:
        txlab.record("it", {"lr": 0.1}, root, **named)
    assert "\n" not in str(refusal.value)


def test_a_loop_on_a_full_disk_is_reported_and_leaves_nothing(small_disk: Path) -> None:
    with contextlib.suppress(OSError), (small_disk / "full").open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    refused_recording(small_disk)
    refused_recording(small_disk, id="named")
    assert [path.name for path in small_disk.iterdir()] == ["full"]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the injected fault finds its files through /proc")
@pytest.mark.parametrize("room", [0, 50, 150, 700, 900, 300_000])
def test_a_recording_that_cannot_begin_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    root = tmp_path / "disk"
    before = set(threading.enumerate())  # a set: a thread of an earlier test may end in between
    with refusing_after(root, room, monkeypatch):
        if room < 200_000:
            refused_recording(root)
            assert list(root.iterdir()) == []
            assert set(threading.enumerate()) <= before
        else:
            txlab.record("it", root=root).close()


def test_a_recording_that_cannot_be_resumed_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with txlab.record("it", {"lr": 0.1}, tmp_path, id="it") as run:
        run.log(3, loss=1.0)
    with refusing_after(tmp_path, 0, monkeypatch):
        refused_recording(tmp_path, id="it", resume=True)
    assert (run.path / "events.jsonl").stat().st_size > 0
    with txlab.record("it", root=tmp_path, id="it", resume=True) as again:
        again.log(4, loss=0.5)
    assert RunInfo.load(run.path).status == "done"
