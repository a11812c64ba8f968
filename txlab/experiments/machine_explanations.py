"""Answers to "why this number?" for the metrics that the loop records of every run: speed, time left, memory (MATH
T11).

The values are measured over a window of about ten seconds; pauses, evaluations and samples do not count as training.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import mul, truediv
from typing import Any

from txlab.engine.card import describe_slowdown
from txlab.engine.explain import Explaining, Explanation, Operand, Step, compute_step
from txlab.experiments.schema import group_digits

WINDOW = "a window of about ten seconds, without pauses, evaluations and samples"


def explain_machine(
    scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
) -> Explanation | None:
    """Explain a machine metric; None for any other metric."""
    if name == "steps_per_second":
        return _pace(values[name])
    if name == f"{facts.get('unit', 'tokens')}_per_second":
        return _speed(name, values, facts)
    if name == "seconds_left":
        return _time_left(scenario, step, values)
    if name in ("memory_mb", "host_memory_mb"):
        return _memory(name, values, facts)
    if name in READ:
        return _reading(name, values)
    return _share(name, values, facts) if name in PEAKS else None


PEAKS = {
    "share_of_peak": ("peak_flops", "FLOP/s of a large matrix product here, in the dtype and with the threads in use"),
    "share_of_data_sheet": ("data_sheet_flops", "dense bfloat16 FLOP/s from the card's data sheet"),
}
READ = {
    "memory_reserved_mb": ("memory that torch holds on the GPU, for tensors and to reuse", "MB", "torch"),
    "gpu_used_mb": ("memory of the GPU that all programs use", "MB", "NVML"),
    "gpu_total_mb": ("memory of the GPU", "MB", "NVML"),
    "gpu_busy": ("share of the last moments in which any kernel ran, however little of the GPU it used", "", "NVML"),
    "gpu_celsius": ("temperature of the GPU", "°C", "NVML"),
    "gpu_watts": ("power that the card takes", "W", "NVML"),
    "gpu_watts_limit": ("power that the card may take", "W", "NVML"),
    "gpu_slowed": ("sum of NVML's reasons for its clock; 0 and 1 = it is not slowed", "", "NVML"),
}


def _reading(name: str, values: Mapping[str, float]) -> Explanation:
    what, unit, source = READ[name]
    reason = describe_slowdown(values[name]) if name == "gpu_slowed" else ""
    limits = {"gpu_watts": "gpu_watts_limit", "gpu_used_mb": "gpu_total_mb", "memory_reserved_mb": "gpu_total_mb"}
    most = limits.get(name, "")
    why = Explaining(f"why {values[name]:.4g} {unit}".rstrip() + "?", values[name])
    why.equation(f"a reading of {source}", "T11", "read while it ran, about once a second")
    why.measurement(name, f"{what}{f': {reason}' if reason else ''}")
    if values.get(most):
        why.input(most, values[most], READ[most][0])
        why.means(compute_step("share", "{} / {}", truediv, values[name], values[most]))
    return why.result()


def _pace(rate: float) -> Explanation:
    why = Explaining(f"why {rate:.4g} steps a second?", rate)
    why.equation("steps a second = (n₂ − n₁) / (t₂ − t₁)", "T11", "measured while it ran")
    why.input("n₂ − n₁", "steps done", WINDOW)
    why.measurement("steps/s")
    why.means(Step("a step", f"1 / {rate:.4g}", 1 / rate if rate else float("inf"), "seconds of training"))
    return why.result()


def _speed(name: str, values: Mapping[str, float], facts: Mapping[str, Any]) -> Explanation | None:
    unit, size = str(facts.get("unit", "tokens")), float(facts.get("units_per_step") or 0)
    if not size:
        return None
    rate = values.get("steps_per_second", values[name] / size)
    why = Explaining(f"why {group_digits(round(values[name]))} {unit} a second?", values[name])
    why.equation(f"{unit} a second = {unit} a step · steps a second", "T11", "measured while it ran")
    why.input(f"{unit} a step", size, "on average, over all of a step's input")
    why.input("steps a second", rate, f"over {WINDOW}")
    why.operands += choices_made(facts)
    why.compute(f"{unit}/s", "{} · {}", mul, size, rate)
    return why.result()


def _time_left(scenario: Any, step: int, values: Mapping[str, float]) -> Explanation:
    left, rate = values["seconds_left"], values.get("steps_per_second")
    steps = getattr(getattr(scenario, "train", None), "steps", None)
    why = Explaining(f"why {left:.3g} s left?", left)
    why.equation("time left = (N − n) · seconds a step, as of late", "T11", "measured while it ran")
    why.measurement("time left", "seconds")
    if steps is not None and steps > step:
        why.input("N", steps, "train.steps")
        why.input("n", step, "done")
        form, note = "{} / ({} − {})", "seconds, with evaluations and samples"
        why.means(compute_step("a step", form, lambda s, n, t: s / (n - t), left, steps, step, note=note))
    else:
        why.input("N − n", "steps to do", "N of the scenario, n done")
    if rate:
        why.means(Step("of it training", f"1 / {rate:.4g}", 1 / rate, "seconds a step"))
    return why.result()


def _memory(name: str, values: Mapping[str, float], facts: Mapping[str, Any]) -> Explanation:
    used, parameters = values[name], facts.get("parameters")
    on_gpu = name == "memory_mb" and "host_memory_mb" in values
    what = "most that tensors have taken on the GPU" if on_gpu else "pages of the process in main memory"
    why = Explaining(f"why {used:.4g} MB?", used)
    parts = "weights + gradients + moments + activations + data + libraries"
    why.equation(f"memory = {parts}", "T11", "measured while it ran")
    why.measurement("memory", f"MB: {what}")
    if parameters and name == "memory_mb":
        known = 16e-6 * parameters
        why.means(
            Step("of the model", f"16 · {parameters} / 10⁶", known, "MB: float32 weights, gradients, two moments"),
            Step("the rest", f"{used:.1f} − {known:.1f}", used - known, "activations, data, libraries"),
        )
    return why.result()


def _share(name: str, values: Mapping[str, float], facts: Mapping[str, Any]) -> Explanation | None:
    share, (which, about) = values[name], PEAKS[name]
    unit = str(facts.get("unit", "tokens"))
    speed, one = values.get(f"{unit}_per_second"), unit.removesuffix("s")
    peak, work, units = facts.get(which), facts.get("flops_per_step"), facts.get("units_per_step")
    if not (speed and peak and work and units):
        return None
    rate = work * speed / units
    why = Explaining(
        f"why {share:.1%} of {'this machine' if name == 'share_of_peak' else 'the data sheet'}'s peak?", share
    )
    why.equation(f"share = FLOPs for each {one} · {unit} a second / peak", "T11", "Chowdhery et al. 2022, appendix B")
    why.input(f"FLOPs for each {one}", work / units, "6 · weights of matrix products + 12 · N · T · D")
    why.input(f"{unit} a second", speed, "measured")
    why.input("peak", peak, about)
    why.operands += choices_made(facts)
    why.compute("FLOP/s", "{} · {}", mul, work / units, speed)
    why.compute("share", "{} / {}", truediv, rate, peak)
    return why.result()


def choices_made(facts: Mapping[str, Any]) -> list[Operand]:
    """The timings from which dtype, attention kernel and threads were chosen, fastest first."""
    compute = facts.get("compute")
    why = compute.get("why") if isinstance(compute, Mapping) else None
    return [Operand("setup", str(reason)) for reason in why] if isinstance(why, list) else []
