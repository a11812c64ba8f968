"""The scenarios of "language-model": tables, keys, defaults, and what does not fit together; without torch.

Letters are those of `txlab formulas`.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from txlab.experiments.learning import schema as learning
from txlab.experiments.schema import NonNegativeInt, PositiveInt, Scenario, Section, Start, describe_tokens, several

if TYPE_CHECKING:
    from txlab.engine.transformer.gpt import GPTShape


class MixturePart(Section):
    """One text of a mixture."""

    text: str = Field(description="python-docs, python-source, a file or a folder")
    weight: Annotated[float, Field(gt=0, le=1e6)] = Field(1.0, description="its share is weight / sum of weights")
    name: str = Field("", max_length=40, pattern=r"^[\w.-]*$", description="in its metrics; empty = after the text")
    size: NonNegativeInt = Field(
        0, description="characters of it, after those of earlier parts of the same text; 0 = all of it"
    )


class TextOrTask(learning.TextSection):
    """The training data.

    source = "text" reads a corpus, or a mixture of several; "induction" generates sequences in which a random segment
    comes twice; "few-shot" generates examples of a task that differs in every sequence; "graph" puts a random symbol on
    each node of model.graph, and each node is to predict the symbol `hops` edges before it.
    """

    source: Literal["text", "induction", "few-shot", "graph"] = "text"
    mixture: list[MixturePart] = Field(
        default_factory=list, max_length=16, description="texts with weights, instead of data.text"
    )
    vocabulary: Annotated[int, Field(ge=2, le=200_000)] = Field(
        1024, description="tokens of bpe, words of words, or symbols of a generated task"
    )
    again: Literal["once", "always"] = Field(
        "once",
        description="how the segment of induction repeats: once, with only its symbols scored, or until the "
        "sequence ends, with every symbol scored",
    )
    hops: Annotated[int, Field(ge=1, le=1024)] = Field(2, description="of a graph: edges that a symbol has to travel")


class Decoder(learning.TransformerSection):
    """The shape of the decoder (MATH T9)."""

    layers: PositiveInt = Field(4, description="N, blocks")
    context: Annotated[int, Field(ge=2, le=65_536)] = Field(64, description="T, positions")
    positions: Literal["learned", "sinusoidal", "rotary"] = "learned"
    norm: Literal["pre", "post"] = "pre"
    normalisation: Literal["layer", "rms"] = Field("layer", description="rms: without mean and shift, as in Llama")
    block: Literal["sequential", "parallel", "attention"] = Field(
        "sequential",
        description="attention, then feed-forward; both in parallel; or attention alone, without feed-forward",
    )
    activation: Literal["gelu", "gelu_tanh", "relu", "swish"] = "gelu"
    gated: bool = Field(False, description="three matrices in the feed-forward; with swish it is SwiGLU")
    kv_heads: NonNegativeInt = Field(0, description="G, heads of keys and values, which queries share; 0 = heads")
    tied: bool = Field(True, description="W_U = W_Eᵀ")
    bias: bool = True
    embedding: Literal["look-up", "one-hot"] = Field(
        "look-up", description="rows taken from the table W_E, or one-hot rows multiplied with it: the same numbers"
    )
    graph: list[str] = Field(
        default_factory=list,
        max_length=4096,
        description='who tells whom, from position 0: "0>1>2" is two edges, along which alone attention looks back; '
        "none = the whole text before",
    )

    @property
    def reach(self) -> int:
        """The most tokens that it can read in one pass."""
        return self.context

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """(j, i) of each edge: position i looks at j."""
        walks = [[int(node) for node in walk.split(">")] for walk in self.graph]
        return tuple((j, i) for walk in walks for j, i in itertools.pairwise(walk))

    def shape(self, vocabulary: int) -> GPTShape:
        """The decoder's shape for a vocabulary, which the tokenizer determines."""
        from txlab.engine.transformer.gpt import GPTShape

        section = self.model_dump(exclude={"embedding", "graph"})
        return GPTShape(vocabulary=vocabulary, one_hot=self.embedding == "one-hot", edges=self.edges, **section)

    @model_validator(mode="after")
    def walks_join_positions(self) -> Self:
        for walk in self.graph:
            if not re.fullmatch(r"\d{1,5}(>\d{1,5})+", walk) or max(map(int, walk.split(">"))) >= self.context:
                last = self.context - 1
                raise ValueError(f"{walk[:40]!r} in graph joins no positions; for example '0>1>2', from 0 to {last}")
        return self

    @model_validator(mode="after")
    def attention_alone_has_no_neurons(self) -> Self:
        if self.block == "attention" and (self.feed_forward or self.gated):
            setting = f"feed_forward = {self.feed_forward}" if self.feed_forward else "gated"
            raise ValueError(f'block = "attention" has no feed-forward, so {setting} has no meaning; leave it out')
        return self

    @model_validator(mode="after")
    def heads_share_keys(self) -> Self:
        if self.kv_heads and self.heads % self.kv_heads:
            raise ValueError(f"heads must be a multiple of kv_heads; {self.heads} is not a multiple of {self.kv_heads}")
        if self.positions == "rotary" and (self.width // self.heads) % 2:
            raise ValueError("rotary positions need an even head width (width / heads)")
        return self


class TextTrain(learning.Batches, learning.Optimizer):
    """AdamW, a batch being of sequences."""

    batch: PositiveInt = Field(12, description="B, sequences a step")


class SampleTexts(Section):
    """Texts that the model writes during training (MATH T9)."""

    prompts: list[str] = Field(default_factory=lambda: ["The "], max_length=16)
    tokens: PositiveInt = 160
    temperature: Annotated[float, Field(ge=0, le=10)] = Field(0.8, description="0 = always the likeliest token")
    top_k: NonNegativeInt = Field(0, description="0 = all tokens")
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0


class ProbeText(Section):
    """The contents of a frame: the attention patterns of one short text, and each position's predictions of the next
    token."""

    text: str = Field("", description="the probe text; empty = the beginning of the validation text")
    positions: Annotated[int, Field(ge=2, le=256)] = Field(32, description="maximum number of its tokens")
    next_tokens: Annotated[int, Field(ge=1, le=50)] = Field(8, description="likeliest next tokens kept a position")


class LanguageModelScenario(Scenario):
    """A decoder-only transformer that learns to predict the next token."""

    kind: Literal["language-model"] = "language-model"
    data: TextOrTask = Field(default_factory=TextOrTask)
    model: Decoder = Field(default_factory=Decoder)
    train: TextTrain = Field(default_factory=TextTrain)
    sampling: SampleTexts = Field(default_factory=SampleTexts)
    probe: ProbeText = Field(default_factory=ProbeText)
    start: Start = Field(default_factory=Start)

    @model_validator(mode="after")
    def graphs_have_their_task(self) -> Self:
        if bool(self.model.graph) != (self.data.source == "graph"):
            raise ValueError(
                'model.graph and data.source = "graph" require each other: along a graph, a position does not see the '
                "text before it, so it cannot guess what comes next"
            )
        return self

    def outline(self) -> list[tuple[str, str]]:
        return learning.text_outline(self, text_row(self.data))


def text_row(data: TextOrTask) -> str:
    """The training data, as a line of the catalogue."""
    tokens = describe_tokens(data.tokenizer, data.vocabulary)
    if data.source != "text":
        return f"{data.source}, {several(data.vocabulary, 'symbol')}"
    if not data.mixture:
        return f"{data.text}, {tokens}"
    total = sum(part.weight for part in data.mixture)
    shares = [f"{part.name or part.text} {round(100 * part.weight / total)} %" for part in data.mixture]
    return f"{', '.join(shares)}; {tokens}"
