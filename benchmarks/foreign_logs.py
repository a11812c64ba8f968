"""Reading other programs' logs, compared with their own readers: `python benchmarks/foreign_logs.py`.

Needs the programs themselves for their part: `pip install wandb trackio lightning` (trackio in a separate environment,
since it needs an older Pillow); a missing one is skipped. Each log is written by its own package. Target: 100 000
TensorBoard scalars in ≤ 1 s. Times are of the processor, the least of several repetitions; every value is compared with
what was logged.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from clock import cpu_seconds

from txlab.runs.external_logs.finding import find_logs, logs_under
from txlab.runs.external_logs.mirror import Mirror, reader_of
from txlab.runs.reader import RunReader
from txlab.runs.stdout_parser import read_line

WANDB = """
import os, sys
os.environ |= {"WANDB_MODE": "offline", "WANDB_SILENT": "true"}
import wandb
run = wandb.init(project="demo")
for step in range(ROWS):
    run.log({"train/loss": 1 / (step + 1), "lr": 1e-3, "grad_norm": 0.5, "tokens": 64 * step, "mfu": 0.3, "gap": 0.1})
run.finish()
"""
TRACKIO = """
import trackio
trackio.init(project="demo", name="a", auto_log_gpu=False)
for step in range(ROWS):
    row = {"train/loss": 1 / (step + 1), "lr": 1e-3, "grad_norm": 0.5}
    trackio.log(row | {"tokens": 64 * step, "mfu": 0.3, "gap": 0.1})
trackio.finish()
"""
LIGHTNING = """
from lightning.pytorch.loggers import CSVLogger
logger = CSVLogger(".", flush_logs_every_n_steps=10**9)
for step in range(ROWS):
    row = {"train/loss": 1 / (step + 1), "lr": 1e-3, "grad_norm": 0.5}
    logger.log_metrics(row | {"tokens": 64 * step, "mfu": 0.3}, step)
logger.save()
"""
LINES = [
    "step {0}/500 | loss {1} | norm 15.3 | lr 8.57e-07 | 3056.36 ms | 171000 tok/s",
    "{{'loss': '{1}', 'grad_norm': '1.25', 'learning_rate': '4e-05', 'epoch': '0.1'}}",
    '{{"step": {0}, "train": {{"loss": {1}}}, "lr": 1e-4}}',
    "Epoch 3/10: 45%|████▌     | {0}/100 [00:10<00:12,  4.43it/s, loss={1}, acc=0.9]",
    "2024-11-20 10:00:00,123 INFO started worker {0} after {1} s",
    "a line without any figure at all, as most of a program's output is",
]


def least(repeats: int, work: Callable[[], object]) -> float:
    return min(cpu_seconds(work) for _ in range(repeats))


def all_of(folder: Path) -> int:
    (log,) = logs_under(folder)
    reader, count = reader_of(log, None), 0
    reader.mark()
    while (rows := reader.read()) is not None:
        count += sum(len(values) for event, _, _, values in rows if event == "metrics")
    return count


def print_speed(name: str, seconds: float, scalars: int, beside: str = "") -> None:
    print(f"  {name:<46} {seconds:7.3f} s  {1e6 * seconds / scalars:6.2f} µs a scalar  {beside}", flush=True)


def tensorboard(folder: Path, scalars: int, repeats: int) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder)) as writer:
        for step in range(scalars // 5):
            for tag in ("train/loss", "lr", "grad_norm", "tokens", "mfu"):
                writer.add_scalar(tag, 1 / (step + 1), step)
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"TensorBoard: {scalars} scalars of 5 tags, {size / 1e6:.1f} MB")
    assert all_of(folder) == scalars
    print_speed("ours, every CRC checked", least(repeats, lambda: all_of(folder)), scalars)
    log = logs_under(folder)[0]

    def update_mirror() -> None:
        with tempfile.TemporaryDirectory() as cache:
            os.environ["XDG_CACHE_HOME"] = cache
            Mirror(log).update()

    print_speed("ours, into a run directory", least(repeats, update_mirror), scalars)

    def accumulate() -> EventAccumulator:
        accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0})
        accumulator.Reload()
        return accumulator

    print_speed("EventAccumulator", least(max(1, repeats // 2), accumulate), scalars)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache:  # a thread looks at the mirror for a while
        os.environ["XDG_CACHE_HOME"] = cache
        mirror = Mirror(log)
        mirror.update()
        reader = RunReader(mirror.path)
        reader.poll()
        reader.catch_up()
        theirs = accumulate()
        for tag in theirs.Tags()["scalars"]:
            ours = reader.series(tag)
            expected = [(e.step, e.value) for e in theirs.Scalars(tag)]
            np.testing.assert_array_equal(np.array(expected), np.stack([ours.steps, ours.values], 1))
    print("  every step and value is EventAccumulator's")


def others(folder: Path, rows: int, repeats: int) -> None:
    for package, script, values in (("wandb", WANDB, 6), ("trackio", TRACKIO, 6), ("lightning", LIGHTNING, 5)):
        if importlib.util.find_spec(package) is None:
            print(f"{package} is not installed")
            continue
        place = folder / package
        place.mkdir()
        environment = os.environ | {"TRACKIO_DIR": str(place)}
        begun = time.perf_counter()
        subprocess.run(
            [sys.executable, "-P", "-c", script.replace("ROWS", str(rows))],
            cwd=place,
            env=environment,
            check=True,
            capture_output=True,
        )
        print(f"{package}: {rows} rows of {values} values; writing them took {time.perf_counter() - begun:.1f} s")
        count = all_of(place)
        assert count == rows * values, (count, rows * values)
        print_speed("ours", least(repeats, partial(all_of, place)), count)


def time_stdout(repeats: int) -> None:
    print("Printed lines")
    for form in LINES:
        lines = [form.format(step, 1 / (step + 1)) for step in range(2000)]
        seconds = least(repeats, lambda lines=lines: [read_line(line) for line in lines])
        read = sum(read_line(line) is not None for line in lines)
        print(f"  {1e6 * seconds / len(lines):6.1f} µs  {'read' if read else 'nothing':<8} {lines[7][:76]}")


def time_search(repeats: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number in range(10_000):
            place = Path(folder) / f"data_{number % 100}"
            place.mkdir(exist_ok=True)
            (place / f"{number}.txt").touch()
        seconds = least(repeats, lambda: find_logs(Path(folder)))
        print(f"Searching a folder of 10 000 files without a log: {1e3 * seconds:.0f} ms, in a thread of the console")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scalars", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {math.ceil(os.cpu_count() or 1)} cores")
    with tempfile.TemporaryDirectory() as folder:
        tensorboard(Path(folder) / "board", asked.scalars, asked.repeats)
        others(Path(folder), asked.scalars // 20, asked.repeats)
    time_stdout(asked.repeats)
    time_search(asked.repeats)


if __name__ == "__main__":
    main()
