"""Models named in the literature, with their published shapes (MATH T11).

Every count is taken from a module on torch's meta device, which has shapes but no memory, so 175 billion parameters are
counted in a second on a laptop. Published figures are rounded and sometimes wrong; the shape here is the one that gives
the published count, and `notes` say where a table differs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import nn

from txlab.engine.transformer.bert import Bert, BertShape
from txlab.engine.transformer.costs import costs
from txlab.engine.transformer.encoder_decoder import EncoderDecoder, EncoderDecoderShape
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.errors import LabError, choices

PresetShape = GPTShape | BertShape | EncoderDecoderShape


@dataclass(frozen=True)
class Preset:
    """A published model.

    published   parameters as the source states them; within half a unit of its last digit unless a note says otherwise
    unit        of that last digit
    tokens      read in training, 0 = not published; for an encoder–decoder, pairs of source and target tokens
    lengths     (tokens, sequence length) of each part of the training; empty = all at full context
    flops       of the whole training as the source states them, 0 = not stated
    notes       on the numbers: rounding, inconsistencies, differences in a lecture text
    """

    name: str
    title: str
    shape: PresetShape
    source: str
    published: float
    unit: float
    tokens: float = 0.0
    flops: float = 0.0
    notes: tuple[str, ...] = ()
    lengths: tuple[tuple[float, int], ...] = ()


GPT2_TABLE = "The paper's own counts were too small (117, 345, 762 and 1542 M); OpenAI corrected them with the weights."
SPARSE = (
    "The published FLOPs are 6 times the parameters times the tokens; here attention counts as well, as if every layer "
    "looked at everything, while half of them look at a band only."
)


def _gpt2(
    name: str, layers: int, width: int, heads: int, millions: float, extra: tuple[str, ...] = (), label: str = ""
) -> Preset:
    shape = GPTShape(layers, heads, width, 1024, 50257, activation="gelu_tanh")
    notes = (GPT2_TABLE, *extra)
    title = f"GPT-2 {label}".strip()
    return Preset(name, title, shape, "Radford et al. 2019, table 2; openai/gpt-2", millions * 1e6, 1e6, notes=notes)


def _gpt3(
    name: str,
    label: str,
    layers: int,
    width: int,
    heads: int,
    millions: float,
    unit: float,
    flops: float,
    notes: tuple[str, ...] = (),
) -> Preset:
    shape = GPTShape(layers, heads, width, 2048, 50257, activation="gelu_tanh")
    source = "Brown et al. 2020, table 2.1; count and FLOPs of table D.1"
    return Preset(name, f"GPT-3 {label}", shape, source, millions * 1e6, unit * 1e6, 300e9, flops, (*notes, SPARSE))


XL = (
    "Table 2.1 is inconsistent: 24 heads of 128 are 3072 wide in a model of 2048, and would make 1.52 B parameters. "
    "The published 1.32 B come out with heads that are together as wide as the model, 16 of 128."
)
THIRTEEN = (
    "Table 2.1 gives a width of 5140, which 40 heads of 128 do not fill and which would make 12.94 B parameters; the "
    "published 12.85 B come out with 5120."
)
VASWANI = (
    "With the 37 000 shared tokens of the paper the base model has 63 and the big one 214 million; its table says 65 "
    "and 213, and no one vocabulary gives both."
)
PAIRS = "Tokens are pairs: about 25 000 source and 25 000 target tokens a step. The paper's FLOPs are hours times what "
GATED = (
    "The count comes out only with a gated feed-forward, three matrices instead of two, and heads of 128, which is "
    "not 8192 / 128 = 64."
)
LLAMA_65 = "The published 65.2 B are 65.29 B by the shape of the table: 80 layers, and a feed-forward of 22 016."


def _llama(name: str, layers: int, width: int, heads: int, inner: int, billions: float, tokens: float) -> Preset:
    """The shape of Touvron et al. 2023; F is ⅔ · 4 D, up to a multiple of 256."""
    shape = GPTShape(
        layers, heads, width, 2048, 32000, inner, "rotary", activation="swish", tied=False, bias=False,
        normalisation="rms", gated=True, epsilon=1e-6,
    )  # fmt: skip
    source = "Touvron et al. 2023, table 2; the feed-forward of §2.2, the context of their code"
    notes = (LLAMA_65,) if name == "llama-65b" else ()
    return Preset(name, f"LLaMA {name[6:].upper()}", shape, source, billions * 1e9, 1e8, tokens, notes=notes)


BERT_TOKENS = (
    "A million steps of 256 sequences, 900 000 of them of 128 tokens and 100 000 of 512; FLOPs in all are of these "
    "lengths, FLOPs of a token of 512."
)
BERT_LENGTHS = ((256 * 9e5 * 128, 128), (256 * 1e5 * 512, 512))
BERT_HEAD = (
    "Published with a pooler and a next-sentence head, {more} parameters, which are left out here: "
    "this is transformers' BertForMaskedLM."
)

PRESETS = {
    preset.name: preset
    for preset in [
        Preset(
            "vaswani-base",
            "Transformer, base",
            EncoderDecoderShape(6, 6, 8, 512, 37000, 37000, 512, 2048),
            "Vaswani et al. 2017, table 3",
            65e6,
            1e6,
            25e3 * 1e5,
            3.3e18,
            (VASWANI, PAIRS + "a P100 was taken to sustain (9.5 TFLOP/s).", "Its context is not limited; 512 here."),
        ),
        Preset(
            "vaswani-big",
            "Transformer, big",
            EncoderDecoderShape(6, 6, 16, 1024, 37000, 37000, 512, 4096),
            "Vaswani et al. 2017, table 3",
            213e6,
            1e6,
            25e3 * 3e5,
            2.3e19,
            (VASWANI, PAIRS + "a P100 was taken to sustain (9.5 TFLOP/s).", "Its context is not limited; 512 here."),
        ),
        Preset(
            "gpt-1",
            "GPT-1",
            GPTShape(12, 12, 768, 512, 40478, norm="post", activation="gelu_tanh"),
            "Radford et al. 2018, §4.1; the count is that of Radford et al. 2019, table 2",
            117e6,
            1e6,
        ),
        _gpt2("gpt2", 12, 768, 12, 124, label="small"),
        _gpt2("gpt2-medium", 24, 1024, 16, 355, label="medium"),
        _gpt2("gpt2-large", 36, 1280, 20, 774, label="large"),
        _gpt2(
            "gpt2-xl",
            48,
            1600,
            25,
            1558,
            ("Erratum: Wang's table gives it 12 heads and a feed-forward of 3072, which are those of GPT-2 small.",),
            "XL",
        ),
        _gpt3("gpt3-small", "Small", 12, 768, 12, 125, 1, 2.25e20),
        _gpt3("gpt3-medium", "Medium", 24, 1024, 16, 356, 1, 6.41e20, ("Table 2.1 rounds its count to 350 M.",)),
        _gpt3("gpt3-large", "Large", 24, 1536, 16, 760, 1, 1.37e21),
        _gpt3("gpt3-xl", "XL", 24, 2048, 16, 1320, 10, 2.38e21, (XL,)),
        _gpt3("gpt3-2.7b", "2.7B", 32, 2560, 32, 2650, 10, 4.77e21),
        _gpt3("gpt3-6.7b", "6.7B", 32, 4096, 32, 6660, 10, 1.20e22),
        _gpt3("gpt3-13b", "13B", 40, 5120, 40, 12850, 10, 2.31e22, (THIRTEEN,)),
        _gpt3("gpt3-175b", "175B", 96, 12288, 96, 174600, 100, 3.14e23),
        Preset(
            "bert-base",
            "BERT base",
            BertShape(12, 12, 768, 512, 30522),
            "Devlin et al. 2019, §3 and A.2; the uncased vocabulary",
            110e6,
            1e6,
            sum(tokens for tokens, _ in BERT_LENGTHS),
            notes=(BERT_HEAD.format(more="592 130"), BERT_TOKENS),
            lengths=BERT_LENGTHS,
        ),
        Preset(
            "bert-large",
            "BERT large",
            BertShape(24, 16, 1024, 512, 30522),
            "Devlin et al. 2019, §3 and A.2; the uncased vocabulary",
            340e6,
            1e7,
            sum(tokens for tokens, _ in BERT_LENGTHS),
            notes=(BERT_HEAD.format(more="1 051 650"), BERT_TOKENS),
            lengths=BERT_LENGTHS,
        ),
        _llama("llama-7b", 32, 4096, 32, 11008, 6.7, 1e12),
        _llama("llama-13b", 40, 5120, 40, 13824, 13.0, 1e12),
        _llama("llama-33b", 60, 6656, 52, 17920, 32.5, 1.4e12),
        _llama("llama-65b", 80, 8192, 64, 22016, 65.2, 1.4e12),
        Preset(
            "palm-540b",
            "PaLM 540B",
            GPTShape(
                118,
                48,
                18432,
                2048,
                256_000,
                73728,
                "rotary",
                block="parallel",
                activation="swish",
                bias=False,
                gated=True,
                kv_heads=1,
                head_dim=256,
            ),
            "Chowdhery et al. 2022, table 1; FLOPs of table 21",
            540.35e9,
            1e7,
            780e9,
            2527.2e21,
            notes=(
                "All heads share one key and one value; the feed-forward is gated and computed beside attention.",
                "The published 540.35 B are 540.36 B by this shape.",
            ),
        ),
        Preset(
            "lamda-137b",
            "LaMDA 137B",
            # Maps without biases, RMSNorm (division by √(mean x² + ε)), and no limit on positions.
            GPTShape(
                64,
                128,
                8192,
                0,
                32000,
                65536,
                "relative",
                bias=False,
                normalisation="rms",
                gated=True,
                head_dim=128,
            ),
            "Thoppilan et al. 2022, §3 and table 27",
            137e9,
            1e9,
            flops=3.55e23,
            notes=(
                "137 B are its parameters without the table of tokens.",
                GATED,
                "Its context is not published; FLOPs are counted without what attention adds with it.",
            ),
        ),
    ]
}


def preset_named(name: str) -> Preset:
    """Return the preset of that name; LabError suggests the nearest one otherwise."""
    if name.lower().replace("-", "").startswith("gpt4"):
        # Wang's table prints 170 trillion parameters and 120 layers for it.
        raise LabError("the shape of GPT-4 is unpublished; the figures in a lecture text are a rumour, not a preset")
    if name not in PRESETS:
        raise LabError(f"no preset is called {name!r}{choices(name, PRESETS)}")
    return PRESETS[name]


def module_of(shape: PresetShape) -> nn.Module:
    """Return the model of a shape on the meta device: tensors have shapes but no memory."""
    with torch.device("meta"):
        if isinstance(shape, GPTShape):
            return GPT(shape)
        if isinstance(shape, BertShape):
            return Bert(shape)
        return EncoderDecoder(shape)


def training_flops(preset: Preset) -> float:
    """Return the FLOPs of the whole training, each part at its sequence length; 0 if the tokens are not published."""
    if not preset.lengths:
        return preset.tokens * costs(preset.shape).flops_per_token
    assert isinstance(preset.shape, BertShape)
    return sum(read * costs(replace(preset.shape, context=T)).flops_per_token for read, T in preset.lengths)


# The group of a parameter by a part of its name: the first match counts.
PARTS = (
    (("embed.", "embed_source.", "embed_target."), "token table"),
    (("positions", "distances"), "positions"),
    (("segments",), "segments"),
    (("norm",), "norms"),
    (("cross.",), "cross-attention"),
    (("attention.",), "attention"),
    (("feed_forward.gate_proj",), "feed-forward, gate"),
    (("feed_forward.",), "feed-forward"),
    (("unembed", "transform"), "head"),
)


@lru_cache(maxsize=64)
def parts(shape: PresetShape) -> dict[str, int]:
    """Count parameters by group: {"token table": …, "attention": …, …}; they sum to the total, a tied matrix once.

    The blocks of a stack are identical, so one is built and its count multiplied.
    """
    once, encoder, decoder = _one_block_a_stack(shape)
    counts = dict.fromkeys((label for _, label in PARTS), 0)
    for name, parameter in module_of(once).named_parameters():
        label = next(label for keys, label in PARTS if any(key in name for key in keys))
        times = 1 if "blocks." not in name else encoder if name.startswith("encoder.") else decoder
        counts[label] += parameter.numel() * times
    return {label: count for label, count in counts.items() if count}


def _one_block_a_stack(shape: PresetShape) -> tuple[PresetShape, int, int]:
    """Return the shape with one block per stack, and the number of blocks of its encoder and its decoder (or only
    stack)."""
    if isinstance(shape, EncoderDecoderShape):
        return replace(shape, encoder_layers=1, decoder_layers=1), shape.encoder_layers, shape.decoder_layers
    return replace(shape, layers=1), shape.layers, shape.layers


def parameters(shape: PresetShape) -> int:
    """Return the number of parameters, a tied matrix once."""
    return sum(parts(shape).values())


def compared_parameters(preset: Preset) -> int:
    """Return the parameters that the published count includes: all, except LaMDA's token table."""
    here = parts(preset.shape)
    return sum(here.values()) - (here["token table"] if preset.name.startswith("lamda") else 0)


def agrees(preset: Preset) -> bool:
    """Whether our count, rounded like the published one, equals it."""
    return abs(compared_parameters(preset) - preset.published) <= preset.unit / 2
