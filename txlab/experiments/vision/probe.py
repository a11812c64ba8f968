"""Decides what is "auto" in [compute] by timing real training steps of this scenario on this machine.

Notable: the images of an update are made on the CPU before each step, and that is part of what is timed. Nothing goes
through torch's compiler unless it is asked for: these runs take a minute or two, and it has cost 15 to 60 s.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING

import torch

from txlab.engine.cores import cores
from txlab.engine.device import choose_device, describe
from txlab.experiments.schema import Compute
from txlab.experiments.vision.schema import ImageScenario

if TYPE_CHECKING:
    from txlab.experiments.vision.experiment import ImageExperiment

ROUNDS = 4  # of which the first is a warm-up
CLEARLY = 1.15  # bfloat16 gives up digits, so it has to be this much faster

# Why the settings of a resolved scenario are what they are: kept from `resolve` to `build`, which run in one process.
_reasons: dict[str, list[str]] = {}


def is_decided(compute: Compute) -> bool:
    """True where nothing is left to the probe."""
    open_still = "auto" in (compute.device, compute.dtype, compute.attention, compute.share, compute.compile)
    return not open_still and compute.threads > 0


def reasons(scenario: ImageScenario) -> list[str]:
    """One sentence a decision; empty where nothing was measured in this process."""
    return _reasons.get(scenario.model_dump_json(), [])


def resolve(scenario: ImageScenario, say: Callable[[str], None] = lambda text: None) -> ImageScenario:
    """The same scenario with device, dtype, attention, threads and compile decided. LabError for a device not here."""
    if is_decided(scenario.compute):
        return scenario
    device = choose_device(scenario.compute.device)
    compute, why = _on_cpu(scenario) if device.type == "cpu" else _on_gpu(scenario.compute, device)
    resolved = scenario.model_copy(update={"compute": compute})
    _reasons[resolved.model_dump_json()] = why
    return resolved


def _on_gpu(asked: Compute, device: torch.device) -> tuple[Compute, list[str]]:
    """On a GPU the answers are known, and nothing is timed: bfloat16 where it has it, and torch's fused kernel."""
    has_bfloat16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    dtype = asked.dtype if asked.dtype != "auto" else "bfloat16" if has_bfloat16 else "float32"
    attention = asked.attention if asked.attention != "auto" else "sdpa"
    threads = asked.threads or min(4, cores())
    compile_it = asked.compile is True
    why = [f"{device}: {describe(device)}", f"{dtype}, {attention} attention: what a GPU is quickest with"]
    decided = {"device": str(device), "dtype": dtype, "attention": attention, "threads": threads}
    return Compute.model_validate({**decided, "share": "operations", "compile": compile_it}), why


def _on_cpu(scenario: ImageScenario) -> tuple[Compute, list[str]]:
    """The quickest of what is left open; the settings take turns, so that a busy moment hits all of them alike."""
    from txlab.experiments.vision.experiment import ImageExperiment

    asked = scenario.compute
    dtypes = ("float32", "bfloat16") if asked.dtype == "auto" else (asked.dtype,)
    kernels = ("sdpa", "matmul") if asked.attention == "auto" else (asked.attention,)
    start = {"device": "cpu", "dtype": dtypes[0], "attention": kernels[0], "compile": False}
    crews = [Compute.model_validate({**start, **crew}) for crew in _crews(scenario)]
    before = torch.get_num_threads()
    trial = ImageExperiment(scenario.model_copy(update={"compute": crews[0]}))
    try:
        # Threads first, then the rest under the best number of them.
        best = _turns(trial, crews)[0][0]
        ways = [best.model_copy(update={"dtype": dtype, "attention": kernel}) for dtype in dtypes for kernel in kernels]
        taken = _turns(trial, ways)
    finally:
        torch.set_num_threads(before)
    best = min(taken, key=lambda way: way[1] * (CLEARLY if way[0].dtype == "bfloat16" else 1.0))[0]
    why = [f"cpu: {cores()} cores, {describe(torch.device('cpu'))}"]
    for way, seconds in taken:
        told = f"{way.dtype}, {way.attention} attention, threads: {way.threads}, sharing {way.share}"
        why.append(f"{told}: {1e3 * seconds:.1f} ms a step{', chosen' if way == best else ''}")
    return best.model_copy(update={"compile": asked.compile is True}), why


def _crews(scenario: ImageScenario) -> list[dict[str, int | str]]:
    """Numbers of threads worth timing, and what they share: the batch only where there is no dropout (see `crew`)."""
    asked = scenario.compute
    counts = [asked.threads] if asked.threads else sorted({1 << n for n in range(5) if 1 << n <= cores()} | {1})
    fits = [many for many in counts if 1 < many <= scenario.train.batch and scenario.model.dropout == 0]
    crews: list[dict[str, int | str]] = []
    if asked.share != "operations":
        crews += [{"threads": many, "share": "batch"} for many in fits]
    if asked.share != "batch" or not crews:
        crews += [{"threads": many, "share": "operations"} for many in counts]
    return crews


def _turns(trial: ImageExperiment, ways: list[Compute]) -> list[tuple[Compute, float]]:
    """Each way with its median seconds a step, the quickest first."""
    taken: list[list[float]] = [[] for _ in ways]
    for _ in range(ROUNDS if len(ways) > 1 else 1):
        for way, times in zip(ways, taken, strict=True):
            torch.set_num_threads(way.threads)
            trial.use(way)
            began = time.perf_counter()
            trial.step()
            times.append(time.perf_counter() - began)
    medians = [median(times[1:] or times) for times in taken]
    return sorted(zip(ways, medians, strict=True), key=lambda pair: pair[1])
