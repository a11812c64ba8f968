"""GPT-2's weights (Radford et al. 2019): the map between its names and those of GPT, and its config.json.

Conv1D stores (in, out), so four maps per block are transposed; q, k, v are side by side in c_attn, as in our matrix;
OpenAI's own files lack the prefix "transformer." and store the causal masks among the weights.
"""

from __future__ import annotations

from typing import Any

from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.weights.families import (
    WIDEST,
    Config,
    Family,
    WeightMap,
    format_fields,
    only,
    read_fields,
)

# Stored name → ours, within a block; the maps are Conv1D, the norms are not.
MAPS = {
    "attn.c_attn": "attention.qkv_proj",
    "attn.c_proj": "attention.out_proj",
    "mlp.c_fc": "feed_forward.up_proj",
    "mlp.c_proj": "feed_forward.down_proj",
}
NORMS = {"ln_1": "attention_norm", "ln_2": "feed_forward_norm"}


KEYS = {
    "n_embd": "width",
    "n_layer": "layers",
    "n_head": "heads",
    "n_positions": "context",
    "vocab_size": "vocabulary",
    "n_inner": "feed_forward",
    "activation_function": "activation",
    "layer_norm_epsilon": "epsilon",
    "resid_pdrop": "dropout",
    "tie_word_embeddings": "tied",
}


def describe(config: Config) -> GPTShape:
    config.must_be({"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False})
    old = {} if "n_positions" in config else {"n_positions": "n_ctx"}  # in OpenAI's own files
    keys = {old.get(key, key): ours for key, ours in KEYS.items()}
    inner = 4 * config.whole("n_embd", 1, WIDEST)
    defaults = {"feed_forward": inner, "activation": "gelu_new", "epsilon": 1e-5, "dropout": 0.1, "tied": True}
    return GPTShape(**read_fields(config, keys, **defaults))


def tell(shape: GPTShape) -> dict[str, Any]:
    """Return the config.json of a GPT with learnt positions and sequential pre-LN blocks; missing biases are zeros."""
    only("GPT-2", ("edges", shape.edges, ()))
    only("GPT-2", ("positions", shape.positions, "learned"), ("norm", shape.norm, "pre"))
    only("GPT-2", ("block", shape.block, "sequential"), ("normalisation", shape.normalisation, "layer"))
    only("GPT-2", ("gated", shape.gated, False), ("kv_heads", shape.groups, shape.heads))
    only("GPT-2", ("heads × head_dim", shape.across, shape.width))
    dropouts = {"embd_pdrop": "dropout", "attn_pdrop": "dropout"}
    return {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2"} | format_fields(shape, KEYS | dropouts)


def pieces(shape: GPTShape) -> list[WeightMap]:
    maps = [
        WeightMap("transformer.wte.weight", "embed.weight"),
        WeightMap("transformer.wpe.weight", "positions.weight"),
        WeightMap("transformer.ln_f.weight", "final_norm.weight"),
        WeightMap("transformer.ln_f.bias", "final_norm.bias"),
    ]
    for layer in range(shape.layers):
        for names, turned in ((MAPS, True), (NORMS, False)):
            for theirs, ours in names.items():
                at, here = f"transformer.h.{layer}.{theirs}", f"blocks.{layer}.{ours}"
                maps += [
                    WeightMap(f"{at}.weight", f"{here}.weight", turned=turned),
                    WeightMap(f"{at}.bias", f"{here}.bias"),
                ]
    return maps if shape.tied else [*maps, WeightMap("lm_head.weight", "unembed.weight")]


def canonical(name: str) -> str:
    return f"transformer.{name}" if name.startswith(("wte.", "wpe.", "ln_f.", "h.")) else name


GPT2 = Family(
    name="GPT-2",
    kind="gpt",
    describe=describe,
    tell=tell,
    build=GPT,
    canonical=canonical,
    pieces=pieces,
    copies=lambda shape: [("lm_head.weight", "embed.weight")] if shape.tied else [],
    harmless=(r"transformer\.h\.\d+\.attn\.(bias|masked_bias)",),
    elsewhere=(r"score\.weight", r"(multiple_choice_head|classifier)\..*"),
    special={"begin": "bos_token_id", "end": "eos_token_id", "pad": "pad_token_id"},
)
