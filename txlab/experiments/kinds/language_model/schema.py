"""What a language-model scenario may say: data, model, training, sampling, and what is looked at.

Defaults live here. Letters in the descriptions are MATH.md's. No torch at import time.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from txlab.experiments.learning import schema as learning
from txlab.experiments.schema import NonNegativeInt, PositiveInt, Scenario, Section, Start, several, told_tokens

if TYPE_CHECKING:
    from txlab.engine.transformer.gpt import GPTShape


class Part(Section):
    """One text of a mixture."""

    text: str = Field(description="python-docs, python-source, a file or a folder")
    weight: Annotated[float, Field(gt=0, le=1e6)] = Field(1.0, description="its share is weight / sum of weights")


class Data(Section):
    """What is learned from.

    source = "text" reads a corpus, or a mixture of several; "induction" generates sequences in which a random segment
    comes twice; "few-shot" generates examples of a task that is another one in every sequence; "graph" puts a random
    symbol on each node of model.graph, and each node is to say the symbol that stands `hops` edges before it.
    """

    source: Literal["text", "induction", "few-shot", "graph"] = "text"
    text: str = Field(
        "python-docs", description="python-docs, python-source, a file, a folder, or - for standard input"
    )
    mixture: list[Part] = Field(
        default_factory=list, max_length=16, description="texts with weights, in place of data.text"
    )
    tokenizer: str = Field(
        "bytes",
        description="bytes; characters, words, bpe: learnt from the training text; python-docs; a saved one; a file",
    )
    vocabulary: Annotated[int, Field(ge=2, le=200_000)] = Field(
        1024, description="tokens of bpe, words of words, or symbols of a generated task"
    )
    ties: Literal["first", "greatest"] = Field(
        "first",
        description="of equally frequent pairs, which bpe merges: first, of lowest ids; greatest, by bytes",
    )
    hops: Annotated[int, Field(ge=1, le=1024)] = Field(2, description="of a graph: edges that a symbol has to travel")
    validation: Annotated[float, Field(gt=0, lt=1)] = Field(0.1, description="share of the text kept for validation")


class Model(Section):
    """The shape of the decoder (MATH T9)."""

    layers: PositiveInt = Field(4, description="N, blocks")
    heads: PositiveInt = Field(4, description="H, heads a block")
    width: PositiveInt = Field(128, description="D, model width; a multiple of heads")
    feed_forward: NonNegativeInt = Field(0, description="F; 0 = 4 × width")
    context: Annotated[int, Field(ge=2, le=65_536)] = Field(64, description="T, positions")
    positions: Literal["learned", "sinusoidal", "rotary"] = "learned"
    norm: Literal["pre", "post"] = "pre"
    normalisation: Literal["layer", "rms"] = Field("layer", description="rms: without mean and shift, as in Llama")
    block: Literal["sequential", "parallel"] = "sequential"
    activation: Literal["gelu", "gelu_tanh", "relu", "swish"] = "gelu"
    gated: bool = Field(False, description="three matrices in the feed-forward; with swish it is SwiGLU")
    kv_heads: NonNegativeInt = Field(0, description="G, heads of keys and values, which queries share; 0 = heads")
    tied: bool = Field(True, description="W_U = W_Eᵀ")
    bias: bool = True
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    embedding: Literal["look-up", "one-hot"] = Field(
        "look-up", description="rows taken from the table W_E, or one-hot rows multiplied with it: the same numbers"
    )
    graph: list[str] = Field(
        default_factory=list,
        max_length=4096,
        description='who tells whom, from position 0: "0>1>2" is two edges, along which alone attention looks back; '
        "none = all that stands before",
    )

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """(j, i) of each edge: position i looks at j."""
        walks = [[int(node) for node in walk.split(">")] for walk in self.graph]
        return tuple((j, i) for walk in walks for j, i in itertools.pairwise(walk))

    def shape(self, vocabulary: int) -> GPTShape:
        """The decoder's shape, once the tokenizer has said how many tokens there are."""
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
    def heads_divide_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width must be a multiple of heads; {self.width} is not a multiple of {self.heads}")
        if self.kv_heads and self.heads % self.kv_heads:
            raise ValueError(f"heads must be a multiple of kv_heads; {self.heads} is not a multiple of {self.kv_heads}")
        if self.positions == "rotary" and (self.width // self.heads) % 2:
            raise ValueError("rotary positions need an even head width (width / heads)")
        return self


class Train(learning.Train):
    """AdamW, a batch being of sequences."""

    batch: PositiveInt = Field(12, description="B, sequences a step")


class Sampling(Section):
    """Texts that the model writes while it trains (MATH T9)."""

    prompts: list[str] = Field(default_factory=lambda: ["The "], max_length=16)
    tokens: PositiveInt = 160
    temperature: Annotated[float, Field(ge=0, le=10)] = Field(0.8, description="0 = always the likeliest token")
    top_k: NonNegativeInt = Field(0, description="0 = all tokens")
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0


class Look(Section):
    """What a frame shows: the attention patterns of one short text, and what each position expects next."""

    text: str = Field("", description="the probe text; empty = the beginning of the validation text")
    positions: Annotated[int, Field(ge=2, le=256)] = Field(32, description="at most so many tokens of it")
    next_tokens: Annotated[int, Field(ge=1, le=50)] = Field(8, description="likeliest next tokens kept a position")


class LanguageModelScenario(Scenario):
    """A decoder-only transformer that learns to guess the next token."""

    kind: Literal["language-model"] = "language-model"
    data: Data = Field(default_factory=Data)
    model: Model = Field(default_factory=Model)
    train: Train = Field(default_factory=Train)
    sampling: Sampling = Field(default_factory=Sampling)
    look: Look = Field(default_factory=Look)
    start: Start = Field(default_factory=Start)

    @model_validator(mode="after")
    def graphs_have_their_task(self) -> Self:
        if bool(self.model.graph) != (self.data.source == "graph"):
            raise ValueError(
                'model.graph and data.source = "graph" belong together: along a graph, a position does not see the '
                "text before it, so it cannot guess what comes next"
            )
        return self

    def outline(self) -> list[tuple[str, str]]:
        model, data, train = self.model, self.data, self.train
        layers, heads = several(model.layers, "layer"), several(model.heads, "head")
        shape, long = f"{layers}, {heads}, width {model.width}, context {model.context}", str(model.context)
        if self.start.run and not model.model_fields_set:  # taken over from there, and not known before
            shape, long = f"that of {self.start.run}", "T"
        tokens = told_tokens(data.tokenizer, data.vocabulary)
        if data.source != "text":
            text = f"{data.source}, {several(data.vocabulary, 'symbol')}"
        elif data.mixture:
            total = sum(part.weight for part in data.mixture)
            shares = [f"{part.text} {round(100 * part.weight / total)} %" for part in data.mixture]
            text = f"{', '.join(shares)}; {tokens}"
        else:
            text = f"{data.text}, {tokens}"
        return [
            ("Model", shape),
            ("Text", text),
            *([("Begins", f"with the weights of {self.start.run}")] if self.start.run else []),
            ("Training", f"{several(train.steps, 'step')} of {train.batch} × {long} tokens"),
        ]
