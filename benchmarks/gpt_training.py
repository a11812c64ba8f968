"""Seconds a step: a lean plain PyTorch loop beside the experiment, recorded as `txlab run` records it.

    python benchmarks/gpt_training.py [--shape 4x128x64|6x384x256] [--steps N] [--repeats N] [--busy N]

Four loops on the same text take turns, so that whatever else the machine does meets all of them alike: the lean loop in
float32; the experiment in float32 with the same attention; the experiment with what the probe chose, recorded; and the
same without recording. Printed are medians over the repeats and medians of the ratios within a repeat. Evaluation and
samples are off, because the lean loop has none; recorded is every metric, a frame each ten steps and a checkpoint each
200, as the schema has it. --busy N starts N processes that do nothing but spin.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from txlab.runs.process import set_thread_environment

set_thread_environment()  # before torch is imported; the lean loop profits as well

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from txlab.experiments.language_model import build, resolve  # noqa: E402
from txlab.experiments.language_model.schema import LanguageModelScenario  # noqa: E402

BATCH = {"4x128x64": 12, "6x384x256": 8}
Segment = Callable[[int], None]


class LeanBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        B, T, D = x.shape
        q, k, v = (
            part.view(B, T, self.heads, D // self.heads).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(D, 2)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(B, T, D))
        return x + self.mlp(self.norm2(x))


class LeanGPT(nn.Module):
    def __init__(self, layers: int, heads: int, width: int, context: int, vocabulary: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(LeanBlock(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def lean_loop(scenario: LanguageModelScenario, text: Tensor, threads: int) -> Segment:
    """What one writes without txlab: one file, float32, fused AdamW, clipping, the loss printed every step."""
    m, t = scenario.model, scenario.train
    torch.manual_seed(1)
    model = LeanGPT(m.layers, m.heads, m.width, m.context, 256)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1, fused=True)

    def segment(steps: int) -> None:
        torch.set_num_threads(threads)
        for _ in range(steps):
            starts = torch.randint(len(text) - m.context - 1, (t.batch, 1))
            window = text[starts + torch.arange(m.context + 1)].long()
            loss = F.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            loss.item()

    return segment


class Gate:
    """An experiment that waits before each step until it may go on: `drive` runs through, and segments take turns."""

    steps = 10**9

    def __init__(self, experiment: Any, threads: int) -> None:
        self.experiment, self.threads = experiment, threads
        self.left, self.waiting, self.changed = 0, False, threading.Condition()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.experiment, name)

    def step(self) -> Any:
        with self.changed:
            if not self.left:
                self.waiting = True  # all that belongs to the step before, its recording too, is done by now
                self.changed.notify_all()
                self.changed.wait_for(lambda: self.left > 0)
            self.left -= 1
        torch.set_num_threads(self.threads)  # a setting of the calling thread
        return self.experiment.step()

    def segment(self, steps: int) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.waiting)
            self.left, self.waiting = steps, False
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.waiting)


def bare_loop(scenario: LanguageModelScenario) -> Segment:
    experiment = build(scenario)

    def segment(steps: int) -> None:
        torch.set_num_threads(scenario.compute.threads)
        for _ in range(steps):
            experiment.step()

    return segment


def recorded_loop(scenario: LanguageModelScenario, folder: Path) -> Segment:
    """The loop of `txlab run`: requests, rows, heartbeat, frames, and checkpoints at the cadence of the schema."""
    from txlab.runs.control import Inbox
    from txlab.runs.directory import create_run_directory, new_info
    from txlab.runs.loop import drive
    from txlab.runs.recorder import Recorder

    run = create_run_directory(folder, "benchmark")
    gate = Gate(build(scenario), scenario.compute.threads)
    recorder = Recorder(run, new_info(run, "benchmark", scenario.kind), scenario.record.frames_mb)
    threading.Thread(target=drive, args=(gate, recorder, Inbox(run), scenario.record), daemon=True).start()
    return gate.segment


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=BATCH, default="4x128x64", help="layers x width x context")
    parser.add_argument("--steps", type=int, default=0, help="of a segment (100, or 8 for the large shape)")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--busy", type=int, default=0, help="processes that spin beside the measurement")
    asked = parser.parse_args()
    layers, width, context = map(int, asked.shape.split("x"))
    steps = asked.steps or (100 if width < 256 else 8)
    scenario = LanguageModelScenario.model_validate(
        {
            "model": {"layers": layers, "heads": max(4, width // 64), "width": width, "context": context},
            "train": {"batch": BATCH[asked.shape], "steps": 10**6},
            "record": {"evaluate_every": 0, "sample_every": 0, "frame_every": 10},
            "compute": {"device": "cpu"},
        }
    )
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(asked.busy)]
    try:
        with tempfile.TemporaryDirectory() as folder:
            measure(scenario, Path(folder), steps, asked.repeats, asked.busy)
    finally:
        for process in busy:
            process.kill()


def measure(scenario: LanguageModelScenario, folder: Path, steps: int, repeats: int, busy: int) -> None:
    threads = torch.get_num_threads()
    probed = resolve(scenario)
    plain = {"device": "cpu", "dtype": "float32", "attention": "sdpa", "threads": threads, "compile": False}
    fp32 = scenario.model_copy(update={"compute": type(scenario.compute)(**plain)})
    text = torch.from_numpy(build(fp32).data.train.astype("int64"))  # type: ignore[union-attr]
    loops = {
        "lean plain loop, float32": lean_loop(scenario, text, threads),
        "experiment, float32, recorded": recorded_loop(fp32, folder / "fp32"),
        "experiment, probed, recorded": recorded_loop(probed, folder / "probed"),
        "experiment, probed, not recorded": bare_loop(probed),
    }
    for segment in loops.values():
        segment(max(2, steps // 10))  # warm-up
    taken: dict[str, list[float]] = {name: [] for name in loops}
    for repeat in range(repeats):
        order = list(loops)[repeat % len(loops) :] + list(loops)[: repeat % len(loops)]
        for name in order:
            began = time.perf_counter()
            loops[name](steps)
            taken[name].append((time.perf_counter() - began) / steps)
    m, compute = scenario.model, probed.compute
    print(f"{m.layers} layers, width {m.width}, T {m.context}, batch {scenario.train.batch}; torch {torch.__version__}")
    print(f"{threads} threads for the lean loop; {repeats} × {steps} steps; {busy} busy processes")
    print(f"probed: {compute.dtype}, {compute.attention} attention, {compute.threads} threads")
    tokens = scenario.train.batch * m.context
    lean, fp32_steps, recorded, bare = taken.values()
    for name, seconds in taken.items():
        middle = median(seconds)
        print(f"  {name:34} {1e3 * middle:8.1f} ms a step {tokens / middle:10,.0f} tokens/s")

    def ratio(over: list[float], under: list[float]) -> float:
        return median(a / b for a, b in zip(over, under, strict=True))

    print(f"  lean / experiment in float32        {ratio(lean, fp32_steps):6.2f}   (wanted: at least 1.0)")
    print(f"  lean / experiment as probed         {ratio(lean, recorded):6.2f}   (wanted: at least 1.8)")
    print(f"  recorded / not recorded             {ratio(recorded, bare):6.3f}   (wanted: at most 1.02)")


if __name__ == "__main__":
    main()
