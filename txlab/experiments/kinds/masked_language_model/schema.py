"""The scenarios of "masked-language-model": tables, keys, defaults, and what does not fit together; without torch.

Letters are those of `txlab formulas`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from txlab.experiments.kinds.language_model.schema import ProbeText, TextTrain
from txlab.experiments.learning import schema as learning
from txlab.experiments.schema import PositiveInt, Scenario, Section, Start, describe_tokens

if TYPE_CHECKING:
    from txlab.engine.transformer.bert import BertShape


class MaskedText(learning.TextSection):
    """The training data."""

    source: Literal["text"] = "text"
    tokenizer: str = Field(
        "bpe",
        description="bytes; characters, words, bpe: learnt from the training text; python-docs; a saved one; a file",
    )
    masked: Annotated[float, Field(gt=0, le=0.9)] = Field(
        0.15, description="share of the tokens to predict; of these 80 % are masked, 10 % replaced, 10 % unchanged"
    )


class Encoder(learning.TransformerSection):
    """The shape of the encoder (MATH T10); positions are learnt."""

    layers: PositiveInt = Field(4, description="N, blocks")
    context: Annotated[int, Field(ge=4, le=65_536)] = Field(64, description="T, positions, [CLS] and [SEP] among them")
    norm: Literal["post", "pre"] = Field("post", description="post: as published")
    activation: Literal["gelu", "gelu_tanh", "relu"] = "gelu"
    tied: bool = Field(True, description="W_U = W_Eᵀ")

    def shape(self, vocabulary: int) -> BertShape:
        """The encoder's shape, with one segment type; `vocabulary` includes [CLS], [SEP] and [MASK]."""
        from txlab.engine.transformer.bert import BertShape

        return BertShape(vocabulary=vocabulary, segments=1, **self.model_dump())


class Filling(Section):
    """Gaps that the model fills during training."""

    prompts: list[str] = Field(default_factory=list, max_length=16, description="texts with [MASK] in them")
    fillings: Annotated[int, Field(ge=1, le=20)] = Field(3, description="likeliest tokens shown for each [MASK]")


class ProbeGaps(ProbeText):
    """The contents of a frame: the attention patterns of one short text, and each position's predictions of its
    token."""

    text: str = Field("", description="the probe text, with [MASK] or without; empty = the beginning of validation")
    next_tokens: Annotated[int, Field(ge=1, le=50)] = Field(8, description="likeliest tokens kept a position")


class MaskedLanguageModelScenario(Scenario):
    """An encoder that learns to predict masked tokens from both sides."""

    kind: Literal["masked-language-model"] = "masked-language-model"
    data: MaskedText = Field(default_factory=MaskedText)
    model: Encoder = Field(default_factory=Encoder)
    train: TextTrain = Field(default_factory=TextTrain)
    sampling: Filling = Field(default_factory=Filling)
    probe: ProbeGaps = Field(default_factory=ProbeGaps)
    start: Start = Field(default_factory=Start)

    def outline(self) -> list[tuple[str, str]]:
        data = self.data
        tokens = describe_tokens(data.tokenizer, data.vocabulary)
        return learning.text_outline(self, f"{data.text}, {tokens}; {round(100 * data.masked)} % asked for")
