"""RoBERTa, its pre-LN form, DistilBERT: what is read from a folder computes what transformers computes (MATH T10)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parent))
from random_models import (
    MUTATIONS,
    PRECISIONS,
    compare,
    gradients,
    mutate,
    outputs_of,
    randomised,
    saved,
    transformers,
)

from txlab.engine.transformer.bert import Bert, BertShape
from txlab.engine.transformer.hooks import keeping
from txlab.engine.transformer.weights import Loaded, load_model, save_model

LAYERS, VOCABULARY, CONTEXT, PAD = 2, 61, 20, 3
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": CONTEXT + PAD + 1,
    "pad_token_id": PAD,
    "bos_token_id": None,
    "eos_token_id": None,
    "layer_norm_eps": 1e-5,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "attn_implementation": "eager",
}
DISTIL = {
    "vocab_size": VOCABULARY,
    "dim": 32,
    "n_layers": LAYERS,
    "n_heads": 4,
    "hidden_dim": 48,
    "max_position_embeddings": CONTEXT,
    "pad_token_id": None,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "attn_implementation": "eager",
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "roberta": ("roberta", SIZES | {"type_vocab_size": 1}),
    "roberta, untied": ("roberta", SIZES | {"tie_word_embeddings": False, "layer_norm_eps": 1e-12}),
    "pre-LN": ("roberta-prelayernorm", SIZES),
    "pre-LN, from 0": ("roberta-prelayernorm", SIZES | {"pad_token_id": -1, "tie_word_embeddings": False}),
    "distilbert": ("distilbert", DISTIL),
    "distilbert, untied": ("distilbert", DISTIL | {"tie_word_embeddings": False, "activation": "relu"}),
    "distilbert, sinusoids": ("distilbert", DISTIL | {"sinusoidal_pos_embds": True, "activation": "gelu_new"}),
}
DRAW = torch.Generator().manual_seed(6)
IDS = torch.randint(PAD + 1, VOCABULARY - 1, (2, CONTEXT), generator=DRAW)  # rows of padding get no gradient there
TARGETS = torch.where(torch.rand(2, CONTEXT, generator=DRAW) < 0.3, IDS, -100)


def their_model(case: str, dtype: torch.dtype = torch.float32) -> Any:
    kind, said = CASES[case]
    config = transformers.AutoConfig.for_model(kind, **said)
    return randomised(transformers.AutoModelForMaskedLM.from_config(config), dtype)


def everything(theirs: Any, loaded: Loaded) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """All that is compared, ours and theirs: embeddings, residuals, patterns, logits, loss and gradients."""
    kind = loaded.facts["model_type"]
    stem = {"roberta-prelayernorm": "roberta_prelayernorm"}.get(kind, kind)
    layers = f"{stem}.transformer.layer" if kind == "distilbert" else f"{stem}.encoder.layer"
    middle = {"distilbert": "sa_layer_norm", "roberta": "attention.output", "roberta-prelayernorm": "attention"}[kind]
    wanted = {"embedding": f"{stem}.embeddings"}
    for layer in range(LAYERS):
        wanted[f"encoder.blocks.{layer}.resid_mid"] = f"{layers}.{layer}.{middle}"
        wanted[f"encoder.blocks.{layer}.resid_post"] = f"{layers}.{layer}"
    hooks, ours = keeping(
        "embedding", *(f"encoder.blocks.*.{place}" for place in ("resid_mid", "resid_post")), "*.pattern"
    )
    with outputs_of(theirs, wanted) as kept:
        result = theirs(IDS, output_attentions=True)
    for layer in range(LAYERS):
        kept[f"encoder.blocks.{layer}.attention.pattern"] = result.attentions[layer]
    ours["logits"], kept["logits"] = loaded.model(IDS, kernel="sdpa", hooks=hooks), result.logits
    for side in (ours, kept):
        side["loss"] = F.cross_entropy(side["logits"].flatten(0, 1), TARGETS.flatten())
        side["loss"].backward()
    for side, found in zip((ours, kept), gradients(theirs, loaded), strict=True):
        side |= {f"gradient of {name}": tensor for name, tensor in found.items()}
    assert len(ours) > 16 * LAYERS
    return ours, kept


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("case", CASES)
def test_all_that_happens_inside_is_what_happens_in_transformers(
    tmp_path: Path, dtype: torch.dtype, tolerance: float, case: str
) -> None:
    theirs = their_model(case, dtype)
    compare(*everything(theirs, load_model(saved(theirs, tmp_path), dtype)), tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize(
    ("case", "mutation"),
    [
        *((case, mutation) for case in ("roberta", "pre-LN", "distilbert") for mutation in MUTATIONS),
        ("roberta", "positions from 0"),
        ("pre-LN", "positions from 0"),
    ],
)
def test_the_comparison_catches_a_mistake(
    tmp_path: Path, dtype: torch.dtype, tolerance: float, case: str, mutation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = their_model(case, dtype)
    loaded = load_model(saved(theirs, tmp_path), dtype)
    if mutation == "positions from 0":
        monkeypatch.setattr(Bert, "_rows_of_positions", lambda model, ids: slice(0, ids.shape[-1]))
    else:
        mutate(mutation, loaded, monkeypatch)
    with pytest.raises(AssertionError):
        compare({"logits": loaded.model(IDS, kernel="matmul")}, {"logits": theirs(IDS).logits}, tolerance)


@pytest.mark.parametrize("case", ["roberta", "pre-LN", "pre-LN, from 0"])
def test_a_padding_token_inside_a_text_takes_no_position(tmp_path: Path, case: str) -> None:
    theirs = their_model(case)
    model = load_model(saved(theirs, tmp_path)).model
    ids = IDS.clone()
    ids[0, 4:7] = PAD
    ids[1, 15:] = PAD
    torch.testing.assert_close(model(ids), theirs(ids).logits, atol=2e-5, rtol=0)
    # Numbered by hand the positions are the same.
    places = torch.arange(CONTEXT).expand(2, -1)
    torch.testing.assert_close(model(IDS, places=places), model(IDS), atol=1e-6, rtol=0)


@pytest.mark.parametrize("case", ["roberta", "pre-LN", "distilbert"])
def test_a_model_without_the_head_is_read_and_says_so(tmp_path: Path, case: str) -> None:
    kind, said = CASES[case]
    theirs = transformers.AutoModel.from_config(transformers.AutoConfig.for_model(kind, **said))
    theirs = randomised(theirs, torch.float32)
    loaded = load_model(saved(theirs, tmp_path))
    assert "no head" in loaded.facts["head"]
    model = loaded.model
    hooks, kept = keeping(f"encoder.blocks.{LAYERS - 1}.resid_post")
    model(IDS, hooks=hooks)
    found = next(iter(kept.values()))
    if model.encoder.final_norm is not None:
        found = model.encoder.final_norm(found)
    torch.testing.assert_close(found, theirs(IDS).last_hidden_state, atol=2e-5, rtol=0)


SHAPES = {
    "roberta": BertShape(2, 4, 16, 12, 31, 40, segments=1, padding=1, epsilon=1e-5),
    "roberta-prelayernorm": BertShape(2, 4, 16, 12, 31, 40, segments=1, norm="pre"),
    "roberta-prelayernorm, padded": BertShape(2, 4, 16, 12, 31, segments=2, norm="pre", padding=4, tied=False),
    "distilbert": BertShape(2, 4, 16, 12, 31, 40, segments=0, activation="relu"),
    "distilbert, untied": BertShape(2, 4, 16, 12, 31, 40, segments=0, tied=False),
}


@pytest.mark.parametrize("case", SHAPES)
def test_what_was_trained_here_is_loaded_by_transformers(tmp_path: Path, case: str) -> None:
    model = randomised(Bert(SHAPES[case]), torch.float32)
    assert save_model(model, None, tmp_path / "out") == []
    theirs, report = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(report.values())
    assert theirs.config.model_type == case.partition(",")[0]
    ids = IDS[:, :12] % 31
    torch.testing.assert_close(theirs.eval()(ids).logits, model(ids), atol=2e-5, rtol=0)
    again = load_model(tmp_path / "out")
    torch.testing.assert_close(again.model(ids), model(ids), atol=1e-6, rtol=0)
    save_model(again.model, None, tmp_path / "twice")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "twice" / name).read_bytes()
