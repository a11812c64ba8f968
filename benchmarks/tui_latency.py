"""How quickly the console answers while a run computes: python benchmarks/tui_latency.py [--steps N]

A real pseudo-terminal of 120 × 40, the real program, and a run of its own that keeps every core busy. Printed:

    first paint      seconds from starting the program to the first painted line
    key → change     milliseconds from writing a key to the first byte of the answer, p50 and p95
    while watching   kilobytes a second that go to the terminal while the run is watched and no key is pressed
    CPU              share of one core that the console takes while watching, and when nothing happens
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
from pathlib import Path

import psutil
import pyte

PROGRAM = """
import sys
from pathlib import Path
from txlab.tui.app import launch
run = Path(sys.argv[2]) if len(sys.argv) > 2 else None
sys.exit(launch(run=run, root=Path(sys.argv[1])))
"""
COLUMNS, ROWS = 120, 40


class Console:
    """The program in a pty."""

    def __init__(self, root: Path, run: Path | None = None) -> None:
        self.started = time.perf_counter()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            arguments = [sys.executable, "-c", PROGRAM, str(root), *([str(run)] if run else [])]
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
        """Read until nothing comes for a while; returns the bytes."""
        end, total = time.perf_counter() + longest, 0
        while time.perf_counter() < end:
            data = self.read(quiet)
            if not data:
                break
            total += len(data)
        return total

    def until(self, text: str, longest: float = 60.0) -> float:
        """Seconds since the start until `text` is on the screen."""
        end = time.perf_counter() + longest
        while not any(text in line for line in self.screen.display):
            if time.perf_counter() > end:
                raise SystemExit(f"{text!r} never came:\n" + "\n".join(self.screen.display))
            self.read(0.2)
        return time.perf_counter() - self.started

    def key(self, key: str, longest: float = 2.0) -> float | None:
        """Milliseconds from the key to the change that it paints; None if the screen stays as it is."""
        self.drain(0.02)
        before = list(self.screen.display), self.colours()
        begun = time.perf_counter()
        os.write(self.fd, key.encode())
        while time.perf_counter() - begun < longest:
            if self.read(0.05) and (list(self.screen.display), self.colours()) != before:
                return 1000 * (time.perf_counter() - begun)
        return None

    def colours(self) -> int:
        return hash(tuple((x, y, c.fg, c.bold) for y, row in self.screen.buffer.items() for x, c in row.items()))

    def watch(self, seconds: float) -> tuple[float, float]:
        """(kilobytes a second, share of a core) while nobody presses a key."""
        self.drain(0.02, 0.5)
        before, begun, total = sum(self.process.cpu_times()[:2]), time.perf_counter(), 0
        while (left := begun + seconds - time.perf_counter()) > 0:
            if select.select([self.fd], [], [], left)[0]:  # not parsed: that would take a core of its own
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


def percentiles(values: list[float]) -> str:
    if len(values) < 2:
        return "no answer"
    cut = statistics.quantiles(values, n=20)
    return f"p50 {statistics.median(values):6.1f} ms   p95 {cut[18]:6.1f} ms   ({len(values)} keys)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to watch")
    parser.add_argument("--scenario", default="gpt-tiny", help="what computes meanwhile")
    options = parser.parse_args()
    from txlab.runs.control import Request, send
    from txlab.runs.process import prepare, start_detached
    from txlab.runs.scenario import load_scenario

    rows: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        console = Console(root)
        rows.append(("first paint, quiet", f"{console.until('txlab'):.2f} s"))
        console.until("gpt-")
        time.sleep(2)
        rate, share = console.watch(options.seconds)
        rows.append(("idle on the Lab", f"{rate:.2f} kB/s   {100 * share:.1f} % of a core"))
        console.leave()

        run = prepare(load_scenario(options.scenario, ["train.steps=1000000"]), root=root)
        pid = start_detached(run)
        try:
            console = Console(root, run)
            console.until(" of 1 000 000", 120)
            time.sleep(3)
            loads = psutil.cpu_percent(interval=1.0, percpu=True)
            rate, share = console.watch(options.seconds)
            rows.append(("cores busy", " ".join(f"{load:.0f} %" for load in loads)))
            rows.append(("watching Train", f"{rate:.2f} kB/s   {100 * share:.1f} % of a core"))
            for name, keys in (
                ("move (down, up)", ("\x1b[B", "\x1b[A")),
                ("log x", ("l",)),
                ("frames [ ]", ("[", "]")),
            ):
                times = [console.key(keys[i % len(keys)]) for i in range(40)]
                rows.append((f"key → change, {name}", percentiles([t for t in times if t is not None])))
            times = [console.key("13"[i % 2]) for i in range(30)]
            rows.append(("key → change, screens 1 3", percentiles([t for t in times if t is not None])))
            console.leave()
        finally:
            send(run, Request("stop"))
            with contextlib.suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
                psutil.Process(pid).wait(30)

    times = []
    for _ in range(5):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-m", "txlab", "--help"], capture_output=True, check=True)
        times.append(time.perf_counter() - begun)
    rows.append(("txlab --help", f"{min(times):.2f} s"))
    print(f"120 × 40, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for name, value in rows:
        print(f"{name:<32}{value}")


if __name__ == "__main__":
    main()
