"""Decide the "auto" settings of [compute] by timing a few real training steps on this machine, for every kind.

On a GPU only `cuda_graphs` needs a measurement.

Notable: there are no tables of processors. The dtype, the attention kernel, the number of threads and their division of
work depend on each other and on the load of the machine: on an idle one, two threads in bfloat16 with matmul took 13.6
ms where float32 took 30; next to three busy processes one thread beat two. So: measure, keep the fastest, report why.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Any, Protocol, TypeAlias, TypeVar, cast

import torch

from txlab.engine.cores import cores
from txlab.engine.device import choose_device, describe, synchronise
from txlab.engine.transformer.blocks import Kernel
from txlab.errors import one_line
from txlab.experiments.learning.deadline import OutOfTime, deadline
from txlab.experiments.learning.parallel_strategy import current_strategy
from txlab.experiments.learning.step_graph import StepGraph
from txlab.experiments.learning.timing import LONG, WORTH, Dtype, Setting, ThreadMode, Trial, compare, format_duration
from txlab.experiments.schema import Compute, Scenario

Asking = TypeVar("Asking", bound=Scenario)
Seconds: TypeAlias = dict[Setting, float]  # per step

BUDGET = 0.5  # seconds for all timed steps together; a slower model still gets a warm-up and one step per setting
MOST_BUDGET = 8.0  # seconds for a long run: up to a thousandth of its duration is worth spending on its settings
IN_A_ROW = 5  # steps of a GPU between two waits for it
CLEARLY = 1.15  # bfloat16 loses precision, so it must be this many times faster

COMPILING = 60.0  # seconds of wall time for compiling each setting that is tried
FOR_TIMING = 0.2  # the share of them that is kept for timing the compiled step

# The reasons for the settings of a resolved scenario, kept from `resolve` to `build`, which run in one process.
_reasons: dict[str, list[str]] = {}


def is_decided(compute: Compute) -> bool:
    """Whether measuring is unnecessary; `thread_mode` or `cuda_graphs` alone is not worth a measurement."""
    return "auto" not in (compute.device, compute.dtype, compute.attention, compute.compile) and compute.threads > 0


class Dumped(Protocol):
    """A scenario, as far as it serves as a key."""

    def model_dump_json(self) -> str: ...


def reasons(scenario: Dumped) -> list[str]:
    """One sentence per decision; empty if nothing was measured in this process."""
    return _reasons.get(scenario.model_dump_json(), [])


def resolve(
    scenario: Asking,
    trial_of: Callable[[Asking], Trial[Any]],
    say: Callable[[str], None],
    uncompiled: str = "",
    ungraphed: str = "",
) -> Asking:
    """Return the scenario with device, dtype, attention, threads and compile decided. LabError for a missing device.

    trial_of    makes the trial to be timed; not called if nothing is timed
    say         called with a line before anything that takes longer than a second or two
    uncompiled  why torch's compiler is not tried unless asked for; "" = it is tried if training is long
    ungraphed   why whole steps cannot be CUDA graphs; "" = they can
    """
    asked = scenario.compute
    if is_decided(asked):
        return scenario
    device = choose_device(asked.device)
    if device.type == "cpu":
        compute, why = decide(asked, trial_of(scenario), say, uncompiled)
    else:
        compute, why = decide_for_gpu(asked, device, uncompiled)
        there = scenario.model_copy(update={"compute": compute})
        compute, reason = with_graphs(compute, device, lambda: trial_of(there), ungraphed)
        why.append(reason)
    resolved = scenario.model_copy(update={"compute": compute})
    _reasons[resolved.model_dump_json()] = why
    return resolved


def decide_for_gpu(asked: Compute, device: torch.device, uncompiled: str = "") -> tuple[Compute, list[str]]:
    """The settings for a GPU, where nothing is timed: bfloat16 if supported, the fused kernel, compiled."""
    has_bfloat16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    dtype = asked.dtype if asked.dtype != "auto" else "bfloat16" if has_bfloat16 else "float32"
    attention = asked.attention if asked.attention != "auto" else "sdpa"
    compile_it = asked.compile if asked.compile != "auto" else device.type == "cuda" and not uncompiled
    threads = asked.threads or min(4, own_cores())
    why = [
        f"{device}: {describe(device)}",
        f"{dtype}: the GPU {'has' if has_bfloat16 else 'lacks'} bfloat16",
        f"{attention} attention: torch picks its fused kernel",
        f"compile {'on' if compile_it else 'off'}{f': {uncompiled}' if uncompiled and not compile_it else ''}",
    ]
    settings = {
        "device": str(device),
        "dtype": dtype,
        "attention": attention,
        "threads": threads,
        "compile": compile_it,
    }
    return asked.model_copy(update={**settings, "thread_mode": "operations"}), why


def with_graphs(
    compute: Compute, device: torch.device, trial: Callable[[], Trial[Any]], ungraphed: str = ""
) -> tuple[Compute, str]:
    """`compute` with `cuda_graphs` decided for a GPU, and why: by timing steps whose kernels are launched one by one,
    and the same steps as one CUDA graph. They are timed without torch's compiler, which would take a minute."""
    if device.type != "cuda":
        ungraphed = f"{device.type} has no CUDA graphs"
    elif current_strategy().count > 1:
        ungraphed = "several processes add up their gradients"
    elif compute.cuda_graphs != "auto":
        return compute, f"graphs {'on' if compute.cuda_graphs else 'off'}: as asked"
    if ungraphed:
        return compute.model_copy(update={"cuda_graphs": False}), f"graphs off: {ungraphed}"
    try:
        tried = trial()
        one_by_one, replayed = time_launch_and_replay(tried, device, setting_of(compute))
    except Exception as error:  # memory, a driver, an operation that cannot be recorded, …
        reason = f"graphs off: they do not work here ({one_line(error)[:120]})"
        return compute.model_copy(update={"cuda_graphs": False}), reason
    pays = replayed < WORTH * one_by_one
    times = f"{1e3 * replayed:.2f} ms a step replayed, {1e3 * one_by_one:.2f} ms launched, both uncompiled{tried.scale}"
    return compute.model_copy(update={"cuda_graphs": pays}), f"graphs {'on' if pays else 'off'}: {times}"


def setting_of(compute: Compute) -> Setting:
    """The decided settings, without the compiler."""
    return Setting(cast(Dtype, compute.dtype), cast(Kernel, compute.attention), compute.threads)


def time_launch_and_replay(trial: Trial[Any], device: torch.device, setting: Setting) -> tuple[float, float]:
    """Seconds of a step whose kernels are launched one by one, and of one that is replayed as a CUDA graph.

    Raises RuntimeError if the step cannot be recorded. On a CPU both are the same step.
    """
    trial.model.to(device)
    batch = [tensor.to(device) for tensor in trial.batch()]
    step = trial.whole_step(setting)
    for group in trial.optimizer.param_groups:
        group["capturable"] = device.type == "cuda"
    graph = StepGraph(step, device)
    seconds = [_quickest(each, batch, device) for each in (step, graph)]
    if graph.refused:
        raise RuntimeError(graph.refused)
    return seconds[0], seconds[1]


def _quickest(step: Callable[..., Any], batch: Sequence[torch.Tensor], device: torch.device) -> float:
    """Seconds of one of several steps in a row, of the quickest of three rows, after a row that is not timed."""
    quickest = inf
    for row in range(4):
        synchronise(device)
        began = time.perf_counter()
        for _ in range(IN_A_ROW):
            step(*batch)
        synchronise(device)
        quickest = min(quickest, (time.perf_counter() - began) / IN_A_ROW) if row else inf
    return quickest


def decide(
    asked: Compute, trial: Trial[Any], say: Callable[[str], None], uncompiled: str = ""
) -> tuple[Compute, list[str]]:
    """The open settings replaced by the fastest ones on this CPU, and one sentence per decision."""
    compile_it, compile_why = asked.compile is True, ""
    threads_before = torch.get_num_threads()
    try:
        best, seconds, timed, by_crew = _search(asked, trial, say)
        if asked.compile == "auto" and uncompiled:
            compile_why = f"compile off: {uncompiled}"
        elif asked.compile == "auto":
            taken = seconds[best] if best in seconds else min(trial.time(best) for _ in range(2))
            finalists = _finalists(best, timed, by_crew)
            best, compile_why, others = _with_compiler(trial, best, finalists, trial.steps * taken, say)
            seconds.update(others)
            compile_it = best.compiled
    finally:
        torch.set_num_threads(threads_before)
    decisions: dict[str, object] = {"dtype": best.dtype, "attention": best.attention, "threads": best.threads}
    decisions |= {
        "thread_mode": best.thread_mode,
        "device": "cpu",
        "compile": compile_it,
        "cuda_graphs": asked.cuda_graphs is True,
    }
    decided = asked.model_copy(update=decisions)
    why = [f"cpu: {'as asked' if asked.device == 'cpu' else 'torch sees no CUDA device here'} ({describe_cpu()})"]
    plain = replace(best, compiled=False)
    if plain in seconds:
        why.append(
            f"{plain}: {1e3 * seconds[plain]:.1f} ms a step{trial.scale}, chosen of {len(seconds)} settings timed"
        )
    else:
        why.append(f"{plain}: {'the quickest once compiled' if timed and best.compiled else 'as the scenario says'}")
    slower = sorted((setting for setting in seconds if setting != plain), key=seconds.__getitem__)
    why += [f"{setting}: {1e3 * seconds[setting]:.1f} ms a step" for setting in slower]
    return decided, [*why, compile_why] if compile_why else why


def _search(asked: Compute, trial: Trial[Any], say: Callable[[str], None]) -> tuple[Setting, Seconds, Seconds, Seconds]:
    """(Fastest setting without the compiler, all timings, those of the last comparison, those of numbers of threads and
    ways to share with all else equal: inf if there was no time for one)."""
    dtypes: tuple[Dtype, ...] = ("bfloat16", "float32") if asked.dtype == "auto" else (asked.dtype,)
    kernels: tuple[Kernel, ...] = ("matmul", "sdpa") if asked.attention == "auto" else (asked.attention,)
    thread_counts = [asked.threads] if asked.threads else _thread_counts()
    # Threads come first, beginning with one, and sharing every operation last: next to busy processes such a step can
    # take seconds, which would use up the time for the settings after it.
    by_threads = [Setting(dtypes[-1], kernels[-1], *crew) for crew in _crews(asked, thread_counts, trial)]
    seconds = compare(trial, by_threads, 0.3 * BUDGET)
    if not seconds and len(dtypes) * len(kernels) > 1:
        seconds[by_threads[0]] = min(trial.time(by_threads[0]) for _ in range(2))
    expected = trial.steps * min(seconds.values(), default=0.0)
    budget = _budget(expected)
    if budget > 2:
        length = format_duration(expected)
        say(f"timing the settings for {format_duration(budget)}, since training will take about {length}")
    if budget > BUDGET:
        seconds.update(compare(trial, by_threads, 0.3 * budget, _rounds(budget)))
    crews = sorted(by_threads, key=lambda setting: seconds.get(setting, inf))
    # Which crew is fastest may depend on dtype and kernel, so those that are close are all tried if there is time.
    near = [crew for crew in crews[1:] if seconds.get(crew, inf) < CLEARLY * seconds[crews[0]]]
    settings = [
        replace(crew, dtype=dtype, attention=kernel)
        for crew in [crews[0], *(near if budget > BUDGET else [])]
        for dtype in dtypes
        for kernel in kernels
    ]
    seconds.update(compare(trial, settings, 0.7 * budget, _rounds(budget)))
    timed = {setting: seconds[setting] for setting in settings if setting in seconds}
    best = _fastest(timed) if timed else settings[0]
    return best, seconds, timed, {crew: seconds.get(crew, inf) for crew in by_threads}


def _budget(expected: float) -> float:
    """Seconds to spend on timing, for a run expected to take `expected` seconds."""
    return min(MOST_BUDGET, max(BUDGET, expected / 1000))


def _rounds(budget: float) -> int:
    """Rounds of timing: a shared machine can be half as fast for seconds, so a larger budget takes more than seven."""
    return round(7 * budget / BUDGET)


def describe_cpu() -> str:
    return f"{cores()} cores, {describe(torch.device('cpu'))}"


def own_cores() -> int:
    """The processors that there are for each of the processes that compute together on this machine."""
    return max(1, cores() // current_strategy().local_world_size)


def _thread_counts() -> list[int]:
    """1, 2, 4 … and all cores, at most 16: small matrices gain nothing from more."""
    most = min(16, own_cores())
    return sorted({1 << n for n in range(most.bit_length())} | {most})


def _crews(asked: Compute, counts: Sequence[int], trial: Trial[Any]) -> list[tuple[int, ThreadMode]]:
    """(threads, division of work) worth timing: a batch is shared if it has a sequence for every thread and there is no
    dropout (see `batch_threads`)."""
    sharing = [threads for threads in counts if 1 < threads <= trial.sequences and not trial.dropout]
    crews: list[tuple[int, ThreadMode]] = [(1, "operations")] if 1 in counts else []
    if asked.thread_mode != "operations":
        crews += [(threads, "batch") for threads in sharing]
    if asked.thread_mode != "batch" or len(crews) == 0:
        crews += [(threads, "operations") for threads in counts if threads > 1]
    return crews


def _fastest(seconds: dict[Setting, float]) -> Setting:
    """The fastest, except that bfloat16 and the compiler must be worth their cost."""

    def seconds_with_handicap(setting: Setting) -> float:
        return seconds[setting] * (CLEARLY if setting.dtype == "bfloat16" else 1) / (WORTH if setting.compiled else 1)

    return min(seconds, key=seconds_with_handicap)


def _finalists(best: Setting, seconds: Seconds, by_crew: Seconds) -> list[Setting]:
    """The settings that may be the fastest once compiled, the likeliest first: compiling can change the order.

    It removes the casts that bfloat16 is full of (57 ms in float32 and 49 in bfloat16 became 50 and 36 on one
    processor), so bfloat16 is tried unless it is clearly slower; and it removes most of the operations after which
    threads synchronise, so the other way of sharing is tried too. So is another number of threads unless it was clearly
    slower: the number was chosen before dtype and kernel, perhaps while the machine was busy.

    seconds, by_crew  as `_search` returns them
    """
    finalists = [best]
    if best.dtype != "bfloat16" and best in seconds:
        near = [s for s in seconds if s.dtype == "bfloat16" and seconds[s] < CLEARLY * seconds[best]]
        finalists += sorted(near, key=seconds.__getitem__)[:1]
    others = [
        replace(setting, thread_mode=crew.thread_mode)
        for setting in reversed(finalists)
        for crew in by_crew
        if crew.threads == setting.threads and crew.thread_mode != setting.thread_mode
    ]
    behind = CLEARLY * min(by_crew.values())
    elsewhere = [crew for crew in by_crew if crew.threads != best.threads and by_crew[crew] < behind]
    for crew in sorted(elsewhere, key=by_crew.__getitem__)[:1]:
        others.append(replace(finalists[-1], threads=crew.threads, thread_mode=crew.thread_mode))
    return list(dict.fromkeys(finalists + others))


def _with_compiler(
    trial: Trial[Any], best: Setting, finalists: Sequence[Setting], expected: float, say: Callable[[str], None]
) -> tuple[Setting, str, dict[Setting, float]]:
    """(The fastest setting once finalists were also tried compiled, a sentence about it, the other compiled timings).

    One finalist is tried for every LONG seconds that the run is expected to take; `say` gets a line before the wait,
    which ends at the time that the line names: on a busy machine compiling has taken eight times as long.
    """
    if expected < LONG:
        return (
            best,
            f"compile off: about {format_duration(expected)} of training would not earn the compiler's wait back",
            {},
        )
    by_compiler = [replace(setting, compiled=True) for setting in finalists[: int(expected / LONG)]]
    wait = "a minute" if len(by_compiler) == 1 else f"{len(by_compiler)} minutes"
    length = format_duration(expected)
    say(f"trying torch's compiler on this shape, since training will take about {length}: up to {wait}")
    began, longest = time.perf_counter(), COMPILING * len(by_compiler)
    ready: list[Setting] = []
    seconds: Seconds = {}
    try:
        with suppress(OutOfTime), deadline((1 - FOR_TIMING) * longest):
            for setting in by_compiler:
                trial.time(setting)
                ready.append(setting)
        budget = _budget(expected)
        if ready:
            with suppress(OutOfTime), deadline(longest - (time.perf_counter() - began)):
                in_time = max(1.0, budget, 2 * expected / trial.steps)
                seconds = compare(trial, [best, *ready], in_time, _rounds(budget))
    except Exception as error:  # no C++ compiler, an unsupported operation, …: the type depends on the machine
        return best, f"compile off: torch's compiler does not work here ({one_line(error)[:120]})", {}
    took = time.perf_counter() - began
    timed = [setting for setting in ready if setting in seconds]
    if not timed:
        what = "too slow to be compared" if ready else "not ready in time"
        return best, f"compile off: {what}; tried for {took:.0f} s of at most {format_duration(longest)}", {}
    winner = _fastest(seconds)
    quickest = min(timed, key=seconds.__getitem__)
    times = (
        f"{1e3 * seconds[quickest]:.1f} ms a step compiled, {1e3 * seconds[best]:.1f} ms not; tried for {took:.0f} s"
    )
    others = {setting: seconds[setting] for setting in timed if setting != quickest}
    return winner, f"compile {'on' if winner.compiled else 'off'}: {times}", others
