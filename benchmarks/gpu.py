"""The gain from a GPU, in one table: `python benchmarks/gpu.py [--device auto|cpu|cuda:1] [--full] [--only NAME …]`.

    peak        products of large matrices and copies within its memory, compared with the data sheet
    gpt2        training steps of the shape of gpt2-124m on random tokens, as the probe decides
    small       a small model, bound by launches: one by one, compiled, as CUDA graphs, both
    recording   the small model as `txlab run` records it, compared with its steps alone
    decisions   Q-learning, a table an agent: NumPy on the CPU, torch on the device
    words       word vectors, on the CPU and on the device
    writing     text by a model of that small shape's width with its cache, one text and many

It is quick by default: few steps on a GPU, smaller sizes on a CPU (`--device cpu`), where every path runs as well.
--full takes ten times as many steps. A section that fails says why, and the others continue.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # as `txlab run` has it

import numpy as np
import torch

from txlab.engine.device import (
    DTYPES,
    choose_device,
    data_sheet,
    data_sheet_peak,
    describe,
    measure_copy,
    measure_peak,
    synchronise,
)
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.sweeps.sweep import sweep_in
from txlab.engine.rl.worlds import world_named
from txlab.engine.tokenizers.elementary import ByteTokenizer
from txlab.engine.transformer.generation import generate_batch
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.errors import one_line
from txlab.experiments.kind import kind_named
from txlab.experiments.kinds.language_model import KIND
from txlab.experiments.kinds.language_model.experiment import LanguageModelExperiment
from txlab.experiments.kinds.language_model.schema import LanguageModelScenario
from txlab.experiments.learning.autotune import reasons
from txlab.experiments.learning.gradient import prepare
from txlab.experiments.learning.text_data import Batch, TextData
from txlab.experiments.randomness import generator

Row = tuple[str, str]
GPT2 = GPTShape(12, 12, 768, 1024, 32768)
TINY = GPTShape(4, 4, 128, 64, 256)


@dataclass(frozen=True)
class Asked:
    device: torch.device
    full: bool

    @property
    def on_gpu(self) -> bool:
        return self.device.type != "cpu"

    def times(self, steps: int) -> int:
        return steps * (10 if self.full else 1)


class RandomTokens(TextData):
    """Batches without a text: a function of the step, as real ones are."""

    def __init__(self, shape: GPTShape, batch: int) -> None:
        self.vocabulary, self.shape, self.batch = shape.vocabulary, shape, batch
        self.tokenizer, self.fingerprint, self.tokenizer_fingerprint = ByteTokenizer(), "random", "bytes"
        self.probe, self.prompts = [1, 2, 3], []

    def train_batch(self, step: int) -> Batch:
        size = (self.batch, self.shape.context + 1)
        ids = torch.from_numpy(generator(1, "tokens", step).integers(0, self.vocabulary, size))
        return Batch(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())

    def validation_batches(self) -> list[Batch]:
        return [self.train_batch(0)]

    def facts(self) -> Mapping[str, Any]:
        return {}


def learner(shape: GPTShape, batch: int, accumulate: int = 1, **compute: Any) -> LanguageModelExperiment[GPT]:
    """An experiment of this shape; what `compute` leaves out is decided as for a run."""
    model = {"layers": shape.layers, "heads": shape.heads, "width": shape.width, "context": shape.context}
    given = {
        "model": model,
        "train": {"steps": 10**6, "batch": batch, "accumulate": accumulate},
        "data": {"tokenizer": "bpe", "vocabulary": shape.vocabulary},
        "record": {"evaluate_every": 0, "sample_every": 0, "checkpoint_every": 500},
        "compute": compute,
    }
    scenario = KIND.resolve(LanguageModelScenario.model_validate(given))
    prepare(scenario.compute)
    return LanguageModelExperiment(
        scenario,
        RandomTokens(shape, batch),
        shape,
        lambda draws: GPT(shape, draws),
        lambda experiment: experiment.text_frame(experiment.model.mask),
    )


def seconds(step: Callable[[], Any], device: torch.device, steps: int, warm_up: int = 5) -> float:
    """Seconds of a step, the median of three rows of them; warm-up covers the compiler and the recording of a graph."""
    for _ in range(warm_up):
        step()
    rows = []
    for _ in range(3):
        synchronise(device)
        began = time.perf_counter()
        for _ in range(steps):
            step()
        synchronise(device)
        rows.append((time.perf_counter() - began) / steps)
    return sorted(rows)[1]


def peak(asked: Asked) -> Iterator[Row]:
    sheet = data_sheet(describe(asked.device)) if asked.on_gpu else None
    for name, dtype in DTYPES.items():
        share = f" of {sheet.bfloat16 / 1e12:.0f} on the data sheet" if sheet and name == "bfloat16" else ""
        yield name, f"{measure_peak(asked.device, dtype, 1.0) / 1e12:.3g} TFLOP/s{share}"
    share = f" of {sheet.bandwidth / 1e12:.2f} on the data sheet" if sheet and sheet.bandwidth else ""
    yield "copy, read and written", f"{measure_copy(asked.device, 1.0) / 1e12:.3g} TB/s{share}"


def gpt2(asked: Asked) -> Iterator[Row]:
    shape = GPT2 if asked.on_gpu else GPTShape(2, 4, 256, 128, 1024)
    batch, accumulate = (64, 2) if asked.on_gpu else (4, 2)
    how = {} if asked.on_gpu else {"threads": 1, "compile": False}
    experiment = learner(shape, batch, accumulate, device=str(asked.device), **how)
    for reason in reasons(experiment.scenario):
        yield "chosen", reason
    facts = experiment.facts()
    one = seconds(experiment.step, asked.device, asked.times(5 if asked.on_gpu else 2))
    rate = facts["flops_per_step"] / one
    yield "speed", f"{facts['units_per_step'] / one:,.0f} tokens/s, {1e3 * one:.1f} ms a step"
    yield "share of the measured peak", f"{rate / facts['peak_flops']:.1%}"
    if sheet := data_sheet_peak(asked.device, experiment.how[1]):
        yield "share of the data sheet's", f"{rate / sheet:.1%}"
    if asked.on_gpu:
        budget = experiment.budget()
        most = torch.cuda.max_memory_allocated(asked.device)
        yield "memory", f"{most / 1e9:.1f} GB at most, {budget.total / 1e9:.1f} GB computed"


def small(asked: Asked) -> Iterator[Row]:
    fixed = {
        "device": str(asked.device),
        "dtype": "bfloat16",
        "attention": "sdpa",
        "threads": 1,
        "thread_mode": "operations",
    }
    ways = {
        "one by one": {"compile": False, "cuda_graphs": False},
        "graphs": {"compile": False, "cuda_graphs": True},
        "compiled": {"compile": True, "cuda_graphs": False},
        "compiled, graphs": {"compile": True, "cuda_graphs": True},
    }
    for name, how in ways.items():
        if how["compile"] and not asked.on_gpu and not asked.full:
            yield name, "left out on a CPU without --full: the compiler takes a minute"
            continue
        experiment = learner(TINY, 12, **fixed, **how)
        one = seconds(experiment.step, asked.device, *((asked.times(200), 10) if asked.on_gpu else (asked.times(5), 2)))
        notes = "".join(f"; {note}" for note in experiment.notes())
        yield name, f"{1e3 * one:.3f} ms a step, {12 * TINY.context / one:,.0f} tokens/s{notes}"


def recording(asked: Asked) -> Iterator[Row]:
    """Bare and recorded stretches of one experiment take turns."""
    from txlab.runs.control import Inbox
    from txlab.runs.directory import new_info
    from txlab.runs.folder import create_run_directory
    from txlab.runs.loop import run_loop
    from txlab.runs.recorder import Recorder

    how = {"dtype": "bfloat16", "attention": "sdpa", "threads": 1, "compile": False, "cuda_graphs": asked.on_gpu}
    experiment: Any = learner(TINY, 12, device=str(asked.device), thread_mode="operations", **how)
    record, steps = experiment.scenario.record, asked.times(250 if asked.on_gpu else 25)
    ratios = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for turn in range(4):
            bare = seconds(experiment.step, asked.device, steps)
            run = create_run_directory(Path(folder), f"turn{turn}")
            recorder = Recorder(run, new_info(run, "benchmark", "language-model"), record.frames_mb)
            recorder.step = begins = experiment.step_count
            stretch = Stretch(experiment, begins + steps)
            synchronise(asked.device)
            began = time.perf_counter()
            run_loop(stretch, recorder, Inbox(run), record)
            synchronise(asked.device)
            ratios.append((time.perf_counter() - began) / steps / bare if turn else 0.0)
            recorder.finish("done", "")
    yield "recorded / not recorded", f"{sorted(ratios[1:])[1]:.3f} (frames and checkpoints at the default cadence)"


class Stretch:
    """An experiment that ends at a step."""

    def __init__(self, experiment: Any, steps: int) -> None:
        self.experiment, self.steps = experiment, steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self.experiment, name)


def decisions(asked: Asked) -> Iterator[Row]:
    world = world_named("cliff")
    for agents in (1024, 16384, *([262144] if asked.on_gpu and asked.full else [])):
        settings, seeds = [Settings(rule="q-learning", alpha=0.5)] * agents, np.arange(agents)
        speeds = []
        for name in dict.fromkeys(("cpu", str(asked.device) if asked.on_gpu else "torch on the cpu")):
            sweep: Any = sweep_in(world, settings, seeds, name if name.startswith(("cpu", "cuda")) else "cpu:0")
            one = seconds(lambda sweep=sweep: sweep.advance(20), asked.device, asked.times(2), warm_up=1) / 20
            speeds.append(f"{name} {agents / one / 1e6:.1f} M steps/s")
        yield f"{agents} agents", ", ".join(speeds)


def words(asked: Asked) -> Iterator[Row]:
    for device in dict.fromkeys(("cpu", str(asked.device))):
        kind = kind_named("word-vectors")
        experiment: Any = kind.build(
            kind.schema.model_validate({"data": {"source": "planted"}, "compute": {"device": device, "threads": 1}})
        )
        one = seconds(experiment.step, torch.device(device), asked.times(5), warm_up=2)
        yield device, f"{experiment.scenario.train.words / one:,.0f} words/s"


def writing(asked: Asked) -> Iterator[Row]:
    shape = GPTShape(12, 12, 768, 256, 32768) if asked.on_gpu else TINY
    model = GPT(shape, torch.Generator().manual_seed(1)).eval().to(asked.device)
    tokens = 64 if asked.on_gpu else 32
    for texts in (1, 64):
        prompts = [[1 + number, 2, 3] for number in range(texts)]

        def write(prompts: list[list[int]] = prompts) -> None:
            generate_batch(model, prompts, tokens, generator=torch.Generator().manual_seed(1), top_k=50)

        one = seconds(write, asked.device, 1, warm_up=1)
        yield f"{texts} texts in a batch", f"{texts * tokens / one:,.0f} tokens/s, {1e3 * one / tokens:.2f} ms a token"


SECTIONS: dict[str, Callable[[Asked], Iterator[Row]]] = {
    each.__name__: each for each in (peak, gpt2, small, recording, decisions, words, writing)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1")
    parser.add_argument("--quick", action="store_true", help="the default")
    parser.add_argument("--full", action="store_true", help="ten times as many steps")
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    given = parser.parse_args()
    asked = Asked(choose_device(given.device), given.full and not given.quick)
    print(f"{asked.device}: {describe(asked.device)}, torch {torch.__version__}", flush=True)
    for name in given.only:
        print(name)
        try:
            for what, value in SECTIONS[name](asked):
                print(f"  {what:28s} {value}", flush=True)
        except Exception as error:
            print(f"  failed: {type(error).__name__}: {one_line(error)}", flush=True)
            if asked.full:
                traceback.print_exc()


if __name__ == "__main__":
    main()
