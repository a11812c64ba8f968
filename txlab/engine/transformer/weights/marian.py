"""The weights of Marian (Junczys-Dowmunt et al. 2018; Tiedemann's translation models) and Pegasus (Zhang et al. 2020).

The two have one architecture, post-LN in Marian and pre-LN in Pegasus. Sinusoids have all sines first; they are
computed, and only compared with the file if it stores them. `final_logits_bias` (1, V) is ours without the leading
dimension. Old configs have keys that only BART's other descendants vary: these must have the values of Marian and
Pegasus. (extra_pos_embeddings is ignored where positions are computed.) Pegasus has one vocabulary: an exported
translator with two gets the larger, whose extra rows are zeros and never generated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from txlab.engine.transformer.encoder_decoder import EncoderDecoder, EncoderDecoderShape
from txlab.engine.transformer.weights.families import (
    LONGEST_COMPUTED,
    MOST_LAYERS,
    WIDEST,
    Config,
    Family,
    WeightMap,
    format_fields,
    only,
    third,
)
from txlab.errors import LabError

THIRDS = ("q_proj", "k_proj", "v_proj")  # of our [W_Q; W_K; W_V]
ATTENTIONS = {"self_attn": "attention", "encoder_attn": "cross"}
NAMES = {
    "self_attn_layer_norm": "attention_norm",
    "encoder_attn_layer_norm": "cross_norm",
    "fc1": "feed_forward.up_proj",
    "fc2": "feed_forward.down_proj",
    "final_layer_norm": "feed_forward_norm",
}
ONLY = {
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
    "is_decoder": False,
}
# The dimensions of our parameters that are features of the residual stream, by the end of the name.
STREAM = {
    "qkv_proj.weight": (1,),
    "out_proj.weight": (0,),
    "out_proj.bias": (0,),
    "up_proj.weight": (1,),
    "down_proj.weight": (0,),
    "down_proj.bias": (0,),
    "embed_source.weight": (1,),
    "embed_target.weight": (1,),
    "unembed.weight": (1,),
}


# Keys of config.json → the field of our shape that each says, as they are written.
KEYS = {
    "d_model": "width",
    "encoder_layers": "encoder_layers",
    "decoder_layers": "decoder_layers",
    "encoder_attention_heads": "heads",
    "decoder_attention_heads": "heads",
    "encoder_ffn_dim": "feed_forward",
    "decoder_ffn_dim": "feed_forward",
    "max_position_embeddings": "context",
    "activation_function": "activation",
    "scale_embedding": "scale_embedding",
    "dropout": "dropout",
    "attention_dropout": "dropout",
}
PRE = {"normalize_before": True, "add_final_layer_norm": True}
NEVER = -1e9  # the bias of a token that does not exist


def describe(config: Config) -> EncoderDecoderShape:
    config.must_be(ONLY)
    return read_shape(config)


def describe_pegasus(config: Config) -> EncoderDecoderShape:
    config.must_be(ONLY | PRE)
    if "decoder_vocab_size" in config:
        config.must_be({"decoder_vocab_size": config.tokens("vocab_size")})
    return replace(read_shape(config), norm="pre", shared=config.flag("tie_word_embeddings", True))


def read_shape(config: Config) -> EncoderDecoderShape:
    width = config.whole("d_model", 1, WIDEST)
    if width % 2:
        raise LabError(f"config.json has d_model = {width}; allowed: even numbers, of which half are sines")
    heads = config.heads("encoder_attention_heads", "d_model", width)
    feed_forward = config.whole("encoder_ffn_dim", 1, WIDEST)
    for key, ours in (("decoder_attention_heads", heads), ("decoder_ffn_dim", feed_forward)):
        if config.whole(key, 1, WIDEST, ours) != ours:
            raise LabError(
                f"config.json has {key} = {config.content[key]}; here the encoder's, {ours}, is the decoder's"
            )
    source = config.tokens("vocab_size")
    target = config.tokens("decoder_vocab_size", source)
    shared = config.flag("share_encoder_decoder_embeddings", True)
    if shared and source != target:
        raise LabError(f"config.json shares one table between vocabularies of {source} and {target} tokens")
    return EncoderDecoderShape(
        encoder_layers=config.whole("encoder_layers", 1, MOST_LAYERS),
        decoder_layers=config.whole("decoder_layers", 1, MOST_LAYERS),
        heads=heads,
        width=width,
        source_vocabulary=source,
        target_vocabulary=target,
        context=config.whole("max_position_embeddings", 1, LONGEST_COMPUTED),
        feed_forward=feed_forward,
        activation=config.activation("activation_function", "gelu"),
        shared=shared,
        tied=config.flag("tie_word_embeddings", True),
        scale_embedding=config.flag("scale_embedding", False),
        output_bias=True,
        half_sinusoids=True,
        dropout=config.share("dropout", 0.1),
    )


def tell(shape: EncoderDecoderShape) -> dict[str, Any]:
    """Return the config.json of an encoder–decoder with post-LN blocks and sinusoids, in either order (`in_halves`)."""
    only("Marian", ("norm", shape.norm, "post"))
    return write_config(shape) | {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "vocab_size": shape.source_vocabulary,
        "decoder_vocab_size": shape.target_vocabulary,
        "share_encoder_decoder_embeddings": shape.shared,
        "tie_word_embeddings": shape.tied,
    }


def tell_pegasus(shape: EncoderDecoderShape) -> dict[str, Any]:
    """Return the same with pre-LN blocks; its three tables are all shared or all separate."""
    only("Pegasus", ("norm", shape.norm, "pre"))
    return write_config(shape) | {
        "architectures": ["PegasusForConditionalGeneration"],
        "model_type": "pegasus",
        "vocab_size": max(shape.source_vocabulary, shape.target_vocabulary),
        "tie_word_embeddings": shape.shared and shape.tied,
    }


def write_config(shape: EncoderDecoderShape) -> dict[str, Any]:
    only("Marian", ("positions", shape.positions, "sinusoidal"), ("epsilon", shape.epsilon, 1e-5))
    only("Marian", ("width % 2", shape.width % 2, 0))
    return {"is_encoder_decoder": True} | format_fields(shape, KEYS)


def in_halves(shape: EncoderDecoderShape) -> list[int] | None:
    """Return the order of the D features that puts all sines first; None if they already are.

    Nothing in such a model depends on the order of the residual stream's features, as long as all readers and writers
    agree, so a model with interleaved sinusoids is a Marian model with its features in this order.
    """
    return None if shape.half_sinusoids else [*range(0, shape.width, 2), *range(1, shape.width, 2)]


def pieces(shape: EncoderDecoderShape) -> list[WeightMap]:
    if shape.shared:
        pairs = [("model.shared.weight", "embed_target.weight")]
    else:
        pairs = [
            ("model.encoder.embed_tokens.weight", "embed_source.weight"),
            ("model.decoder.embed_tokens.weight", "embed_target.weight"),
        ]
    if not shape.tied:
        pairs.append(("lm_head.weight", "unembed.weight"))
    made = [WeightMap(theirs, ours, stream=STREAM[ours]) for theirs, ours in pairs]
    made.append(WeightMap("final_logits_bias", "unembed_bias", row=True))
    for side, layers in (("encoder", shape.encoder_layers), ("decoder", shape.decoder_layers)):
        if shape.norm == "pre":
            made += [
                WeightMap(f"model.{side}.layer_norm.{kind}", f"{side}.final_norm.{kind}", stream=(0,))
                for kind in ("weight", "bias")
            ]
        for layer in range(layers):
            made += block(f"model.{side}.layers.{layer}", f"{side}.blocks.{layer}", shape.width, side == "decoder")
    return made


def block(at: str, here: str, width: int, crosses: bool) -> list[WeightMap]:
    made: list[WeightMap] = []
    for kind in ("weight", "bias"):
        for theirs, ours in ATTENTIONS.items():
            if theirs == "encoder_attn" and not crosses:
                continue
            stored, qkv, out = f"{at}.{theirs}", f"qkv_proj.{kind}", f"out_proj.{kind}"
            for number, name in enumerate(THIRDS):
                rows = third(number, width)
                made.append(
                    WeightMap(f"{stored}.{name}.{kind}", f"{here}.{ours}.{qkv}", rows, stream=STREAM.get(qkv, ()))
                )
            made.append(WeightMap(f"{stored}.{out}", f"{here}.{ours}.{out}", stream=STREAM[out]))
        for theirs, ours in NAMES.items():
            if theirs == "encoder_attn_layer_norm" and not crosses:
                continue
            stream = (0,) if "norm" in ours else STREAM.get(f"{ours.rpartition('.')[2]}.{kind}", ())
            made.append(WeightMap(f"{at}.{theirs}.{kind}", f"{here}.{ours}.{kind}", stream=stream))
    return made


def settle(shape: EncoderDecoderShape, repeats: Callable[[str, str], bool]) -> EncoderDecoderShape:
    """transformers ties all tables or none: if the unembedding is separate, source and target may be separate too."""
    if not shape.shared or shape.tied:
        return shape
    sides = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
    return replace(shape, shared=all(repeats(side, "model.shared.weight") for side in sides))


def copies(shape: EncoderDecoderShape) -> list[tuple[str, str]]:
    tables = [("lm_head.weight", "embed_target.weight")] if shape.tied else []
    if shape.shared:
        tables += [(f"model.{side}.embed_tokens.weight", "embed_target.weight") for side in ("encoder", "decoder")]
    return tables + [(f"model.{side}.embed_positions.weight", "position_table") for side in ("encoder", "decoder")]


def repeat_maps(shape: EncoderDecoderShape) -> list[WeightMap]:
    """transformers ties all tables or none: if the unembedding is separate, the shared table is written three times."""
    if not shape.shared or shape.tied:
        return []
    sides = ("encoder", "decoder")
    return [WeightMap(f"model.{side}.embed_tokens.weight", "embed_target.weight", stream=(1,)) for side in sides]


def repeat_maps_of_pegasus(shape: EncoderDecoderShape) -> list[WeightMap]:
    """Pegasus expects stored sinusoids, and separate tables are written as four, of which `shared` is unused."""
    waves = [f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")]
    maps = [WeightMap(name, "position_table", stream=(1,)) for name in waves]
    if shape.shared:
        return maps + repeat_maps(shape)
    names = ["model.shared.weight", *(["lm_head.weight"] if shape.tied else [])]
    return maps + [WeightMap(name, "embed_target.weight", stream=(1,)) for name in names]


def canonical(name: str) -> str:
    return f"model.{name}" if name.startswith(("encoder.", "decoder.", "shared.")) else name


MARIAN = Family(
    name="Marian",
    kind="encoder-decoder",
    describe=describe,
    tell=tell,
    build=EncoderDecoder,
    canonical=canonical,
    pieces=pieces,
    copies=copies,
    settle=settle,
    harmless=(r"model\.shared\.weight",),
    repeated=repeat_maps,
    optional=r"final_logits_bias",
    without="the weights have no bias of the logits, so it is 0",
    special={"start": "decoder_start_token_id", "end": "eos_token_id", "pad": "pad_token_id", "begin": "bos_token_id"},
)

PEGASUS = replace(MARIAN, name="Pegasus", describe=describe_pegasus, tell=tell_pegasus, repeated=repeat_maps_of_pegasus)
