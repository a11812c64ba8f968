"""The scenarios of "translation": tables, keys, defaults, and what does not fit together; without torch.

Letters are those of `txlab formulas`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, Self

from pydantic import Field, model_validator

from txlab.experiments.learning import schema as learning
from txlab.experiments.schema import PositiveInt, Scenario, Section, group_digits, several

if TYPE_CHECKING:
    import torch

    from txlab.engine.transformer.encoder_decoder import EncoderDecoder, EncoderDecoderShape
    from txlab.engine.transformer.generation import Translating


class PairTask(Section):
    """The task: English into a generated language, or dates in everyday form into ISO 8601."""

    task: Literal["language", "dates"] = "language"
    pairs: Annotated[int, Field(ge=1, le=2_000_000)] = Field(
        20_000, description="number of training pairs; a tenth of all translations is held out for testing"
    )


class Translator(learning.TransformerSection):
    """The shape of encoder and decoder (MATH T8)."""

    encoder_layers: PositiveInt = Field(2, description="N, blocks of the encoder")
    decoder_layers: PositiveInt = Field(2, description="N, blocks of the decoder")
    context: Annotated[int, Field(ge=2, le=65_536)] = Field(32, description="most positions of a source and a target")
    positions: Literal["sinusoidal", "learned", "rotary"] = "sinusoidal"
    norm: Literal["pre", "post"] = "pre"
    activation: Literal["relu", "gelu"] = "relu"
    shared: bool = Field(False, description="source and target share one table")
    tied: bool = Field(True, description="W_U is the target's table")
    bias: bool = True

    @model_validator(mode="after")
    def positions_fit_the_width(self) -> Self:
        if self.positions == "rotary" and (self.width // self.heads) % 2:
            raise ValueError("rotary positions need an even head width (width / heads)")
        if self.positions == "sinusoidal" and self.width % 2:
            raise ValueError("sinusoidal positions need an even width")
        return self


class PairTrain(learning.Batches, learning.Optimizer):
    """AdamW, and label smoothing."""

    steps: PositiveInt = 1500
    batch: PositiveInt = Field(64, description="B, pairs a step, of about the same length")
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0, description="share of the target's probability that is spread over the whole vocabulary"
    )
    validation_batches: PositiveInt = Field(
        8, description="unseen pairs of each evaluation, in batches; always the same"
    )


class Translations(Section):
    """Translations that the model writes while it trains."""

    pairs: Annotated[int, Field(ge=0, le=100)] = Field(4, description="number of unseen pairs, right or wrong")
    sources: list[str] = Field(default_factory=list, max_length=16, description="and these texts")
    beam: Annotated[int, Field(ge=1, le=64)] = Field(1, description="beam width; 1 = greedy")
    length_penalty: Annotated[float, Field(ge=0, le=2)] = Field(
        0.6, description="α of beam search (Wu et al. 2016): 0 = by likelihood alone, which favours short ones"
    )


class ProbePair(Section):
    """The contents of a frame: attention within the source, within the target, and from target to source, of one
    pair."""

    source: str = Field("", description="the probe; empty = the first unseen pair")
    target: str = Field("", description="its translation, which the decoder is given")
    next_tokens: Annotated[int, Field(ge=1, le=50)] = Field(8, description="likeliest next tokens kept a position")

    @model_validator(mode="after")
    def source_and_target_come_together(self) -> Self:
        if bool(self.source) != bool(self.target):
            raise ValueError("source and target must be given together: the decoder is given the target that it writes")
        return self


class PairScenario(Protocol):
    """What data.py and experiment.py need of a scenario, whatever model it trains."""

    @property
    def seed(self) -> int: ...
    @property
    def data(self) -> PairTask: ...
    @property
    def model(self) -> Any: ...
    @property
    def train(self) -> PairTrain: ...
    @property
    def sampling(self) -> Translations: ...
    @property
    def probe(self) -> ProbePair: ...
    def shape(self) -> Any: ...

    def network(self, generator: torch.Generator | None = None) -> Translating: ...


class TranslationScenario(Scenario):
    """An encoder–decoder that learns to translate."""

    kind: Literal["translation"] = "translation"
    data: PairTask = Field(default_factory=PairTask)
    model: Translator = Field(default_factory=Translator)
    train: PairTrain = Field(default_factory=PairTrain)
    sampling: Translations = Field(default_factory=Translations)
    probe: ProbePair = Field(default_factory=ProbePair)

    def shape(self) -> EncoderDecoderShape:
        """The model's shape; its vocabularies follow from the task."""
        from txlab.engine.transformer.encoder_decoder import EncoderDecoderShape
        from txlab.experiments.kinds.translation.tokens import tokenizers_for

        source, target = (each.vocabulary for each in tokenizers_for(self.data.task, self.model.shared))
        return EncoderDecoderShape(source_vocabulary=source, target_vocabulary=target, **self.model.model_dump())

    def network(self, generator: torch.Generator | None = None) -> EncoderDecoder:
        """A model of this shape with its weights drawn."""
        from txlab.engine.transformer.encoder_decoder import EncoderDecoder

        return EncoderDecoder(self.shape(), generator)

    def outline(self) -> list[tuple[str, str]]:
        model = self.model
        layers = f"{model.encoder_layers} + {model.decoder_layers} layers"
        described = f"{layers}, {several(model.heads, 'head')}, width {model.width}, context {model.context}"
        return outline(described, self.data, self.train)


def outline(model: str, data: PairTask, train: PairTrain) -> list[tuple[str, str]]:
    """The catalogue's rows for a model that learns to translate."""
    what = {"language": "sentences into a generated language", "dates": "dates into ISO 8601"}[data.task]
    return [
        ("Model", model),
        ("Pairs", f"{group_digits(data.pairs)}: {what}"),
        ("Training", f"{several(train.steps, 'step')} of {train.batch} pairs"),
    ]
