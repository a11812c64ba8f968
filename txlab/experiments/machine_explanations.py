"""Answers to "why this number?" for what the loop itself records of every run: speed, time left, memory (MATH T11).

The values are measured over a window of about ten seconds; pauses, evaluations and samples do not count as training.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import mul, truediv
from typing import Any

from txlab.engine.card import slowed
from txlab.engine.explain import Explanation, Operand, Step, computed
from txlab.experiments.schema import grouped

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
    "share_of_data_sheet": ("data_sheet_flops", "dense bfloat16 FLOP/s that the card's data sheet promises"),
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
    said = slowed(values[name]) if name == "gpu_slowed" else ""
    limits = {"gpu_watts": "gpu_watts_limit", "gpu_used_mb": "gpu_total_mb", "memory_reserved_mb": "gpu_total_mb"}
    most = limits.get(name, "")
    share = computed("share", "{} / {}", truediv, values[name], values[most]) if values.get(most) else None
    return Explanation(
        question=f"why {values[name]:.4g} {unit}".rstrip() + "?",
        equation=f"a reading of {source}",
        math="T11",
        source="read while it ran, about once a second",
        operands=[Operand(most, values[most], READ[most][0])] if share else [],
        steps=[Step(name, "", values[name], f"{what}{f': {said}' if said else ''}")],
        meaning=[share] if share else [],
    )


def _pace(rate: float) -> Explanation:
    return Explanation(
        question=f"why {rate:.4g} steps a second?",
        equation="steps a second = (n₂ − n₁) / (t₂ − t₁)",
        math="T11",
        source="measured while it ran",
        operands=[Operand("n₂ − n₁", "steps done", WINDOW)],
        steps=[Step("steps/s", "", rate)],
        meaning=[Step("a step", f"1 / {rate:.4g}", 1 / rate if rate else float("inf"), "seconds of training")],
    )


def _speed(name: str, values: Mapping[str, float], facts: Mapping[str, Any]) -> Explanation | None:
    unit, size = str(facts.get("unit", "tokens")), float(facts.get("units_per_step") or 0)
    if not size:
        return None
    rate = values.get("steps_per_second", values[name] / size)
    return Explanation(
        question=f"why {grouped(round(values[name]))} {unit} a second?",
        equation=f"{unit} a second = {unit} a step · steps a second",
        math="T11",
        source="measured while it ran",
        operands=[
            Operand(f"{unit} a step", size, "on average, of all that a step reads"),
            Operand("steps a second", rate, f"over {WINDOW}"),
            *choices_made(facts),
        ],
        steps=[Step(f"{unit}/s", f"{size:.6g} · {rate:.6g}", size * rate)],
    )


def _time_left(scenario: Any, step: int, values: Mapping[str, float]) -> Explanation:
    left, rate = values["seconds_left"], values.get("steps_per_second")
    steps = getattr(getattr(scenario, "train", None), "steps", None)
    operands, meaning = [Operand("N − n", "steps to do", "N of the scenario, n done")], []
    if steps is not None and steps > step:
        operands = [Operand("N", steps, "train.steps"), Operand("n", step, "done")]
        meaning.append(
            computed(
                "a step",
                "{} / ({} − {})",
                lambda s, n, t: s / (n - t),
                left,
                steps,
                step,
                note="seconds, with evaluations and samples",
            )
        )
    if rate:
        meaning.append(Step("of it training", f"1 / {rate:.4g}", 1 / rate, "seconds a step"))
    return Explanation(
        question=f"why {left:.3g} s left?",
        equation="time left = (N − n) · seconds a step, as of late",
        math="T11",
        source="measured while it ran",
        operands=operands,
        steps=[Step("time left", "", left, "seconds")],
        meaning=meaning,
    )


def _memory(name: str, values: Mapping[str, float], facts: Mapping[str, Any]) -> Explanation:
    used, parameters = values[name], facts.get("parameters")
    on_gpu = name == "memory_mb" and "host_memory_mb" in values
    what = "most that tensors have taken on the GPU" if on_gpu else "pages of the process in main memory"
    meaning = []
    if parameters and name == "memory_mb":
        known = 16e-6 * parameters
        meaning = [
            Step("of the model", f"16 · {parameters} / 10⁶", known, "MB: float32 weights, gradients, two moments"),
            Step("the rest", f"{used:.1f} − {known:.1f}", used - known, "activations, data, libraries"),
        ]
    return Explanation(
        question=f"why {used:.4g} MB?",
        equation="memory = weights + gradients + moments + activations + data + libraries",
        math="T11",
        source="measured while it ran",
        operands=[],
        steps=[Step("memory", "", used, f"MB: {what}")],
        meaning=meaning,
    )


def _share(name: str, values: Mapping[str, float], facts: Mapping[str, Any]) -> Explanation | None:
    share, (which, about) = values[name], PEAKS[name]
    unit = str(facts.get("unit", "tokens"))
    speed, one = values.get(f"{unit}_per_second"), unit.removesuffix("s")
    peak, work, units = facts.get(which), facts.get("flops_per_step"), facts.get("units_per_step")
    if not (speed and peak and work and units):
        return None
    rate = work * speed / units
    return Explanation(
        question=f"why {share:.1%} of {'this machine' if name == 'share_of_peak' else 'the data sheet'}'s peak?",
        equation=f"share = FLOPs for each {one} · {unit} a second / peak",
        math="T11",
        source="Chowdhery et al. 2022, appendix B",
        operands=[
            Operand(f"FLOPs for each {one}", work / units, "6 · weights of matrix products + 12 · N · T · D"),
            Operand(f"{unit} a second", speed, "measured"),
            Operand("peak", peak, about),
            *choices_made(facts),
        ],
        steps=[
            computed("FLOP/s", "{} · {}", mul, work / units, speed),
            computed("share", "{} / {}", truediv, rate, peak),
        ],
    )


def choices_made(facts: Mapping[str, Any]) -> list[Operand]:
    """The timings from which dtype, attention kernel and threads were chosen, fastest first."""
    compute = facts.get("compute")
    why = compute.get("why") if isinstance(compute, Mapping) else None
    return [Operand("setup", str(reason)) for reason in why] if isinstance(why, list) else []
