"""BERT's weights (Devlin et al. 2019): the map between its names and those of Bert, and its config.json.

Notable: a BertModel without the head that predicts tokens is read too; its head then is W = I, γ = 1, b = 0, which is
said beside it, because its logits are nothing that anybody trained. Google's own files say gamma and beta.
"""

from __future__ import annotations

import re
from typing import Any

from txlab.engine.transformer.bert import Bert, BertShape
from txlab.engine.transformer.weights.configs import LONGEST, MOST_LAYERS, NAMES_OF, WIDEST, Config
from txlab.engine.transformer.weights.families import Family, Piece, only, third

THIRDS = ("attention.self.query", "attention.self.key", "attention.self.value")  # of our [W_Q; W_K; W_V]
NAMES = {
    "attention.output.dense": "attention.out",
    "attention.output.LayerNorm": "norm_attention",
    "intermediate.dense": "feed_forward.rise",
    "output.dense": "feed_forward.fall",
    "output.LayerNorm": "norm_feed_forward",
}
HEAD = (
    Piece("cls.predictions.transform.dense.weight", "transform.weight"),
    Piece("cls.predictions.transform.dense.bias", "transform.bias"),
    Piece("cls.predictions.transform.LayerNorm.weight", "norm_transform.weight"),
    Piece("cls.predictions.transform.LayerNorm.bias", "norm_transform.bias"),
)
BIAS = Piece("cls.predictions.bias", "unembed_bias")


def describe(config: Config) -> BertShape:
    config.must_be({"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False})
    config.must_be({"pruned_heads": {}})
    width = config.whole("hidden_size", 1, WIDEST)
    return BertShape(
        layers=config.whole("num_hidden_layers", 1, MOST_LAYERS),
        heads=config.heads("num_attention_heads", "hidden_size", width),
        width=width,
        context=config.whole("max_position_embeddings", 1, LONGEST),
        vocabulary=config.tokens("vocab_size"),
        feed_forward=config.whole("intermediate_size", 1, WIDEST),
        segments=config.whole("type_vocab_size", 1, 1024, 2),
        activation=config.activation("hidden_act", "gelu"),
        epsilon=config.epsilon("layer_norm_eps", 1e-12),
        dropout=config.share("hidden_dropout_prob", 0.1),
        tied=config.flag("tie_word_embeddings", True),
    )


def tell(shape: BertShape) -> dict[str, Any]:
    """The config.json of a Bert with post-LN blocks."""
    only("BERT", ("norm", shape.norm, "post"))
    return {
        "architectures": ["BertForMaskedLM"],
        "model_type": "bert",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.width,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": shape.inner,
        "max_position_embeddings": shape.context,
        "type_vocab_size": shape.segments,
        "hidden_act": NAMES_OF[shape.activation],
        "layer_norm_eps": shape.epsilon,
        "tie_word_embeddings": shape.tied,
        "hidden_dropout_prob": shape.dropout,
        "attention_probs_dropout_prob": shape.dropout,
    }


def pieces(shape: BertShape) -> list[Piece]:
    found = [
        Piece("bert.embeddings.word_embeddings.weight", "embed.weight"),
        Piece("bert.embeddings.position_embeddings.weight", "positions.weight"),
        Piece("bert.embeddings.token_type_embeddings.weight", "segments.weight"),
        Piece("bert.embeddings.LayerNorm.weight", "norm_embedding.weight"),
        Piece("bert.embeddings.LayerNorm.bias", "norm_embedding.bias"),
    ]
    for layer in range(shape.layers):
        at, here = f"bert.encoder.layer.{layer}", f"encoder.blocks.{layer}"
        for kind in ("weight", "bias"):
            found += [
                Piece(f"{at}.{theirs}.{kind}", f"{here}.attention.qkv.{kind}", third(number, shape.width))
                for number, theirs in enumerate(THIRDS)
            ]
            found += [Piece(f"{at}.{theirs}.{kind}", f"{here}.{ours}.{kind}") for theirs, ours in NAMES.items()]
    found += HEAD
    if shape.tied:
        return [*found, BIAS]
    # Untied, the decoder is a map of its own with its own bias, and cls.predictions.bias is read by nobody.
    decoder = "cls.predictions.decoder"
    return [*found, Piece(f"{decoder}.weight", "unembed.weight"), Piece(f"{decoder}.bias", "unembed_bias")]


def copies(shape: BertShape) -> list[tuple[str, str]]:
    if not shape.tied:
        return []
    return [("cls.predictions.decoder.weight", "embed.weight"), ("cls.predictions.decoder.bias", "unembed_bias")]


def canonical(name: str) -> str:
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name))
    return f"bert.{name}" if name.startswith(("embeddings.", "encoder.", "pooler.")) else name


BERT = Family(
    name="BERT",
    kind="bert",
    describe=describe,
    tell=tell,
    build=Bert,
    canonical=canonical,
    pieces=pieces,
    copies=copies,
    repeated=lambda shape: () if shape.tied else (BIAS,),
    optional=r"cls\.predictions\..*",
    without="the weights have no head that predicts tokens: what it attends to is trained, its logits are not",
    harmless=(r"bert\.embeddings\.(position_ids|token_type_ids)",),
    elsewhere=(
        r"bert\.pooler\..*",
        r"cls\.seq_relationship\..*",
        r"cls\.predictions\.bias",
        r"(classifier|qa_outputs)\..*",
    ),
    special={"pad": "pad_token_id"},
)
