"""Commands on run directories of other users: always an answer; one sentence and status 2 where they write."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from txlab.runs.directory import RunDirectory, RunInfo

pytestmark = pytest.mark.evidence


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    """A command that waits for ever ends the test, not the suite."""
    before = signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError("it waits for ever")))
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def linked_checkpoints(run: Path, home: Path) -> str:
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints").symlink_to(home)
    return "checkpoints is a symbolic link"


def linked_inbox(run: Path, home: Path) -> str:
    shutil.rmtree(run / "inbox")
    (run / "inbox").symlink_to(home)
    return "inbox is a symbolic link"


def endless_log(run: Path, home: Path) -> str:
    (run / "events.jsonl").unlink()
    (run / "events.jsonl").symlink_to("/dev/zero")
    return "events.jsonl is a symbolic link"


def fifo(run: Path, home: Path) -> str:
    (run / "run.json").unlink()
    os.mkfifo(run / "run.json")
    return "run.json is a FIFO"


WAYS = [linked_checkpoints, linked_inbox, endless_log, fifo]


@pytest.mark.parametrize("tamper", WAYS)
def test_every_command_answers_about_a_tampered_run_and_none_writes_to_it(
    ask, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tamper: Callable[[Path, Path], str]
) -> None:
    home = tmp_path / "home"
    (home / ".config").mkdir(parents=True)
    (home / "1-letter.json").write_text("dear")
    run = shutil.copytree(tiny_run, tmp_path / "runs" / tiny_run.name)
    info = RunInfo.load(run)
    info.status, info.host = "interrupted", ""
    info.save(RunDirectory(run))
    wrong = tamper(run, home)
    monkeypatch.setenv("TXLAB_RUNS", str(run.parent))

    def asked(*words: str):
        monkeypatch.setenv("TXLAB_RUNS", str(run.parent))
        return ask(*words)

    before = sorted(str(path) for path in tmp_path.rglob("*"))
    assert wrong in asked("resume", "latest").refused
    assert wrong in asked("resume", run.name, "--detach").refused
    for words in (
        ["control", "latest", "pause"],
        ["stop", "latest"],
    ):  # no process answers, or it is not written to
        assert asked(*words).refused
    listed = asked("runs", "--json")
    assert listed.json["status"] == "unreadable"
    assert wrong.split(" ")[0] in listed.json["reason"]
    for words in (["runs"], ["attach", "latest", "--lines"], ["plot", "latest"], ["export", "latest"], ["generate"]):
        said = asked(*words)
        assert said.status in (0, 1, 2, 130)
        assert "Traceback" not in said.error
        assert len(said.error.splitlines()) <= 1
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before
    assert (home / "1-letter.json").read_text() == "dear"
