"""The weights of Llama (Touvron et al. 2023) and of models with the same architecture: Mistral, Qwen2.

They differ in which maps have biases and in the defaults of the config. A sliding window (Mistral, Qwen2) hides nothing
from a text that fits into it, so such a model is read with the window as its context, and the caveat says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from txlab.engine.transformer.blocks import has_bias
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.weights.families import (
    LONGEST,
    MOST_LAYERS,
    WIDEST,
    Config,
    Family,
    WeightMap,
    format_fields,
    only,
    read_fields,
    read_rotary,
    tell_rotary,
    their_order,
    their_rows,
)
from txlab.errors import LabError

# stored name → ours within a block, and the kind of bias that it may have
MAPS = {
    "self_attn.o_proj": ("attention.out_proj", "out"),
    "mlp.gate_proj": ("feed_forward.gate_proj", "feed_forward"),
    "mlp.up_proj": ("feed_forward.up_proj", "feed_forward"),
    "mlp.down_proj": ("feed_forward.down_proj", "feed_forward"),
}
KEYS = {
    "hidden_size": "width",
    "num_hidden_layers": "layers",
    "max_position_embeddings": "context",
    "vocab_size": "vocabulary",
    "intermediate_size": "feed_forward",
    "hidden_act": "activation",
    "rms_norm_eps": "epsilon",
    "attention_dropout": "dropout",
    "tie_word_embeddings": "tied",
}
NORMS = {"input_layernorm": "attention_norm", "post_attention_layernorm": "feed_forward_norm"}


@dataclass(frozen=True)
class Dialect:
    """The defaults of absent keys: `kv_heads` 0 = as many as heads; `window` 0 = none. `switched`: the windows are off
    unless config.json says otherwise, and it names their layers. `bias_keys` are the keys that enable biases, by
    the kind of bias; None = it always has one."""

    kv_heads: int
    window: int
    bias_keys: dict[str, str | None]
    switched: bool = False

    def biases(self, config: Config) -> tuple[str, ...]:
        return tuple(kind for kind, key in self.bias_keys.items() if key is None or config.flag(key, False))

    def window_of(self, config: Config) -> int:
        """Return how many positions a position can see; LONGEST if there is no limit."""
        null = "sliding_window" in config.content and config.content["sliding_window"] is None
        if not self.window or null or (self.switched and not self.has_windows(config)):
            return LONGEST
        return config.whole("sliding_window", 1, 1 << 40, self.window)

    @staticmethod
    def has_windows(config: Config) -> bool:
        """Whether any layer has a window: those named in layer_types, else those from max_window_layers on."""
        if not config.flag("use_sliding_window", False):
            return False
        kinds = config.content.get("layer_types")
        if kinds is not None:
            return not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds)
        return config.whole("max_window_layers", 0, 1 << 40, 28) < config.whole("num_hidden_layers", 1, MOST_LAYERS)


LLAMA_SAYS = Dialect(0, 0, {"qkv": "attention_bias", "out": "attention_bias", "feed_forward": "mlp_bias"})
MISTRAL_SAYS = Dialect(8, 4096, {})
QWEN2_SAYS = Dialect(32, 4096, {"qkv": None}, switched=True)


def describe(config: Config, dialect: Dialect) -> GPTShape:
    fields = read_fields(config, KEYS, activation="silu", epsilon=1e-6, dropout=0.0, tied=False)
    width, heads = fields["width"], config.whole("num_attention_heads", 1, WIDEST)
    if "head_dim" not in config and width % heads:
        raise LabError(f"config.json has num_attention_heads = {heads}, which does not divide hidden_size = {width}")
    head_width = config.whole("head_dim", 1, WIDEST, max(1, width // heads))
    if heads * head_width > WIDEST:
        raise LabError(f"config.json has {heads} heads of {head_width}; allowed: {WIDEST:,} features in all")
    unsaid = heads if "num_key_value_heads" in config.content else dialect.kv_heads or heads
    groups = config.whole("num_key_value_heads", 1, WIDEST, unsaid)
    if heads % groups:
        raise LabError(f"config.json has num_key_value_heads = {groups}, which does not divide {heads} heads")
    rotary = read_rotary(config, head_width)
    if rotary.width < head_width:  # transformers rotates all of a Llama's head whatever the config says
        raise LabError("config.json has partial_rotary_factor, which Llama and its like do not know; allowed: 1")
    fields |= {"context": min(fields["context"], dialect.window_of(config)), "bias": dialect.biases(config)}
    fields |= {"heads": heads, "kv_heads": groups, "head_dim": head_width, "rotary": rotary}
    return GPTShape(positions="rotary", normalisation="rms", gated=True, **fields)


def caveat(config: Config, shape: GPTShape, dialect: Dialect) -> str:
    longest = config.content["max_position_embeddings"]
    if shape.context == longest:
        return ""
    return f"its sliding window is not computed: it reads {shape.context:,} tokens at a time, as many as fit into it"


def tell(shape: GPTShape) -> dict[str, Any]:
    """Return the config.json of a gated GPT with RMSNorm; it is Qwen2's if only W_Q, W_K, W_V have biases."""
    only("Llama", ("edges", shape.edges, ()))
    only("Llama", ("positions", shape.positions, "rotary"), ("norm", shape.norm, "pre"))
    only("Llama", ("block", shape.block, "sequential"), ("gated", shape.gated, True))
    only("Llama", ("normalisation", shape.normalisation, "rms"))
    only("Llama", ("width % heads", shape.width % shape.heads, 0))
    only("Llama", ("rotary width", shape.rotary.width or shape.head_width, shape.head_width))
    qkv, out, feed_forward = (has_bias(shape.bias, part) for part in ("qkv", "out", "feed_forward"))
    content: dict[str, Any] = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    content |= format_fields(shape, KEYS | {"num_attention_heads": "heads", "num_key_value_heads": "groups"})
    content |= {"head_dim": shape.head_width, "rope_parameters": tell_rotary(shape.rotary, shape.head_width)}
    if qkv and not out and not feed_forward:
        return content | {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}
    return content | {"attention_bias": qkv or out, "mlp_bias": feed_forward}


def pieces(shape: GPTShape) -> list[WeightMap]:
    maps = [
        WeightMap("model.embed_tokens.weight", "embed.weight"),
        WeightMap("model.norm.weight", "final_norm.weight"),
    ]
    K, order = shape.head_width, their_order(shape.rotary, shape.head_width)
    keys = shape.heads * K
    values = keys + shape.groups * K
    rows = {
        "q_proj": their_rows(shape.heads, K, order),
        "k_proj": their_rows(shape.groups, K, order, keys),
        "v_proj": range(values, values + shape.groups * K),
    }
    attention = has_bias(shape.bias, "qkv"), has_bias(shape.bias, "out")
    # Llama's config switches the biases of all four attention maps together.
    has = {"qkv": any(attention), "out": attention[1] or (attention[0] and has_bias(shape.bias, "feed_forward"))}
    has["feed_forward"] = has_bias(shape.bias, "feed_forward")
    for layer in range(shape.layers):
        at, here = f"model.layers.{layer}", f"blocks.{layer}"
        maps += [WeightMap(f"{at}.{theirs}.weight", f"{here}.{ours}.weight") for theirs, ours in NORMS.items()]
        for kind in ("weight", "bias"):
            if kind == "weight" or has["qkv"]:
                maps += [
                    WeightMap(f"{at}.self_attn.{name}.{kind}", f"{here}.attention.qkv_proj.{kind}", part)
                    for name, part in rows.items()
                ]
            maps += [
                WeightMap(f"{at}.{theirs}.{kind}", f"{here}.{ours}.{kind}")
                for theirs, (ours, part) in MAPS.items()
                if kind == "weight" or has[part]
            ]
    return maps if shape.tied else [*maps, WeightMap("lm_head.weight", "unembed.weight")]


def canonical(name: str) -> str:
    return f"model.{name}" if name.startswith(("embed_tokens.", "layers.", "norm.")) else name


def family(name: str, dialect: Dialect) -> Family:
    return Family(
        name=name,
        kind="gpt",
        describe=lambda config: describe(config, dialect),
        caveat=lambda config, shape: caveat(config, shape, dialect),
        tell=tell,
        build=GPT,
        canonical=canonical,
        pieces=pieces,
        copies=lambda shape: [("lm_head.weight", "embed.weight")] if shape.tied else [],
        harmless=(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq", r"model\.rotary_emb\.inv_freq"),
        elsewhere=(r"score\.(weight|bias)", r"(qa_outputs|classifier)\..*"),
        special={"begin": "bos_token_id", "end": "eos_token_id", "pad": "pad_token_id"},
    )


LLAMA, MISTRAL, QWEN2 = family("Llama", LLAMA_SAYS), family("Mistral", MISTRAL_SAYS), family("Qwen2", QWEN2_SAYS)
