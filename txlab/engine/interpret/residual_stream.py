"""The residual stream that a model's prediction is read from, as one thing for every kind of model (MATH T5, T8, T9).

Notable: a decoder-only model and the decoder of a translator differ here in the names of places alone. BERT's head is
no linear map of its stream: for it there is no unembedding that could be read off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from txlab.engine.interpret.sites import Model
from txlab.engine.transformer.bert import Bert
from txlab.engine.transformer.blocks import Block, Norm
from txlab.engine.transformer.encoder_decoder import EncoderDecoder


@dataclass(frozen=True)
class Stream:
    """The blocks that the predicting stream passes through, and what reads it.

    part       what stands before the names of its places: "", "encoder" or "decoder"
    last_norm  the norm before the unembedding, None for post-LN
    """

    part: str
    embedding: str
    blocks: Sequence[Block]
    last_norm: Norm | None

    @property
    def places(self) -> list[str]:
        """Where the stream can be seen whole: after the embedding, and after each block."""
        return [self.embedding, *(self.at(layer, "leave") for layer in range(len(self.blocks)))]

    def at(self, layer: int, what: str) -> str:
        """The full name of a place in a block: at(2, "leave") → "decoder.blocks.2.leave"."""
        return f"{self.part}blocks.{layer}.{what}"


def stream_of(model: Model) -> Stream:
    """The stream whose rows become the logits."""
    if isinstance(model, EncoderDecoder):
        part, holder = "decoder.", model.decoder
        return Stream(part, "decoder.embedding", _blocks(holder.blocks), holder.last_norm)
    if isinstance(model, Bert):
        return Stream("encoder.", "embedding", _blocks(model.encoder.blocks), model.encoder.last_norm)
    return Stream("", "embedding", _blocks(model.blocks), model.last_norm)


def _blocks(modules: object) -> list[Block]:
    assert hasattr(modules, "__iter__")
    return [block for block in modules if isinstance(block, Block)]


def unembedding(model: Model) -> tuple[Tensor, Tensor | None] | None:
    """W_U (V, D) and its bias (V); None for BERT, whose head is no linear map of its stream."""
    if isinstance(model, Bert):
        return None
    if isinstance(model, EncoderDecoder):
        weight = model.embed_target.weight if model.unembed is None else model.unembed.weight
        return weight, model.unembed_bias
    return (model.embed.weight if model.unembed is None else model.unembed.weight), None
