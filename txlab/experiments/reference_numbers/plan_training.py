"""Reference numbers of training on many cards: FLOPs, utilisation, days and memory as printed, beside the arithmetic of
`txlab plan` (MATH T11).

Notable: a printed utilisation is tokens a second times FLOPs a token over the peak, so from the printed speed it has to
come out to the digit, by the FLOPs that its source counts. What the roofline allows is a bound, not an equal: how far a
printed training stays below it is in the remarks.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

from txlab.engine.transformer.costs import costs
from txlab.engine.transformer.gpt import GPTShape
from txlab.engine.transformer.parallelism import CARDS, best_plan
from txlab.engine.transformer.presets import preset_named
from txlab.experiments.reference_numbers import Figures, Measured, Say, printed

A100 = CARDS["a100"]
TPU_V4 = 275e12  # dense bfloat16 FLOP/s of a chip; Chowdhery et al. 2022, appendix B
LLAMA_3_8B = GPTShape(
    32, 32, 4096, 8192, 128_256, 14336, "rotary", activation="swish", tied=False, bias=False, normalisation="rms",
    gated=True, kv_heads=8,
)  # fmt: skip
LLAMA_3_70B = replace(LLAMA_3_8B, layers=80, heads=64, width=8192, feed_forward=28672)
"""Grattafiori et al. 2024, table 3"""

# Sizes of Korthikanti et al. 2022, table 3, whose T is 2048 and V 51 200: layers, heads, width; and the two
# utilisations of NVIDIA/Megatron-LM's README: of the model's FLOPs, and with those that are recomputed.
MEGATRON = {
    "22B": (48, 64, 6144, 41.5, 43.7),
    "175B": (96, 96, 12288, 51.4, 52.8),
    "530B": (105, 128, 20480, 56.0, 57.0),
    "1T": (128, 160, 25600, 56.3, 57.0),
}
ROUNDED = 0.05 / sqrt(3)  # standard deviation of what rounding to a tenth leaves out

FIGURES = Figures()


def flops_with_table(shape: GPTShape) -> float:
    """FLOPs of a token as torchtitan counted them: 6 · all parameters + 12 N T D, the table of tokens included."""
    return 6 * costs(shape).parameters + 12 * shape.layers * shape.context * shape.across


@FIGURES.measured_by(
    "gpt3-training",
    "GPT-3 175B: FLOPs of 300 · 10⁹ tokens as 6 · parameters · tokens",
    "Brown et al. 2020, table D.1",
    [printed("1e23 FLOPs", 3.14, 2)],
)
def measure_gpt3(say: Say) -> list[Measured]:
    preset = preset_named("gpt3-175b")
    shape = preset.shape
    whole = costs(shape).flops_per_token * preset.tokens
    simple = 6 * costs(shape).parameters * preset.tokens
    plan = best_plan(shape, A100, 1024, 2.0**22, preset.tokens)
    remark = (
        f"plan counts 6 w + 12 N T D: {whole:.3g} FLOPs, {100 * (whole / simple - 1):.1f} % more; on 1024 × A100 its "
        f"roofline is {plan.days:.3g} days, {plan.card_hours:.3g} card-hours, {100 * plan.share:.0f} % of the peak"
    )
    return [Measured(simple / 1e23, remark=remark)]


@FIGURES.measured_by(
    "palm-utilisation",
    "PaLM 540B: share of the peak of 6144 TPU v4 at 238 300 tokens a second, %",
    "Chowdhery et al. 2022, §4.1 and appendix B",
    [printed("model FLOPs utilisation", 46.2, 1)],
)
def measure_palm(say: Say) -> list[Measured]:
    preset = preset_named("palm-540b")
    share = costs(preset.shape).flops_per_token * 238_300 / (6144 * TPU_V4)
    work = 6 * costs(preset.shape).parameters * preset.tokens
    remark = (
        f"6 · parameters · tokens is {work:.5g} FLOPs, {100 * (work / preset.flops - 1):+.2f} % of those of table 21"
    )
    return [Measured(100 * share, remark=remark)]


@FIGURES.measured_by(
    "llama-days",
    "LLaMA 65B: days for 1.4 · 10¹² tokens on 2048 × A100 at 380 tokens a second and card",
    "Touvron et al. 2023, §2.4 (“approximately 21 days”)",
    [printed("days", 21, 0)],
)
def measure_llama(say: Say) -> list[Measured]:
    preset = preset_named("llama-65b")
    days = preset.tokens / (380 * 2048) / 86400
    plan = best_plan(preset.shape, A100, 2048, 4e6, preset.tokens)
    share = 380 * costs(preset.shape).flops_per_token / A100.flops
    other = preset_named("llama-13b")
    thirteen = best_plan(other.shape, A100, 2048, 4e6, other.tokens)
    remark = (
        f"{100 * share:.1f} % of the peak; plan's roofline is {plan.days:.3g} days ({100 * plan.share:.0f} %), "
        f"{plan.split}: the printed training is at {plan.days / days:.2f} of it. 13B: {thirteen.card_hours:,.0f} "
        f"card-hours, of 135,168 printed in table 15: {thirteen.card_hours / 135_168:.2f}"
    )
    return [Measured(days, remark=remark)]


@FIGURES.measured_by(
    "torchtitan-utilisation",
    "Llama 3 with FSDP on 64 × A100, sequences of 8192: share of the peak at the printed speed, %",
    "pytorch/torchtitan, docs/performance.md, Llama 3 performance numbers; its FLOPs count the table of tokens",
    [
        printed("8B, 2904 tokens/s, recomputing every second block", 56.8, 1),
        printed("8B, 2973 tokens/s, recomputing some operations", 58.2, 1),
        printed("70B, 331 tokens/s, recomputing everything", 51.7, 1),
    ],
)
def measure_torchtitan(say: Say) -> list[Measured]:
    rows = []
    for shape, speed in ((LLAMA_3_8B, 2904), (LLAMA_3_8B, 2973), (LLAMA_3_70B, 331)):
        plan = best_plan(shape, A100, 64, 64 * 8192, 1e12)
        ours = speed * costs(shape).flops_per_token / A100.flops
        remark = (
            f"without the table of tokens, as plan counts, {100 * ours:.1f} %; its roofline is "
            f"{100 * plan.share:.0f} % ({plan.split}), so the printed speed is at {ours / plan.share:.2f} of it"
        )
        rows.append(Measured(100 * speed * flops_with_table(shape) / A100.flops, remark=remark))
    return rows


@FIGURES.measured_by(
    "megatron-utilisation",
    "Megatron-LM: utilisation with recomputed attention, from that of the model's FLOPs, %",
    "NVIDIA/Megatron-LM, README of 2022 to 2023; shapes of Korthikanti et al. 2022, table 3",
    [printed(f"{name}, hardware FLOPs", hardware, 1) for name, (*_, hardware) in MEGATRON.items()],
)
def measure_megatron(say: Say) -> list[Measured]:
    """The recomputed products of attention count as much as attention does, 12 N T D, as the printed pairs show:
    1 + s/3h against 1 + s/6h of Korthikanti et al. 2022, appendix A. Their forward pass alone would be 4 N T D."""
    rows = []
    for name, (layers, heads, width, model, _) in MEGATRON.items():
        shape = GPTShape(layers, heads, width, 2048, 51_200)
        whole = costs(shape).flops_per_token
        attention = layers * 2048 * width / whole
        ratio, forward = 1 + 12 * attention, model * (1 + 4 * attention)
        remark = (
            f"{costs(shape).parameters / 1e9:.4g} B parameters, named {name}; with the recomputed forward pass alone "
            f"it would be {forward:.1f} %"
        )
        rows.append(Measured(model * ratio, error=ROUNDED * ratio, remark=remark))
    return rows


@FIGURES.measured_by(
    "zero-memory",
    "Weights, gradients and moments of 7.5 · 10⁹ parameters at 16 bytes each, GB a card",
    "Rajbhandari et al. 2020, figure 1",
    [printed("data-parallel", 120, 0), printed("everything divided among 64 cards", 1.9, 1)],
)
def measure_zero(say: Say) -> list[Measured]:
    from txlab.engine.transformer.parallelism import Split, make_plan

    shape = preset_named("gpt3-6.7b").shape
    scale = 7.5e9 / costs(shape).parameters / 1e9
    plans = [make_plan(shape, A100, Split(64, sharded=sharded), 2.0**22, 1e9) for sharded in (False, True)]
    return [Measured(scale * sum(plan.memory[part] for part in ("weights", "gradients", "moments"))) for plan in plans]
