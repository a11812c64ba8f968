"""Where a model has attention and its residual stream, and how any model is run on one text (MATH T5, T8–T10).

A *site* is one kind of attention with all its layers: a decoder-only or encoder-only model has one ("self"), a
translator three ("encoder", "decoder", "cross"). Everything in this folder refers to (site, layer, head), counted from
0, and so needs no special case for each kind of model; sentences for the user count layers and heads from 1, as the
screen does. BERT's head is not a linear map of its stream, so it has no unembedding matrix to analyse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from txlab.engine.recurrent.translation import RecurrentTranslator
from txlab.engine.transformer.bert import Bert
from txlab.engine.transformer.blocks import Block, MultiHeadAttention, NormedStack
from txlab.engine.transformer.encoder_decoder import EncoderDecoder
from txlab.engine.transformer.gpt import GPT
from txlab.engine.transformer.hooks import NO_HOOKS, Hooks
from txlab.engine.transformer.masks import CAUSAL, NO_MASK, Mask
from txlab.engine.transformer.norms import Norm
from txlab.errors import LabError

Model = GPT | Bert | EncoderDecoder


@dataclass(frozen=True)
class Text:
    """The input of a model: token ids; for an encoder–decoder also the target so far, with its start token.

    segments   of a pair of texts that BERT reads: 0 for each token of the first, 1 of the second; () = all 0
    """

    ids: tuple[int, ...]
    target: tuple[int, ...] = ()
    segments: tuple[int, ...] = ()

    @property
    def predicting(self) -> tuple[int, ...]:
        """The ids of the stream that the logits belong to."""
        return self.target or self.ids


@dataclass(frozen=True)
class Site:
    """One kind of attention in a model.

    name       "self", or in an encoder–decoder "encoder", "decoder", "cross"
    place      its place, a template for the layer: "blocks.{layer}.attention"
    mask       its attention mask
    """

    name: str
    place: str
    layers: int
    heads: int
    mask: Mask

    def at(self, layer: int, what: str = "") -> str:
        """Return the full name of a place in one layer: at(3, "query") → "blocks.3.attention.query"."""
        return ".".join(filter(None, (self.place.format(layer=layer), what)))

    def block(self, layer: int) -> str:
        """Return the name of the block that contains this attention in that layer: "blocks.3"."""
        return self.at(layer).rpartition(".")[0]

    @property
    def mask_name(self) -> str:
        """ "causal", "none" or "graph" """
        return self.mask.name

    def queries_of(self, text: Text) -> tuple[int, ...]:
        """Return the tokens of the queries, the patterns' rows."""
        return text.target if self.name in ("decoder", "cross") else text.ids

    def keys_of(self, text: Text) -> tuple[int, ...]:
        """Return the tokens of the keys, the patterns' columns."""
        return text.target if self.name == "decoder" else text.ids


def sites(model: Model) -> list[Site]:
    """Return all attention sites of a model, in the order in which a text passes through them.

    LabError for a recurrent model, whose one attention has neither heads nor blocks; its run's frames show it.
    """
    if isinstance(model, RecurrentTranslator):
        raise LabError("this model is recurrent: it has no blocks of attention to take apart; its run's frames show it")
    if isinstance(model, EncoderDecoder):
        shape = model.shape
        return [
            Site("encoder", "encoder.blocks.{layer}.attention", shape.encoder_layers, shape.heads, NO_MASK),
            Site("decoder", "decoder.blocks.{layer}.attention", shape.decoder_layers, shape.heads, CAUSAL),
            Site("cross", "decoder.blocks.{layer}.cross", shape.decoder_layers, shape.heads, NO_MASK),
        ]
    if isinstance(model, Bert):
        return [Site("self", "encoder.blocks.{layer}.attention", model.shape.layers, model.shape.heads, NO_MASK)]
    if not isinstance(model, GPT):
        raise LabError("this model has no attention: it hands on a state from token to token")
    return [Site("self", "blocks.{layer}.attention", model.shape.layers, model.shape.heads, model.mask)]


def site_named(model: Model, name: str) -> Site:
    """Return the site of that name; LabError lists the sites otherwise."""
    there = {site.name: site for site in sites(model)}
    if name not in there:
        raise LabError(f"this model has no attention called {name!r}; there is: {', '.join(there)}")
    return there[name]


def head_of(model: Model, name: str, layer: int, head: int | None = None) -> Site:
    """Return the site after checking that it has this layer and head (if given); LabError otherwise."""
    site = site_named(model, name)
    if not 0 <= layer < site.layers:
        raise LabError(f"{site.name} attention has no layer {layer + 1}; allowed: 1 to {site.layers}")
    if head is not None and not 0 <= head < site.heads:
        raise LabError(f"{site.name} attention has no head {head + 1}; allowed: 1 to {site.heads}")
    return site


def attention_at(model: Model, site: Site, layer: int) -> MultiHeadAttention:
    """Return the module at a site; places are named after modules."""
    module = model.get_submodule(site.at(layer))
    assert isinstance(module, MultiHeadAttention)
    return module


def block_at(model: Model, site: Site, layer: int) -> Block:
    module = model.get_submodule(site.block(layer))
    assert isinstance(module, Block)
    return module


@torch.no_grad()
def run(model: Model, text: Text, hooks: Hooks = NO_HOOKS) -> Tensor:
    """Return the logits (T, V) of the predicting stream on one text, without dropout and gradients.

    In float32, or in float64 if the model is; the model's mode is restored. LabError if the text does not fit.
    """
    check(model, text)
    device = next(model.parameters()).device
    ids, target = torch.tensor([text.ids], device=device), torch.tensor([text.target], device=device)
    with looking(model), torch.autocast(device.type, enabled=False):
        both = (ids, target) if isinstance(model, EncoderDecoder) else (ids,)
        if text.segments:
            both = (ids, torch.tensor([text.segments], device=device))
        logits: Tensor = model(*both, hooks=hooks)
    return logits[0]


@contextmanager
def looking(model: nn.Module) -> Iterator[None]:
    """Context manager that turns dropout off; each module's mode is restored afterwards."""
    switched = [module for module in model.modules() if module.training]
    for module in switched:
        module.training = False
    try:
        yield
    finally:
        for module in switched:
            module.training = True


def check(model: Model, text: Text) -> None:
    """Raise LabError unless the model can read this text."""
    if isinstance(model, EncoderDecoder):
        streams = [
            ("source", text.ids, model.shape.source_vocabulary),
            ("target", text.target, model.shape.target_vocabulary),
        ]
    else:
        streams = [("text", text.ids, model.shape.vocabulary)]
        if text.target:
            raise LabError("a target is given, and this model reads one text alone")
    for what, ids, vocabulary in streams:
        if not ids:
            raise LabError(f"there is no {what} to look at: it has no tokens")
        if len(ids) > model.shape.context:
            raise LabError(f"the {what} has {len(ids)} tokens; this model reads at most {model.shape.context}")
        if not all(0 <= token < vocabulary for token in ids):
            raise LabError(f"the {what} has token ids outside 0 to {vocabulary - 1}, this model's vocabulary")


@dataclass(frozen=True)
class ResidualStream:
    """The blocks that the predicting stream passes through, and its final norm.

    part        the prefix of its places: "", "encoder." or "decoder."
    embedding   the place of the embedding
    final_norm  the norm before the unembedding, None for post-LN
    """

    part: str
    embedding: str
    blocks: Sequence[Block]
    final_norm: Norm | None

    @property
    def places(self) -> list[str]:
        """Return the places of the whole stream: after the embedding, and after each block."""
        return [self.embedding, *(self.at(layer, "resid_post") for layer in range(len(self.blocks)))]

    def at(self, layer: int, what: str) -> str:
        """Return the full name of a place in a block: at(2, "resid_post") → "decoder.blocks.2.resid_post"."""
        return f"{self.part}blocks.{layer}.{what}"


def stream_of(model: Model) -> ResidualStream:
    """Return the stream whose rows become the logits."""
    holder: GPT | NormedStack
    if isinstance(model, EncoderDecoder):
        part, embedding, holder = "decoder.", "decoder.embedding", model.decoder
    elif isinstance(model, Bert):
        part, embedding, holder = "encoder.", "embedding", model.encoder
    else:
        part, embedding, holder = "", "embedding", model
    blocks = [block for block in holder.blocks if isinstance(block, Block)]
    return ResidualStream(part, embedding, blocks, holder.final_norm)


def unembedding(model: Model) -> tuple[Tensor, Tensor | None] | None:
    """Return W_U (V, D) and its bias (V); None for BERT, whose head is not a linear map of its stream."""
    if isinstance(model, Bert):
        return None
    if isinstance(model, EncoderDecoder):
        weight = model.embed_target.weight if model.unembed is None else model.unembed.weight
        return weight, model.unembed_bias
    return (model.embed.weight if model.unembed is None else model.unembed.weight), None
