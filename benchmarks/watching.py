"""How much an open console slows a run on the same cores: `python benchmarks/watching.py`. Target: ≤ 5 %.

A GPT of 4 layers, width 128 and T = 64 trains in a separate process. The console, in a pseudo-terminal of 120 × 40,
is repeatedly opened on its Train screen for a while and closed for as long; the speed of each period is taken from the
run's own log, without the seconds of opening. Periods alternate, so that other load affects both equally.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

from tui_latency import Console, computing

from txlab.runs.reader import RunReader

SETTLES = 8.0  # seconds after opening or closing that are not counted: opening the console during a run takes 5
CHANGES = ["data.tokenizer=bytes", "model.layers=4", "model.heads=4", "model.width=128", "model.context=64"]
CHANGES += ["train.batch=12", "train.steps=1000000", "record.frame_every=10", "record.checkpoint_every=2000"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=12.0, help="of each stretch")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        stretches: list[tuple[bool, float, float]] = []
        with computing("gpt-tiny", CHANGES, root) as run:
            reader = RunReader(run)
            while not (reader.poll() and len(reader.series("loss"))):
                time.sleep(0.5)
            for repeat in range(2 * asked.repeats):
                # Watched first, then not; the next pair in reverse order.
                watched = (repeat % 2 == 0) == (repeat // 2 % 2 == 0)
                console = Console(root, run) if watched else None
                began = time.time() + SETTLES
                if console is None:
                    time.sleep(SETTLES + asked.seconds)
                else:
                    console.watch(SETTLES + asked.seconds)
                stretches.append((watched, began, time.time()))
                if console is not None:
                    console.leave()
        reader.poll()
        while not reader.complete:
            reader.catch_up()
        times = reader.series("loss").times
        speeds = [((times >= began) & (times < end)).sum() / (end - began) for _, began, end in stretches]
    ratios = []
    for pair in range(asked.repeats):
        (first, *_), (_, *_) = stretches[2 * pair : 2 * pair + 2]
        with_, without = speeds[2 * pair : 2 * pair + 2][:: 1 if first else -1]
        ratios.append(with_ / without)
        print(f"  watched {with_:7.1f}   alone {without:7.1f} steps/s   ratio {with_ / without:.3f}")
    print(f"watched / alone, median of {asked.repeats} pairs: {median(ratios):.3f}   (wanted: at least 0.95)")


if __name__ == "__main__":
    main()
