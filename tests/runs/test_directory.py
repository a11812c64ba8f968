"""The run directory: made without collisions, found by what a user types, its state inferred and never invented."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from waiting import wait_for

from txlab.errors import LabError
from txlab.files import atomic_write
from txlab.runs.directory import RunDirectory, RunInfo, new_info, read_heartbeat, state_of
from txlab.runs.finding import find_run
from txlab.runs.folder import create_run_directory, list_runs


def made(root: Path, name: str, created: float, **said: object) -> RunDirectory:
    run = create_run_directory(root, name)
    info = new_info(run, name, "test-regression")
    info.created = created
    for key, value in said.items():
        setattr(info, key, value)
    info.save(run)
    return run


def test_run_json_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    run = made(tmp_path, "gpt", 5.0, facts={"corpus": {"bytes": 3}}, started=7.5, pid=42, steps=10)
    info = RunInfo.load(run)
    assert (info.created, info.started, info.pid, info.steps) == (5.0, 7.5, 42, 10)
    assert info.facts == {"corpus": {"bytes": 3}}
    assert json.loads(run.run_file.read_bytes())["format"] == 1


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\0\0\0", '{"format": 99}'])
def test_a_garbled_run_json_is_a_sentence_not_a_crash(tmp_path: Path, text: str) -> None:
    run = create_run_directory(tmp_path, "gpt")
    run.run_file.write_text(text)
    with pytest.raises(LabError, match=r"run\.json"):
        RunInfo.load(run)
    assert list_runs(tmp_path) == [run.path]


def test_values_of_a_wrong_type_fall_to_their_defaults(tmp_path: Path) -> None:
    run = create_run_directory(tmp_path, "gpt")
    run.run_file.write_text('{"status": 3, "step": true, "pid": "x", "facts": [], "title": "kept", "new": 1}')
    info = RunInfo.load(run)
    assert (info.status, info.step, info.pid, info.facts, info.title) == ("created", 0, None, {}, "kept")


def test_two_runs_of_one_second_get_two_directories(tmp_path: Path) -> None:
    paths = {create_run_directory(tmp_path, "gpt").path for _ in range(5)}
    assert len(paths) == 5


def test_a_scenario_name_cannot_leave_the_root(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    for name in ["../../etc", "/abs", "..", "a/b", "\0", "x" * 500, ".hidden"]:
        run = create_run_directory(root, name)
        assert run.path.parent == root
        assert not run.name.startswith(".")


def test_out_is_refused_when_something_is_there(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/file").touch()
    with pytest.raises(LabError, match="exists already"):
        create_run_directory(None, "gpt", out=tmp_path / "there")
    assert create_run_directory(None, "gpt", out=tmp_path / "new").path == tmp_path / "new"


def test_runs_are_listed_newest_first_and_found_by_name_scenario_path_and_latest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    above, tmp_path = tmp_path, tmp_path / "a" / "b"
    tmp_path.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)  # so that ../.. is a folder of this test, whatever is elsewhere
    old, new = made(tmp_path, "gpt-tiny", 1.0), made(tmp_path, "gpt-copy", 2.0)
    (tmp_path / "no-run").mkdir()
    assert list_runs(tmp_path) == [new.path, old.path]
    assert find_run("latest", tmp_path) == new.path
    assert find_run(old.name, tmp_path) == old.path
    assert find_run(str(old.path), tmp_path) == old.path
    assert find_run("gpt-tiny", tmp_path) == old.path
    with pytest.raises(LabError, match=f"nearest: {new.name}"):
        find_run(new.name[:-1], tmp_path)
    assert list(above.iterdir()) == [tmp_path.parent]
    for hostile in ["", "\0", "x" * 5000, "../.."]:
        with pytest.raises(LabError):
            find_run(hostile, tmp_path)
    with pytest.raises(LabError, match="no runs"):
        find_run("latest", tmp_path / "absent")


def test_one_entry_that_cannot_be_looked_at_hides_no_run(tmp_path: Path) -> None:
    run = made(tmp_path, "gpt-tiny", 1.0)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to(tmp_path / "absent")
    assert list_runs(tmp_path) == [run.path]
    assert find_run("latest", tmp_path) == run.path


def heartbeat(run: RunDirectory, age: float, status: str = "running", step: int = 7) -> None:
    then = time.time() - age
    atomic_write(run.heartbeat, json.dumps({"time": then, "step": step, "status": status, "pid": 1}).encode())
    os.utime(run.heartbeat, (then, then))


def test_a_heartbeat_of_an_impossible_step_is_none(tmp_path: Path) -> None:
    run = made(tmp_path, "gpt", 1.0, status="running")
    for step in (10**30, -(10**30)):
        run.heartbeat.write_text(json.dumps({"time": time.time(), "step": step, "status": "running", "pid": 1}))
        assert read_heartbeat(run) is None


def test_a_run_whose_process_is_gone_is_lost(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    run = made(tmp_path, "gpt", 1.0, status="running", pid=child.pid)
    heartbeat(run, age=1)
    state = state_of(run)
    assert state.status == "lost"
    assert str(child.pid) in state.reason
    assert state.heartbeat_age is not None


def test_a_zombie_does_not_count_as_alive(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.read()  # it has ended, but its parent has not waited for it
    wait_for(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)
    run = made(tmp_path, "gpt", 1.0, status="running", pid=child.pid)
    heartbeat(run, age=1)
    assert state_of(run).status == "lost"
    child.wait()


def test_a_run_elsewhere_is_judged_by_its_heartbeat_alone(tmp_path: Path) -> None:
    run = made(tmp_path, "gpt", 1.0, status="running", pid=2**22 - 3, host="another-" + socket.gethostname())
    heartbeat(run, age=3, status="paused")
    assert state_of(run).status == "paused"
    assert state_of(run).step == 7
    run = made(tmp_path, "gpt", 1.0, status="running", pid=2**22 - 3, host="another-" + socket.gethostname())
    heartbeat(run, age=45)
    assert state_of(run).status == "lost"
    run.heartbeat.write_bytes(b"\0\0\0")
    assert state_of(run).status == "lost"  # started at the epoch, and no heartbeat since


def test_a_finished_run_is_never_lost(tmp_path: Path) -> None:
    run = made(tmp_path, "gpt", 1.0, status="done", pid=2**22 - 3)
    heartbeat(run, age=1e6)
    assert state_of(run).status == "done"


def test_an_atomic_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    atomic_write(path, b"old", durable=True)

    def half(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.write", half)
    with pytest.raises(OSError, match="No space"):
        atomic_write(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
