"""The scenarios of "text-classification": tables, keys, defaults, and what does not fit together; without torch.

Letters are those of `txlab formulas`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from txlab.experiments.kinds.masked_language_model.schema import Encoder
from txlab.experiments.learning import schema as learning
from txlab.experiments.schema import PositiveInt, Scenario, Section, Start, describe_tokens, several

if TYPE_CHECKING:
    from txlab.engine.transformer.bert import BertShape

CLASSES = ("unfavourable", "favourable")
Share = Annotated[float, Field(gt=0, le=1)]


class Reviews(Section):
    """Generated film reviews, each with its author's verdict; see `txlab.engine.rlhf.tasks.reviews`."""

    reviews: Annotated[int, Field(ge=2, le=1_000_000)] = Field(1024, description="reviews to learn from")
    held_out: Annotated[int, Field(ge=10, le=100_000)] = Field(500, description="other reviews, to measure accuracy")
    shares: list[Share] = Field(
        [1 / 64, 1 / 16, 1 / 4, 1.0],
        min_length=1,
        max_length=8,
        description="shares of the reviews whose verdict is known; a classifier learns from each",
    )
    tokenizer: str = Field(
        "bytes", description="bytes; characters, words, bpe: learnt from the reviews; python-docs; a saved one; a file"
    )
    vocabulary: Annotated[int, Field(ge=2, le=200_000)] = Field(1024, description="tokens of bpe, words of words")
    ties: Literal["first", "greatest"] = Field("first", description="tie rule of bpe among equally frequent pairs")

    @property
    def labels(self) -> list[int]:
        """The numbers of labelled reviews, by ascending share."""
        return [max(1, round(share * self.reviews)) for share in sorted(self.shares)]

    @model_validator(mode="after")
    def shares_differ(self) -> Self:
        if len(set(self.labels)) < len(self.shares):
            raise ValueError(
                f"shares must be different numbers of reviews; they are {', '.join(map(str, self.labels))}"
            )
        return self


class ProbeReview(Section):
    """The contents of a frame: the attention patterns of the encoder with most labels, reading one review."""

    text: str = Field(" warm, dull, witty", description="the review")


class ClassificationTrain(learning.Batches, learning.Optimizer):
    """AdamW for each classifier, every batch being of reviews; all are measured on the same held-out ones."""

    steps: PositiveInt = 200
    batch: PositiveInt = Field(16, description="B, reviews a step, for each classifier")
    warmup: Annotated[int, Field(ge=0)] = Field(20, description="steps of linear warm-up")


class TextClassificationScenario(Scenario):
    """Encoders that learn to tell whether a review is favourable, from different numbers of labels: each of them from
    random weights, and if [start] names a model, also from its weights."""

    kind: Literal["text-classification"] = "text-classification"
    data: Reviews = Field(default_factory=Reviews)
    model: Encoder = Field(default_factory=Encoder)
    train: ClassificationTrain = Field(default_factory=ClassificationTrain)
    probe: ProbeReview = Field(default_factory=ProbeReview)
    start: Start = Field(default_factory=Start)

    @property
    def starts(self) -> list[str]:
        """The weights that classifiers begin with."""
        return ["pretrained", "scratch"] if self.start.run and self.start.weights else ["scratch"]

    @property
    def classifiers(self) -> list[tuple[str, str, int]]:
        """(name, start, labelled reviews) of each classifier: ("pretrained-256", "pretrained", 256)."""
        return [(f"{start}-{n}", start, n) for start in self.starts for n in self.data.labels]

    def shape(self, vocabulary: int) -> BertShape:
        """The shape of a classifier; `vocabulary` includes [CLS], [SEP] and [MASK]."""
        return replace(self.model.shape(vocabulary), classes=len(CLASSES))

    def outline(self) -> list[tuple[str, str]]:
        data = self.data
        tokens = describe_tokens(data.tokenizer, data.vocabulary)
        rows = learning.text_outline(self, f"{several(data.reviews, 'generated review')}, {tokens}")
        return [*rows, ("Labels", f"{', '.join(map(str, data.labels))} of them")]
