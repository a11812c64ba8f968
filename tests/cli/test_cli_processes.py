"""Commands that need a process of their own: a detached run that answers, and ctrl-c on a real terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pyte
import pytest

from txlab.runs.directory import RunInfo, state_of

ENDLESS = ["--set", "train.steps=1000000", "--set", "record.frame_every=0", "--set", "record.evaluate_every=0"]


def called(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "txlab", *words],
        capture_output=True,
        text=True,
        env=os.environ | {"TXLAB_RUNS": str(folder / "runs")},
        stdin=subprocess.DEVNULL,
        check=False,
    )


def test_a_detached_run_answers_and_stops(tiny_scenario: Path, tmp_path: Path) -> None:
    started = called(tmp_path, "run", str(tiny_scenario), *ENDLESS, "--detach", "--json")
    assert started.returncode == 0, started.stderr
    run = Path(json.loads(started.stdout)["run"])
    try:
        paused = called(tmp_path, "control", "latest", "pause")
        assert paused.returncode == 0, paused.stderr
        at = int(re.search(r"step (\d+): pause", paused.stdout)[1])  # type: ignore[index]
        assert called(tmp_path, "control", "latest", "step", "3").returncode == 0
        changed = json.loads(called(tmp_path, "control", "latest", "set", "lr=0.002", "--json").stdout)
        assert changed["applied"]
        assert (changed["key"], changed["to"]) == ("lr", 0.002)
        assert at <= changed["step"] <= at + 3
        refused = called(tmp_path, "control", "latest", "set", "lt=1")
        assert refused.returncode == 2
        assert "lt" in refused.stderr
        again = called(tmp_path, "resume", "latest")
        assert again.returncode == 2
        assert "nothing to resume" in again.stderr
        stopped = called(tmp_path, "stop", "latest")
        assert stopped.returncode == 0, stopped.stderr
        assert "stopped at step" in stopped.stdout
        assert state_of(run).status == "stopped"
        assert list((run / "checkpoints").glob("0*"))
    finally:
        if (pid := RunInfo.load(run).pid) and state_of(run).status in ("running", "paused"):
            os.kill(pid, 9)


class Terminal:
    """A program on a terminal of a given size: what it wrote, as bytes and as a screen."""

    def __init__(self, words: list[str], environment: dict[str, str], columns: int = 80) -> None:
        self.process, self.descriptor = pty.fork()
        if self.process == 0:
            os.execve(words[0], words, environment)
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.written = b""

    def read_until(self, done: Callable[[bytes], bool]) -> bool:
        """Read until `done` says so of what was written, or the program ends; whether it said so."""
        while not done(self.written):
            ready, _, _ = select.select([self.descriptor], [], [], 60)
            try:
                data = os.read(self.descriptor, 1 << 16) if ready else b""
            except OSError:
                data = b""
            if not data:
                return False
            self.written += data
        return True

    def end(self) -> int:
        self.read_until(lambda _: False)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


@pytest.mark.parametrize("command", ["scenarios", "runs", "plot latest", "export latest", "attach latest", "doctor"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_is_not_a_failure_and_has_no_traceback(tiny_run: Path, command: str, unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    words = [sys.executable, "-m", "txlab", *command.split()] + ["--no-torch"] * (command == "doctor")
    environment = os.environ | {"TXLAB_RUNS": str(tiny_run.parent), "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, env=environment)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_on_a_full_disk_is_reported_in_one_line(tiny_run: Path, unbuffered: str) -> None:
    environment = os.environ | {"TXLAB_RUNS": str(tiny_run.parent), "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "txlab", "runs"], stdout=full, stderr=subprocess.PIPE, env=environment, text=True
        )
    assert done.returncode == 1
    assert done.stderr == "txlab: the output cannot be written: No space left on device\n"


@pytest.mark.evidence
@pytest.mark.parametrize("columns", [41, 97])
def test_ctrl_c_leaves_a_checkpoint_and_130(tiny_scenario: Path, tmp_path: Path, columns: int) -> None:
    words = [sys.executable, "-m", "txlab", "run", str(tiny_scenario), *ENDLESS]
    environment = os.environ | {"TXLAB_RUNS": str(tmp_path / "runs"), "TERM": "xterm-256color"}
    environment.pop("COLUMNS", None)
    terminal = Terminal(words, environment, columns)
    assert terminal.read_until(lambda written: re.search(rb"step \d\d+/1 000 000", written) is not None)
    # The line is drawn over itself: on a screen of this width it never took a second row.
    screen = pyte.Screen(columns, 24)
    pyte.ByteStream(screen).feed(terminal.written)
    assert not "".join(screen.display[1:]).strip()
    for _ in range(2):  # the second one comes while the first is being obeyed
        os.write(terminal.descriptor, b"\x03")
    assert terminal.end() == 130, terminal.written[-2000:]
    (run,) = (tmp_path / "runs").iterdir()
    info = RunInfo.load(run)
    assert info.status == "interrupted"
    assert (run / "checkpoints" / f"{info.step:08}").is_dir()
    assert b"txlab resume" in terminal.written
    resumed = called(tmp_path, "resume", "latest", "--from", str(info.step), "--detach")
    assert resumed.returncode == 0, resumed.stderr
    assert called(tmp_path, "stop", "latest").returncode == 0
