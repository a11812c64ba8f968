"""Seconds per step: a lean plain PyTorch loop and the experiment, recorded as `txlab run` records it.

    python benchmarks/gpt_training.py [--shape 4x128x64|6x384x256] [--steps N] [--repeats N] [--busy N]
    python benchmarks/gpt_training.py --shape gpt2-124m      on a GPU, as the scenario of that name is trained

Three loops on the same text take turns, so that other load on the machine affects all of them equally. Each has its own
process, as in practice (several pools of OpenMP threads in one process slow each other down, by half here): the lean
loop in float32; the experiment in float32, not compiled; the experiment with everything the probe chose, recorded, and,
in the same process on the same weights (two processes of one program differ by a few per cent here, depending on memory
layout), its steps alone without recording. The output gives medians over the repeats and medians of the ratios within a
repeat. Evaluation and samples are off, because the lean loop has none; every metric is recorded, frames and checkpoints
at the schema's default cadence. The lean process keeps the default GOMP_SPINCOUNT and allocator. --busy N starts N
processes that only spin. The share of the peak is that of the experiment as probed: the FLOPs of MATH T9's costs
relative to the best of several large products in its dtype. On a GPU its memory has to hold all three.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from txlab.runs.writing import keep_freed_memory, set_thread_environment

if sys.argv[1:3] != ["--child", "lean"]:  # as `txlab run` begins, before torch is imported
    set_thread_environment()
    keep_freed_memory()

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txlab.engine.device import DTYPES, choose_device, describe, measure_peak, synchronise
from txlab.engine.transformer.costs import costs
from txlab.experiments.kinds.language_model import KIND
from txlab.experiments.kinds.language_model.schema import LanguageModelScenario
from txlab.experiments.learning.autotune import reasons
from txlab.experiments.learning.text_experiment import expected_tokens
from txlab.experiments.learning.timing import SHARED
from txlab.runs.scenario import load_scenario

BATCH = {"4x128x64": 12, "6x384x256": 8}
GPT2 = "gpt2-124m"
LOOPS = {
    "lean": "lean plain loop, float32",
    "fp32": "experiment, float32, recorded",
    "probed": "experiment, probed, recorded",
    "bare": "experiment, probed, not recorded",
}
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


def vocabulary(scenario: LanguageModelScenario) -> int:
    return expected_tokens(scenario.data.tokenizer, scenario.data.vocabulary)


def lean_loop(scenario: LanguageModelScenario, text: Tensor, threads: int) -> Segment:
    """The loop without txlab: one file, float32, fused AdamW, clipping, the loss printed every step."""
    m, t, device = scenario.model, scenario.train, choose_device(scenario.compute.device)
    torch.manual_seed(1)
    model = LeanGPT(m.layers, m.heads, m.width, m.context, vocabulary(scenario)).to(device)
    text = text.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1, fused=True)

    def segment(steps: int) -> None:
        torch.set_num_threads(threads)
        for _ in range(steps):
            optimizer.zero_grad(set_to_none=True)
            for _ in range(t.accumulate):
                starts = torch.randint(len(text) - m.context - 1, (t.batch // t.accumulate, 1), device=device)
                window = text[starts + torch.arange(m.context + 1, device=device)].long()
                loss = F.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten()) / t.accumulate
                loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            loss.item()

    return segment


# In the process of a loop: it reads numbers of steps from standard input and prints the seconds that they took.


def turns(segment: Segment) -> None:
    for line in sys.stdin:
        began = time.perf_counter()
        segment(int(line))
        print(time.perf_counter() - began, flush=True)


class Turns:
    """An experiment that waits for its turn before a step, so that a single `run_loop` keeps its own cadences.

    A turn of "bare N" runs here, as steps without recording.
    """

    steps = 10**9

    def __init__(self, experiment: Any) -> None:
        self.experiment, self.left, self.began = experiment, 0, 0.0
        self.device = choose_device(experiment.scenario.compute.device)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.experiment, name)

    def step(self) -> Any:
        if not self.left:
            if self.began:  # the previous step and its recording are finished by now
                synchronise(self.device)
                print(time.perf_counter() - self.began, flush=True)
            line = sys.stdin.readline()
            while line.startswith("bare"):
                began = time.perf_counter()
                for _ in range(int(line.split()[1])):
                    self.experiment.step()
                synchronise(self.device)
                print(time.perf_counter() - began, flush=True)
                line = sys.stdin.readline()
            if not line:
                sys.exit()
            self.left, self.began = int(line), time.perf_counter()
        self.left -= 1
        return self.experiment.step()


def run_recorded(scenario: LanguageModelScenario, folder: Path) -> None:
    """The loop of `txlab run`: requests, rows, heartbeat, frames, and checkpoints at the cadence of the schema."""
    from txlab.runs.control import Inbox
    from txlab.runs.directory import new_info
    from txlab.runs.folder import create_run_directory
    from txlab.runs.loop import run_loop
    from txlab.runs.recorder import Recorder

    run = create_run_directory(folder, "benchmark")
    recorder = Recorder(run, new_info(run, "benchmark", scenario.kind), scenario.record.frames_mb)
    run_loop(Turns(KIND.build(scenario)), recorder, Inbox(run), scenario.record)


def child(loop: str, scenario: LanguageModelScenario, folder: Path) -> None:
    if loop == "lean":
        text = torch.from_numpy(KIND.build(scenario).data.train.astype("int64"))  # type: ignore[union-attr]
        turns(lean_loop(scenario, text, scenario.compute.threads))
    else:
        run_recorded(scenario, folder)


# In the measuring process.


class Loop:
    """One loop in its own process."""

    def __init__(self, name: str, scenario: LanguageModelScenario, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", __file__, "--child", name, scenario.model_dump_json(), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={key: value for key, value in os.environ.items() if key != "GOMP_SPINCOUNT"},
        )

    def segment(self, steps: int, bare: bool = False) -> float:
        """The seconds that this many steps take."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"bare {steps}\n" if bare else f"{steps}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a loop ended early; its error is printed above")
        return float(line)


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        return child(sys.argv[2], LanguageModelScenario.model_validate(json.loads(sys.argv[3])), Path(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=[*BATCH, GPT2], default="4x128x64", help="layers x width x context")
    parser.add_argument("--device", default="", help="cpu, or for gpt2-124m what txlab chooses")
    parser.add_argument("--batch", type=int, default=0, help="sequences of a step, instead of the shape's")
    parser.add_argument("--steps", type=int, default=0, help="of a segment (50, two frames; 6 for the larger shapes)")
    parser.add_argument("--repeats", type=int, default=0, help="turns of each (17, or 9 for the larger shapes)")
    parser.add_argument("--busy", type=int, default=0, help="processes that spin during the measurement")
    asked = parser.parse_args()
    scenario = scenario_of(asked.shape, asked.device, asked.batch)
    small = scenario.model.width < 256
    steps, repeats = asked.steps or (50 if small else 6), asked.repeats or (17 if small else 9)
    busy = [subprocess.Popen([sys.executable, "-P", "-c", "while True: pass"]) for _ in range(asked.busy)]
    loops: dict[str, Loop] = {}
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            threads = torch.get_num_threads()
            probed = KIND.resolve(scenario)
            plain = {"device": probed.compute.device, "dtype": "float32", "compile": False}
            fp32 = KIND.resolve(scenario.model_copy(update={"compute": type(scenario.compute)(**plain)}))
            for name in ("lean", "fp32", "probed"):
                loops[name] = Loop(name, fp32 if name in ("lean", "fp32") else probed, Path(folder) / name)
            print_settings(fp32, probed)
            measure(loops, probed, threads, steps, repeats, asked.busy)
            for loop in loops.values():
                loop.process.kill()
                loop.process.wait()
    finally:
        for process in [*busy, *(loop.process for loop in loops.values())]:
            process.kill()


def scenario_of(shape: str, device: str, batch: int) -> LanguageModelScenario:
    """The scenario to train: no evaluation, no samples, and more steps than any measurement takes."""
    quiet = {"evaluate_every": 0, "sample_every": 0}
    if shape == GPT2:
        changes = {"compute.device": device or "auto", "train.steps": 10**6}
        if batch:
            changes |= {"train.batch": batch, "train.accumulate": 1}
        changes |= {f"record.{name}": value for name, value in quiet.items()}
        loaded = load_scenario(GPT2, [f"{key}={json.dumps(value)}" for key, value in changes.items()]).scenario
        assert isinstance(loaded, LanguageModelScenario)
        return loaded
    layers, width, context = map(int, shape.split("x"))
    return LanguageModelScenario.model_validate(
        {
            "model": {"layers": layers, "heads": max(4, width // 64), "width": width, "context": context},
            "train": {"batch": batch or BATCH[shape], "steps": 10**6},
            "record": quiet,
            "compute": {"device": device or "cpu"},
        }
    )


def print_settings(*scenarios: LanguageModelScenario) -> None:
    """Print the settings of each loop, and what the probe measured."""
    for scenario in scenarios:
        c = scenario.compute
        compiled = ", compiled" if c.compile is True else ""
        print(
            f"{c.dtype}, {c.attention} attention, {c.threads} threads sharing {SHARED[c.thread_mode]}{compiled}; tried:"
        )
        for reason in reasons(scenario):
            print(f"    {reason}")


def measure(
    loops: dict[str, Loop], scenario: LanguageModelScenario, threads: int, steps: int, repeats: int, busy: int
) -> None:
    for loop in loops.values():
        loop.segment(max(2, steps // 10))  # warm-up
    taken: dict[str, list[float]] = {name: [] for name in LOOPS}
    for repeat in range(repeats):
        order = list(LOOPS)[repeat % len(LOOPS) :] + list(LOOPS)[: repeat % len(LOOPS)]
        for name in order:
            loop = loops["probed" if name == "bare" else name]
            taken[name].append(loop.segment(steps, bare=name == "bare") / steps)
    m, compute = scenario.model, scenario.compute
    print(f"{m.layers} layers, width {m.width}, T {m.context}, batch {scenario.train.batch}; torch {torch.__version__}")
    print(f"{threads} threads for the lean loop; {repeats} × {steps} steps; {busy} busy processes")
    tokens = scenario.train.batch * m.context
    device = choose_device(compute.device)
    peak = measure_peak(device, DTYPES[compute.dtype], seconds=1.0)
    work = costs(scenario.model.shape(vocabulary(scenario))).flops_per_token
    for name, seconds in taken.items():
        middle = median(seconds)
        print(f"  {LOOPS[name]:34} {1e3 * middle:8.1f} ms a step {tokens / middle:10,.0f} tokens/s")

    def ratio(over: str, under: str) -> float:
        return median(a / b for a, b in zip(taken[over], taken[under], strict=True))

    share = work * tokens / median(taken["bare"]) / peak
    print(
        f"  share of the measured peak          {100 * share:5.0f}%   of {peak / 1e12:.2f} TFLOP/s, {describe(device)}"
    )
    print(f"  lean / experiment in float32        {ratio('lean', 'fp32'):6.2f}   (wanted: at least 1.0)")
    print(f"  lean / experiment as probed         {ratio('lean', 'probed'):6.2f}   (wanted: at least 1.8)")
    print(f"  recorded / not recorded             {ratio('probed', 'bare'):6.3f}   (wanted: at most 1.02)")


if __name__ == "__main__":
    main()
