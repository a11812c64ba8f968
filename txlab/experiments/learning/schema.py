"""The table [train] of every kind trained by gradients, and the learning rate and clipping that follow from it
(MATH F3; Loshchilov & Hutter 2017).

A kind extends `Optimizer`, and `Batches` if it learns from batches of examples, with its own defaults and fields. The
schedule is a pure function of the update's number, so there is no scheduler to save. torch is not imported: a screen
explains a learning rate by the same function.
"""

from math import cos, pi
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from txlab.experiments.schema import NonNegativeInt, PositiveInt, Section, several

Fraction = Annotated[float, Field(ge=0, le=1)]


class Optimizer(Section):
    """AdamW with linear warm-up, cosine decay and clipping by the global norm."""

    steps: PositiveInt = 1000
    learning_rate: Annotated[float, Field(gt=0, le=10)] = 1e-3
    warmup: NonNegativeInt = Field(100, description="steps of linear warm-up")
    decay: Literal["cosine", "constant"] = "cosine"
    final: Fraction = Field(0.1, description="learning rate at the last step, as a share of the peak")
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.99
    epsilon: Annotated[float, Field(gt=0)] = 1e-8
    weight_decay: Annotated[float, Field(ge=0)] = 0.1
    clip: Annotated[float, Field(ge=0)] = Field(1.0, description="largest gradient norm; 0 = no clipping")


class Batches(Section):
    """How many examples a step learns from, and an evaluation is made with."""

    batch: PositiveInt = Field(12, description="B, examples a step")
    accumulate: PositiveInt = Field(1, description="micro-batches a step; batch must be a multiple of it")
    validation_batches: PositiveInt = Field(20, description="batches of each evaluation, always the same ones")

    @model_validator(mode="after")
    def micro_batches_are_whole(self) -> Self:
        if self.batch % self.accumulate:
            raise ValueError(f"batch must be a multiple of accumulate; {self.batch} is not one of {self.accumulate}")
        return self


class TransformerSection(Section):
    """The table [model] of every transformer."""

    heads: PositiveInt = Field(4, description="H, heads a block")
    width: PositiveInt = Field(128, description="D, model width; a multiple of heads")
    feed_forward: NonNegativeInt = Field(0, description="F; 0 = 4 × width")
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0

    @model_validator(mode="after")
    def heads_divide_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width must be a multiple of heads; {self.width} is not a multiple of {self.heads}")
        return self


class TextSection(Section):
    """The table [data] where a text is read."""

    text: str = Field(
        "python-docs", description="python-docs, python-source, a file, a folder, or - for standard input"
    )
    tokenizer: str = Field(
        "bytes",
        description="bytes; characters, words, bpe: learnt from the training text; python-docs; a saved one; a file",
    )
    vocabulary: Annotated[int, Field(ge=2, le=200_000)] = Field(1024, description="tokens of bpe, words of words")
    ties: Literal["first", "greatest"] = Field(
        "first",
        description="tie rule of bpe among equally frequent pairs: first, of lowest ids; greatest, by bytes",
    )
    validation: Annotated[float, Field(gt=0, lt=1)] = Field(0.1, description="share of the text kept for validation")


def text_outline(scenario: Any, text: str) -> list[tuple[str, str]]:
    """The catalogue's rows for a model that learns from `text`; a shape taken from another model is not known yet."""
    model, train, start = scenario.model, scenario.train, scenario.start.run
    layers, heads = several(model.layers, "layer"), several(model.heads, "head")
    shape, long = f"{layers}, {heads}, width {model.width}, context {model.context}", str(model.context)
    if start and not model.model_fields_set:
        shape, long = f"that of {start}", "T"
    return [
        ("Model", shape),
        ("Text", text),
        *([("Begins", f"with the weights of {start}")] if start else []),
        ("Training", f"{several(train.steps, 'step')} of {train.batch} × {long} tokens"),
    ]


def factor(update: int, warmup: int, steps: int, final: float, decay: Literal["cosine", "constant"]) -> float:
    """Learning rate of update n = 1 … steps, as a share of the peak.

    n ≤ W   n / W
    n > W   f + (1 − f) · ½ (1 + cos(π (n − W) / (N − W)));  1 if decay is constant

    The peak is reached at update W exactly, and f at update N exactly; past N it stays at f.

    >>> [round(factor(n, warmup=2, steps=6, final=0.1, decay="cosine"), 3) for n in (1, 2, 4, 6, 9)]
    [0.5, 1.0, 0.55, 0.1, 0.1]
    """
    if update <= warmup:
        return update / warmup
    if decay == "constant":
        return 1.0
    progress = min(1.0, (update - warmup) / max(1, steps - warmup))
    return final + (1 - final) * 0.5 * (1 + cos(pi * progress))


def clip_factor(norm: float, clip: float) -> float:
    """The factor for all gradients: min(1, c / (‖g‖ + 10⁻⁶)); 1 if there is no clipping (c = 0).

    Pascanu et al. 2013; the 10⁻⁶ is torch's, and keeps an all-zero gradient from dividing by zero.
    """
    return min(1.0, clip / (norm + 1e-6)) if clip else 1.0
