"""Folders of other programs: whatever is wrong with it is one sentence, found before memory is taken.

The folders are written by safetensors' own library and by bytes put together here, not by the engine.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from txlab.engine.transformer.weights import load_model, loading
from txlab.engine.transformer.weights.safetensors import blocks, read_head
from txlab.errors import LabError

D, V, T, F = 8, 11, 6, 20
GPT2 = {
    "model_type": "gpt2", "vocab_size": V, "n_positions": T, "n_embd": D, "n_layer": 2, "n_head": 2, "n_inner": F,
    "architectures": ["GPT2LMHeadModel"],
}  # fmt: skip
BERT = {
    "model_type": "bert", "vocab_size": V, "hidden_size": D, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": F, "max_position_embeddings": T,
}  # fmt: skip
MARIAN = {
    "model_type": "marian", "vocab_size": V, "d_model": D, "encoder_layers": 1, "decoder_layers": 1,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": F, "decoder_ffn_dim": F,
    "max_position_embeddings": T, "decoder_start_token_id": 1,
}  # fmt: skip

LLAMA = {
    "model_type": "llama", "vocab_size": V, "hidden_size": D, "num_hidden_layers": 1, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 4, "intermediate_size": F, "max_position_embeddings": T,
    "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
    "rope_parameters": {
        "rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 4,
    },
}  # fmt: skip
NEOX = {
    "model_type": "gpt_neox", "vocab_size": V, "hidden_size": D, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": F, "max_position_embeddings": T, "tie_word_embeddings": True, "use_parallel_residual": True,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5},
}  # fmt: skip
ROBERTA = BERT | {"model_type": "roberta", "max_position_embeddings": T + 2, "pad_token_id": 1, "type_vocab_size": 1}
DISTILBERT = {
    "model_type": "distilbert", "vocab_size": V, "dim": D, "n_layers": 1, "n_heads": 2, "hidden_dim": F,
    "max_position_embeddings": T,
}  # fmt: skip


def linear(name: str, out: int, into: int, turned: bool = False) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (into, out) if turned else (out, into), f"{name}.bias": (out,)}


def norm(name: str) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (D,), f"{name}.bias": (D,)}


def shapes_of(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Names and shapes by hand, as transformers writes them."""
    found: dict[str, tuple[int, ...]] = {}
    if config["model_type"] == "gpt2":
        found |= {"transformer.wte.weight": (V, D), "transformer.wpe.weight": (T, D)} | norm("transformer.ln_f")
        for layer in range(2):
            at = f"transformer.h.{layer}"
            found |= norm(f"{at}.ln_1") | norm(f"{at}.ln_2")
            found |= linear(f"{at}.attn.c_attn", 3 * D, D, True) | linear(f"{at}.attn.c_proj", D, D, True)
            found |= linear(f"{at}.mlp.c_fc", F, D, True) | linear(f"{at}.mlp.c_proj", D, F, True)
    elif config["model_type"] == "distilbert":
        at = "distilbert.embeddings"
        found |= {f"{at}.{name}_embeddings.weight": (n, D) for name, n in (("word", V), ("position", T))}
        found |= norm(f"{at}.LayerNorm") | linear("vocab_transform", D, D) | norm("vocab_layer_norm")
        found |= {"vocab_projector.bias": (V,)}
        at = "distilbert.transformer.layer.0"
        for way in ("q", "k", "v", "out"):
            found |= linear(f"{at}.attention.{way}_lin", D, D)
        found |= norm(f"{at}.sa_layer_norm") | norm(f"{at}.output_layer_norm")
        found |= linear(f"{at}.ffn.lin1", F, D) | linear(f"{at}.ffn.lin2", D, F)
    elif config["model_type"] in ("bert", "roberta"):
        stem = config["model_type"]
        at = f"{stem}.embeddings"
        rows = (
            ("word", V),
            ("position", config["max_position_embeddings"]),
            ("token_type", 2 if stem == "bert" else 1),
        )
        found |= {f"{at}.{name}_embeddings.weight": (n, D) for name, n in rows} | norm(f"{at}.LayerNorm")
        at = f"{stem}.encoder.layer.0"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            found |= linear(f"{at}.attention.{part}", D, D)
        found |= norm(f"{at}.attention.output.LayerNorm") | norm(f"{at}.output.LayerNorm")
        found |= linear(f"{at}.intermediate.dense", F, D) | linear(f"{at}.output.dense", D, F)
        head, between = ("cls.predictions", "transform.") if stem == "bert" else ("lm_head", "")
        found |= linear(f"{head}.{between}dense", D, D) | {f"{head}.bias": (V,)}
        found |= norm(f"{head}.transform.LayerNorm" if stem == "bert" else f"{head}.layer_norm")
    elif config["model_type"] == "llama":
        at = "model.layers.0"
        found |= {"model.embed_tokens.weight": (V, D), "model.norm.weight": (D,), "lm_head.weight": (V, D)}
        found |= {f"{at}.input_layernorm.weight": (D,), f"{at}.post_attention_layernorm.weight": (D,)}
        found |= {f"{at}.self_attn.{way}_proj.weight": (size, D) for way, size in (("q", 16), ("k", 8), ("v", 8))}
        found |= {f"{at}.self_attn.o_proj.weight": (D, 16), f"{at}.mlp.down_proj.weight": (D, F)}
        found |= {f"{at}.mlp.{way}_proj.weight": (F, D) for way in ("gate", "up")}
    elif config["model_type"] == "gpt_neox":
        at = "gpt_neox.layers.0"
        found |= {"gpt_neox.embed_in.weight": (V, D)} | norm("gpt_neox.final_layer_norm")
        found |= norm(f"{at}.input_layernorm") | norm(f"{at}.post_attention_layernorm")
        found |= linear(f"{at}.attention.query_key_value", 3 * D, D) | linear(f"{at}.attention.dense", D, D)
        found |= linear(f"{at}.mlp.dense_h_to_4h", F, D) | linear(f"{at}.mlp.dense_4h_to_h", D, F)
    else:
        found |= {"model.shared.weight": (V, D), "final_logits_bias": (1, V)}
        for side, parts in (("encoder", ["self_attn"]), ("decoder", ["self_attn", "encoder_attn"])):
            at = f"model.{side}.layers.0"
            for part in parts:
                for way in ("q", "k", "v", "out"):
                    found |= linear(f"{at}.{part}.{way}_proj", D, D)
                found |= norm(f"{at}.{part}_layer_norm")
            found |= linear(f"{at}.fc1", F, D) | linear(f"{at}.fc2", D, F) | norm(f"{at}.final_layer_norm")
    return found


def tensors_of(config: dict[str, Any]) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(3)
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes_of(config).items()}


def written(folder: Path, config: dict[str, Any], tensors: dict[str, Tensor] | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors_of(config) if tensors is None else tensors, folder / "model.safetensors")
    return folder


def file_of(head: object, data: bytes = b"") -> bytes:
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + data


def refused(folder: Path, *parts: str) -> str:
    """The sentence with which a folder is refused; it names the folder and says each of these."""
    with pytest.raises(LabError) as caught:
        load_model(folder)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert len(sentence) < 600
    assert sentence.startswith(f"model folder {str(folder)!r}: ")
    for part in parts:
        assert part in sentence, sentence
    return sentence


def largest_memory() -> int:
    """Bytes: the most that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


ALL = {
    "gpt2": GPT2,
    "llama": LLAMA,
    "neox": NEOX,
    "bert": BERT,
    "roberta": ROBERTA,
    "distilbert": DISTILBERT,
    "marian": MARIAN,
}


@pytest.mark.parametrize("config", ALL.values(), ids=ALL)
def test_every_tensor_of_a_folder_is_where_its_name_says(tmp_path: Path, config: dict[str, Any]) -> None:
    tensors = tensors_of(config)
    model = load_model(written(tmp_path / "m", config, tensors)).model
    ours = {name: tensor.detach() for name, tensor in model.named_parameters()}
    count = sum(tensor.numel() for tensor in tensors.values())
    assert count == sum(tensor.numel() for tensor in ours.values())
    # The same numbers, wherever they are; the map itself is held against transformers in tests/parity.
    assert sorted(torch.cat([t.flatten() for t in tensors.values()]).tolist()) == sorted(
        torch.cat([t.flatten() for t in ours.values()]).tolist()
    )


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"model_type": "gpt3"}, ("model_type = 'gpt3'", "nearest: gpt2", "known: gpt2, llama, ")),
        ({"model_type": None}, ("model_type = None", "known:")),
        ({"model_type": ["gpt2"]}, ("model_type",)),
        ({"n_embd": 0}, ("n_embd = 0",)),
        ({"n_embd": -8}, ("n_embd = -8",)),
        ({"n_embd": 8.0}, ("n_embd = 8.0",)),
        ({"n_embd": "8"}, ("n_embd = '8'",)),
        ({"n_embd": True}, ("n_embd = True",)),
        ({"n_embd": 10**30}, ("n_embd = 1000",)),
        ({"n_embd": None}, ("no n_embd",)),
        ({"n_head": 3}, ("n_head = 3", "does not divide", "n_embd = 8")),
        ({"n_layer": 10**9}, ("n_layer",)),
        ({"n_layer": 3}, ("transformer.h.2.",)),
        ({"n_layer": 1}, ("transformer.h.1.", "no place")),
        ({"vocab_size": 12}, ("transformer.wte.weight", "(11, 8)", "(12, 8)")),
        ({"n_inner": 16}, ("mlp.c_fc",)),
        ({"activation_function": "quick_gelu"}, ("activation_function", "quick_gelu", "allowed")),
        ({"layer_norm_epsilon": 1e-40}, ("layer_norm_epsilon",)),
        ({"layer_norm_epsilon": -1}, ("layer_norm_epsilon",)),
        ({"resid_pdrop": 1.5}, ("resid_pdrop",)),
        ({"tie_word_embeddings": "yes"}, ("tie_word_embeddings",)),
        ({"tie_word_embeddings": False}, ("lm_head.weight",)),
        ({"scale_attn_weights": False}, ("scale_attn_weights = False", "not supported here")),
        ({"scale_attn_by_inverse_layer_idx": True}, ("scale_attn_by_inverse_layer_idx",)),
        ({"eos_token_id": "end"}, ("eos_token_id",)),
    ],
)
def test_a_config_with_false_contents_is_a_readable_error(
    tmp_path: Path, change: dict[str, Any], parts: tuple[str, ...]
) -> None:
    folder = written(tmp_path / "m", GPT2)
    (folder / "config.json").write_text(json.dumps(GPT2 | change))
    refused(folder, *parts)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"d_model": 7}, ("d_model = 7",)),
        ({"decoder_attention_heads": 4}, ("decoder_attention_heads = 4",)),
        ({"normalize_before": True}, ("normalize_before = True",)),
        ({"max_position_embeddings": 10**9}, ("max_position_embeddings",)),
        ({"decoder_vocab_size": 12}, ("vocabularies of 11 and 12",)),
    ],
)
def test_an_invalid_marian_is_a_readable_error(tmp_path: Path, change: dict[str, Any], parts: tuple[str, ...]) -> None:
    refused(written(tmp_path / "m", MARIAN | change, tensors_of(MARIAN)), *parts)


ROPE = {"rope_type": "default", "rope_theta": 1e4}


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"num_key_value_heads": 3}, ("num_key_value_heads = 3", "4 heads")),
        ({"num_key_value_heads": 0}, ("num_key_value_heads = 0",)),
        ({"num_key_value_heads": 8}, ("num_key_value_heads = 8",)),
        ({"num_key_value_heads": 4}, ("self_attn.k_proj.weight", "(8, 8)", "(16, 8)")),
        ({"head_dim": 3}, ("turns 3", "even")),
        ({"head_dim": 1 << 16, "num_attention_heads": 4}, ("4 heads of 65536",)),
        ({"rope_parameters": ROPE | {"rope_type": "yarn"}}, ("rope_type = 'yarn'", "not supported here", "llama3")),
        ({"rope_parameters": None, "rope_scaling": {"type": "longrope"}}, ("rope_type = 'longrope'",)),
        ({"rope_parameters": {"full_attention": ROPE}}, ("'full_attention'", "not supported here")),
        ({"rope_parameters": ROPE | {"attention_factor": 1.2}}, ("'attention_factor'",)),
        ({"rope_parameters": ROPE | {"rope_type": "linear"}}, ("no factor",)),
        ({"rope_parameters": ROPE | {"rope_type": "linear", "factor": 0}}, ("factor = 0",)),
        ({"rope_parameters": ROPE | {"rope_theta": 0.5}}, ("rope_theta = 0.5",)),
        ({"rope_parameters": ROPE | {"rope_theta": True}}, ("rope_theta = True",)),
        ({"rope_parameters": ROPE | {"partial_rotary_factor": 0.1}}, ("turns 0",)),
        ({"rope_parameters": "llama3"}, ("rope_parameters = 'llama3'", "an object")),
        ({"attention_bias": True}, ("no tensor", "self_attn.q_proj.bias")),
        ({"mlp_bias": 1}, ("mlp_bias = 1",)),
        ({"hidden_act": "xielu"}, ("hidden_act = 'xielu'",)),
        ({"rms_norm_eps": 0}, ("rms_norm_eps = 0",)),
        ({"model_type": "gemma"}, ("model_type = 'gemma'", "not supported here")),
    ],
)
def test_an_invalid_llama_is_a_readable_error(tmp_path: Path, change: dict[str, Any], parts: tuple[str, ...]) -> None:
    refused(written(tmp_path / "m", LLAMA | change, tensors_of(LLAMA)), *parts)


@pytest.mark.parametrize(
    ("config", "change", "parts"),
    [
        (ROBERTA, {"pad_token_id": T + 1}, ("max_position_embeddings = 8", "leaves none")),
        (ROBERTA, {"pad_token_id": -2}, ("pad_token_id = -2",)),
        (ROBERTA, {"hidden_act": "relu"}, ("hidden_act = relu", "allowed: gelu")),
        (DISTILBERT, {"dim": 7}, ("n_heads = 2", "dim = 7")),
        (DISTILBERT, {"activation": "mish"}, ("activation = 'mish'",)),
    ],
)
def test_an_invalid_roberta_is_a_readable_error(
    tmp_path: Path, config: dict[str, Any], change: dict[str, Any], parts: tuple[str, ...]
) -> None:
    refused(written(tmp_path / "m", config | change, tensors_of(config)), *parts)


def test_configs_as_they_were_published_are_read(tmp_path: Path) -> None:
    """The entries of the files of OpenAI, Google and the University of Helsinki other than sizes."""
    said = {
        "gpt2": GPT2 | {
            "activation_function": "gelu_new", "attn_pdrop": 0.1, "bos_token_id": 50256, "eos_token_id": 50256,
            "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "n_ctx": T, "resid_pdrop": 0.1, "n_inner": F,
            "summary_type": "cls_index", "task_specific_params": {"text-generation": {"max_length": 50}},
        },
        "bert": BERT | {
            "hidden_act": "gelu", "gradient_checkpointing": False, "layer_norm_eps": 1e-12, "type_vocab_size": 2,
            "position_embedding_type": "absolute", "pad_token_id": 0, "directionality": "bidi", "use_cache": True,
        },
        "marian": MARIAN | {
            "activation_function": "swish", "add_bias_logits": False, "add_final_layer_norm": False, "bos_token_id": 0,
            "bad_words_ids": [[10]], "classif_dropout": 0.0, "decoder_vocab_size": V, "decoder_layerdrop": 0.0,
            "extra_pos_embeddings": V, "forced_eos_token_id": 0, "is_decoder": False, "normalize_before": False,
            "normalize_embedding": False, "num_hidden_layers": 1, "pad_token_id": 10, "scale_embedding": True,
            "static_position_embeddings": True, "eos_token_id": [0], "num_beams": 6,
        },
    }  # fmt: skip
    kinds = {name: load_model(written(tmp_path / name, config)) for name, config in said.items()}
    assert [loaded.kind for loaded in kinds.values()] == ["gpt", "bert", "encoder-decoder"]
    shapes = [loaded.model.shape for loaded in kinds.values()]
    assert [shape.activation for shape in shapes] == ["gelu_tanh", "gelu", "swish"]
    assert kinds["marian"].special == {"start": 1, "begin": 0, "end": 0, "pad": 10}


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "not JSON"),
        ("[]", "must be an object"),
        ('{"a": 1, "a": 2}', "twice"),
        ('{"n_embd": NaN}', "NaN"),
        (json.dumps(GPT2)[:-1] + ', "layer_norm_epsilon": 1e999}', "layer_norm_epsilon = inf"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": "' + "x" * (2 << 20) + '"}', "larger than 1 MiB"),
        ('{"n_embd": ' + "9" * 5000 + "}", "not JSON that can be read"),
    ],
)
def test_a_config_that_is_not_an_object_is_a_readable_error(tmp_path: Path, text: str, part: str) -> None:
    folder = written(tmp_path / "m", GPT2)
    (folder / "config.json").write_text(text)
    refused(folder, "config.json", part)


def changed(change: Callable[[dict[str, Tensor]], Any]) -> dict[str, Tensor]:
    tensors = tensors_of(GPT2)
    change(tensors)
    return tensors


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda t: t.pop("transformer.h.1.ln_2.bias"), ("no tensor transformer.h.1.ln_2.bias",)),
        (lambda t: t.update({"transformer.h.0.evil": torch.ones(2)}), ("'transformer.h.0.evil'", "no place")),
        (lambda t: t.update({"\x1b[2J": torch.ones(2)}), ("no place", r"\x1b[2J")),
        (lambda t: t.update({"wte.weight": torch.ones(V, D)}), ("'wte.weight'", "twice")),
        (
            lambda t: t.update({"transformer.ln_f.bias": torch.ones(D, dtype=torch.int32)}),
            ("transformer.ln_f.bias is I32",),
        ),
        (
            lambda t: t.update({"transformer.h.0.mlp.c_fc.weight": torch.ones(F, D)}),
            ("mlp.c_fc.weight has the shape (20, 8)", "(8, 20)"),
        ),
        (lambda t: t["transformer.wte.weight"][4].fill_(float("nan")), ("transformer.wte.weight has 8 values",)),
        (lambda t: t["transformer.ln_f.weight"][:1].fill_(float("inf")), ("transformer.ln_f.weight has 1 values",)),
        (
            lambda t: t.update({"transformer.ln_f.weight": torch.full((D,), 1e300, dtype=torch.float64)}),
            ("transformer.ln_f.weight has 8 values",),
        ),
        (lambda t: t.update({"lm_head.weight": torch.ones(V, D)}), ("lm_head.weight differs",)),
    ],
)
def test_wrong_tensors_are_named(tmp_path: Path, change: Callable[[Any], Any], parts: tuple[str, ...]) -> None:
    refused(written(tmp_path / "m", GPT2, changed(change)), *parts)


ONE = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "cut off"),
        (b"\x80\x02}q\x00.", "cut off"),
        (struct.pack("<Q", 2**63) + b"{}", "cut off"),
        (struct.pack("<Q", 100) + b"{}", "cut off"),
        (file_of(b"{"), "its header: it is not JSON"),
        (file_of(b"[]"), "must be an object"),
        (file_of(b'{"a": 1, "a": 1}'), "twice"),
        (file_of(b"\xff\xfe{}"), "not UTF-8"),
        (file_of({"a": 3}), "must have dtype, shape and data_offsets"),
        (file_of({"a": ONE | {"more": 1}}, bytes(8)), "and no more"),
        (file_of({"a": ONE | {"dtype": "F31"}}, bytes(8)), "nearest: F32"),
        (file_of({"a": ONE | {"dtype": ["F32"]}}, bytes(8)), "which is not read"),
        (file_of({"a": ONE | {"shape": [2.0]}}, bytes(8)), "not a list"),
        (file_of({"a": ONE | {"shape": "2"}}, bytes(8)), "not a list"),
        (file_of({"a": ONE | {"shape": [-2]}}, bytes(8)), "out of bounds"),
        (file_of({"a": ONE | {"shape": [1] * 9}}, bytes(8)), "at most 8"),
        (file_of({"a": ONE | {"shape": [10**40]}}, bytes(8)), "out of bounds"),
        (file_of({"a": ONE | {"shape": [3]}}, bytes(8)), "12 bytes"),
        (file_of({"a": ONE | {"data_offsets": [8, 0]}}, bytes(8)), "data_offsets"),
        (file_of({"a": ONE | {"data_offsets": [-8, 0]}}, bytes(8)), "data_offsets"),
        (file_of({"a": ONE | {"data_offsets": [0, 8, 8]}}, bytes(8)), "not two whole numbers"),
        (file_of({"a": ONE}, bytes(7)), "ends at byte"),
        (file_of({"a": ONE}, bytes(9)), "1 bytes at its end"),
        (file_of({"a": ONE, "b": ONE}, bytes(8)), "overlaps"),
        (file_of({"a": ONE, "b": ONE | {"data_offsets": [4, 12]}}, bytes(12)), "overlaps"),
        (file_of({"a": ONE, "b": ONE | {"data_offsets": [9, 17]}}, bytes(17)), "hole"),
        (
            file_of({"a": {"dtype": "F32", "shape": [5 << 20, 5000], "data_offsets": [0, 100 << 30]}}),
            "its data_offsets",
        ),
        (
            file_of({"a": ONE | {"shape": [5 << 20, 5120], "data_offsets": [0, 100 << 30]}}),
            "ends at byte 107,374,182,",
        ),
    ],
)
def test_a_wrong_head_is_a_readable_error(tmp_path: Path, content: bytes, part: str) -> None:
    folder = written(tmp_path / "m", GPT2)
    (folder / "model.safetensors").write_bytes(content)
    refused(folder, "model.safetensors: ", part)


NOTHING = {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}


@pytest.mark.parametrize(
    ("heads", "part"),
    [
        ([{f"{file}.{n}": NOTHING for n in range(40_000)} for file in range(3)], "more than 100,000 tensors"),
        ([b"{}" + b" " * (20 << 20), b"{}" + b" " * (20 << 20)], "the headers of the weights are larger than 32 MiB"),
        ([b'{"__metadata__":{"format":"' + b"," * 1_000_001 + b'"}}'], "more than 1,000,000 values"),
    ],
    ids=["tensors", "bytes", "values"],
)
def test_the_headers_of_a_folder_have_one_bound_together(tmp_path: Path, heads: list[Any], part: str) -> None:
    folder = written(tmp_path / "m", GPT2)
    (folder / "model.safetensors").unlink()
    for number, head in enumerate(heads):
        (folder / f"{number}.safetensors").write_bytes(file_of(head))
    where = {f"{number}": f"{number}.safetensors" for number in range(len(heads))}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    refused(folder, part)


def test_an_index_of_more_tensors_than_are_read_is_a_readable_error(tmp_path: Path) -> None:
    sharded(tmp_path / "m")
    where = {f"{n}": "a.safetensors" for n in range(200_001)}
    (tmp_path / "m" / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    refused(tmp_path / "m", "more than 200,000 values")


def test_a_claim_of_100_gb_that_fits_its_sparse_file_is_refused_by_the_memory_at_hand(tmp_path: Path) -> None:
    width, vocabulary = 1 << 16, 400_000  # 105 GB
    folder = written(tmp_path / "m", GPT2)
    config = GPT2 | {"n_embd": width, "vocab_size": vocabulary, "n_layer": 1, "n_inner": 8}
    (folder / "config.json").write_text(json.dumps(config))
    sizes = {"transformer.wte.weight": (vocabulary, width), "transformer.wpe.weight": (T, width)}
    for name in ("ln_f", "h.0.ln_1", "h.0.ln_2"):
        sizes |= {f"transformer.{name}.{kind}": (width,) for kind in ("weight", "bias")}
    maps = [("attn.c_attn", 3 * width, width), ("attn.c_proj", width, width)]
    maps += [("mlp.c_fc", 8, width), ("mlp.c_proj", width, 8)]
    for name, out, into in maps:
        sizes |= {f"transformer.h.0.{name}.weight": (into, out), f"transformer.h.0.{name}.bias": (out,)}
    head: dict[str, Any] = {}
    end = 0
    for name, shape in sizes.items():
        size = 4 * torch.Size(shape).numel()
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    content = file_of(head)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(content)
        file.truncate(len(content) + end)
    before = largest_memory()
    sentence = refused(folder, "GiB of memory", "GiB are free")
    assert float(re.findall(r"needs ([\d.]+) GiB", sentence.replace(",", ""))[0]) > 100
    assert largest_memory() - before < 60 << 20


def test_a_model_that_would_take_all_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path / "m", GPT2)
    needed = 4 * sum(tensor.numel() for tensor in tensors_of(GPT2).values())
    monkeypatch.setattr(loading, "memory_at_hand", lambda: int(needed / 0.9) + 10)
    load_model(folder)
    monkeypatch.setattr(loading, "memory_at_hand", lambda: needed)
    refused(folder, "memory")


def test_angles_that_would_take_all_the_memory_are_refused_and_others_take_no_more_than_they_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Computed tables are not bounded by the file: 262 144 positions of 64 angles are 67 MB for weights of a few kB."""
    config = LLAMA | {"max_position_embeddings": 1 << 18, "head_dim": 128}
    tensors = tensors_of(LLAMA)
    for way, heads in (("q", 4), ("k", 2), ("v", 2)):
        tensors[f"model.layers.0.self_attn.{way}_proj.weight"] = torch.ones(heads * 128, D)
    tensors["model.layers.0.self_attn.o_proj.weight"] = torch.ones(D, 4 * 128)
    folder = written(tmp_path / "m", config, tensors)
    with monkeypatch.context() as patch:
        patch.setattr(loading, "memory_at_hand", lambda: 64 << 20)
        refused(folder, "GiB of memory", "GiB are free")
    before = largest_memory()
    assert load_model(folder).model.position_table.shape == (1 << 18, 64)
    assert largest_memory() - before < 100 << 20


def test_the_limit_of_a_container_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "CONTAINER", tmp_path)
    free = loading.memory_at_hand()
    assert free > 10_000
    (tmp_path / "memory.current").write_text("4000\n")
    (tmp_path / "memory.stat").write_text("anon 3000\ninactive_file 500\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert loading.memory_at_hand() > 10_000
    (tmp_path / "memory.max").write_text("10000\n")
    assert loading.memory_at_hand() == 6500


def test_tensors_are_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from txlab.engine.transformer.weights import safetensors

    monkeypatch.setattr(safetensors, "BLOCK", 100)
    folder = written(tmp_path / "m", GPT2)
    place = read_head(folder / "model.safetensors")["transformer.wte.weight"]
    parts = list(blocks(place))
    assert [first for first, _ in parts] == [0, 3, 6, 9]
    assert torch.equal(torch.cat([part for _, part in parts]), tensors_of(GPT2)["transformer.wte.weight"])
    found = dict(load_model(folder).model.named_parameters())["blocks.1.attention.qkv_proj.weight"]
    assert torch.equal(found, tensors_of(GPT2)["transformer.h.1.attn.c_attn.weight"].T)


def test_a_pickle_is_not_read_and_the_sentence_says_why(tmp_path: Path) -> None:
    folder = written(tmp_path / "m", GPT2)
    (folder / "model.safetensors").unlink()
    refused(folder, "no weights")
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x02")
    refused(folder, "pytorch_model.bin", "pickle", "run code")


def test_an_invalid_folder_is_a_readable_error(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "no such folder")
    (tmp_path / "file").touch()
    refused(tmp_path / "file", "not a folder")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "no config.json")
    refused(Path("a\0b"))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocab.txt"])
def test_a_non_regular_file_is_not_waited_for(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path / "m", BERT)
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    refused(folder, name, "not a regular file")
    (folder / name).unlink()
    (folder / name).mkdir()
    refused(folder, name, "not a regular file")

    def forbidden(path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "exists", forbidden)
    refused(folder, "Permission denied")


def sharded(folder: Path) -> dict[str, str]:
    tensors = tensors_of(GPT2)
    names = sorted(tensors)
    parts = {"a.safetensors": names[:9], "b.safetensors": names[9:]}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(GPT2))
    for file, inside in parts.items():
        save_file({name: tensors[name] for name in inside}, folder / file)
    return {name: file for file, inside in parts.items() for name in inside}


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda where, names: where.update({names[0]: "../a.safetensors"}), "not the name of"),
        (lambda where, names: where.update({names[0]: "/etc/a.safetensors"}), "not the name of"),
        (lambda where, names: where.update({names[0]: "..\\a.safetensors"}), "not the name of"),
        (lambda where, names: where.update({names[0]: "pytorch_model.bin"}), "not the name of"),
        (lambda where, names: where.update({names[0]: 3}), "weight_map"),
        (lambda where, names: where.update({names[0]: "c.safetensors"}), "is not in the folder"),
        (lambda where, names: where.update({names[0]: "b.safetensors"}), "as it says"),
        (lambda where, names: where.update({"more": "b.safetensors"}), "'more' is not in"),
        (lambda where, names: where.update({f"m{i}": f"{i}.safetensors" for i in range(1001)}), "at most 1000"),
        (lambda where, names: where.clear(), "no tensor"),
    ],
)
def test_a_false_index_or_one_that_leaves_the_folder_is_a_readable_error(
    tmp_path: Path, change: Callable[[Any, Any], Any], part: str
) -> None:
    where: dict[str, Any] = sharded(tmp_path / "m")
    index = tmp_path / "m" / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": where}))
    load_model(tmp_path / "m")
    change(where, sorted(where))
    index.write_text(json.dumps({"weight_map": where}))
    refused(tmp_path / "m", part)


def test_a_tensor_in_two_shards_is_a_readable_error(tmp_path: Path) -> None:
    where = sharded(tmp_path / "m")
    save_file(tensors_of(GPT2), tmp_path / "m" / "b.safetensors")
    (tmp_path / "m" / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    refused(tmp_path / "m", "is in")


def test_a_tokenizer_with_more_tokens_than_the_model_is_a_readable_error(tmp_path: Path) -> None:
    folder = written(tmp_path / "m", BERT)
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdef"]
    (folder / "vocab.txt").write_text("\n".join(names) + "\n")
    loaded = load_model(folder)
    assert loaded.tokenizer.encode("fab") == [1]
    assert loaded.special == {"begin": 2, "end": 3, "separator": 3, "mask": 4, "pad": 0}
    (folder / "vocab.txt").write_text("\n".join([*names, "g"]) + "\n")
    refused(folder, "12 tokens", "the model knows 11")
    (folder / "vocab.txt").write_text("a\nb\n")
    refused(folder, "vocab.txt", "[UNK]")
    (folder / "tokenizer.json").write_text("{")
    refused(folder, "tokenizer.json", "not JSON")


NUMBERS: list[Any] = [
    0, 1, -1, 2, 7, 9, 12, 255, 2**31, 2**63, 10**30, 0.5, -0.0, 1e-12, 1e308, None, True, False, "8", "", [], {}, [8],
    "gelu", "relu", "quick_gelu", "bert", "marian", "gpt2", "llama", "linear", "yarn",
]  # fmt: skip


def mutated(folder: Path, config: dict[str, Any], draw: random.Random) -> None:
    """One to three random changes of a valid folder: of bytes, sizes, the head's values, or the config's."""
    (folder / "config.json").write_text(json.dumps(config))
    file = folder / "model.safetensors"
    good = (folder / "good").read_bytes()
    length = struct.unpack("<Q", good[:8])[0]
    content = bytearray(good)
    for _ in range(draw.randint(1, 3)):
        kind = draw.randrange(6)
        if kind == 0:  # bytes of the head
            for _ in range(draw.randint(1, 4)):
                content[draw.randrange(min(8 + length, len(content)))] = draw.randrange(256)
        elif kind == 1:  # the head's length
            content[:8] = struct.pack("<Q", draw.choice([0, 1, length - 1, length + 1, length + 8, 2**40, 2**64 - 1]))
        elif kind == 2:  # cut off, or longer
            cut = draw.randrange(len(content) + 1)
            content = content[: max(cut, 1)] if draw.random() < 0.7 else content + bytes(draw.randint(1, 99))
        elif kind == 3:  # one value in the head
            head = json.loads(good[8 : 8 + length])
            name = draw.choice(sorted(set(head) - {"__metadata__"}))
            key = draw.choice(["dtype", "shape", "data_offsets", "name"])
            if key == "name":
                head[draw.choice(["x", name + "x", name.upper(), ""])] = head.pop(name)
            elif key == "dtype":
                head[name][key] = draw.choice(["F16", "BF16", "F64", "I32", "F8", *NUMBERS])
            else:
                values = head[name][key]
                values[draw.randrange(len(values))] = draw.choice(NUMBERS)
            content = bytearray(file_of(head, good[8 + length :]))
        elif kind == 4:  # bytes of the weights
            for _ in range(draw.randint(1, 4)):
                content[draw.randrange(len(content))] = draw.choice([0x7F, 0xFF, 0x80, 0])
        else:  # one value of the config
            content_of = json.loads((folder / "config.json").read_text())
            into = content_of
            if isinstance(content_of.get("rope_parameters"), dict) and draw.random() < 0.4:
                into = content_of["rope_parameters"]
            into[draw.choice([*into, "activation_function", "tie_word_embeddings", "eos_token_id"])] = draw.choice(
                NUMBERS
            )
            (folder / "config.json").write_text(json.dumps(content_of))
    file.write_bytes(content)


@pytest.mark.parametrize("config", ALL.values(), ids=ALL)
def test_a_folder_that_was_changed_at_random_is_refused_in_words_or_read_finite(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    folder = written(tmp_path / "m", config)
    (folder / "model.safetensors").rename(folder / "good")
    seen: set[str] = set()
    read = 0
    load_model(written(tmp_path / "first", config))
    before = largest_memory()
    for seed in range(300):
        mutated(folder, config, random.Random(seed))
        sentence = ""
        try:
            model = load_model(folder).model
        except LabError as error:
            sentence = str(error)
        if not sentence:
            read += 1
            assert all(bool(parameter.isfinite().all()) for parameter in model.parameters())
            continue
        assert "\n" not in sentence
        assert len(sentence) < 600
        seen.add(re.sub(r"\d+|'[^']*'", "", sentence)[:90])
    assert largest_memory() - before < 60 << 20
    # The changes reach deep: many kinds of sentences, and some that do no harm.
    assert read >= 6
    assert len(seen) >= 30
