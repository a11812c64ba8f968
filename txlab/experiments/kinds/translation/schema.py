"""What a translation scenario may say: task, model, training, what is written and what is looked at.

Defaults live here. Letters in the descriptions are MATH.md's. No torch at import time.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from txlab.experiments.learning import schema as learning
from txlab.experiments.schema import PositiveInt, Scenario, Section, grouped, several


class Data(Section):
    """What is translated: English into a generated language, or dates as people write them into ISO 8601."""

    task: Literal["language", "dates"] = "language"
    pairs: Annotated[int, Field(ge=1, le=2_000_000)] = Field(
        20_000, description="different pairs to learn from; a tenth of all translations is kept out of them for testing"
    )


class Model(Section):
    """The shape of encoder and decoder (MATH T8)."""

    encoder_layers: PositiveInt = Field(2, description="N, blocks of the encoder")
    decoder_layers: PositiveInt = Field(2, description="N, blocks of the decoder")
    heads: PositiveInt = Field(4, description="H, heads a block")
    width: PositiveInt = Field(128, description="D, model width; a multiple of heads")
    feed_forward: Annotated[int, Field(ge=0)] = Field(0, description="F; 0 = 4 × width")
    context: Annotated[int, Field(ge=2, le=65_536)] = Field(32, description="most positions of a source and a target")
    positions: Literal["sinusoidal", "learned", "rotary"] = "sinusoidal"
    norm: Literal["pre", "post"] = "pre"
    activation: Literal["relu", "gelu"] = "relu"
    shared: bool = Field(False, description="source and target are looked up in one table")
    tied: bool = Field(True, description="W_U is the target's table")
    bias: bool = True
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0

    @model_validator(mode="after")
    def heads_divide_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width must be a multiple of heads; {self.width} is not a multiple of {self.heads}")
        if self.positions == "rotary" and (self.width // self.heads) % 2:
            raise ValueError("rotary positions need an even head width (width / heads)")
        if self.positions == "sinusoidal" and self.width % 2:
            raise ValueError("sinusoidal positions need an even width")
        return self


class Train(learning.Train):
    """AdamW, and label smoothing."""

    steps: PositiveInt = 1500
    batch: PositiveInt = Field(64, description="B, pairs a step, of about the same length")
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0, description="share of the target's probability that is spread over the whole vocabulary"
    )
    validation_batches: PositiveInt = Field(
        8, description="unseen pairs of each evaluation, in batches; always the same"
    )


class Sampling(Section):
    """Translations that the model writes while it trains."""

    pairs: Annotated[int, Field(ge=0, le=100)] = Field(4, description="so many of the unseen pairs, right or wrong")
    sources: list[str] = Field(default_factory=list, max_length=16, description="and these texts")
    beam: Annotated[int, Field(ge=1, le=64)] = Field(1, description="translations kept in sight; 1 = greedy")
    length_penalty: Annotated[float, Field(ge=0, le=2)] = Field(
        0.6, description="α of beam search (Wu et al. 2016): 0 = the likeliest, which favours short ones"
    )


class Look(Section):
    """What a frame shows: attention within the source, within the target, and from target to source, of one pair."""

    source: str = Field("", description="the probe; empty = the first unseen pair")
    target: str = Field("", description="its translation, which the decoder is given")
    next_tokens: Annotated[int, Field(ge=1, le=50)] = Field(8, description="likeliest next tokens kept a position")

    @model_validator(mode="after")
    def source_and_target_come_together(self) -> Self:
        if bool(self.source) != bool(self.target):
            raise ValueError("source and target must be given together: the decoder is given the target that it writes")
        return self


class TranslationScenario(Scenario):
    """An encoder–decoder that learns to translate."""

    kind: Literal["translation"] = "translation"
    data: Data = Field(default_factory=Data)
    model: Model = Field(default_factory=Model)
    train: Train = Field(default_factory=Train)
    sampling: Sampling = Field(default_factory=Sampling)
    look: Look = Field(default_factory=Look)

    def outline(self) -> list[tuple[str, str]]:
        model, data, train = self.model, self.data, self.train
        what = {"language": "sentences into a generated language", "dates": "dates into ISO 8601"}[data.task]
        layers = f"{model.encoder_layers} + {model.decoder_layers} layers"
        return [
            ("Model", f"{layers}, {several(model.heads, 'head')}, width {model.width}, context {model.context}"),
            ("Pairs", f"{grouped(data.pairs)}: {what}"),
            ("Training", f"{several(train.steps, 'step')} of {train.batch} pairs"),
        ]
