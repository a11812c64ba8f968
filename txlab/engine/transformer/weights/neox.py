"""GPT-NeoX's weights (Black et al. 2022; Pythia): the map between its names and those of GPT, and its config.json.

W_Q, W_K, W_V are stored in one matrix head by head, (H, 3, K) rows where ours are (3, H, K); only the first quarter of
each head is rotated, unless the config says otherwise.
"""

from __future__ import annotations

from typing import Any

from txlab.engine.transformer.blocks import has_bias
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.weights.families import (
    Config,
    Family,
    WeightMap,
    format_fields,
    only,
    read_fields,
    read_rotary,
    tell_rotary,
    their_order,
)

NAMES = {
    "attention.query_key_value": "attention.qkv_proj",
    "attention.dense": "attention.out_proj",
    "mlp.dense_h_to_4h": "feed_forward.up_proj",
    "mlp.dense_4h_to_h": "feed_forward.down_proj",
    "input_layernorm": "attention_norm",
    "post_attention_layernorm": "feed_forward_norm",
}


KEYS = {
    "hidden_size": "width",
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "max_position_embeddings": "context",
    "vocab_size": "vocabulary",
    "intermediate_size": "feed_forward",
    "hidden_act": "activation",
    "layer_norm_eps": "epsilon",
    "hidden_dropout": "dropout",
    "tie_word_embeddings": "tied",
}


def describe(config: Config) -> GPTShape:
    fields = read_fields(config, KEYS, activation="gelu", epsilon=1e-5, dropout=0.0, tied=False)
    return GPTShape(
        positions="rotary",
        block="parallel" if config.flag("use_parallel_residual", True) else "sequential",
        bias=True if config.flag("attention_bias", True) else ("feed_forward", "norm"),
        rotary=read_rotary(config, fields["width"] // fields["heads"], 0.25, ("rotary_emb_base", "rotary_pct")),
        **fields,
    )


def tell(shape: GPTShape) -> dict[str, Any]:
    """Return the config.json of a GPT with rotary positions and LayerNorm, sequential or parallel."""
    only("GPT-NeoX", ("edges", shape.edges, ()), ("feed-forward", shape.block != "attention", True))
    only("GPT-NeoX", ("positions", shape.positions, "rotary"), ("norm", shape.norm, "pre"))
    only("GPT-NeoX", ("normalisation", shape.normalisation, "layer"), ("gated", shape.gated, False))
    only("GPT-NeoX", ("kv_heads", shape.groups, shape.heads), ("heads × head_dim", shape.across, shape.width))
    turned = {"partial_rotary_factor": 1.0} | tell_rotary(shape.rotary, shape.head_width)  # the default would be .25
    content: dict[str, Any] = {
        "architectures": ["GPTNeoXForCausalLM"],
        "model_type": "gpt_neox",
        "rope_parameters": turned,
    }
    content |= {"use_parallel_residual": shape.block == "parallel", "attention_bias": attention_bias(shape)}
    return content | format_fields(shape, KEYS | {"attention_dropout": "dropout"})


def attention_bias(shape: GPTShape) -> bool:
    return has_bias(shape.bias, "qkv") or has_bias(shape.bias, "out")


def pieces(shape: GPTShape) -> list[WeightMap]:
    maps = [
        WeightMap("gpt_neox.embed_in.weight", "embed.weight"),
        WeightMap("gpt_neox.final_layer_norm.weight", "final_norm.weight"),
        WeightMap("gpt_neox.final_layer_norm.bias", "final_norm.bias"),
    ]
    H, K, order = shape.heads, shape.head_width, their_order(shape.rotary, shape.head_width)
    orders = (order, order, range(K))  # values are not rotated
    fused = tuple(
        part * H * K + head * K + feature for head in range(H) for part, kept in enumerate(orders) for feature in kept
    )
    for layer in range(shape.layers):
        for theirs, ours in NAMES.items():
            for kind in ("weight", "bias"):
                if kind == "bias" and theirs.startswith("attention.") and not attention_bias(shape):
                    continue
                at, here = f"gpt_neox.layers.{layer}.{theirs}.{kind}", f"blocks.{layer}.{ours}.{kind}"
                maps.append(WeightMap(at, here, fused) if ours == "attention.qkv_proj" else WeightMap(at, here))
    return maps if shape.tied else [*maps, WeightMap("lm_head.weight", "unembed.weight")]


def canonical(name: str) -> str:
    name = "lm_head.weight" if name == "embed_out.weight" else name  # before transformers 5
    return f"gpt_neox.{name}" if name.startswith(("embed_in.", "layers.", "final_layer_norm.")) else name


NEOX = Family(
    name="GPT-NeoX",
    kind="gpt",
    describe=describe,
    tell=tell,
    build=GPT,
    canonical=canonical,
    pieces=pieces,
    copies=lambda shape: [("lm_head.weight", "embed.weight")] if shape.tied else [],
    harmless=(r"gpt_neox\.layers\.\d+\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)",),
    elsewhere=(r"score\.weight", r"(qa_outputs|classifier)\..*"),
    special={"begin": "bos_token_id", "end": "eos_token_id", "pad": "pad_token_id"},
)
