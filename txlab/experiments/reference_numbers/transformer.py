"""Reference numbers of transformers: parameter counts of models in the literature (MATH T11, T14).

Notable: sources print rounded counts; the exact ones follow from the shapes they print. Nothing is allocated: the
counts are those of modules on torch's meta device. FLOPs of table D.1 are 6 · parameters · tokens, without attention.
"""

from __future__ import annotations

from collections.abc import Sequence

from txlab.engine.transformer.costs import costs
from txlab.engine.transformer.presets import parameters, preset_named
from txlab.engine.transformer.vision import VisionShape
from txlab.experiments.reference_numbers import Figures, Measured, Say, derived, printed

GPT2 = {
    "gpt2": ("GPT-2 small", 124, 124_439_808),
    "gpt2-medium": ("GPT-2 medium", 355, 354_823_168),
    "gpt2-large": ("GPT-2 large", 774, 774_030_080),
    "gpt2-xl": ("GPT-2 XL", 1558, 1_557_611_200),
}
BERT = {"bert-base": ("BERT base", 110, 0, 109_514_298), "bert-large": ("BERT large", 340, -1, 335_174_458)}
GPT3 = {
    "gpt3-small": ("Small", 125, 0, 2.25, 20),
    "gpt3-medium": ("Medium", 356, 0, 6.41, 20),
    "gpt3-large": ("Large", 760, 0, 1.37, 21),
    "gpt3-xl": ("XL", 1320, -1, 0, 0),  # the printed 2.38e21 uses the rounded count: 6 · 1.3158e9 · 3e11 = 2.37e21
    "gpt3-2.7b": ("2.7B", 2650, -1, 4.77, 21),
    "gpt3-6.7b": ("6.7B", 6660, -1, 1.20, 22),
    "gpt3-13b": ("13B", 12_850, -1, 2.31, 22),
    "gpt3-175b": ("175B", 174_600, -2, 3.14, 23),
}
"""preset → name, millions of parameters, their printed digits, FLOPs of the training: mantissa, power"""

VIT_B_16 = VisionShape(12, 12, 768, 224, 16, 1000)

FIGURES = Figures()


def counts(presets: Sequence[str], unit: float = 1.0) -> list[Measured]:
    return [Measured(parameters(preset_named(name).shape) / unit) for name in presets]


@FIGURES.measured_by(
    "gpt2-parameters",
    "GPT-2: parameters",
    "openai/gpt-2, the names of the four models; shapes of Radford et al. 2019, table 2",
    [
        *(printed(f"{name}, millions", millions, 0) for name, millions, _ in GPT2.values()),
        *(derived(name, exact, 0) for name, _, exact in GPT2.values()),
    ],
)
def measure_gpt2(say: Say) -> list[Measured]:
    return [*counts(list(GPT2), 1e6), *counts(list(GPT2))]


@FIGURES.measured_by(
    "gpt3-parameters",
    "GPT-3: parameters, and the FLOPs of its training as 6 · parameters · 300 · 10⁹ tokens",
    "Brown et al. 2020, table D.1; shapes of table 2.1, see `txlab presets gpt3-xl` for its inconsistencies",
    [
        *(printed(f"{name}, millions", millions, digits) for name, millions, digits, _, _ in GPT3.values()),
        *(printed(f"{name}, 1e{power} FLOPs", flops, 2) for name, _, _, flops, power in GPT3.values() if flops),
    ],
    seconds=2.0,
)
def measure_gpt3(say: Say) -> list[Measured]:
    measured = counts(list(GPT3), 1e6)
    rows = zip(GPT3.items(), measured, strict=True)
    return measured + [
        Measured(6 * each.value * 1e6 * preset_named(name).tokens / 10**power)
        for (name, (*_, flops, power)), each in rows
        if flops
    ]


@FIGURES.measured_by(
    "bert-parameters",
    "BERT with the head that names the hidden tokens: parameters",
    "Devlin et al. 2019, §3; the uncased vocabulary of 30 522",
    [
        *(printed(f"{name}, millions", millions, digits) for name, millions, digits, _ in BERT.values()),
        *(derived(name, exact, 0) for name, _, _, exact in BERT.values()),
    ],
)
def measure_bert(say: Say) -> list[Measured]:
    return [*counts(list(BERT), 1e6), *counts(list(BERT))]


@FIGURES.measured_by(
    "vit-parameters",
    "ViT-B/16 for 1000 classes: parameters",
    "torchvision's documentation of vit_b_16, num_params; shape of Dosovitskiy et al. 2021, table 1",
    [printed("ViT-B/16", 86_567_656, 0)],
    seconds=0.1,
)
def measure_vit(say: Say) -> list[Measured]:
    return [Measured(costs(VIT_B_16).parameters)]
