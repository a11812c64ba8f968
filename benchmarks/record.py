"""The cost of one call in the loop of another program: `python benchmarks/record.py`. Target: ≤ 25 µs for a number.

Blocks of calls alternate, in an order that turns, so that other load slows all of them; the median of the repeats is
printed, in µs of processor time of this process and by the clock. A block writes 2 000 steps: one number each, and a
row of six. SummaryWriters buffer what they are given and hand it to a thread; ours has written the row when the call
returns. wandb, in its offline mode, is measured if it is installed.
"""

import argparse
import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import txlab

NAMES = ("loss", "lr", "grad_norm", "accuracy", "train/perplexity", "tokens")
Log = Callable[[int, dict[str, float]], object]


@contextlib.contextmanager
def ours(folder: Path) -> Iterator[Log]:
    with txlab.record("benchmark", root=folder) as run:
        yield run.log


@contextlib.contextmanager
def ours_polled(folder: Path) -> Iterator[Log]:
    with txlab.record("benchmark", root=folder) as run:
        yield lambda step, values: run.poll(step) and run.log(step, values)


def writer_of(make: Callable[[Path], Any]) -> Callable[[Path], contextlib.AbstractContextManager[Log]]:
    @contextlib.contextmanager
    def open_writer(folder: Path) -> Iterator[Log]:
        writer = make(folder / "writer")

        def log(step: int, values: dict[str, float]) -> None:
            for name, value in values.items():
                writer.add_scalar(name, value, step)

        yield log
        writer.close()

    return open_writer


@contextlib.contextmanager
def wandb_offline(folder: Path) -> Iterator[Log]:
    import wandb

    with wandb.init(project="benchmark", dir=folder, mode="offline", settings=wandb.Settings(silent=True)) as run:
        yield lambda step, values: run.log(values, step=step)


def contenders() -> dict[str, Callable[[Path], contextlib.AbstractContextManager[Log]]]:
    logs: dict[str, Any] = {
        "txlab log": ours,
        "txlab poll + log": ours_polled,
        "txlab SummaryWriter": writer_of(lambda folder: txlab.SummaryWriter(folder)),
    }
    with contextlib.suppress(ImportError):
        from tensorboardX import SummaryWriter as Other

        logs["tensorboardX"] = writer_of(lambda folder: Other(str(folder)))
    with contextlib.suppress(ImportError):
        from torch.utils.tensorboard import SummaryWriter as Torchs

        logs["torch SummaryWriter"] = writer_of(lambda folder: Torchs(str(folder)))
    with contextlib.suppress(ImportError):
        import wandb  # noqa: F401

        logs["wandb offline"] = wandb_offline
    return logs


def block(make: Callable[[Path], contextlib.AbstractContextManager[Log]], names: tuple[str, ...], calls: int) -> Any:
    """(µs of processor time, µs by the clock) a call."""
    with tempfile.TemporaryDirectory(prefix="txlab-record-", dir=".") as folder, make(Path(folder)) as log:
        rows = [{name: 1.0 / (step + 1 + place) for place, name in enumerate(names)} for step in range(calls)]
        log(0, rows[0])
        began, used = time.perf_counter(), time.process_time()
        for step, row in enumerate(rows):
            log(step, row)
        return 1e6 * (time.process_time() - used) / calls, 1e6 * (time.perf_counter() - began) / calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000, help="a block")
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args()
    os.environ.setdefault("WANDB_SILENT", "true")
    everybody = contenders()
    for names in (NAMES[:1], NAMES):
        took: dict[str, list[tuple[float, float]]] = {name: [] for name in everybody}
        for repeat in range(-1, given.repeats):  # the first time is not counted: imports, and the directory's cache
            order = list(everybody)
            turn = repeat % len(order)
            for name in order[turn:] + order[:turn]:
                measured = block(everybody[name], names, given.calls)
                if repeat >= 0:
                    took[name].append(measured)
        print(f"{len(names)} number{'s' if len(names) > 1 else ''} a step, load {os.getloadavg()[0]:.1f}")
        base = statistics.median(cpu for cpu, _ in took["txlab log"])
        for name, values in took.items():
            cpu, wall = (statistics.median(each[part] for each in values) for part in (0, 1))
            print(f"  {name:22s} {cpu:7.1f} µs of processor, {wall:7.1f} by the clock   {cpu / base:5.1f} ×")


if __name__ == "__main__":
    main()
