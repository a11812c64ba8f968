"""Decides what is "auto" in [compute] by timing a few real training steps on this machine.

Notable: nothing is looked up in tables of processors. The dtype, the attention kernel, the number of threads and what
these share depend on each other and on who else is using the machine: alone, two threads in bfloat16 with matmul took
13.6 ms where float32 took 30; beside three busy processes one thread beat two. So: measure, keep the fastest, say why.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import median
from typing import Literal

import torch
from torch import Tensor

from txlab.engine.cores import cores
from txlab.engine.device import DTYPES, choose_device, describe
from txlab.engine.transformer.attention import Kernel
from txlab.engine.transformer.costs import costs
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.experiments.language_model.compiling import compiled_loss, worth_compiling
from txlab.experiments.language_model.crew import Crew
from txlab.experiments.language_model.loss import summed_loss
from txlab.experiments.language_model.optimizer import LongAdamW
from txlab.experiments.language_model.schema import LanguageModelScenario
from txlab.experiments.schema import Compute

Dtype = Literal["float32", "bfloat16"]
Share = Literal["operations", "batch"]
SHARED: dict[Share, str] = {"operations": "every operation", "batch": "the batch"}

BUDGET = 0.5  # seconds for all timed steps together; a slower model still gets a warm-up and one step a setting
LARGEST = 6e9  # FLOPs of a timed step: the model of 4 layers, width 128 and batch 12 × 64 has 4e9 and is timed whole
CLEARLY = 1.15  # bfloat16 gives up digits, so it has to be this much faster

# Why the settings of a resolved scenario are what they are: kept from `resolve` to `build`, which run in one process.
_reasons: dict[str, list[str]] = {}


@dataclass(frozen=True)
class Setting:
    """One way of computing a step."""

    dtype: Dtype
    attention: Kernel
    threads: int
    share: Share = "operations"
    compiled: bool = False

    def __str__(self) -> str:
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads sharing {SHARED[self.share]}"
        return f"{self.dtype}, {self.attention} attention, {threads}"


def shape_of(scenario: LanguageModelScenario, vocabulary: int) -> GPTShape:
    """The model that a scenario asks for, once its tokenizer has said how many tokens there are."""
    model = scenario.model
    return GPTShape(
        layers=model.layers,
        heads=model.heads,
        width=model.width,
        feed_forward=model.feed_forward,
        context=model.context,
        vocabulary=vocabulary,
        positions=model.positions,
        norm=model.norm,
        block=model.block,
        activation=model.activation,
        tied=model.tied,
        bias=model.bias,
        dropout=model.dropout,
    )


def is_decided(compute: Compute) -> bool:
    """True where nothing is left to the probe."""
    return "auto" not in (compute.device, compute.dtype, compute.attention, compute.compile) and compute.threads > 0


def reasons(scenario: LanguageModelScenario) -> list[str]:
    """One sentence a decision; empty where nothing was measured in this process."""
    return _reasons.get(scenario.model_dump_json(), [])


def resolve(scenario: LanguageModelScenario, say: Callable[[str], None] = lambda text: None) -> LanguageModelScenario:
    """The same scenario with device, dtype, attention, threads and compile decided. LabError for a device not here.

    `say` gets a line before what takes longer than a second or two.
    """
    if is_decided(scenario.compute):
        return scenario
    device = choose_device(scenario.compute.device)
    compute, why = _on_cpu(scenario, say) if device.type == "cpu" else _on_gpu(scenario.compute, device)
    resolved = scenario.model_copy(update={"compute": compute})
    _reasons[resolved.model_dump_json()] = why
    return resolved


def _on_gpu(asked: Compute, device: torch.device) -> tuple[Compute, list[str]]:
    """On a GPU the answers are known: bfloat16 where it has it, the fused kernel, compiled. Nothing is timed."""
    has_bfloat16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    dtype = asked.dtype if asked.dtype != "auto" else "bfloat16" if has_bfloat16 else "float32"
    attention = asked.attention if asked.attention != "auto" else "sdpa"
    compile_it = asked.compile if asked.compile != "auto" else device.type == "cuda"
    threads = asked.threads or min(4, cores())
    why = [
        f"{device}: {describe(device)}",
        f"{dtype}: the GPU {'has' if has_bfloat16 else 'lacks'} bfloat16",
        f"{attention} attention: torch picks its fused kernel",
        f"compile {'on' if compile_it else 'off'}",
    ]
    decided = Compute(
        device=str(device), dtype=dtype, attention=attention, threads=threads, share="operations", compile=compile_it
    )
    return decided, why


def _on_cpu(scenario: LanguageModelScenario, say: Callable[[str], None]) -> tuple[Compute, list[str]]:
    asked = scenario.compute
    compile_it = asked.compile is True
    compile_why = ""
    dtypes: tuple[Dtype, ...] = ("bfloat16", "float32") if asked.dtype == "auto" else (asked.dtype,)
    kernels: tuple[Kernel, ...] = ("matmul", "sdpa") if asked.attention == "auto" else (asked.attention,)
    thread_counts = [asked.threads] if asked.threads else _thread_counts()
    trial = _Trial(scenario)
    seconds: dict[Setting, float] = {}
    threads_before = torch.get_num_threads()
    try:
        # Threads first, one thread first of all, and those that share every operation last: beside busy processes
        # such a step can take seconds, and what is tried after it would be measured no better.
        by_threads = [Setting(dtypes[-1], kernels[-1], *crew) for crew in _crews(scenario, thread_counts, trial.batch)]
        seconds.update(trial.compare(by_threads, 0.3 * BUDGET))
        crew = min(by_threads, key=lambda setting: seconds.get(setting, inf))
        settings = [replace(crew, dtype=dtype, attention=kernel) for dtype in dtypes for kernel in kernels]
        seconds.update(trial.compare(settings, 0.7 * BUDGET))
        known = {setting: seconds[setting] for setting in settings if setting in seconds}
        best = _fastest(known) if known else settings[0]
        if asked.compile == "auto":
            taken = seconds[best] if best in seconds else min(trial.time(best) for _ in range(2))
            expected = scenario.train.steps * scenario.train.accumulate * trial.part * taken
            compile_it, compile_why = worth_compiling(expected, Turns(trial, best), say)
    finally:
        torch.set_num_threads(threads_before)
    why = [f"cpu: {'as asked' if asked.device == 'cpu' else 'torch sees no CUDA device here'} ({describe_cpu()})"]
    if best in seconds:
        slower = sorted((s for s in seconds if s != best), key=seconds.__getitem__)
        why.append(f"{best}: {1e3 * seconds[best]:.1f} ms a step{trial.scale}, chosen of {len(seconds)} settings timed")
        why += [f"{setting}: {1e3 * seconds[setting]:.1f} ms a step" for setting in slower]
    else:
        why.append(f"{best}: as the scenario says")
    if compile_why:
        why.append(compile_why)
    decided = Compute(
        device="cpu",
        dtype=best.dtype,
        attention=best.attention,
        threads=best.threads,
        share=best.share,
        compile=compile_it,
    )
    return decided, why


def describe_cpu() -> str:
    return f"{cores()} cores, {describe(torch.device('cpu'))}"


def _thread_counts() -> list[int]:
    """1, 2, 4 … and all cores, at most 16: small matrices gain nothing from more."""
    most = min(16, cores())
    return sorted({1 << n for n in range(most.bit_length())} | {most})


def _crews(scenario: LanguageModelScenario, counts: Sequence[int], batch: int) -> list[tuple[int, Share]]:
    """(threads, what they share) worth timing: a batch is shared where it has a sequence for everybody, and without
    dropout (see `crew`)."""
    asked = scenario.compute.share
    sharing = [threads for threads in counts if 1 < threads <= batch and scenario.model.dropout == 0]
    crews: list[tuple[int, Share]] = [(1, "operations")] if 1 in counts else []
    if asked != "operations":
        crews += [(threads, "batch") for threads in sharing]
    if asked != "batch" or len(crews) == 0:
        crews += [(threads, "operations") for threads in counts if threads > 1]
    return crews


def _fastest(seconds: dict[Setting, float]) -> Setting:
    """The quickest, except that bfloat16 has to beat the best float32 clearly."""
    return min(seconds, key=lambda setting: seconds[setting] * (CLEARLY if setting.dtype == "bfloat16" else 1.0))


class _Trial:
    """A model and a batch of the scenario's shape, made smaller where a step would take too long to time."""

    def __init__(self, scenario: LanguageModelScenario) -> None:
        data, train = scenario.data, scenario.train
        vocabulary = {"bytes": 256, "characters": 128}.get(data.tokenizer, data.vocabulary)
        if data.source != "text":
            vocabulary = data.vocabulary
        shape = shape_of(scenario, min(vocabulary, 4096))
        batch = whole_batch = train.batch // train.accumulate
        while costs(shape).flops_per_token * batch * shape.context > LARGEST and (shape.layers > 1 or batch > 1):
            if shape.layers > 1:
                shape = replace(shape, layers=(shape.layers + 1) // 2)
            else:
                batch = (batch + 1) // 2
        whole_step = costs(shape_of(scenario, shape.vocabulary)).flops_per_token * whole_batch
        self.part = whole_step / (costs(shape).flops_per_token * batch)  # how many of these make one whole step
        self.scale = ""
        if shape.layers < scenario.model.layers or batch < whole_batch:
            self.scale = (
                f" (timed on {shape.layers} of {scenario.model.layers} layers, {batch} of {whole_batch} sequences)"
            )
        generator = torch.Generator().manual_seed(0)
        # The constructors of torch's modules draw from the global generator; what a person seeded stays as it was.
        with torch.random.fork_rng(devices=[]):
            self.model = GPT(shape, generator)
            self.ids = torch.randint(shape.vocabulary, (batch, shape.context), generator=generator)
        self.batch = batch
        self.optimizer = LongAdamW(self.model, train, train.weight_decay)
        self.crews: dict[int, Crew[GPT]] = {}
        self.compiled: set[Setting] = set()

    def step(self, setting: Setting) -> None:
        """One training step; what it learns is thrown away."""
        loss_of = compiled_loss(setting.share) if setting.compiled else summed_loss
        members = setting.threads if setting.share == "batch" else 1
        if members not in self.crews:
            self.crews[members] = Crew(self.model, self.optimizer, members)
        crew = self.crews[members]

        def learn(model: GPT, inputs: Tensor, targets: Tensor) -> None:
            loss_of(model, inputs, targets, setting.attention, DTYPES[setting.dtype])[0].backward()

        crew.each(learn, self.ids, self.ids, in_turn=setting.compiled and setting not in self.compiled)
        self.compiled.add(setting)
        crew.collect().item()
        self.optimizer.step()

    def compare(self, settings: Sequence[Setting], budget: float) -> dict[Setting, float]:
        """Median seconds of a step under each setting, the settings taking turns after a warm-up step each.

        Taking turns spreads what other processes do over all of them; timed one after the other, a burst of half a
        second beside us once made the best setting look five times slower. Up to seven rounds within the budget, at
        least three if that takes less than thrice as long. A setting hopelessly slow in its warm-up is timed no more,
        and one that there was no time for at all is missing from the answer.
        """
        if len(settings) == 1:
            return {}  # nothing to compare
        began = time.perf_counter()
        taken: dict[Setting, list[float]] = {}
        for setting in settings:
            if not taken or time.perf_counter() - began < 3 * budget:
                taken[setting] = [self.time(setting)]
        slowest = 10 * min(times[0] for times in taken.values())
        contenders = [setting for setting, times in taken.items() if times[0] <= slowest]
        for rounds in range(7):
            if time.perf_counter() - began > budget * (3 if rounds < 3 else 1):
                break
            for setting in contenders:
                taken[setting].append(self.time(setting))
        return {setting: median(times[1:] or times) for setting, times in taken.items()}

    def time(self, setting: Setting) -> float:
        """Seconds of one step."""
        torch.set_num_threads(setting.threads)
        start = time.perf_counter()
        self.step(setting)
        return time.perf_counter() - start


@dataclass(frozen=True)
class Turns:
    """A setting beside itself compiled, as `compiling` asks for it."""

    trial: _Trial
    setting: Setting

    def turns(self, seconds: float) -> tuple[float, float]:
        compiled = replace(self.setting, compiled=True)
        self.trial.time(compiled)
        taken = self.trial.compare([self.setting, compiled], seconds)
        return taken[self.setting], taken[compiled]
