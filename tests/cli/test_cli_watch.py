"""`txlab watch`: a program runs as it does without it, on a terminal and on pipes, and what it prints becomes a run."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import LONGEST, wait_for

from txlab.cli.watch import name_of
from txlab.runs.directory import RunInfo
from txlab.runs.folder import list_runs
from txlab.runs.reader import RunReader

WATCH = [sys.executable, "-m", "txlab", "watch"]
SCRIPT = """
import os, sys, signal, time
if sys.argv[1] == "plain":
    print("tty", os.isatty(1), flush=True)
    for step in range(30):
        print(f"step {step}/30 loss {1 / (step + 1)}", file=sys.stderr if step % 2 else sys.stdout, flush=True)
    sys.exit(3)
counts = {"SIGINT": 0}
def count(number, frame):
    counts[signal.Signals(number).name] = counts.get(signal.Signals(number).name, 0) + 1
    print(counts, os.get_terminal_size(1).columns, flush=True)
for name in ("SIGINT", "SIGTERM", "SIGWINCH"):
    signal.signal(getattr(signal, name), count)
print("ready", os.isatty(0), os.isatty(1), os.get_terminal_size(1).columns, flush=True)
print("heard", input(), flush=True)
end = time.time() + 600
while "SIGTERM" not in counts and time.time() < end:
    time.sleep(0.01)
print("loss: 0.25", flush=True)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TXLAB_RUNS", str(tmp_path / "runs"))
    file = tmp_path / "train.py"
    file.write_text(SCRIPT)
    return file


def only_run(folder: Path) -> RunReader:
    (run,) = list_runs(folder / "runs")
    reader = RunReader(run)
    reader.poll()
    return reader


def test_on_pipes_both_streams_pass_unchanged_with_the_exit_status(script: Path, tmp_path: Path) -> None:
    plain = subprocess.run([sys.executable, script, "plain"], capture_output=True)
    watched = subprocess.run([*WATCH, "--", sys.executable, script, "plain"], capture_output=True)
    assert watched.stdout == plain.stdout
    said, _, rest = watched.stderr.partition(b"txlab: recorded as ")
    assert said + rest.partition(b"\n")[2] == plain.stderr
    assert watched.returncode == plain.returncode == 3
    run = only_run(tmp_path)
    assert sorted(run.series("loss").values.tolist()) == sorted(1 / (step + 1) for step in range(30))
    info = run.info
    assert (info.status, info.scenario, info.steps) == ("failed", "train", 30)
    assert info.reason.startswith("exit status 3")
    assert info.command == [sys.executable, str(script), "plain"]
    assert "tty False" in (run.directory.path / "log.txt").read_text()


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, command: list[str]) -> None:
        self.master, slave = pty.openpty()
        self.resize(90)
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
        os.close(slave)
        self.said = b""

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))

    def wait_for(self, words: bytes) -> None:
        end = time.monotonic() + LONGEST
        while words not in self.said and time.monotonic() < end:
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.said += os.read(self.master, 4096)
                except OSError:
                    break
        assert words in self.said, self.said

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        os.close(self.master)


@pytest.fixture
def terminal(script: Path) -> Iterator[Terminal]:
    found = Terminal([*WATCH, "--", sys.executable, str(script), "live"])
    yield found
    found.close()


def test_on_a_terminal_the_program_has_one_with_keys_sizes_and_signals_once(terminal: Terminal, tmp_path: Path) -> None:
    terminal.wait_for(b"ready True True 90")
    os.write(terminal.master, b"a word\r")
    terminal.wait_for(b"heard a word")
    os.write(terminal.master, b"\x03")
    terminal.wait_for(b"{'SIGINT': 1} 90")
    terminal.resize(70)
    os.kill(terminal.process.pid, signal.SIGWINCH)  # in a shell's session the kernel does it
    terminal.wait_for(b"'SIGWINCH': 1} 70")
    os.kill(terminal.process.pid, signal.SIGTERM)
    terminal.wait_for(b"'SIGTERM': 1}")
    terminal.wait_for(b"loss: 0.25")
    assert terminal.process.wait(LONGEST) == 128 + signal.SIGTERM
    assert b"'SIGINT': 2" not in terminal.said
    run = only_run(tmp_path)
    assert (run.info.status, run.info.reason) == ("interrupted", "SIGTERM")
    assert run.series("loss").values.tolist() == [0.25]
    assert termios.tcgetattr(terminal.master)[3] & termios.ICANON  # the terminal is as it was


def test_a_file_that_grows_is_followed_until_ctrl_c(script: Path, tmp_path: Path) -> None:
    log = tmp_path / "old.log"
    log.write_text("step 1 loss 0.5\n")
    watching = subprocess.Popen([*WATCH, "--file", log, "--name", "mine"], stderr=subprocess.PIPE)
    try:
        wait_for(lambda: bool(list_runs(tmp_path / "runs")))
        run = only_run(tmp_path)
        wait_for(lambda: run.poll() and len(run.series("loss")) == 1)
        with log.open("a") as more:
            more.write("step 2 loss 0.25\n")
        wait_for(lambda: run.poll() and run.series("loss").values.tolist() == [0.5, 0.25])
        watching.send_signal(signal.SIGINT)
        assert watching.wait(LONGEST) == 0
    finally:
        watching.kill()
        watching.communicate()
    assert RunInfo.load(run.directory).status == "stopped"
    assert RunInfo.load(run.directory).scenario == "mine"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "give either a program"),
        (["--", "no-such-program-here"], "no-such-program-here cannot be run: No such file or directory"),
        (["--file", "/no/such/file"], "/no/such/file cannot be read"),
    ],
)
def test_mistakes_are_a_sentence_and_make_no_run(script: Path, tmp_path: Path, words: list[str], sentence: str) -> None:
    said = subprocess.run([*WATCH, *words], capture_output=True, text=True)
    assert said.returncode == 2
    assert sentence in said.stderr
    assert not list_runs(tmp_path / "runs")


def test_a_run_is_called_as_its_script() -> None:
    assert name_of(["torchrun", "--nproc-per-node=2", "src/pretrain.py", "--lr=1"]) == "pretrain"
    assert name_of(["python3", "-m", "pkg.train", "x"]) == "pkg.train"
    assert name_of(["./run.sh"]) == "run"


def watched(folder: Path, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "own.py").write_text(f"print({text!r})")
    return subprocess.run(
        [*WATCH, *words, "--", sys.executable, str(folder / "own.py")], capture_output=True, text=True
    )


OWN = "\n".join(
    ["ready at 12:31:02", *(f"round {n}: objective at {9.5 - n / 4:.3f} ± 0.1" for n in range(6)), "bye 1.5"]
)


def test_a_program_that_prints_nothing_known_is_told_what_looked_like_it_and_a_pattern_that_reads_it(
    script: Path, tmp_path: Path
) -> None:
    done = watched(tmp_path, OWN)
    assert "no numbers of a training were found" in done.stderr
    assert "round 5: objective at 8.250" in done.stderr
    pattern = done.stderr.rpartition("--pattern '")[2].partition("'")[0]
    assert "(?P<objective>" in pattern
    (tmp_path / "runs" / only_run(tmp_path).directory.path.name).rename(tmp_path / "first")
    done = watched(tmp_path, OWN, "--pattern", r"round (?P<step>\d+): .*?at (?P<objective>\S+)")
    assert "no numbers" not in done.stderr
    series = only_run(tmp_path).series("objective")
    assert series.steps.tolist() == list(range(6))
    assert series.values.tolist() == [9.5 - n / 4 for n in range(6)]


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("loss=(?P<loss>", "not a regular expression"),
        (r"loss=(\S+)", "names no value"),
        (r"(?P<step>\d+)", "names no value"),
    ],
)
def test_a_pattern_that_reads_nothing_is_refused(script: Path, tmp_path: Path, pattern: str, sentence: str) -> None:
    done = watched(tmp_path, OWN, "--pattern", pattern)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_pattern_that_backtracks_for_ever_is_given_up_with_a_sentence(script: Path, tmp_path: Path) -> None:
    slow = r"(?P<loss>(a|aa)+)$"
    long = "a" * 60 + "!"
    lines = "\n".join([long, *(f"step {n}: value {n}" for n in range(40)), long])
    done = watched(tmp_path, lines, "--pattern", slow, "--pattern", r"value (?P<value>\d+)")
    assert done.returncode == 0
    assert done.stderr.count("took more than 0.2 s on one line") == 1
    reader = only_run(tmp_path)
    assert len(reader.series("value").values) == 40
    notes = [row["text"] for row in reader.rows("note")]
    assert sum(slow in text for text in notes) == 1
