"""How quickly the console responds while a run computes: python benchmarks/tui_latency.py

A pseudo-terminal of 120 × 40, the real program, and a run that keeps two cores busy. Machines differ and are shared, so
the smallest possible Textual program is measured alongside, in the same minute. It prints:

    first paint      seconds from starting the program to the first painted line
    key → painted    milliseconds from writing a key to the last byte of the change that it paints, for each group of
                     keys: p50 and p95, and p50 as a multiple of the smallest program's
    while watching   kilobytes per second sent to the terminal while the run is watched and no key is pressed
    CPU              share of one core that the console takes while watching, and when idle
    txlab --help     seconds
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import psutil
import pyte

PROGRAM = """
import sys
from txlab.cli import main
sys.argv = ["txlab", "--runs", sys.argv[1], *(["attach", sys.argv[2]] if len(sys.argv) > 2 else [])]
main()
"""
# The smallest Textual program that answers a key by changing a few lines.
SMALLEST = """
from textual.app import App
from textual.widgets import Static
class Smallest(App):
    BINDINGS = [("a", "turn", "turn"), ("ctrl+q", "quit", "quit")]
    turned = False
    def compose(self):
        yield Static("smallest")
    def action_turn(self):
        self.turned = not self.turned
        self.query_one(Static).update("turned" if self.turned else "smallest")
Smallest().run()
"""
COLUMNS, ROWS = 120, 40
BURST = 0.004  # seconds: output closer together than this is one change
DOWN, UP, LEFT, RIGHT, ESCAPE = "\x1b[B", "\x1b[A", "\x1b[D", "\x1b[C", "\x1b"
# (name, keys that lead there, keys pressed in turn)
GROUPS = [
    ("Lab: down, up", "1", (DOWN, UP)),
    ("Lab: tab to the runs and back", "1", ("\t", "\t")),
    ("Lab: text down, up", "1/grokking\r", ("J", "K")),  # whose text is longer than its pane
    ("Train: facts down, up", "3", (DOWN, UP)),
    # The cursor starts at the newest step, where right would change nothing.
    ("Train: cursor left, right", "3" + 3 * LEFT, (LEFT, LEFT, RIGHT, RIGHT)),
    ("Train: log x", "3", ("l",)),
    ("Train: frames [ ]", "3", ("[", "[", "]", "]")),
    ("Train: frames { }", "3", ("{", "}")),
    ("Train: tab to another curve", "3", ("\t",)),
    # The cursor starts in the last row, where down would change nothing.
    ("Attention: cursor", "4" + UP + UP + RIGHT, (UP, RIGHT, DOWN, LEFT)),
    ("Attention: heads h l, layers j k", "4", ("l", "j", "h", "k")),
    ("Attention: frames [ ]", "4", ("[", "[", "]", "]")),
    ("screens 1 3", "1", ("3", "1")),
    ("screens 3 4", "3", ("4", "3")),
    ("help, and closed with ?", "3", ("?", "?")),
    ("why, and closed with q", "3", ("w", "q")),
    ("palette, and closed with ctrl+p", "3", (":", "\x10")),
    # An escape is an Esc only when nothing follows for 25 ms (txlab/tui/textual_internals.py).
    ("help, and closed with esc", "3", ("?", ESCAPE)),
]


class Console:
    """A program in a pty: the console, or `program`."""

    def __init__(self, root: Path, run: Path | None = None, program: str = PROGRAM) -> None:
        self.started = time.perf_counter()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            arguments = [sys.executable, "-P", "-c", program, str(root), *([str(run)] if run else [])]
            os.execve(sys.executable, arguments, {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"})
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self.stream = pyte.ByteStream(self.screen)
        self.process = psutil.Process(self.pid)

    def read(self, seconds: float) -> bytes:
        if not select.select([self.fd], [], [], max(0.0, seconds))[0]:
            return b""
        data = os.read(self.fd, 65536)
        with contextlib.suppress(Exception):
            self.stream.feed(data)
        return data

    def drain(self, quiet: float = 0.05, longest: float = 2.0) -> int:
        """Read until there is no output for a while; returns the bytes."""
        end, total = time.perf_counter() + longest, 0
        while time.perf_counter() < end:
            data = self.read(quiet)
            if not data:
                break
            total += len(data)
        return total

    def until(self, text: str, longest: float = 60.0) -> float:
        """Seconds from the start until `text` is on the screen."""
        end = time.perf_counter() + longest
        while not any(text in line for line in self.screen.display):
            if time.perf_counter() > end:
                raise SystemExit(f"{text!r} never came:\n" + "\n".join(self.screen.display))
            self.read(0.2)
        return time.perf_counter() - self.started

    def key(self, key: str, longest: float = 2.0) -> float | None:
        """Milliseconds from the key to the last byte of the change that it paints; None if the screen stays as it is.

        The bytes are only collected while the clock runs: parsing them into a screen takes longer than painting.
        """
        self.drain(0.02)
        before = list(self.screen.display), self.colours()
        begun = time.perf_counter()
        os.write(self.fd, key.encode())
        while (left := begun + longest - time.perf_counter()) > 0:
            burst, painted, wait = b"", 0.0, left
            while select.select([self.fd], [], [], wait)[0]:
                burst += os.read(self.fd, 65536)
                painted, wait = time.perf_counter(), BURST
            with contextlib.suppress(Exception):
                self.stream.feed(burst)
            if (list(self.screen.display), self.colours()) != before:
                return 1000 * (painted - begun)
        return None

    def keys(self, keys: Sequence[str], count: int) -> list[float]:
        """The times of `count` key presses, with a human pause between them."""
        times = []
        for index in range(count):
            times.append(self.key(keys[index % len(keys)]))
            time.sleep(0.05)
        return [each for each in times if each is not None]

    def colours(self) -> int:
        return hash(tuple((x, y, c.fg, c.bold) for y, row in self.screen.buffer.items() for x, c in row.items()))

    def watch(self, seconds: float) -> tuple[float, float]:
        """(kilobytes per second, share of a core) while no key is pressed."""
        self.drain(0.02, 0.5)
        before, begun, total = sum(self.process.cpu_times()[:2]), time.perf_counter(), 0
        while (left := begun + seconds - time.perf_counter()) > 0:
            if select.select([self.fd], [], [], left)[0]:  # not parsed: that would take a whole core
                total += len(os.read(self.fd, 65536))
        took = time.perf_counter() - begun
        return total / 1000 / took, (sum(self.process.cpu_times()[:2]) - before) / took

    def leave(self) -> None:
        os.write(self.fd, b"\x11")
        end = time.perf_counter() + 10
        while time.perf_counter() < end:
            with contextlib.suppress(OSError):
                self.read(0.05)
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                break
        else:
            self.process.kill()
            os.waitpid(self.pid, 0)
        os.close(self.fd)


def percentiles(values: list[float], smallest: float) -> str:
    if len(values) < 2:
        return "no answer"
    middle, cut = statistics.median(values), statistics.quantiles(values, n=20)
    return f"p50 {middle:6.1f} ms   p95 {cut[18]:6.1f} ms   × {middle / smallest:4.1f}   ({len(values)} keys)"


def smallest_program() -> tuple[float, list[float]]:
    """Seconds to the first paint, and the times of its key."""
    console = Console(Path(), program=SMALLEST)
    painted = console.until("smallest")
    time.sleep(0.5)
    times = console.keys("a", 40)
    console.leave()
    return painted, times


@contextlib.contextmanager
def computing(scenario: str, settings: list[str], root: Path, ends_within: float = 30) -> Iterator[Path]:
    """The directory of a run that computes meanwhile in a process of its own."""
    from txlab.runs.control import Request, send
    from txlab.runs.process import prepare, start_detached
    from txlab.runs.scenario import load_scenario

    run = prepare(load_scenario(scenario, settings), root=root)
    pid = start_detached(run)
    try:
        yield run
    finally:
        send(run, Request("stop"))
        with contextlib.suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
            psutil.Process(pid).wait(ends_within)


def print_rows(rows: Iterable[tuple[str, str]]) -> None:
    print(f"120 × 40, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for name, value in rows:
        print(f"{name:<50}{value}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to watch")
    parser.add_argument("--keys", type=int, default=40, help="presses of each group")
    parser.add_argument("--only", default="", help="groups whose name has this in it")
    parser.add_argument("--scenario", default="gpt-tiny", help="what computes meanwhile")
    options = parser.parse_args()
    rows: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        paints: list[float] = []
        least: list[float] = []
        for _ in range(3):
            console = Console(root)
            paints.append(console.until("txlab"))
            if len(paints) < 3:
                console.leave()
            least.append(smallest_program()[0])
        paint, small = min(paints), min(least)
        rows.append(("first paint", f"{paint:.2f} s   smallest program {small:.2f} s   × {paint / small:.1f}"))
        console.until("gpt-")
        time.sleep(2)
        rate, share = console.watch(options.seconds)
        rows.append(("idle on the Lab", f"{rate:.2f} kB/s   {100 * share:.1f} % of a core"))
        console.leave()

        settings = ["train.steps=1000000", "compute.threads=2", "record.frame_every=10", "record.sample_every=0"]
        settings.append("compute.compile=false")  # for this many steps compiling would be tried, for a minute
        with computing(options.scenario, settings, root) as run:
            console = Console(root, run)
            console.until(" of 1 000 000", 120)
            console.until("tokens/s", 120)
            time.sleep(3)
            loads = psutil.cpu_percent(interval=1.0, percpu=True)
            rate, share = console.watch(options.seconds)
            rows.append(("cores busy", " ".join(f"{load:.0f} %" for load in loads)))
            rows.append(("watching Train", f"{rate:.2f} kB/s   {100 * share:.1f} % of a core"))
            times = smallest_program()[1]
            small = statistics.median(times)
            rows.append(("key → painted, smallest program", percentiles(times, small)))
            every: list[float] = []
            for name, there, keys in GROUPS:
                if options.only not in name:
                    continue
                os.write(console.fd, there.encode())
                time.sleep(1.0)
                console.drain(0.1, 1.0)
                times = console.keys(keys, options.keys)
                every += times
                rows.append((f"key → painted, {name}", percentiles(times, small)))
            rows.append(("key → painted, all of them", percentiles(every, small)))
            console.leave()

    times = []
    for _ in range(5):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-P", "-m", "txlab", "--help"], capture_output=True, check=True)
        times.append(time.perf_counter() - begun)
    rows.append(("txlab --help", f"{min(times):.2f} s"))
    print_rows(rows)


if __name__ == "__main__":
    main()
