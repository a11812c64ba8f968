"""The weights of BERT (Devlin et al. 2019), RoBERTa (Liu et al. 2019), its pre-LN form, and DistilBERT (Sanh et al.
2019): the maps between their names and those of Bert, and their config.json.

A checkpoint without the head that predicts tokens is read too; its head is then W = I, γ = 1, b = 0, and a message says
so, because its logits are untrained. Google's own files use the names gamma and beta. RoBERTa counts positions from the
id of its padding token. A pre-LN encoder is saved as RoBERTa-PreLayerNorm with padding token −1, which does not exist,
so that positions count from 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from txlab.engine.transformer.bert import Bert, BertShape
from txlab.engine.transformer.weights.families import (
    LONGEST,
    Config,
    Family,
    WeightMap,
    format_fields,
    only,
    read_fields,
    third,
)
from txlab.errors import LabError


@dataclass(frozen=True)
class Names:
    """The names of a family's tensors: `block` and `once` map stored names → ours; `segments`: whether it has segments.

    bias, decoder   the bias of a tied unembedding, and the map of an untied one (whose bias is its own, or `bias`)
    """

    stem: str
    layer: str
    thirds: tuple[str, str, str]  # of our [W_Q; W_K; W_V]
    block: dict[str, str]
    once: dict[str, str]
    bias: str
    decoder: str
    segments: bool = True


BLOCK = {
    "attention.output.dense": "attention.out_proj",
    "attention.output.LayerNorm": "attention_norm",
    "intermediate.dense": "feed_forward.up_proj",
    "output.dense": "feed_forward.down_proj",
    "output.LayerNorm": "feed_forward_norm",
}
SELF = ("attention.self.query", "attention.self.key", "attention.self.value")
HEAD = {"cls.predictions.transform.dense": "transform", "cls.predictions.transform.LayerNorm": "transform_norm"}
LM_HEAD = {"lm_head.dense": "transform", "lm_head.layer_norm": "transform_norm"}

BERT_NAMES = Names("bert", "bert.encoder.layer", SELF, BLOCK, HEAD, "cls.predictions.bias", "cls.predictions.decoder")
ROBERTA_NAMES = Names("roberta", "roberta.encoder.layer", SELF, BLOCK, LM_HEAD, "lm_head.bias", "lm_head.decoder")
PRE_NAMES = Names(
    "roberta_prelayernorm",
    "roberta_prelayernorm.encoder.layer",
    SELF,
    {
        "attention.output.dense": "attention.out_proj",
        "attention.LayerNorm": "attention_norm",
        "intermediate.dense": "feed_forward.up_proj",
        "output.dense": "feed_forward.down_proj",
        "intermediate.LayerNorm": "feed_forward_norm",
    },
    LM_HEAD | {"roberta_prelayernorm.LayerNorm": "encoder.final_norm"},
    "lm_head.bias",
    "lm_head.decoder",
)
DISTILBERT_NAMES = Names(
    "distilbert",
    "distilbert.transformer.layer",
    ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
    {
        "attention.out_lin": "attention.out_proj",
        "sa_layer_norm": "attention_norm",
        "ffn.lin1": "feed_forward.up_proj",
        "ffn.lin2": "feed_forward.down_proj",
        "output_layer_norm": "feed_forward_norm",
    },
    {"vocab_transform": "transform", "vocab_layer_norm": "transform_norm"},
    "vocab_projector.bias",
    "vocab_projector",
    segments=False,
)


KEYS = {
    "hidden_size": "width",
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "max_position_embeddings": "context",
    "vocab_size": "vocabulary",
    "intermediate_size": "feed_forward",
    "type_vocab_size": "segments",
    "hidden_act": "activation",
    "layer_norm_eps": "epsilon",
    "hidden_dropout_prob": "dropout",
    "tie_word_embeddings": "tied",
}
DISTILBERT_KEYS = {
    "dim": "width",
    "n_layers": "layers",
    "n_heads": "heads",
    "max_position_embeddings": "context",
    "vocab_size": "vocabulary",
    "hidden_dim": "feed_forward",
    "activation": "activation",
    "dropout": "dropout",
    "tie_word_embeddings": "tied",
}
DEFAULTS: dict[str, Any] = {"segments": 2, "activation": "gelu", "epsilon": 1e-12, "dropout": 0.1, "tied": True}


def describe(config: Config) -> BertShape:
    config.must_be({"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False})
    config.must_be({"pruned_heads": {}})
    return BertShape(**read_fields(config, KEYS, **DEFAULTS))


def describe_roberta(config: Config, pre: bool) -> BertShape:
    shape = describe(config)
    if shape.activation != "gelu":  # the head has gelu whatever the blocks have
        raise LabError(f"config.json has hidden_act = {config.content['hidden_act']}; allowed: gelu, as in its head")
    padding = config.whole("pad_token_id", -1, LONGEST, 1)
    if padding + 1 >= shape.context:
        raise LabError(
            f"config.json has max_position_embeddings = {shape.context}, of which pad_token_id = {padding} leaves none"
        )
    # Token −1 occurs in no text, and positions after it begin with 0.
    fields = {"padding": None if padding < 0 else padding, "norm": "pre" if pre else "post"}
    return BertShape(**vars(shape) | fields | {"context": shape.context - padding - 1})


def describe_distilbert(config: Config) -> BertShape:
    return BertShape(segments=0, epsilon=1e-12, **read_fields(config, DISTILBERT_KEYS, **DEFAULTS))


def tell(shape: BertShape, own: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of config.json that BERT and RoBERTa share."""
    shared = format_fields(shape, KEYS | {"attention_probs_dropout_prob": "dropout"})
    return own | shared | {"max_position_embeddings": shape.context + shape.skipped}


def tell_bert(shape: BertShape) -> dict[str, Any]:
    """Return the config.json of a Bert with post-LN blocks."""
    only("BERT", ("norm", shape.norm, "post"), ("padding", shape.padding, None))
    return tell(shape, {"architectures": ["BertForMaskedLM"], "model_type": "bert"})


def tell_roberta(shape: BertShape, name: str, kind: str, norm: str) -> dict[str, Any]:
    only(name, ("norm", shape.norm, norm), ("activation", shape.activation, "gelu"))
    model = name.replace("-", "")
    padding = -1 if shape.padding is None else shape.padding
    return tell(shape, {"architectures": [f"{model}ForMaskedLM"], "model_type": kind, "pad_token_id": padding})


def tell_distilbert(shape: BertShape) -> dict[str, Any]:
    only("DistilBERT", ("norm", shape.norm, "post"), ("padding", shape.padding, None))
    only("DistilBERT", ("epsilon", shape.epsilon, 1e-12))
    own = {"architectures": ["DistilBertForMaskedLM"], "model_type": "distilbert"}
    return own | format_fields(shape, DISTILBERT_KEYS | {"attention_dropout": "dropout"})


def pieces(shape: BertShape, names: Names) -> list[WeightMap]:
    at = f"{names.stem}.embeddings"
    maps = [
        WeightMap(f"{at}.word_embeddings.weight", "embed.weight"),
        WeightMap(f"{at}.position_embeddings.weight", "positions.weight"),
    ]
    if names.segments:
        maps.append(WeightMap(f"{at}.token_type_embeddings.weight", "segments.weight"))
    once = {f"{at}.LayerNorm": "embedding_norm"} | names.once
    for kind in ("weight", "bias"):
        for layer in range(shape.layers):
            there, here = f"{names.layer}.{layer}", f"encoder.blocks.{layer}"
            maps += [
                WeightMap(f"{there}.{theirs}.{kind}", f"{here}.attention.qkv_proj.{kind}", third(number, shape.width))
                for number, theirs in enumerate(names.thirds)
            ]
            maps += [
                WeightMap(f"{there}.{theirs}.{kind}", f"{here}.{ours}.{kind}") for theirs, ours in names.block.items()
            ]
        maps += [WeightMap(f"{theirs}.{kind}", f"{ours}.{kind}") for theirs, ours in once.items()]
    if shape.tied:
        return [*maps, WeightMap(names.bias, "unembed_bias")]
    # An untied decoder is a separate map with its own bias, and BERT's cls.predictions.bias is unused.
    return [
        *maps,
        WeightMap(f"{names.decoder}.weight", "unembed.weight"),
        WeightMap(f"{names.decoder}.bias", "unembed_bias"),
    ]


def copies(shape: BertShape, names: Names) -> list[tuple[str, str]]:
    if not shape.tied:
        return []
    tables = [(f"{names.decoder}.weight", "embed.weight")]
    return tables if names.bias == f"{names.decoder}.bias" else [*tables, (f"{names.decoder}.bias", "unembed_bias")]


def repeat_maps(shape: BertShape, names: Names) -> list[WeightMap]:
    return [] if shape.tied or names.bias == f"{names.decoder}.bias" else [WeightMap(names.bias, "unembed_bias")]


def canonical(name: str, stem: str) -> str:
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name))
    inside = ("embeddings.", "encoder.", "pooler.", "transformer.", "LayerNorm.")
    return f"{stem}.{name}" if name.startswith(inside) else name


def family(
    name: str,
    names: Names,
    describe: Callable[[Config], BertShape],
    tell: Callable[[BertShape], dict[str, Any]],
    optional: str,
    special: dict[str, str],
) -> Family:
    return Family(
        name=name,
        kind="bert",
        describe=describe,
        tell=tell,
        build=Bert,
        canonical=lambda tensor: canonical(tensor, names.stem),
        pieces=lambda shape: pieces(shape, names),
        copies=lambda shape: copies(shape, names),
        repeated=lambda shape: repeat_maps(shape, names),
        optional=optional,
        without="the weights have no head that predicts tokens: its attention is trained, its logits are not",
        harmless=(rf"{names.stem}\.embeddings\.(position_ids|token_type_ids)",),
        elsewhere=(
            rf"{names.stem}\.pooler\..*",
            r"cls\.seq_relationship\..*",
            re.escape(names.bias),
            r"(pre_classifier|classifier|qa_outputs)\..*",
        ),
        special=special,
    )


# mask_token_id is our own key, unknown to transformers, for tokenizers without a mask token.
NUMBERED = {"begin": "bos_token_id", "end": "eos_token_id", "mask": "mask_token_id"}
BERT = family("BERT", BERT_NAMES, describe, tell_bert, r"cls\.predictions\..*", NUMBERED | {"pad": "pad_token_id"})
ROBERTA = family(
    "RoBERTa",
    ROBERTA_NAMES,
    lambda config: describe_roberta(config, False),
    lambda shape: tell_roberta(shape, "Roberta", "roberta", "post"),
    r"lm_head\..*",
    NUMBERED | {"pad": "pad_token_id"},
)
ROBERTA_PRE = family(
    "RoBERTa-PreLayerNorm",
    PRE_NAMES,
    lambda config: describe_roberta(config, True),
    lambda shape: tell_roberta(shape, "Roberta-PreLayerNorm", "roberta-prelayernorm", "pre"),
    r"lm_head\..*",
    NUMBERED,  # its pad_token_id may be −1
)
DISTILBERT = family(
    "DistilBERT",
    DISTILBERT_NAMES,
    describe_distilbert,
    tell_distilbert,
    r"vocab_(transform|layer_norm|projector)\..*",
    NUMBERED | {"pad": "pad_token_id"},
)
