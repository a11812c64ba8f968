"""A thousand runs: how long the list takes in the shell and the first look of the Lab, on a disk and on a slow one.

    python benchmarks/many_runs.py [--runs 1000] [--delay 0.05]

The slow disk is a stand-in: every call that names a path (stat, open, scandir, readlink) sleeps for `--delay` seconds,
as on a busy network file system. Target: the list within 1 s; the slow folder shows names at once and its newest runs
within seconds.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

import txlab
from txlab.runs.folder import DATED, list_runs
from txlab.runs.summary import RunsUnder


def make(root: Path, runs: int) -> None:
    """Copies of one recorded run that began one second after the other and differ in their configuration."""
    with txlab.record("job", {"lr": 0, "model": {"width": 0}}, root) as run:
        for step in range(60):
            run.log(step, loss=1 / (step + 1), accuracy=step / 60)
    info = orjson.loads((run.path / "run.json").read_bytes())
    for n in range(runs):
        folder = root / f"{time.strftime(DATED, time.localtime(1.79e9 + n))}_job{n % 7}"
        shutil.copytree(run.path, folder)
        info["config"] = {"lr": n, "model.width": n % 3}
        (folder / "run.json").write_bytes(orjson.dumps(info))
    shutil.rmtree(run.path)


def median(work: Callable[[], object], times: int = 5) -> float:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return statistics.median(took)


@contextmanager
def delay_calls(delay: float) -> Iterator[None]:
    """Make each call of the file system that names a path slow."""
    originals = {name: getattr(os, name) for name in ("stat", "lstat", "open", "scandir", "listdir", "readlink")}
    for name, original in originals.items():

        def slow(*given: object, original: Callable[..., object] = original, **named: object) -> object:
            time.sleep(delay)
            return original(*given, **named)

        setattr(os, name, slow)
    yield
    for name, original in originals.items():
        setattr(os, name, original)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--delay", type=float, default=0.05)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        make(root, given.runs)
        environment = os.environ | {"TXLAB_RUNS": place}

        def shell(*arguments: str) -> None:
            command = [sys.executable, "-P", "-m", "txlab", *arguments]
            subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)

        def read_all() -> None:
            under = RunsUnder(root)
            while len(under.known) < given.runs:
                under.look({"none"}, everything=True)

        print(f"{given.runs} runs, medians of five, seconds")
        print(f"  txlab runs                 {median(lambda: shell('runs')):6.2f}")
        print(f"  txlab runs --limit 0       {median(lambda: shell('runs', '--limit', '0')):6.2f}   target 1")
        print(f"  names in order             {median(lambda: list_runs(root)):6.2f}")
        print(f"  the Lab: first runs read   {median(lambda: RunsUnder(root).look(set())):6.2f}")
        print(f"  the Lab: all runs read     {median(read_all):6.2f}")
        with delay_calls(given.delay):
            under = RunsUnder(root)
            print(f"the same with {1000 * given.delay:.0f} ms a call")
            print(f"  the Lab: first runs read   {median(lambda: under.look(set()), 1):6.2f}")
            print(f"  the Lab: the next look     {median(lambda: under.look(set()), 1):6.2f}")


if __name__ == "__main__":
    main()
