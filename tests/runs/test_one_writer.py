"""A run has one writer and one place: the directory is deleted or moved during the run, clocks are wrong, or two
processes want the same run."""

from __future__ import annotations

import json
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from regression_kind import RegressionScenario, Train, register

from txlab.errors import LabError, RunFailed
from txlab.experiments.schema import Record
from txlab.files import atomic_write
from txlab.runs import checkpoints, directory, process, recorder, writing
from txlab.runs.control import Request, send
from txlab.runs.directory import RunDirectory, RunInfo, state_of
from txlab.runs.events import read_rows
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import LoadedScenario

register()
ELSEWHERE = "another-" + socket.gethostname()


def made(root: Path, **record: int) -> RunDirectory:
    every = {"evaluate_every": 0, "sample_every": 0, "frame_every": 0, "checkpoint_every": 0, **record}
    scenario = RegressionScenario(record=Record(**every), train=Train(steps=60))
    return RunDirectory(prepare(LoadedScenario(scenario, "regression", "a test"), root=root))


def at_step(step: int, do: Callable[[], object]) -> Callable[[dict[str, Any]], None]:
    """An observer that does something when the run reaches a step."""

    def observe(row: dict[str, Any]) -> None:
        if row["event"] == "metrics" and row["step"] == step:
            do()

    return observe


def delete(run: RunDirectory) -> None:
    while run.path.exists():  # a heartbeat may come in between
        shutil.rmtree(run.path, ignore_errors=True)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "SYNC_EVERY", 0.01)
    monkeypatch.setattr(recorder, "HEARTBEAT_EVERY", 0.01)
    monkeypatch.setattr(writing, "SILENT_FOR", 0.2)


class TestADirectoryThatGoes:
    @pytest.mark.parametrize("record", [{"frame_every": 1}, {"checkpoint_every": 7}])
    def test_a_run_whose_directory_is_deleted_reports_it_and_ends(self, tmp_path: Path, record: dict[str, int]) -> None:
        run = made(tmp_path, **record)
        with pytest.raises(RunFailed, match=r"was deleted while the run was computed, at step 2\d; nothing") as caught:
            execute(run, observer=at_step(20, lambda: delete(run)))
        assert str(caught.value).startswith(str(run.path))
        assert "\n" not in str(caught.value)
        assert not run.path.exists()

    def test_one_that_is_paused_ends_as_well(self, tmp_path: Path, quick: None) -> None:
        run = made(tmp_path)
        send(run, Request("step", count=20))
        with pytest.raises(RunFailed, match="was deleted"):
            execute(run, observer=at_step(20, lambda: delete(run)))
        assert not run.path.exists()

    def test_a_detached_one_says_so_on_its_standard_error_and_exits_with_1(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run, real = made(tmp_path, frame_every=1), execute
        observer = at_step(20, lambda: delete(run))
        monkeypatch.setattr(process, "execute", lambda path, **said: real(path, observer=observer, **said))
        assert process.main([str(run.path)]) == 1
        said = capsys.readouterr()
        assert said.err.count("\n") == 1
        assert "was deleted" in said.err

    def test_a_deleted_log_is_reported_in_run_json(self, tmp_path: Path, quick: None) -> None:
        run = made(tmp_path)
        send(run, Request("step", count=20))
        with pytest.raises(RunFailed, match=r"events\.jsonl was deleted"):
            execute(run, observer=at_step(20, run.events.unlink))
        assert RunInfo.load(run).status == "failed"
        assert "events.jsonl was deleted" in RunInfo.load(run).reason

    def test_a_run_whose_directory_is_moved_continues_at_its_new_place(self, tmp_path: Path) -> None:
        run = made(tmp_path, frame_every=5, checkpoint_every=10)
        there = RunDirectory(tmp_path / "moved")

        def move() -> None:
            run.path.rename(there.path)
            run.path.mkdir()
            (run.path / "events.jsonl").write_text("of somebody else")

        assert execute(run, observer=at_step(20, move)).status == "done"
        assert (RunInfo.load(there).status, checkpoints.steps(there)[-1]) == ("done", 60)
        assert read_rows(there.events)[0][-1]["event"] == "end"
        assert [path.name for path in run.path.iterdir()] == ["events.jsonl"]


def heartbeat(run: RunDirectory, age: float, written: float | None = None, **said: Any) -> None:
    """A heartbeat of another host; `age` by that host's clock, `written` by that of the file system."""
    now = time.time()
    beat = {"time": now - age, "step": 7, "status": "running", "pid": 5, "host": ELSEWHERE, **said}
    atomic_write(run.heartbeat, json.dumps(beat).encode())
    then = now - (age if written is None else written)
    os.utime(run.heartbeat, (then, then))


def elsewhere(root: Path) -> RunDirectory:
    """A run that another host claims to be computing."""
    run = made(root)
    info = RunInfo.load(run)
    info.status, info.host, info.pid, info.started = "running", ELSEWHERE, 5, time.time() - 60
    info.save(run)
    return run


class TestClocks:
    @pytest.mark.parametrize(
        ("age", "written", "status"),
        [
            (3, 3, "running"),
            (-16, 3, "running"),  # that host's clock is ahead: the file system's clock decides
            (-16, 31, "lost"),
            (-3600, -3600, "lost"),  # ours was set back: nothing is known
            (-4, -4, "running"),
            (31, 3, "lost"),  # a copy
        ],
    )
    def test_a_heartbeat_from_the_future_is_not_believed(
        self, tmp_path: Path, age: float, written: float, status: str
    ) -> None:
        run = elsewhere(tmp_path)
        heartbeat(run, age, written)
        state = state_of(run)
        assert state.status == status
        assert ("clock is wrong" in state.reason) == (age == -3600)

    def test_a_watcher_needs_only_its_own_clock(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        run, passed = elsewhere(tmp_path), 0.0
        begun, wall = time.monotonic(), time.time()
        monkeypatch.setattr(directory.time, "monotonic", lambda: begun + passed)
        monkeypatch.setattr(directory.time, "time", lambda: wall)  # it does not advance, as if set back again and again
        heartbeat(run, 0)
        assert state_of(run).status == "running"
        passed = 29
        assert state_of(run).status == "running"
        passed = 31
        assert state_of(run).status == "lost"
        passed = 40
        heartbeat(run, 300)  # its clock is five minutes slow, and it is seen to arrive
        assert state_of(run).status == "running"
        passed = 71
        assert state_of(run).status == "lost"


class TestTwoThatWantTheSameRun:
    def test_a_run_that_another_host_is_seen_to_compute_is_not_resumed(self, tmp_path: Path, quick: None) -> None:
        run = elsewhere(tmp_path)
        heartbeat(run, 300)  # its clock is slow: it looks dead
        assert state_of(run).status == "lost"
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(0.02):
                heartbeat(run, 300)

        other = threading.Thread(target=beat)
        other.start()
        try:
            for begin in (execute, process.start_detached):
                with pytest.raises(LabError, match=f"process 5 on {ELSEWHERE}: its heartbeat continues"):
                    begin(run)
        finally:
            ended.set()
            other.join()
        assert execute(run).status == "done"

    def test_where_no_lock_holds_one_of_two_writers_ends_and_leaves_the_rest_to_the_other(
        self, tmp_path: Path, quick: None
    ) -> None:
        run = made(tmp_path)
        send(run, Request("step", count=20))
        ended = threading.Event()

        def beat() -> None:  # again and again, as a process does: one heartbeat may be written over by ours
            while not ended.wait(0.02):
                heartbeat(run, 0, host=".")

        other = threading.Thread(target=beat)
        try:
            with pytest.raises(RunFailed, match=r"process 5 on \. computes .* as well, so this one ends"):
                execute(run, observer=at_step(20, other.start))
        finally:
            ended.set()
            other.join()
        assert RunInfo.load(run).status != "failed"
        assert read_rows(run.events)[0][-1]["event"] != "end"
        assert json.loads(run.heartbeat.read_bytes())["host"] == "."

    def test_the_other_of_the_two_continues(self, tmp_path: Path, quick: None) -> None:
        run = made(tmp_path)
        send(run, Request("step", count=20))

        def meet() -> None:
            heartbeat(run, 0, host="~")
            send(run, Request("resume"))

        assert execute(run, observer=at_step(20, meet)).status == "done"
        assert json.loads(run.heartbeat.read_bytes())["host"] == socket.gethostname()
