"""Llama, Mistral, Qwen2, GPT-NeoX: what a folder holds computes what transformers computes (MATH T7, T9, T11)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parent))
from random_models import (
    PRECISIONS,
    compare,
    gradients,
    in_double,
    mutate,
    outputs_of,
    randomised,
    saved,
    transformers,
)
from transformers import modeling_rope_utils
from transformers.models.gpt_neox import modeling_gpt_neox
from transformers.models.llama import modeling_llama
from transformers.models.mistral import modeling_mistral
from transformers.models.qwen2 import modeling_qwen2

from txlab.engine.transformer import norms, positions
from txlab.engine.transformer.generation import generate
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.hooks import keeping
from txlab.engine.transformer.positions import Rotary
from txlab.engine.transformer.weights import Loaded, load_model, loading, save_model
from txlab.errors import LabError

LAYERS, VOCABULARY, CONTEXT = 2, 61, 24
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "max_position_embeddings": CONTEXT,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
    "attn_implementation": "eager",
}
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
# name → model_type and what it says in addition to the sizes
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama, grouped": ("llama", {"num_key_value_heads": 2, "rope_parameters": {"rope_theta": 5e5}}),
    "llama, biases": ("llama", {"num_key_value_heads": 1, "attention_bias": True, "mlp_bias": True, "head_dim": 6}),
    "llama, tied": ("llama", {"tie_word_embeddings": True, "head_dim": 14, "hidden_act": "gelu", "rms_norm_eps": 1e-5}),
    "llama, llama3": ("llama", {"num_key_value_heads": 2, "rope_parameters": LLAMA3}),
    "llama, linear": ("llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 3.0}}),
    "llama, dynamic": ("llama", {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}),
    "mistral": ("mistral", {"num_key_value_heads": 2, "sliding_window": CONTEXT}),
    "mistral, no window": ("mistral", {"num_key_value_heads": 4, "sliding_window": None, "head_dim": 10}),
    "qwen2": ("qwen2", {"num_key_value_heads": 2}),
    "qwen2, tied": ("qwen2", {"num_key_value_heads": 1, "tie_word_embeddings": True}),
    "neox": ("gpt_neox", {}),
    "neox, half": ("gpt_neox", {"rope_parameters": {"partial_rotary_factor": 0.5, "rope_theta": 1e3}}),
    "neox, sequential": (
        "gpt_neox",
        {"use_parallel_residual": False, "rope_parameters": {"partial_rotary_factor": 1.0}},
    ),
    "neox, no biases": ("gpt_neox", {"attention_bias": False, "tie_word_embeddings": True, "hidden_act": "gelu_new"}),
}
IDS = torch.randint(VOCABULARY, (2, CONTEXT), generator=torch.Generator().manual_seed(6))


@pytest.fixture(autouse=True)
def double(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their RMSNorm, softmax and angles go through float32; where float64 is compared, they do not."""
    modules = (modeling_rope_utils, modeling_gpt_neox, modeling_llama, modeling_mistral, modeling_qwen2)
    call = getattr(request.node, "callspec", None)
    in_double(monkeypatch, call.params.get("dtype", torch.float32) if call else torch.float32, *modules)


def their_model(case: str, dtype: torch.dtype = torch.float32) -> Any:
    kind, more = CASES[case]
    config = transformers.AutoConfig.for_model(kind, **SIZES | more)
    return randomised(transformers.AutoModelForCausalLM.from_config(config), dtype)


def everything(theirs: Any, loaded: Loaded) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """All that is compared, ours and theirs: embeddings, residuals, patterns, logits, loss and gradients."""
    neox = loaded.facts["model_type"] == "gpt_neox"
    stem, first = ("gpt_neox", "embed_in") if neox else ("model", "embed_tokens")
    wanted = {"embedding": f"{stem}.{first}"}
    for layer in range(LAYERS):
        wanted |= {f"blocks.{layer}.resid_post": f"{stem}.layers.{layer}"}
        attention = "attention" if neox else "self_attn"
        wanted |= {f"blocks.{layer}.attention.out": f"{stem}.layers.{layer}.{attention}"}
        wanted |= {f"blocks.{layer}.feed_forward.out": f"{stem}.layers.{layer}.mlp"}
    hooks, ours = keeping("embedding", "blocks.*.resid_post", "blocks.*.out", "blocks.*.pattern")
    with outputs_of(theirs, wanted) as kept:
        result = theirs(IDS, output_attentions=True)
    for layer in range(LAYERS):
        kept[f"blocks.{layer}.attention.pattern"] = result.attentions[layer]
    ours["logits"], kept["logits"] = loaded.model(IDS, "sdpa", hooks=hooks), result.logits
    for side in (ours, kept):
        side["loss"] = F.cross_entropy(side["logits"][:, :-1].flatten(0, 1), IDS[:, 1:].flatten())
        side["loss"].backward()
    for side, found in zip((ours, kept), gradients(theirs, loaded), strict=True):
        side |= {f"gradient of {name}": tensor for name, tensor in found.items()}
    assert {f"gradient of {name}" for name, _ in theirs.named_parameters()} <= ours.keys()
    return ours, kept


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("case", CASES)
def test_all_that_happens_inside_is_what_happens_in_transformers(
    tmp_path: Path, dtype: torch.dtype, tolerance: float, case: str
) -> None:
    theirs = their_model(case, dtype)
    compare(*everything(theirs, load_model(saved(theirs, tmp_path), dtype)), tolerance)


def interleaved(patch: pytest.MonkeyPatch) -> None:
    from txlab.engine.transformer.weights import llama, neox

    for module in (llama, neox):
        patch.setattr(module, "their_order", lambda rotary, head_width: list(range(head_width)))


def other_heads(patch: pytest.MonkeyPatch) -> None:
    """Head h looks at the keys of number h mod G, not ⌊h G/H⌋."""
    patch.setattr(torch.Tensor, "repeat_interleave", lambda x, times, dim: x.repeat(1, times, 1, 1))


def unstretched(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        loading, "rotary_angles", lambda n, k, rotary, dtype: positions.rotary_angles(n, k, Rotary(rotary.base), dtype)
    )


def centred(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(norms.F, "rms_norm", lambda x, shape, w, e: F.layer_norm(x, shape, w, None, e))


def gate_and_up_exchanged(patch: pytest.MonkeyPatch) -> None:
    from txlab.engine.transformer.weights import llama

    maps = llama.MAPS | {"mlp.gate_proj": llama.MAPS["mlp.up_proj"], "mlp.up_proj": llama.MAPS["mlp.gate_proj"]}
    patch.setattr(llama, "MAPS", maps)


MISTAKES: dict[str, tuple[str, Any]] = {
    "no 1/√K": ("llama", None),
    "the other ε": ("llama", None),
    "a square map on its side": ("llama", None),
    "interleaved pairs": ("llama", interleaved),
    "interleaved pairs of a part": ("neox, half", interleaved),
    "the wrong head's keys": ("llama, grouped", other_heads),
    "no stretching": ("llama, llama3", unstretched),
    "no division": ("llama, linear", unstretched),
    "the whole head turned": ("neox", unstretched),
    "norms that centre": ("qwen2", centred),
    "gate and up_proj exchanged": ("mistral", gate_and_up_exchanged),
    "the other GELU": ("neox", None),
}


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_comparison_catches_a_mistake(
    tmp_path: Path, dtype: torch.dtype, tolerance: float, mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, make = MISTAKES[mistake]
    theirs = their_model(case, dtype)
    wanted = theirs(IDS).logits
    folder = saved(theirs, tmp_path)
    if make is not None:
        make(monkeypatch)
    loaded = load_model(folder, dtype)
    if make is None:
        mutate(mistake, loaded, monkeypatch)
    with pytest.raises(AssertionError):
        compare({"logits": loaded.model(IDS, "matmul")}, {"logits": wanted}, tolerance)


@pytest.mark.parametrize("case", ["llama, grouped", "neox"])
def test_a_cache_changes_nothing_and_keeps_each_group_once(tmp_path: Path, case: str) -> None:
    theirs = their_model(case)
    model = load_model(saved(theirs, tmp_path)).model
    caches = model.empty_caches()
    steps = [model(IDS[:1, :5], caches=caches), *(model(IDS[:1, t : t + 1], caches=caches) for t in range(5, CONTEXT))]
    torch.testing.assert_close(torch.cat(steps, 1), theirs(IDS[:1]).logits, atol=1e-5, rtol=0)
    assert caches[0].keys.shape[1] == (2 if case == "llama, grouped" else 4)


@pytest.mark.parametrize("case", CASES)
def test_greedy_ids_are_those_of_transformers(tmp_path: Path, case: str) -> None:
    theirs = their_model(case)
    model = load_model(saved(theirs, tmp_path)).model
    for cached in (True, False):
        for row in IDS[:, :4]:
            wanted = theirs.generate(row[None], max_new_tokens=18, do_sample=False, pad_token_id=0)[0, 4:].tolist()
            found = list(generate(model, row.tolist(), 18, generator=None, temperature=0.0, cached=cached))
            assert found == wanted


def test_a_sliding_window_becomes_the_context_and_is_reported(tmp_path: Path) -> None:
    """Within the window nothing is hidden; with one token more it would be."""
    CASES["windowed"] = ("mistral", {"num_key_value_heads": 2, "sliding_window": 8})
    theirs = their_model("windowed")
    del CASES["windowed"]
    loaded = load_model(saved(theirs, tmp_path))
    assert loaded.model.shape.context == 8
    assert "sliding window" in loaded.facts["caveat"]
    assert "8 tokens" in loaded.facts["caveat"]
    torch.testing.assert_close(loaded.model(IDS[:, :8]), theirs(IDS[:, :8]).logits, atol=2e-5, rtol=0)


def test_configs_as_they_were_written_before_are_read(tmp_path: Path) -> None:
    """rope_theta and rope_scaling, rotary_pct and rotary_emb_base, embed_out: what older files say."""
    import json

    from safetensors.torch import load_file, save_file

    for case, old in {
        "llama, llama3": {"rope_theta": 5e5, "rope_scaling": {k: v for k, v in LLAMA3.items() if k != "rope_theta"}},
        "llama, linear": {"rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 3.0}},
        "neox": {"rotary_pct": 0.25, "rotary_emb_base": 10000},
    }.items():
        theirs = their_model(case)
        folder = saved(theirs, tmp_path / case)
        config = json.loads((folder / "config.json").read_text())
        config.pop("rope_parameters")
        (folder / "config.json").write_text(json.dumps(config | old))
        tensors = load_file(folder / "model.safetensors")
        if "lm_head.weight" in tensors and case == "neox":
            tensors["embed_out.weight"] = tensors.pop("lm_head.weight")
            tensors["gpt_neox.layers.0.attention.rotary_emb.inv_freq"] = torch.ones(1)
            save_file(tensors, folder / "model.safetensors")
        torch.testing.assert_close(load_model(folder).model(IDS), theirs(IDS).logits, atol=2e-5, rtol=0)


EVERY = {
    "llama": GPTShape(2, 4, 16, 12, 31, 40, "rotary", normalisation="rms", gated=True, activation="swish", bias=False),
    "llama, all": GPTShape(
        2, 4, 16, 12, 31, 40, "rotary", normalisation="rms", gated=True, activation="gelu", kv_heads=2, head_dim=6,
        tied=False, bias=("qkv", "out", "feed_forward"), epsilon=1e-6, rotary=Rotary(5e5, 0, 8.0, 1.0, 4.0, 6),
    ),
    "qwen2": GPTShape(2, 4, 16, 12, 31, 40, "rotary", normalisation="rms", gated=True, kv_heads=1, bias=("qkv",)),
    "neox": GPTShape(2, 4, 16, 12, 31, 40, "rotary", epsilon=1e-6),
    "neox, no biases": GPTShape(2, 4, 16, 12, 31, 40, "rotary", bias=False, tied=False, activation="relu"),
    "neox, parallel": GPTShape(2, 2, 16, 12, 31, positions="rotary", block="parallel", rotary=Rotary(1e3, 4, 2.0)),
}  # fmt: skip


@pytest.mark.parametrize("case", EVERY)
def test_what_was_trained_here_is_loaded_by_transformers(tmp_path: Path, case: str) -> None:
    model = randomised(GPT(EVERY[case]), torch.float32)
    assert save_model(model, None, tmp_path / "out", special={"end": 3}) == []
    theirs, report = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(report.values())
    assert theirs.config.model_type == {"llama": "llama", "qwen2": "qwen2"}.get(case.partition(",")[0], "gpt_neox")
    ids = IDS[:, :12] % 31
    torch.testing.assert_close(theirs.eval()(ids).logits, model(ids), atol=2e-5, rtol=0)
    again = load_model(tmp_path / "out")
    torch.testing.assert_close(again.model(ids), model(ids), atol=1e-6, rtol=0)
    assert again.special == {"end": 3}
    save_model(again.model, None, tmp_path / "twice", special={"end": 3})
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "twice" / name).read_bytes()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"normalisation": "rms"}, "gated"),
        ({"gated": True}, "normalisation"),
        ({"norm": "post"}, "post"),
        ({"kv_heads": 1}, "kv_heads"),
        ({"head_dim": 6}, "head_dim"),
        ({"normalisation": "rms", "gated": True, "rotary": Rotary(width=2)}, "rotary width"),
    ],
)
def test_what_no_form_can_say_is_named_and_nothing_is_written(tmp_path: Path, change: Any, named: str) -> None:
    with pytest.raises(LabError, match=named):
        save_model(GPT(GPTShape(1, 2, 8, 8, 11, positions="rotary", **change)), None, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_llama_with_partial_rotary_heads_is_refused(tmp_path: Path) -> None:
    theirs = randomised(transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)), torch.float32)
    theirs.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    content = json.loads(path.read_text())
    content["rope_parameters"]["partial_rotary_factor"] = 0.5
    path.write_text(json.dumps(content))
    again = transformers.LlamaForCausalLM.from_pretrained(tmp_path, attn_implementation="eager").eval()
    assert torch.equal(again(IDS).logits, theirs(IDS).logits)  # so it is not computed, there
    with pytest.raises(LabError, match="partial_rotary_factor"):
        load_model(tmp_path)


OLD = {key: value for key, value in LLAMA3.items() if key != "rope_theta"}
PLACES: dict[str, tuple[str, dict[str, Any]]] = {
    "length beside rope_scaling": (
        "llama", {"rope_theta": 5e5, "rope_scaling": OLD, "original_max_position_embeddings": 3}
    ),
    "length beside rope_parameters": ("mistral", {"rope_parameters": LLAMA3, "original_max_position_embeddings": 5}),
    "no length": ("qwen2", {"rope_scaling": {k: v for k, v in OLD.items() if k[0] != "o"}, "rope_theta": 2e3}),
    "length that no kind reads": ("llama", {"rope_theta": 3e3, "original_max_position_embeddings": 5}),
    "both, one empty": ("llama", {"rope_scaling": {}, "rope_parameters": {"rope_type": "linear", "factor": 3.0}}),
    "both": ("llama", {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": LLAMA3}),
    "theta at two levels": ("qwen2", {"rope_theta": 77.0, "rope_parameters": {"rope_theta": 5e4}}),
    "theta beside": ("mistral", {"rope_theta": 77.0, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}),
    "turned share beside": ("llama", {"rope_theta": 77.0, "partial_rotary_factor": 0.5}),
    "neox, both names": ("gpt_neox", {"rotary_pct": 0.5, "rotary_emb_base": 99, "rope_theta": 7.0}),
    "neox, share beside": ("gpt_neox", {"partial_rotary_factor": 0.5, "rotary_emb_base": 99}),
    "neox, share inside": (
        "gpt_neox", {"rope_scaling": {"partial_rotary_factor": 1.0, "type": "linear", "factor": 2.0}}
    ),
    "windows off": ("qwen2", {"use_sliding_window": False, "sliding_window": 4}),
    "windows not asked for": ("qwen2", {"sliding_window": 4}),
    "windows in later layers": (
        "qwen2", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": LAYERS}
    ),
    "windows in no layer": (
        "qwen2", {"use_sliding_window": True, "sliding_window": 4, "layer_types": ["full_attention"] * LAYERS}
    ),
    "no window": ("mistral", {"sliding_window": None, "use_sliding_window": True}),
    "head_dim null": ("mistral", {"head_dim": None, "sliding_window": None}),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float64])
@pytest.mark.parametrize("case", PLACES)
def test_a_setting_is_read_wherever_transformers_reads_it(tmp_path: Path, case: str, dtype: torch.dtype) -> None:
    """The same folder, with the setting written into its config.json, read by both: equal log-probabilities."""
    import json

    kind, change = PLACES[case]
    sizes = SIZES | ({"num_key_value_heads": 2} if kind != "gpt_neox" else {})
    config = transformers.AutoConfig.for_model(kind, **sizes)
    folder = saved(randomised(transformers.AutoModelForCausalLM.from_config(config), dtype), tmp_path)
    content = json.loads((folder / "config.json").read_text())
    for key in ("rope_parameters", "layer_types", "sliding_window", "use_sliding_window", "max_window_layers"):
        content.pop(key, None)
    (folder / "config.json").write_text(json.dumps(content | {"sliding_window": None} | change))
    if kind == "qwen2" and "sliding_window" not in change:
        (folder / "config.json").write_text(json.dumps(content | change))
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
    loaded = load_model(folder, dtype)
    assert loaded.model.shape.context == SIZES["max_position_embeddings"]
    assert "caveat" not in loaded.facts
    found, wanted = loaded.model(IDS).log_softmax(-1), theirs(IDS).logits.log_softmax(-1)
    torch.testing.assert_close(found, wanted, atol=1e-9, rtol=0)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("qwen2", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": LAYERS - 1}),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 4,
                   "layer_types": ["full_attention"] * (LAYERS - 1) + ["sliding_attention"]}),
        ("mistral", {"use_sliding_window": False, "sliding_window": 4}),  # a switch that Mistral does not have
    ],
)  # fmt: skip
def test_a_window_in_any_layer_is_the_context(tmp_path: Path, kind: str, change: dict[str, Any]) -> None:
    import json

    theirs = randomised(
        transformers.AutoModelForCausalLM.from_config(
            transformers.AutoConfig.for_model(kind, **SIZES | {"num_key_value_heads": 2})
        ),
        torch.float32,
    )
    folder = saved(theirs, tmp_path)
    content = json.loads((folder / "config.json").read_text())
    content.pop("layer_types", None)
    (folder / "config.json").write_text(json.dumps(content | change))
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    loaded = load_model(folder)
    assert loaded.model.shape.context == 4
    assert "reads 4 tokens at a time" in loaded.facts["caveat"]
    torch.testing.assert_close(loaded.model(IDS[:, :4]), theirs(IDS[:, :4]).logits, atol=2e-5, rtol=0)
