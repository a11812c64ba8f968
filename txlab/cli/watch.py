"""`txlab watch`: run any program unchanged and make a run from its output, or from a growing file.

Notable: on a terminal the program gets a pty of the same size and settings, so its bars and colours are unchanged; keys
are passed to it as they are typed, including ctrl-c, which its terminal turns into one signal. Its other streams are
pipes. The program is started before anything else, since its terminal is set between fork and exec, where no other
thread may run.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import shlex
import signal
import subprocess
import sys
import termios
import time
import tty
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from txlab.cli.terminal import complain
from txlab.errors import LabError

if TYPE_CHECKING:
    from txlab.runs.recording import Status
    from txlab.runs.stdout_tables import Lines
    from txlab.runs.watching import PrintedRun

PIECE = 1 << 16
CTRL_Z = b"\x1a"
DRAIN = 1.0  # seconds to read the remaining output of an ended program
LOOK_EVERY = 0.2  # seconds between checks of a file
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def watch(
    command: Annotated[list[str] | None, typer.Argument(metavar="[--] COMMAND…", help="the program to run")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="follow this growing file instead")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="the run's name; else the script's")
    ] = None,
    pattern: Annotated[
        list[str] | None,
        typer.Option(
            "--pattern", metavar="REGEX", help="read these values only: 'loss=(?P<loss>\\S+)', also (?P<step>…)"
        ),
    ] = None,
) -> None:
    """Run any script unchanged; its output becomes a run.

    Progress bars, `loss 0.3`, `key=value`, dictionaries and JSON are read; the exit status is the program's.
    """
    if bool(command) == (file is not None):
        raise LabError("give either a program, as in txlab watch -- python train.py, or --file FILE")
    from txlab.runs.stdout_tables import Lines, compile_patterns

    lines = Lines(compile_patterns(pattern or []))
    if file is not None:
        follow_file(file, name or file.stem, lines)
    else:
        raise typer.Exit(run_program(command or [], name or name_of(command or []), lines))


def name_of(command: list[str]) -> str:
    """The name for a run of this command: its script or module, else the program.

    >>> name_of(["python3", "-u", "src/train.py", "--lr=1"]), name_of(["python", "-m", "pkg.train"]), name_of(["make"])
    ('train', 'pkg.train', 'make')
    """
    for before, word in zip(["", *command], command, strict=False):
        if word.endswith(".py"):
            return Path(word).stem
        if before == "-m":
            return word
    return Path(command[0]).stem


def begin(name: str, command: list[str], source: str, lines: Lines) -> PrintedRun:
    from txlab.runs.record import record
    from txlab.runs.watching import PrintedRun

    run = record(name, {"command": shlex.join(command)} if command else {"file": source}, title=source)
    run.recorder.info.command = command or run.recorder.info.command
    run.recorder.info.save(run.recorder.run)
    complain(f"recorded as {run.path.name}; txlab attach shows it")
    return PrintedRun(run, lines)


def report_unread(printed: PrintedRun) -> None:
    """Say which patterns were too slow, and that nothing was read, with the lines that looked most like those of a
    training, and how to read them."""
    from txlab.runs.stdout_steps import pattern_for

    for why in printed.output.lines.too_slow:
        complain(why)
    if printed.numbers:
        return
    complain("no numbers of a training were found in its output")
    if likeliest := printed.output.likeliest():
        complain("the lines that looked most like it:")
        for line in likeliest:
            complain(f"  {line.strip()[:100]}")
        complain(f"name what to read, for instance: txlab watch --pattern {shlex.quote(pattern_for(likeliest[0]))} …")


def run_program(command: list[str], name: str, lines: Lines) -> int:
    """Run a program to its end and return its exit status, 128 + N if signal N ended it."""
    terminal = sys.stdout.isatty() or sys.stderr.isatty()
    keys = terminal and sys.stdin is not None and sys.stdin.isatty()
    child = Child(command, terminal, keys)
    with child.signals():
        try:
            printed = begin(name, command, shlex.join(command)[:200], lines)
        except BaseException:
            child.end()
            raise
        with raw(sys.stdin.fileno() if keys else None) as again:
            child.copy(printed, again)
    status, reason = child.outcome()
    printed.close(status, reason)
    report_unread(printed)
    return child.code if child.code >= 0 else 128 - child.code


class Child:
    """The program and its output: `outputs` maps its descriptors to ours, to which they are copied."""

    def __init__(self, command: list[str], terminal: bool, keys: bool) -> None:
        from txlab.runs.root import environment_of_child

        self.code = 0
        self.master: int | None = None
        self.outputs: dict[int, int] = {}
        environment, slave = environment_of_child(), -1
        streams: list[int] = []
        if terminal:
            self.master, slave = os.openpty()
            self.outputs[self.master] = 1 if sys.stdout.isatty() else 2
            with contextlib.suppress(termios.error):
                termios.tcsetattr(slave, termios.TCSANOW, termios.tcgetattr(1 if sys.stdout.isatty() else 2))
            self.resize()
        ends: list[int] = []
        for ours, stream in ((1, sys.stdout), (2, sys.stderr)):
            if stream.isatty():
                streams.append(slave)
                continue
            read, write = os.pipe()
            self.outputs[read] = ours
            streams.append(write)
            ends.append(write)
            environment.setdefault("PYTHONUNBUFFERED", "1")  # or its lines would arrive only when a buffer is full

        def own_terminal() -> None:
            if slave >= 0:
                fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        try:
            self.process = subprocess.Popen(
                command,
                stdin=slave if keys else None,
                stdout=streams[0],
                stderr=streams[1],
                start_new_session=True,
                preexec_fn=own_terminal,
                env=environment,
            )
        except (OSError, ValueError) as error:  # a NUL in it
            why = getattr(error, "strerror", None) or str(error)
            raise LabError(f"{command[0]} cannot be run: {why}") from None
        finally:
            for end in (*ends, *([slave] if slave >= 0 else [])):
                os.close(end)

    def resize(self) -> None:
        """Set the size of its terminal to that of ours."""
        if self.master is not None:
            with contextlib.suppress(OSError):
                size = fcntl.ioctl(1 if sys.stdout.isatty() else 2, termios.TIOCGWINSZ, bytes(8))
                fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)

    def send(self, number: int) -> None:
        """Send a signal to the program and its children."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """Pass signals on. Installed before the recording begins, which leaves the decision to existing handlers."""
        before: dict[int, Any] = {}
        for number in map(int, PASSED_ON):
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, lambda given, _: self.send(given))
        before[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, lambda *_: self.resize())
        try:
            yield
        finally:
            for given, handler in before.items():
                signal.signal(given, handler)

    def copy(self, printed: PrintedRun, again: Any) -> None:
        """Copy output (and keys) until the program has ended. `again` restores the mode of our terminal after a
        stop."""
        from txlab.runs.watching import PAUSE

        ended = 0.0
        keys = again is not None
        while self.outputs:
            sources = [*self.outputs, *([0] if keys else [])]
            ready, _, _ = select.select(sources, [], [], PAUSE)
            if keys and 0 in ready:
                typed = os.read(0, PIECE)
                keys = bool(typed)
                if typed == CTRL_Z and self.takes_signals():
                    self.stop(again)
                elif typed and self.master is not None:
                    with contextlib.suppress(OSError):
                        os.write(self.master, typed)
            for source in ready:
                if source in self.outputs and not self.copy_piece(source, printed):
                    os.close(source)
                    if source == self.master:
                        self.master = None
                    del self.outputs[source]
            if not ready:
                printed.idle()
            ended = ended or (time.monotonic() if self.process.poll() is not None else 0.0)
            if ended and (not ready or time.monotonic() - ended > DRAIN):
                break  # a child holds its output open
        self.code = self.process.wait()

    def copy_piece(self, source: int, printed: PrintedRun) -> bool:
        try:
            data = os.read(source, PIECE)
        except OSError as error:
            if error.errno == errno.EIO:  # a pty that no process has open any more
                return False
            raise
        rest = memoryview(data)
        with contextlib.suppress(OSError):  # our output is closed; the program continues
            while rest:
                rest = rest[os.write(self.outputs[source], rest) :]
        printed.feed(data, self.outputs[source] if self.master is None else 0)
        return bool(data)

    def stop(self, again: Any) -> None:
        """Stop the program and this one, as ctrl-z does, and continue both together. The program's terminal would not
        do it: an orphaned process group is never stopped by a key."""
        again(False)
        self.send(signal.SIGSTOP)
        os.kill(0, signal.SIGSTOP)
        again(True)
        self.resize()
        self.send(signal.SIGCONT)

    def takes_signals(self) -> bool:
        """Whether keys are signals on the program's terminal: an editor or a debugger may have taken them."""
        with contextlib.suppress(termios.error, TypeError):
            return bool(termios.tcgetattr(self.master)[3] & termios.ISIG)  # type: ignore[arg-type]
        return False

    def outcome(self) -> tuple[Status, str]:
        number = -self.code if self.code < 0 else self.code - 128
        if self.code and number in INTERRUPTS:
            return "interrupted", signal.Signals(number).name
        if self.code < 0:
            return "failed", f"killed by {signal_name(-self.code)}"
        return ("failed", f"exit status {self.code}; log.txt has what it printed") if self.code else ("done", "")

    def end(self) -> None:
        self.send(signal.SIGTERM)
        self.process.wait()


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"


@contextlib.contextmanager
def raw(descriptor: int | None) -> Iterator[Any]:
    """Hand each key to the program as it is typed; yields a function that sets this (True) or the old mode (False), or
    None if keys do not come from a terminal."""
    if descriptor is None:
        yield None
        return
    before = termios.tcgetattr(descriptor)

    def again(on: bool) -> None:
        if on:
            tty.setraw(descriptor, termios.TCSADRAIN)
        else:
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)

    again(True)
    try:
        yield again
    finally:
        again(False)


def follow_file(file: Path, name: str, lines: Lines) -> None:
    """Make a run from a growing file, from its start, until ctrl-c."""
    from txlab.files import open_regular
    from txlab.runs.watching import PAUSE

    try:
        os.close(open_regular(file))
    except OSError as error:
        raise LabError(f"{file} cannot be read: {error.strerror}") from None
    printed = begin(name, [], str(file.resolve()), lines)
    offset, inode = 0, -1
    try:
        while True:
            with contextlib.suppress(OSError):  # renamed or deleted: a new one may appear
                descriptor = open_regular(file)
                try:
                    about = os.fstat(descriptor)
                    if about.st_ino != inode or about.st_size < offset:
                        offset, inode = 0, about.st_ino
                    while data := os.pread(descriptor, PIECE, offset):
                        offset += len(data)
                        printed.feed(data)
                finally:
                    os.close(descriptor)
            time.sleep(max(PAUSE, LOOK_EVERY))
            printed.idle()
    except KeyboardInterrupt:
        printed.close("stopped", "no longer watched")
        report_unread(printed)
