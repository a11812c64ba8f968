"""A run names its command and its commit, and finding the commit never executes anything from a repository."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

import txlab
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.finding import find_run
from txlab.runs.origin import command_line, commit_of, program_folder
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario

IDENTITY = ["-c", "user.name=A", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", "-c", "init.defaultBranch=main"]


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *IDENTITY, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    if shutil.which("git") is None:
        pytest.skip("needs git")
    top = tmp_path / "code"
    (top / "inner").mkdir(parents=True)
    git(top, "init", "-q")
    (top / "train.py").write_text("print(1)\n")
    git(top, "add", ".")
    git(top, "commit", "-qm", "first")
    return top


def test_the_commit_is_that_of_git_wherever_it_is_kept(repository: Path, tmp_path: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    clean = {"commit": head, "dirty": False}
    assert commit_of(repository) == commit_of(repository / "inner") == clean
    git(repository, "pack-refs", "--all")
    assert not (repository / ".git/refs/heads/main").exists()
    assert commit_of(repository) == clean
    git(repository, "checkout", "-q", "--detach")
    assert commit_of(repository) == clean
    git(repository, "worktree", "add", "-q", "-b", "other", str(tmp_path / "beside"))
    assert commit_of(tmp_path / "beside") == clean
    git(repository, "gc", "-q")
    assert commit_of(tmp_path / "beside") == clean


def test_a_changed_tree_is_dirty_and_a_touched_one_is_not(repository: Path) -> None:
    (repository / "notes.txt").write_text("not tracked")
    os.utime(repository / "train.py", (1, 1))
    index = (repository / ".git/index").read_bytes()
    assert commit_of(repository)["dirty"] is False
    assert (repository / ".git/index").read_bytes() == index
    (repository / "train.py").write_text("print(2)\n")
    assert commit_of(repository)["dirty"] is True
    git(repository, "add", ".")
    assert commit_of(repository)["dirty"] is True


def test_without_a_commit_nothing_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert commit_of(tmp_path) == {}
    git(tmp_path, "init", "-q")
    assert commit_of(tmp_path) == {}
    for head in (b"", b"ref: ../../../etc/passwd", b"ref: refs/../../x", b"\xff\xfe", b"ref: refs/heads/a\n" * 999):
        (tmp_path / ".git/HEAD").write_bytes(head)
        assert commit_of(tmp_path) == {}
    (tmp_path / ".git/HEAD").unlink()
    os.mkfifo(tmp_path / ".git/HEAD")
    assert commit_of(tmp_path) == {}


def test_without_git_the_commit_is_still_known(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = git(repository, "rev-parse", "HEAD")
    monkeypatch.setenv("PATH", "")
    assert commit_of(repository) == {"commit": head}


def test_a_repository_cannot_run_anything(repository: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\necho ran >> {tmp_path}/ran\ncat\n")
    trap.chmod(0o755)
    for key in ("core.fsmonitor", "filter.evil.clean", "filter.evil.process", "core.sshCommand", "core.pager"):
        git(repository, "config", key, str(trap))
    git(repository, "config", "core.hooksPath", str(tmp_path / "hooks"))
    (tmp_path / "hooks").mkdir()
    for hook in ("post-index-change", "reference-transaction", "fsmonitor-watchman"):
        (tmp_path / "hooks" / hook).symlink_to(trap)
    (repository / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (repository / "train.py").write_text("print(3)\n")
    subprocess.run(["git", "status"], cwd=repository, capture_output=True, check=False)
    assert (tmp_path / "ran").exists()  # git itself falls for it
    (tmp_path / "ran").unlink()
    assert commit_of(repository)["dirty"] is True
    assert not (tmp_path / "ran").exists()


def test_a_recorded_run_says_what_began_it(repository: Path, tmp_path: Path) -> None:
    (repository / "train.py").write_text(f"import txlab\ntxlab.record('mine', root={str(tmp_path)!r}).close()\n")
    git(repository, "commit", "-qam", "second")
    program = [sys.executable, str(repository / "train.py"), "--lr", "3e-4", os.fsdecode(b"\xff")]
    subprocess.run(program, check=True, timeout=300, cwd=tmp_path)
    info = RunInfo.load(find_run("mine", tmp_path))
    assert info.git == {"commit": git(repository, "rev-parse", "HEAD"), "dirty": False}
    assert info.command == [*program[:-1], "\ufffd"]


def test_a_run_of_ours_says_where_it_was_begun_also_after_it_ran(
    repository: Path, tmp_path: Path, tiny_scenario: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository / "inner")
    run = prepare(load_scenario(tiny_scenario, ["train.steps=1"]), root=tmp_path)
    monkeypatch.chdir(tmp_path)
    execute(run)
    info = RunInfo.load(run)
    assert info.git == {"commit": git(repository, "rev-parse", "HEAD"), "dirty": False}
    assert info.command == command_line()


def test_a_run_outside_of_any_repository_has_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "__main__", type(sys)("__main__"))
    assert program_folder() == tmp_path
    with txlab.record("mine", root=tmp_path) as run:
        pass
    said = orjson.loads((run.path / "run.json").read_bytes())
    assert "git" not in said
    assert said["command"] == command_line()


def test_run_json_of_before_is_still_read(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(b'{"format":1,"name":"x","status":"done","step":3,"command":"ls","git":[1]}')
    info = RunInfo.load(RunDirectory(tmp_path))
    assert (info.status, info.step, info.command, info.git) == ("done", 3, [], {})
