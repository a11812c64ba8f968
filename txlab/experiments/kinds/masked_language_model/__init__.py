"""The kind "masked-language-model": an encoder that learns to predict masked tokens from both sides (MATH T10), and the
schema of its scenarios.

torch is not imported here, because validating a scenario imports its kind. Letters are those of `txlab formulas`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from txlab.engine.explain import Explanation, Operand, Step
from txlab.experiments.kinds.language_model import ProbeText, TextTrain
from txlab.experiments.learning import schema as learning
from txlab.experiments.learning.explanations import MeanLoss
from txlab.experiments.learning.kind import GradientKind, Size, dimensions, explained, refuse_unknown, vocabulary_of
from txlab.experiments.schema import PositiveInt, Scenario, Section, Start, told_tokens

if TYPE_CHECKING:
    from txlab.engine.transformer.bert import BertShape


class MaskedText(learning.TextSection):
    """What is learned from."""

    source: Literal["text"] = "text"
    tokenizer: str = Field(
        "bpe",
        description="bytes; characters, words, bpe: learnt from the training text; python-docs; a saved one; a file",
    )
    masked: Annotated[float, Field(gt=0, le=0.9)] = Field(
        0.15, description="share of the tokens to be guessed; of these 80 % are hidden, 10 % another token, 10 % stay"
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
    """Gaps that the model fills while it trains."""

    prompts: list[str] = Field(default_factory=list, max_length=16, description="texts with [MASK] in them")
    fillings: Annotated[int, Field(ge=1, le=20)] = Field(3, description="likeliest tokens told for each [MASK]")


class ProbeGaps(ProbeText):
    """What a frame shows: the attention patterns of one short text, and what each position takes its token to be."""

    text: str = Field("", description="the probe text, with [MASK] or without; empty = the beginning of validation")
    next_tokens: Annotated[int, Field(ge=1, le=50)] = Field(8, description="likeliest tokens kept a position")


class MaskedLanguageModelScenario(Scenario):
    """An encoder that learns to guess tokens that were hidden, from both sides."""

    kind: Literal["masked-language-model"] = "masked-language-model"
    data: MaskedText = Field(default_factory=MaskedText)
    model: Encoder = Field(default_factory=Encoder)
    train: TextTrain = Field(default_factory=TextTrain)
    sampling: Filling = Field(default_factory=Filling)
    look: ProbeGaps = Field(default_factory=ProbeGaps)
    start: Start = Field(default_factory=Start)

    def outline(self) -> list[tuple[str, str]]:
        data = self.data
        tokens = told_tokens(data.tokenizer, data.vocabulary)
        return learning.text_outline(self, f"{data.text}, {tokens}; {round(100 * data.masked)} % asked for")


class MaskedLanguageModelKind(GradientKind):
    name = "masked-language-model"
    title = "Masked language model"
    schema = MaskedLanguageModelScenario
    mean = MeanLoss("L = −(1/n) Σₜ ln p(xₜ | the text with its gaps)", "T10", "the tokens asked for", "tokens")
    uncompiled = "not for a masked-language-model"
    ungraphed = ""
    unfit = "a masked-language-model"

    def shape_of(self, scenario: MaskedLanguageModelScenario) -> BertShape:
        data = scenario.data
        return scenario.model.shape(vocabulary_of(data.tokenizer, data.vocabulary) + 3)  # [CLS], [SEP], [MASK]

    def explain_scenario(self, scenario: MaskedLanguageModelScenario, seconds: float = 0.0) -> Explanation:
        from txlab.engine.transformer.costs import costs

        refuse_unknown(scenario.start)
        shape = self.shape_of(scenario)
        N, D, F, T, V = shape.layers, shape.width, shape.inner, shape.context, shape.vocabulary
        cost = costs(shape)
        made = f"{N} · (4 · {D}² + 2 · {D} · {F}) + {D}² + {V} · {D}"
        return explained(
            Size(cost, N, T, D, "token", "tables, norms, biases"),
            scenario.train,
            seconds,
            equation="FLOPs a step = B · T · (6 w + 12 N T D),  w = N (4 D² + 2 D F) + D² + V D",
            math="T10, T11",
            operands=[
                *dimensions(N, shape.heads, D, F),
                Operand("T", T, "context"),
                Operand("V", V, "tokens, with [CLS], [SEP] and [MASK]"),
            ],
            weights=[Step("w", made, cost.matmul_weights, "what a token is multiplied with")],
        )


KIND = MaskedLanguageModelKind()
