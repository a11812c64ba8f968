"""Memory of word2vec on a text larger than it: python benchmarks/word_memory.py [--megabytes 20 200]

For each size a text is generated, of a million possible words with frequencies ∝ 1 / rank, and read once by
`words-docs` in a separate process: counted, encoded into a temporary file, learnt from. It prints the largest resident
memory of the process, the anonymous part of it (the pages of the temporary file can be dropped at any time), and its
memory before the text. Target: at most 1 GB for 200 MB, and no growth with the text.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

WORDS = 1_000_000
PROGRAM = """
import sys
from txlab.experiments.kind import kind_named
from txlab.runs.scenario import load_scenario
import txlab.experiments.kinds.word_vectors.experiment
print("begun", flush=True)
changes = [f"data.text={sys.argv[1]}", "data.words=spaces", "data.sentences=line", "compute.threads=1"]
changes += ["train.epochs=1", "train.words=20000"]
experiment = kind_named("word-vectors").build(load_scenario("words-docs", changes).scenario)
print(len(experiment.text.vocabulary.words), len(experiment.text.ids), flush=True)
for _ in range(experiment.steps):
    experiment.step()
print("done", flush=True)
"""


def write_text(path: Path, megabytes: int) -> None:
    draws = np.random.default_rng(1)
    with path.open("w") as file:
        while file.tell() < megabytes * 1_000_000:
            ranks = np.exp(draws.random(100_000) * np.log(WORDS)).astype(int)  # density ∝ 1 / rank
            for line in ranks.reshape(-1, 20):
                file.write(" ".join(f"w{rank}" for rank in line) + "\n")


def memory(process: int) -> dict[str, int]:
    """RssAnon, VmRSS and the peak VmHWM of a process, in MB."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return {}
    return {name: int(size) // 1000 for name, size in re.findall(r"(RssAnon|VmRSS|VmHWM):\s+(\d+) kB", status)}


def measure(path: Path) -> str:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-P", "-c", PROGRAM, str(path)], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        before = memory(process.pid)["VmRSS"]
        own, peak = 0, 0
        while process.poll() is None:
            now = memory(process.pid)
            own, peak = max(own, now.get("RssAnon", 0)), max(peak, now.get("VmHWM", 0))
            time.sleep(0.1)
        words, ids = process.stdout.readline().split()
        if process.stdout.readline() != "done\n":
            raise SystemExit("the training did not come to its end")
    seconds = time.perf_counter() - began
    size = path.stat().st_size / 1e6
    return (
        f"{size:5.0f} MB of text, {int(ids) / 1e6:5.1f} M words and ends, vocabulary {words}: "
        f"peak {peak} MB, of it own {own} MB, before the text {before} MB; {seconds:.0f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", type=int, nargs="+", default=[20, 200])
    for size in parser.parse_args().megabytes:
        with tempfile.TemporaryDirectory(prefix="txlab-words-") as folder:
            path = Path(folder) / "text.txt"
            write_text(path, size)
            print(measure(path), flush=True)


if __name__ == "__main__":
    main()
