"""The console in a real terminal: what it writes, how it exits, and the state in which it leaves the terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyte
import pytest
from recorded import HOSTILE, append_rows, make_run
from waiting import LONGEST

PROGRAM = "import pathlib, sys, txlab.tui.launch as console; sys.exit(console.launch(root=pathlib.Path(sys.argv[1])))"
PATIENCE = LONGEST


class Terminal:
    """A child in a pty of 120 × 40; `raw` is everything that it wrote, `screen` what is visible.

    command  words after `txlab` of another program than the console
    """

    def __init__(self, root: Path, columns: int = 120, rows: int = 40, command: Sequence[str] = ()) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
            for name in ("COLUMNS", "LINES"):  # else they, and not the terminal, say how large it is
                environment.pop(name, None)
            program = ["-m", "txlab", *command] if command else ["-c", PROGRAM, str(root)]
            os.execve(sys.executable, [sys.executable, *program], environment)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(self.fd)
        self.raw = b""
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.status: int | None = None

    def read(self, seconds: float = 0.1) -> bool:
        """Read its output; False when it has exited."""
        if select.select([self.fd], [], [], seconds)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                return False
            if not data:
                return False
            self.raw += data
            with contextlib.suppress(Exception):  # pyte does not know every sequence
                self.stream.feed(data)
        return True

    def until(self, text: str) -> None:
        end = time.monotonic() + PATIENCE
        while not any(text in line for line in self.screen.display):
            assert time.monotonic() < end, f"{text!r} is not on the screen:\n" + "\n".join(self.screen.display)
            assert self.read(), "the console has gone"

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def wait(self) -> int:
        """Wait for its exit status, reading its output meanwhile."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                while self.read(0.05):
                    if not select.select([self.fd], [], [], 0)[0]:
                        break
                self.status = status
                if status:
                    print(self.raw[-4000:].decode(errors="replace"))  # pytest shows it if the test fails
                return os.waitstatus_to_exitcode(status)
        raise AssertionError("the console did not leave")

    def close(self) -> None:
        if self.status is None:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    root = tmp_path / "runs"
    run = make_run(root, "shown", text=HOSTILE)
    append_rows(run, {"event": "note", "step": 40, "text": HOSTILE})
    made = Terminal(root)
    yield made
    made.close()


MODES = (b"?1049", b"?1000", b"?1003", b"?1006", b"?2004")  # alternate screen, mouse, bracketed paste


def left_as_it_was(terminal: Terminal) -> None:
    """Every mode that was switched on has been switched off after that, the cursor shows, and lines echo again."""
    for mode in MODES:
        on, off = terminal.raw.rfind(b"\x1b[" + mode + b"h"), terminal.raw.rfind(b"\x1b[" + mode + b"l")
        assert on < off or on == -1, mode
    assert b"\x1b[?1049h" in terminal.raw
    assert terminal.raw.rfind(b"\x1b[?25l") < terminal.raw.rfind(b"\x1b[?25h")


def test_one_starts_it_switches_screens_and_leaves(terminal: Terminal) -> None:
    terminal.until("gpt-tiny")
    terminal.until("shown")
    terminal.type("\t\r")
    terminal.until("done at step 40 of 40")
    terminal.type("<")
    terminal.until("sample at 30")
    terminal.type("1")
    terminal.until("Runs")
    terminal.type("q")
    assert terminal.wait() == 0
    left_as_it_was(terminal)
    # What is in the run's files reaches the terminal as signs, never as what it would do there.
    assert b"\x1b]0;owned" not in terminal.raw
    for bad in ("\u202e", "\x9b2J", "owned\x07", "\x00"):
        assert bad.encode() not in terminal.raw
    assert b"owned" in terminal.raw


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_the_terminal_is_as_before(terminal: Terminal, number: signal.Signals) -> None:
    terminal.until("gpt-tiny")
    os.kill(terminal.pid, number)
    terminal.wait()
    left_as_it_was(terminal)


def test_the_arena_learns_in_a_terminal_and_leaving_ends_it(terminal: Terminal) -> None:
    terminal.until("gpt-tiny")
    terminal.type("6")
    terminal.until("Q-learning")
    terminal.type(".")
    terminal.until("Q(s,a) ←")
    terminal.type(" ")
    terminal.until("updates/s")
    terminal.type("\x11")
    assert terminal.wait() == 0
    left_as_it_was(terminal)


def test_a_terminal_that_is_gone_ends_the_arena_at_full_speed(terminal: Terminal) -> None:
    """Whatever is still written then goes nowhere; with a dialog open nothing else makes room in the queue."""
    terminal.until("gpt-tiny")
    terminal.type("6")
    terminal.until("Q-learning")
    terminal.type(" ")
    terminal.until("updates/s")
    terminal.type("u")
    terminal.until("Watkins")
    os.close(terminal.fd)  # the window is closed: SIGHUP, and every write fails
    end = time.monotonic() + PATIENCE
    while (found := os.waitpid(terminal.pid, os.WNOHANG))[0] == 0:
        assert time.monotonic() < end, "the console stays behind"
        time.sleep(0.05)
    terminal.status = found[1]
    terminal.fd = os.open(os.devnull, os.O_RDONLY)
