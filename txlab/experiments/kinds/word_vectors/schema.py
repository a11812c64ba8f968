"""The scenarios of "word-vectors": tables, keys, defaults, and what does not fit together; without torch.

Letters are those of `txlab formulas`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from txlab.experiments.schema import PositiveInt, Scenario, Section, group_digits, several

if TYPE_CHECKING:
    pass


ObjectiveName = Literal["sampling", "softmax", "hierarchical", "nce"]


class WordText(Section):
    """The text, and its words."""

    source: Literal["text", "planted"] = Field(
        "text", description="text: `text` is read; planted: generated, with known synonyms and analogies"
    )
    text: str = Field("python-docs", description="python-docs, python-source, a file, a folder, or - (standard input)")
    words: Literal["letters", "identifiers", "spaces"] = Field(
        "letters", description="letters: runs of them in lower case; identifiers: names of programs; spaces: cut there"
    )
    sentences: Literal["paragraph", "line"] = Field("paragraph", description="the unit whose end no window crosses")
    minimum: PositiveInt = Field(5, description="words that occur less often are left out")
    most: Annotated[int, Field(ge=2, le=2_000_000)] = Field(50_000, description="V at most: the most frequent words")
    tokens: PositiveInt = Field(180_000, description="length of the planted text, in words")


class Vectors(Section):
    """The vectors, and their training (MATH K4, K5)."""

    width: Annotated[int, Field(ge=1, le=4096)] = Field(100, description="D, numbers in a vector")
    architecture: Literal["skip-gram", "cbow"] = Field(
        "skip-gram", description="skip-gram: the centre predicts each context; cbow: the contexts' mean the centre"
    )
    objective: ObjectiveName = Field(
        "sampling", description="how a prediction is scored; softmax costs V dot products for each"
    )
    beside: list[ObjectiveName] = Field(
        default_factory=list, max_length=3, description="further objectives on the same text, for comparison"
    )
    window: Annotated[int, Field(ge=1, le=100)] = Field(5, description="words to each side, at most")
    fixed_window: bool = Field(False, description="false: each centre draws 1 … window")
    negatives: Annotated[int, Field(ge=1, le=1000)] = Field(5, description="K, noise words a pair (sampling, nce)")
    strip_noise: Annotated[int, Field(ge=0, le=100_000)] = Field(
        8, description="noise words that 16 centres share instead of K a pair; 0 = each pair draws its own"
    )
    block: Annotated[int, Field(ge=16, le=65_536, multiple_of=16)] = Field(
        512, description="centres whose gradients are taken together; few compared with the vocabulary"
    )
    subsample: float = Field(1e-3, ge=0, le=1, description="t: words with a larger share are subsampled; 0 = none")
    subsampling: Literal["program", "paper"] = Field(
        "program", description="keep with √(t/f) + t/f, as Mikolov's program does, or with √(t/f), as his paper says"
    )


class WordsTrain(Section):
    """Stochastic gradient descent; the rate falls linearly with the words that were read, as in the C program: at step
    t of T, counted from 0, it is alpha · max(1 − t/T, 10⁻⁴), so alpha/T at the last one (MATH F3)."""

    epochs: PositiveInt = Field(5, description="passes over the text")
    words: Annotated[int, Field(ge=16, le=10_000_000)] = Field(10_000, description="words of the text a step")
    alpha: float = Field(0.025, gt=0, le=10, description="α, initial learning rate")


class WordProbe(Section):
    """The contents of a frame."""

    words: list[str] = Field(default_factory=list, max_length=64, description="their nearest words are the samples")
    shown: Annotated[int, Field(ge=2, le=50_000)] = Field(
        2000, description="vectors in a frame: those of the most frequent words"
    )


class WordVectorScenario(Scenario):
    """Vectors of words, learnt from the words around them."""

    kind: Literal["word-vectors"] = "word-vectors"
    data: WordText = Field(default_factory=WordText)
    vectors: Vectors = Field(default_factory=Vectors)
    train: WordsTrain = Field(default_factory=WordsTrain)
    probe: WordProbe = Field(default_factory=WordProbe)

    @model_validator(mode="after")
    def objectives_differ(self) -> Self:
        named = [self.vectors.objective, *self.vectors.beside]
        if len(set(named)) < len(named):
            raise ValueError(
                f"vectors.objective and vectors.beside must not name one twice; they are {', '.join(named)}"
            )
        return self

    @model_validator(mode="after")
    def the_softmax_is_small_enough(self) -> Self:
        numbers = self.data.most * self.vectors.block
        if "softmax" in (self.vectors.objective, *self.vectors.beside) and numbers > 100_000_000:
            raise ValueError(
                f"a softmax takes data.most × vectors.block = {numbers:,} scores a block; allowed: at most 100,000,000"
            )
        return self

    def outline(self) -> list[tuple[str, str]]:
        vectors, train = self.vectors, self.train
        names = {
            "sampling": f"{several(vectors.negatives, 'negative')} a pair",
            "softmax": "full softmax",
            "hierarchical": "hierarchical softmax",
            "nce": f"noise contrastive, {several(vectors.negatives, 'noise word')}",
        }
        how = "; compared with ".join(
            [names[vectors.objective], *filter(None, [", ".join(names[each] for each in vectors.beside)])]
        )
        text = self.data.text if self.data.source == "text" else "planted, its synonyms and analogies known"
        return [
            ("Model", f"{vectors.architecture}, width {vectors.width}, window {vectors.window}, {how}"),
            ("Text", f"{text}; words that occur at least {several(self.data.minimum, 'time')}"),
            (
                "Training",
                f"{several(train.epochs, 'epoch')}, {group_digits(train.words)} words a step, α {train.alpha:g}",
            ),
        ]
