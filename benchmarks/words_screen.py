"""How quickly the screen Words answers over 50 000 words while they are learnt: python benchmarks/words_screen.py

A generated text of 60 000 words with Zipf's frequencies, a run that learns vectors of the 50 000 most frequent ones on
one thread and records all of them every ten steps (--frame-every), and the real program in a pseudo-terminal of
120 × 40. It prints the milliseconds from a key to the last byte of what it paints, compared with the smallest Textual
program in the same minute (see tui_latency.py), and the time that the nearest words of one word take.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from tui_latency import DOWN, LEFT, RIGHT, UP, Console, computing, percentiles, print_rows, smallest_program

from txlab.engine.embeddings.neighbours import nearest, unit

GROUPS = [("cursor", (LEFT, UP, RIGHT, DOWN)), ("zoom", ("+", "-")), ("mark", ("m",)), ("colours", ("f",))]


def write_text(path: Path, words: int = 60_000, lines: int = 200_000) -> None:
    """Lines of 20 words, the r-th with frequency ∝ 1 / (r + 30)."""
    draw = random.Random(1)
    names = [f"w{number}x" for number in range(words)]
    cumulative = list(itertools.accumulate(1 / (rank + 30) for rank in range(words)))
    with path.open("w") as file:
        for _ in range(lines):
            file.write(" ".join(draw.choices(names, cum_weights=cumulative, k=20)) + "\n")


def nearest_words(words: int = 50_000, width: int = 100, repeats: int = 50) -> float:
    """Milliseconds, the median."""
    units = unit(np.random.default_rng(0).standard_normal((words, width)).astype(np.float32))
    times = []
    for row in range(repeats):
        begun = time.perf_counter()
        nearest(units, units[row], 40, [row])
        times.append(1000 * (time.perf_counter() - begun))
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keys", type=int, default=40, help="presses of each group")
    parser.add_argument("--frame-every", type=int, default=10, help="steps from one recorded frame (40 MB) to the next")
    options = parser.parse_args()
    rows = [("nearest words of one of 50 000", f"{nearest_words():.1f} ms")]
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        write_text(text)
        settings = [f"data.text={text}", "data.words=spaces", "data.sentences=line", "data.minimum=1"]
        settings += [
            "probe.shown=50000",
            f"record.frame_every={options.frame_every}",
            "train.epochs=1000",
            "compute.threads=1",
        ]
        with computing("words-docs", settings, Path(folder) / "runs", ends_within=60) as run:
            console = Console(run.parent, run)
            console.until("50 000 words", 300)
            time.sleep(3)
            small = smallest_program()[1]
            middle = statistics.median(small)
            rows.append(("key → painted, smallest program", percentiles(small, middle)))
            every: list[float] = []
            for name, keys in GROUPS:
                times = console.keys(keys, options.keys)
                every += times
                rows.append((f"key → painted, {name}", percentiles(times, middle)))
            rows.append(("key → painted, all of them", percentiles(every, middle)))
            console.leave()
    print_rows(rows)


if __name__ == "__main__":
    main()
