"""How fast a recording of 10 000 frames is opened, reopened and scrubbed: `python benchmarks/frames.py`.

Target: after the first time, indexing takes < 0.1 s; frames are read at 20 a second or more. Each frame is that of a
small language model: attention patterns (4, 4, 32, 32), queries and keys (4, 4, 32, 16), next tokens with labels. The
ratio is to safetensors' own reader, which reopens the file for each frame.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from safetensors import safe_open

from txlab.experiments.protocol import Frame
from txlab.runs.frames import FrameIndex, FrameWriter


def frame(step: int, random: np.random.Generator) -> Frame:
    tensors = {
        "attention/pattern": random.random((4, 4, 32, 32)).astype(np.float16),
        "attention/query": random.random((4, 4, 32, 16), dtype=np.float32),
        "attention/key": random.random((4, 4, 32, 16), dtype=np.float32),
        "next/probability": random.random((32, 8), dtype=np.float32),
    }
    tokens = {"probe": ["the "] * 32, "next": [" token"] * 256}
    return Frame(step, tensors, tokens, {}, {"mask": "causal", "layers": 4, "heads": 4})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=10_000)
    count = parser.parse_args().frames
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(prefix="txlab-frames-") as folder:
        directory = Path(folder) / "frames"
        writer = FrameWriter(directory, budget_bytes=1e12)
        made = [frame(0, random) for _ in range(8)]
        costs = []
        for step in range(count):
            one = made[step % 8]
            began = time.perf_counter()
            writer.write(Frame(step * 10, one.tensors, one.tokens, one.texts, one.facts))
            costs.append(time.perf_counter() - began)
        files = list(directory.iterdir())
        size = sum(path.stat().st_size for path in files)
        print(f"{count} frames, {size / 1e6:.0f} MB in {len(files)} files")
        print(f"write a frame      {1e3 * np.median(costs):8.2f} ms median, {1e3 * np.mean(costs):.2f} mean, "
              f"{1e3 * np.max(costs):.1f} most (a packing)")  # fmt: skip

        index = FrameIndex(directory)
        began = time.perf_counter()
        index.refresh()
        print(f"first look         {1e3 * (time.perf_counter() - began):8.1f} ms")
        began = time.perf_counter()
        index.refresh()
        print(f"look again         {1e3 * (time.perf_counter() - began):8.1f} ms  (promise < 100)")
        writer.write(frame(count * 10, random))
        began = time.perf_counter()
        index.refresh()
        print(f"look, a new frame  {1e3 * (time.perf_counter() - began):8.1f} ms")

        for name, steps in [
            ("in order", index.steps[: min(2000, count)]),
            ("at random", random.choice(index.steps, min(2000, count))),
        ]:
            for wanted in (None, ["attention/pattern"]):
                began = time.perf_counter()
                for step in steps:
                    index.read(int(step), wanted)
                rate = len(steps) / (time.perf_counter() - began)
                print(f"read {name:9s} {'all' if wanted is None else 'one tensor':10s} {rate:8.0f} frames/s")

        packs = sorted(directory.glob("pack-*"))
        if not packs:
            return
        reads = 300
        began = time.perf_counter()
        for _ in range(reads):
            with safe_open(packs[random.integers(len(packs))], framework="numpy") as file:
                key = next(iter(file.keys())).partition("/")[0]
                file.metadata()
                file.get_tensor(f"{key}/attention/pattern")
        peer = reads / (time.perf_counter() - began)
        print(f"safetensors' reader, at random, one tensor {peer:6.0f} frames/s; ratio ours / theirs {rate / peer:.1f}")


if __name__ == "__main__":
    main()
