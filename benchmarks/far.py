"""A run on another machine, over a slow line: `python benchmarks/far.py`. Wanted: a row in 250 ms, a frame in 500 ms.

A real sshd on the loopback interface (without root's rights or port 22), behind a relay that adds 200 ms to the round
trip and passes 50 kB/s. A recorded loop writes rows and frames of attention patterns there; "seen" is when a reader of
the mirror has them. Then the line is cut ten times while rows are written, and the mirror is compared with the run.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import zlib
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from far_machine import INSTALL, Relay, Sshd, sshd_program

import txlab
from txlab.runs.folder import list_runs
from txlab.runs.reader import RunReader
from txlab.runs.recording import Recording
from txlab.runs.remote import host as host_module
from txlab.runs.remote import line, mirroring
from txlab.runs.remote.address import Address

GENERATOR = np.random.default_rng(0)


def patterns(before: np.ndarray | None, layers: int = 4, heads: int = 4, length: int = 40) -> np.ndarray:
    """Scores that move a little from frame to frame: 4 × 4 × 40 × 40 numbers of 4 bytes are 100 kB."""
    fresh = GENERATOR.normal(size=(layers, heads, length, length))
    return fresh if before is None else before + 0.02 * fresh


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores) * np.tri(scores.shape[-1])
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def quantiles(name: str, seconds: list[float]) -> None:
    median, p95 = np.quantile(seconds, [0.5, 0.95])
    print(f"{name:<34} median {1000 * median:6.0f} ms   p95 {1000 * p95:6.0f} ms   of {len(seconds)}")


SLOW = """
import os, time
for _name in ("open", "stat", "listdir", "pread"):
    def _slow(*given, _call=getattr(os, _name), **named):
        time.sleep({seconds})
        return _call(*given, **named)
    setattr(os, _name, _slow)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--round-trip", type=float, default=0.2, help="seconds")
    parser.add_argument("--rate", type=float, default=50_000, help="bytes a second")
    parser.add_argument("--rows", type=int, default=150)
    parser.add_argument("--cuts", type=int, default=10)
    parser.add_argument("--call", type=float, default=0.05, help="seconds that a call takes on the slow disk")
    asked = parser.parse_args()
    if sshd_program() is None:
        raise SystemExit(INSTALL)
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), asked)
    with tempfile.TemporaryDirectory() as folder:
        slow_disk(Path(folder), asked)


def measure(folder: Path, asked: argparse.Namespace) -> None:
    runs = folder / "far" / "runs"
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    sshd = Sshd(folder / "sshd")
    relay = Relay(sshd.port, asked.round_trip, asked.rate)
    os.environ["TXLAB_SSH"] = sshd.command(relay.port)
    run = txlab.record("far-model", root=runs)
    scores = patterns(None)
    for step in range(600):  # content before the first attach: some 77 kB of rows
        run.log(step, loss=5 / (1 + step), val_loss=5.5 / (1 + step), lr=1e-3)
        if step % 60 == 0:
            scores = patterns(scores)
            run.frame(step, {"attention/pattern": softmax(scores)}, {"probe": ["a"] * 40})
    path, reader = time_to_the_first_curve(runs, relay)
    time_rows_and_frames(run, reader, relay, scores, asked.rows)
    cut_the_line(run, path, reader, relay, asked.cuts)
    mirroring.close_all()
    relay.close()
    sshd.close()


def time_to_the_first_curve(runs: Path, relay: Relay) -> tuple[Path, RunReader]:
    began = time.monotonic()
    path = mirroring.open_run(Address("box", str(runs), "latest"))
    reader = RunReader(path)
    reader.poll()
    assert reader.latest("loss") is not None
    print(f"attach: {time.monotonic() - began:.2f} s to the first curve")
    host = mirroring.host_at(Address("box", str(runs)))
    while host.mirrors[path.name].gap or host.mirrors[path.name].missing_frames():
        time.sleep(0.05)
    before = relay.passed
    print(f"all rows and frames: {time.monotonic() - began:.2f} s, {before / 1000:.1f} kB on the line")
    return path, reader


def time_rows_and_frames(run: Recording, reader: RunReader, relay: Relay, scores: np.ndarray, many: int) -> None:
    """Rows with a frame now and then, and then rows while frames come as quickly as the line takes them."""
    written = (run.path / "events.jsonl").stat().st_size
    rows: list[float] = []
    frames: list[float] = []
    sizes: list[int] = []
    for step in range(600, 600 + many):
        begun = time.monotonic()
        run.log(step, loss=5 / (1 + step), val_loss=5.5 / (1 + step), lr=1e-3)
        while not (reader.poll() and reader.series("loss").steps[-1] == step):
            time.sleep(0.002)
        rows.append(time.monotonic() - begun)
        if step % 10 == 0:
            scores = patterns(scores)
            passed, begun = relay.passed, time.monotonic()
            run.frame(step, {"attention/pattern": softmax(scores)}, {"probe": ["a"] * 40})
            reader.frames  # noqa: B018
            while not (reader.poll() or len(reader.frames)) or reader.frames.steps[-1] != step:
                time.sleep(0.002)
            frames.append(time.monotonic() - begun)
            sizes.append(relay.passed - passed)
        time.sleep(0.05)
    quantiles("a row, from writing to reading", rows)
    quantiles("a frame of 102 kB", frames)
    print(
        f"a frame on the line: {np.median(sizes) / 1000:.1f} kB with the encryption, and {len(reader.frames)} are here"
    )
    grown = (run.path / "events.jsonl").stat().st_size - written

    busy: list[float] = []
    for step in range(2000, 2000 + many):
        scores = patterns(scores)
        if step % 5 == 0:
            run.frame(step, {"attention/pattern": softmax(scores)}, {"probe": ["a"] * 40})
        begun = time.monotonic()
        run.log(step, loss=5 / (1 + step), val_loss=5.5 / (1 + step), lr=1e-3)
        while not (reader.poll() and reader.series("loss").steps[-1] == step):
            time.sleep(0.002)
        busy.append(time.monotonic() - begun)
    quantiles("a row, while frames follow without pause", busy)
    print(f"the log grew by {grown / 1000:.1f} kB in the quiet part")


def cut_the_line(run: Recording, path: Path, reader: RunReader, relay: Relay, cuts: int) -> None:
    """Cut it while rows are written, and compare the mirror with the run in the end."""
    host = mirroring.host_at(Address("box", str(run.path.parent)))
    step = int(reader.series("loss").steps[-1])
    for cut in range(cuts):
        for _ in range(20):
            step += 1
            run.log(step, loss=1.0, cut=cut)
            time.sleep(0.02)
        relay.cut()
        for _ in range(20):
            step += 1
            run.log(step, loss=1.0, cut=cut)
        while not host.connected.is_set():
            time.sleep(0.05)
            host.try_now()
    run.close()
    deadline = time.monotonic() + 60
    theirs = (run.path / "events.jsonl").read_bytes()
    while (path / "events.jsonl").read_bytes() != theirs and time.monotonic() < deadline:
        time.sleep(0.1)
    same = (path / "events.jsonl").read_bytes() == theirs
    print(f"the line cut {cuts} times: the log is {'the same byte for byte' if same else 'NOT the same'}")


def slow_disk(folder: Path, asked: argparse.Namespace) -> None:
    """200 runs on a disk that takes 50 ms for each call, listed over the slow line."""
    program = zlib.decompress(line.agent())
    line.agent = lambda: zlib.compress(SLOW.format(seconds=asked.call).encode() + program, 9)
    runs = folder / "far" / "runs"
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    sshd = Sshd(folder / "sshd")
    relay = Relay(sshd.port, asked.round_trip, asked.rate)
    os.environ["TXLAB_SSH"] = sshd.command(relay.port)
    for number in range(200):
        run = txlab.record(f"model-{number}", root=runs)
        for step in range(200):
            run.log(step, loss=number + 5 / (1 + step), lr=1e-3)
        if number < 199:
            run.close()
    requests: list[str] = []
    ask = host_module.Conversation.ask

    def count(self: object, request: dict[str, object], *rest: object) -> int:
        requests.append(str(request["do"]))
        return ask(self, request, *rest)  # type: ignore[arg-type]

    host_module.Conversation.ask = count  # type: ignore[method-assign, assignment]
    address = Address("box", str(runs))
    began = time.monotonic()
    host = mirroring.host_at(address)
    while not len(list_runs(address.mirrors)):
        host.want_list()
        time.sleep(0.02)
    first = time.monotonic() - began
    there = mirroring.list_mirrors(address)
    took = time.monotonic() - began
    print(
        f"a disk of {1000 * asked.call:.0f} ms a call: the first of 200 runs after {first:.1f} s, all in {took:.1f} s"
    )
    print(f"  {len(list_runs(there))} runs, {relay.passed / 1000:.0f} kB, requests: {', '.join(requests)}")
    began, passed, before = time.monotonic(), relay.passed, host.listed_at
    while host.listed_at == before:
        host.want_list()
        time.sleep(0.02)
    print(f"  listed again: {time.monotonic() - began - 4:.1f} s, {(relay.passed - passed) / 1000:.1f} kB")
    began = time.monotonic()
    path = mirroring.open_run(Address("box", str(runs), run.path.name))
    print(f"  a run of it opened: {time.monotonic() - began:.1f} s")
    reader, seen = RunReader(path), []
    for step in range(200, 230):
        begun = time.monotonic()
        run.log(step, loss=0.1)
        while not (reader.poll() and reader.series("loss").steps[-1] == step):
            time.sleep(0.005)
        seen.append(time.monotonic() - begun)
    quantiles("  a row of it", seen)
    run.close()
    mirroring.close_all()
    relay.close()
    sshd.close()


if __name__ == "__main__":
    main()
