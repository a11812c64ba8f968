"""Decides what is "auto" in [compute] by timing a few real training steps on this machine, for every kind alike.

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
from typing import Any, Generic, Literal, Protocol, TypeVar

import torch
from torch import Tensor

from txlab.engine.cores import cores
from txlab.engine.device import DTYPES, choose_device, describe
from txlab.engine.transformer.attention import Kernel
from txlab.engine.transformer.bert import BertShape
from txlab.engine.transformer.costs import costs
from txlab.engine.transformer.gpt import GPTShape
from txlab.engine.transformer.vision import VisionShape
from txlab.experiments.learning.compiling import compiled, worth_compiling
from txlab.experiments.learning.crew import Crew
from txlab.experiments.learning.optimizer import LongAdamW
from txlab.experiments.learning.schema import Train
from txlab.experiments.learning.weights import Model
from txlab.experiments.schema import Compute, Scenario

Dtype = Literal["float32", "bfloat16"]
Share = Literal["operations", "batch"]
SHARED: dict[Share, str] = {"operations": "every operation", "batch": "the batch"}
Asking = TypeVar("Asking", bound=Scenario)
Shape = TypeVar("Shape", GPTShape, BertShape, VisionShape)

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


def is_decided(compute: Compute) -> bool:
    """True where nothing is left to the probe."""
    return "auto" not in (compute.device, compute.dtype, compute.attention, compute.compile) and compute.threads > 0


class Dumped(Protocol):
    """A scenario, as far as it is a key."""

    def model_dump_json(self) -> str: ...


def reasons(scenario: Dumped) -> list[str]:
    """One sentence a decision; empty where nothing was measured in this process."""
    return _reasons.get(scenario.model_dump_json(), [])


def resolve(
    scenario: Asking,
    trial_of: Callable[[Asking], Trial[Any]],
    say: Callable[[str], None],
    uncompiled: str = "",
) -> Asking:
    """The same scenario with device, dtype, attention, threads and compile decided. LabError for a device not here.

    trial_of    makes what is timed; not called where nothing is
    say         gets a line before what takes longer than a second or two
    uncompiled  why torch's compiler is not tried where it was not asked for; "" = it is, where training is long
    """
    asked = scenario.compute
    if is_decided(asked):
        return scenario
    device = choose_device(asked.device)
    if device.type == "cpu":
        compute, why = decide(asked, trial_of(scenario), say, uncompiled)
    else:
        compute, why = known(asked, device, uncompiled)
    resolved = scenario.model_copy(update={"compute": compute})
    _reasons[resolved.model_dump_json()] = why
    return resolved


def known(asked: Compute, device: torch.device, uncompiled: str = "") -> tuple[Compute, list[str]]:
    """On a GPU the answers are known: bfloat16 where it has it, the fused kernel, compiled. Nothing is timed."""
    has_bfloat16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    dtype = asked.dtype if asked.dtype != "auto" else "bfloat16" if has_bfloat16 else "float32"
    attention = asked.attention if asked.attention != "auto" else "sdpa"
    compile_it = asked.compile if asked.compile != "auto" else device.type == "cuda" and not uncompiled
    threads = asked.threads or min(4, cores())
    why = [
        f"{device}: {describe(device)}",
        f"{dtype}: the GPU {'has' if has_bfloat16 else 'lacks'} bfloat16",
        f"{attention} attention: torch picks its fused kernel",
        f"compile {'on' if compile_it else 'off'}{f': {uncompiled}' if uncompiled and not compile_it else ''}",
    ]
    decided = Compute(
        device=str(device), dtype=dtype, attention=attention, threads=threads, share="operations", compile=compile_it
    )
    return decided, why


def decide(
    asked: Compute, trial: Trial[Any], say: Callable[[str], None], uncompiled: str = ""
) -> tuple[Compute, list[str]]:
    """What is left open by what is quickest on this CPU, and one sentence a decision."""
    compile_it = asked.compile is True
    compile_why = ""
    dtypes: tuple[Dtype, ...] = ("bfloat16", "float32") if asked.dtype == "auto" else (asked.dtype,)
    kernels: tuple[Kernel, ...] = ("matmul", "sdpa") if asked.attention == "auto" else (asked.attention,)
    thread_counts = [asked.threads] if asked.threads else _thread_counts()
    seconds: dict[Setting, float] = {}
    threads_before = torch.get_num_threads()
    try:
        # Threads first, one thread first of all, and those that share every operation last: beside busy processes
        # such a step can take seconds, and what is tried after it would be measured no better.
        by_threads = [Setting(dtypes[-1], kernels[-1], *crew) for crew in _crews(asked, thread_counts, trial)]
        seconds.update(compare(trial, by_threads, 0.3 * BUDGET))
        crew = min(by_threads, key=lambda setting: seconds.get(setting, inf))
        settings = [replace(crew, dtype=dtype, attention=kernel) for dtype in dtypes for kernel in kernels]
        seconds.update(compare(trial, settings, 0.7 * BUDGET))
        timed = {setting: seconds[setting] for setting in settings if setting in seconds}
        best = _fastest(timed) if timed else settings[0]
        if asked.compile == "auto" and uncompiled:
            compile_why = f"compile off: {uncompiled}"
        elif asked.compile == "auto":
            taken = seconds[best] if best in seconds else min(trial.time(best) for _ in range(2))
            compile_it, compile_why = worth_compiling(trial.steps * taken, Turns(trial, best), say)
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


def _crews(asked: Compute, counts: Sequence[int], trial: Trial[Any]) -> list[tuple[int, Share]]:
    """(threads, what they share) worth timing: a batch is shared where it has a sequence for everybody, and without
    dropout (see `crew`)."""
    sharing = [threads for threads in counts if 1 < threads <= trial.sequences and not trial.dropout]
    crews: list[tuple[int, Share]] = [(1, "operations")] if 1 in counts else []
    if asked.share != "operations":
        crews += [(threads, "batch") for threads in sharing]
    if asked.share != "batch" or len(crews) == 0:
        crews += [(threads, "operations") for threads in counts if threads > 1]
    return crews


def _fastest(seconds: dict[Setting, float]) -> Setting:
    """The quickest, except that bfloat16 has to beat the best float32 clearly."""
    return min(seconds, key=lambda setting: seconds[setting] * (CLEARLY if setting.dtype == "bfloat16" else 1.0))


def fitting(shape: Shape, batch: int) -> tuple[Shape, int, float, str]:
    """A shape and a number of sequences that take no more than LARGEST, the layers fewer first, then the sequences;
    how many such steps make a step of the whole; and how that is told, "" for the whole."""
    small, few = shape, batch
    while _work(small, few) > LARGEST and (small.layers > 1 or few > 1):
        if small.layers > 1:
            small = replace(small, layers=(small.layers + 1) // 2)
        else:
            few = (few + 1) // 2
    told = f" (timed on {small.layers} of {shape.layers} layers, {few} of {batch} sequences)"
    return small, few, _work(shape, batch) / _work(small, few), told if (small, few) != (shape, batch) else ""


def _work(shape: GPTShape | BertShape | VisionShape, batch: int) -> int:
    return costs(shape).flops_per_token * batch * shape.context


class Trial(Generic[Model]):
    """A model of a scenario's shape, perhaps a smaller one, to be stepped under different settings.

    steps  that a run takes, if each took as long as one of these
    scale  how much smaller it is, in words
    """

    def __init__(
        self,
        make: Callable[[torch.Generator], Model],
        train: Train,
        loss: Callable[..., tuple[Tensor, Tensor]],
        batch: Callable[[], Sequence[Tensor]],
        sequences: int,
        dropout: float,
        part: float = 1.0,
        scale: str = "",
    ) -> None:
        """`loss(model, *tensors, kernel, dtype)` is that of training, `batch` makes its tensors before every step."""
        # The constructors of torch's modules draw from the global generator; what a person seeded stays as it was.
        with torch.random.fork_rng(devices=[]):
            self.model = make(torch.Generator().manual_seed(0))
        self.optimizer = LongAdamW(self.model, train, train.weight_decay)
        self.loss, self.batch, self.sequences, self.dropout, self.scale = loss, batch, sequences, dropout, scale
        self.part = part
        self.steps = train.steps * train.accumulate * part
        self.crews: dict[int, Crew[Model]] = {}
        self.compiled: set[Setting] = set()

    def step(self, setting: Setting) -> None:
        """One training step; what it learns is thrown away."""
        loss_of = compiled(self.loss, setting.share) if setting.compiled else self.loss
        members = setting.threads if setting.share == "batch" else 1
        if members not in self.crews:
            self.crews[members] = Crew(self.model, self.optimizer, members)
        crew = self.crews[members]

        def learn(model: Model, *tensors: Tensor) -> None:
            loss_of(model, *tensors, setting.attention, DTYPES[setting.dtype])[0].backward()  # type: ignore[no-untyped-call]

        crew.each(learn, *self.batch(), in_turn=setting.compiled and setting not in self.compiled)
        self.compiled.add(setting)
        crew.collect().item()
        self.optimizer.step()

    def time(self, setting: Setting) -> float:
        """Seconds of one step."""
        torch.set_num_threads(setting.threads)
        start = time.perf_counter()
        self.step(setting)
        return time.perf_counter() - start


def compare(trial: Trial[Any], settings: Sequence[Setting], budget: float) -> dict[Setting, float]:
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
            taken[setting] = [trial.time(setting)]
    slowest = 10 * min(times[0] for times in taken.values())
    contenders = [setting for setting, times in taken.items() if times[0] <= slowest]
    for rounds in range(7):
        if time.perf_counter() - began > budget * (3 if rounds < 3 else 1):
            break
        for setting in contenders:
            taken[setting].append(trial.time(setting))
    return {setting: median(times[1:] or times) for setting, times in taken.items()}


@dataclass(frozen=True)
class Turns:
    """A setting beside itself compiled, as `compiling` asks for it."""

    trial: Trial[Any]
    setting: Setting

    def turns(self, seconds: float) -> tuple[float, float]:
        compiled = replace(self.setting, compiled=True)
        self.trial.time(compiled)
        taken = compare(self.trial, [self.setting, compiled], seconds)
        return taken[self.setting], taken[compiled]
