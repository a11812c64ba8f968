"""Decides what is "auto" in [compute] by timing a few real training steps on this machine.

Notable: it asks the same three questions as for a language model, one after the other (how many threads and what they
share, then the dtype, then the kernel), since here a step takes a fiftieth of a second and not all answers need to be
tried with all others. torch's compiler is never used: batches come in too many shapes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import torch

from txlab.engine.cores import cores
from txlab.engine.device import DTYPES, choose_device, describe
from txlab.engine.transformer.encoder_decoder import EncoderDecoder, EncoderDecoderShape
from txlab.errors import LabError
from txlab.experiments.learning.crew import Crew
from txlab.experiments.learning.optimizer import LongAdamW
from txlab.experiments.learning.probe import CLEARLY, Setting, Share
from txlab.experiments.schema import Compute
from txlab.experiments.translation.batch import Batch, as_batch
from txlab.experiments.translation.data import MAKERS, tokenizers_for
from txlab.experiments.translation.loss import summed_loss
from txlab.experiments.translation.pairs import drawn_pairs
from txlab.experiments.translation.schema import TranslationScenario

ROUNDS = 4  # timed steps of each setting, after one to warm up
BUDGET = 0.6  # seconds for each question; thrice that on a busy machine, until every answer was tried

# Why the settings of a resolved scenario are what they are: kept from `resolve` to `build`, which run in one process.
_reasons: dict[str, list[str]] = {}


def shape_of(scenario: TranslationScenario) -> EncoderDecoderShape:
    """The model that a scenario asks for; its vocabularies follow from the task."""
    model = scenario.model
    source, target = tokenizers_for(scenario.data, model.shared)
    return EncoderDecoderShape(
        encoder_layers=model.encoder_layers,
        decoder_layers=model.decoder_layers,
        heads=model.heads,
        width=model.width,
        source_vocabulary=source.vocabulary,
        target_vocabulary=target.vocabulary,
        context=model.context,
        feed_forward=model.feed_forward,
        norm=model.norm,
        activation=model.activation,
        positions=model.positions,
        shared=model.shared,
        tied=model.tied,
        bias=model.bias,
        dropout=model.dropout,
    )


def is_decided(compute: Compute) -> bool:
    """True where nothing is left to the probe."""
    asked = (compute.device, compute.dtype, compute.attention, compute.share, compute.compile)
    return "auto" not in asked and compute.threads > 0


def reasons(scenario: TranslationScenario) -> list[str]:
    """One sentence a decision; empty where nothing was measured in this process."""
    return _reasons.get(scenario.model_dump_json(), [])


def resolve(scenario: TranslationScenario) -> TranslationScenario:
    """The same scenario with all of [compute] decided. LabError for a device not here, and for compile = true."""
    if scenario.compute.compile is True:
        raise LabError(
            "compute.compile = true is not for translation, whose batches have many shapes; allowed: auto, false"
        )
    if is_decided(scenario.compute):
        return scenario
    device = choose_device(scenario.compute.device)
    decided, why = on_cpu(scenario) if device.type == "cpu" else on_gpu(scenario.compute, device)
    resolved = scenario.model_copy(update={"compute": decided})
    _reasons[resolved.model_dump_json()] = why
    return resolved


def on_gpu(asked: Compute, device: torch.device) -> tuple[Compute, list[str]]:
    """On a GPU nothing is timed: bfloat16 where it has it, the fused kernel."""
    has_bfloat16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    dtype = asked.dtype if asked.dtype != "auto" else "bfloat16" if has_bfloat16 else "float32"
    attention = asked.attention if asked.attention != "auto" else "sdpa"
    decided = Compute(
        device=str(device),
        dtype=dtype,
        attention=attention,
        threads=asked.threads or min(4, cores()),
        share="operations",
        compile=False,
    )
    said = "as asked" if asked.dtype != "auto" else f"the GPU {'has' if has_bfloat16 else 'lacks'} bfloat16"
    return decided, [f"{device}: {describe(device)}", f"{dtype}: {said}", f"{attention} attention"]


def on_cpu(scenario: TranslationScenario) -> tuple[Compute, list[str]]:
    asked = scenario.compute
    trial = Trial(scenario)
    before = torch.get_num_threads()
    try:
        # bfloat16 last: with one thread it is often slower, and a slow first setting would spend the budget.
        first = Setting(
            "float32" if asked.dtype == "auto" else asked.dtype,
            "sdpa" if asked.attention == "auto" else asked.attention,
            1,
        )
        best = trial.best([replace(first, threads=n, share=share) for n, share in crews(asked)])
        if asked.dtype == "auto":
            best = trial.best([best, replace(best, dtype="bfloat16")])
        if asked.attention == "auto":
            best = trial.best([best, replace(best, attention="matmul")])
    finally:
        torch.set_num_threads(before)
    seconds = {setting: median(times) for setting, times in trial.taken.items()}
    why = [f"cpu: {'as asked' if asked.device == 'cpu' else 'torch sees no CUDA device here'}"]
    why[0] += f" ({cores()} cores, {describe(torch.device('cpu'))})"
    if best in seconds:
        why.append(f"{best}: {1e3 * seconds[best]:.1f} ms a step, chosen of {len(seconds)} settings timed")
        others = sorted((setting for setting in seconds if setting != best), key=seconds.__getitem__)
        why += [f"{setting}: {1e3 * seconds[setting]:.1f} ms a step" for setting in others]
    else:
        why.append(f"{best}: as the scenario says")
    why.append("compile off: batches have many shapes")
    decided = Compute(
        device="cpu",
        dtype=best.dtype,
        attention=best.attention,
        threads=best.threads,
        share=best.share,
        compile=False,
    )
    return decided, why


def crews(asked: Compute) -> list[tuple[int, Share]]:
    """How many threads and what they share: one first, those that meet after every operation last."""
    counts = [asked.threads] if asked.threads else sorted({1, min(2, cores()), min(4, cores()), min(16, cores())})
    shares: tuple[Share, ...] = ("batch", "operations") if asked.share == "auto" else (asked.share,)
    found = [(n, share) for share in shares for n in counts if n > 1]
    alone: Share = "operations" if asked.share == "auto" else asked.share
    return [(1, alone)] * (1 in counts) + found


class Trial:
    """A model of the scenario's shape, and batches like its own, to be stepped under different settings."""

    def __init__(self, scenario: TranslationScenario) -> None:
        source, target = tokenizers_for(scenario.data, scenario.model.shared)
        size = scenario.train.batch // scenario.train.accumulate
        pairs = drawn_pairs(MAKERS[scenario.data.task], 0)
        made = sorted((next(pairs) for _ in range(8 * size)), key=lambda pair: len(pair.source))
        middle = made[len(made) // 2 - size // 2 :][:size]
        self.batch: Batch = as_batch([(source.ids(pair.source), target.ids(pair.target)) for pair in middle])
        self.train = scenario.train
        with torch.random.fork_rng(devices=[]):
            self.model = EncoderDecoder(shape_of(scenario), torch.Generator().manual_seed(0))
        self.optimizer = LongAdamW(self.model, scenario.train, scenario.train.weight_decay)
        self.crews: dict[int, Crew[EncoderDecoder]] = {}
        self.taken: dict[Setting, list[float]] = {}

    def best(self, settings: Sequence[Setting]) -> Setting:
        """The quickest, except that bfloat16 has to beat float32 clearly. They take turns, so that what other
        processes do meanwhile is spread over all of them; one that there was no time to try is not chosen."""
        if len(settings) == 1:
            return settings[0]
        began = time.perf_counter()
        for setting in settings:
            if setting not in self.taken and (not self.taken or time.perf_counter() - began < 3 * BUDGET):
                self.time(setting)
                self.taken[setting] = [self.time(setting)]
        tried = [setting for setting in settings if setting in self.taken]
        for _ in range(ROUNDS - 1):
            for setting in tried:
                if time.perf_counter() - began < BUDGET:
                    self.taken[setting].append(self.time(setting))
        return min(
            tried, key=lambda setting: median(self.taken[setting]) * (CLEARLY if setting.dtype == "bfloat16" else 1.0)
        )

    def time(self, setting: Setting) -> float:
        """Seconds of one step; what it learns is thrown away."""
        threads = setting.threads if setting.share == "batch" else 1
        if threads not in self.crews:
            self.crews[threads] = Crew(self.model, self.optimizer, threads)
        crew = self.crews[threads]
        torch.set_num_threads(setting.threads)
        began = time.perf_counter()
        rows = torch.arange(len(self.batch.lengths))

        def learn(model: EncoderDecoder, rows: torch.Tensor, _: torch.Tensor) -> None:
            part = self.batch.part(int(rows[0]), int(rows[-1]) + 1)
            summed_loss(model, part, setting.attention, DTYPES[setting.dtype])[0].backward()  # type: ignore[no-untyped-call]

        crew.each(learn, rows, rows)
        crew.collect().item()
        self.optimizer.step()
        return time.perf_counter() - began
