"""BERT's weights: what is read from a folder computes what transformers computes (MATH T10), and back."""

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
from txlab.engine.transformer.masks import Padding
from txlab.engine.transformer.weights import Loaded, load_model, save_model
from txlab.errors import LabError

LAYERS, VOCABULARY, CONTEXT = 3, 61, 24
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": CONTEXT,
    "pad_token_id": None,  # its row would get no gradient there
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "attn_implementation": "eager",
}
DRAW = torch.Generator().manual_seed(6)
IDS = torch.randint(VOCABULARY, (2, CONTEXT), generator=DRAW)
SEGMENTS = (torch.arange(CONTEXT) > 11).long().expand(2, -1)
TARGETS = torch.where(torch.rand(2, CONTEXT, generator=DRAW) < 0.3, IDS, -100)


def their_model(dtype: torch.dtype, kind: str = "BertForMaskedLM", **more: Any) -> Any:
    return randomised(getattr(transformers, kind)(transformers.BertConfig(**SIZES | more)), dtype)


def everything(theirs: Any, loaded: Loaded) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """All that is compared, ours and theirs: embeddings, residuals, patterns, logits, loss and gradients."""
    wanted = {"embedding": "bert.embeddings"}
    for layer in range(LAYERS):
        wanted[f"encoder.blocks.{layer}.resid_mid"] = f"bert.encoder.layer.{layer}.attention.output"
        wanted[f"encoder.blocks.{layer}.resid_post"] = f"bert.encoder.layer.{layer}"
    hooks, ours = keeping(
        "embedding", *(f"encoder.blocks.*.{place}" for place in ("resid_mid", "resid_post")), "*.pattern"
    )
    with outputs_of(theirs, wanted) as kept:
        result = theirs(IDS, token_type_ids=SEGMENTS, output_attentions=True)
    for layer in range(LAYERS):
        kept[f"encoder.blocks.{layer}.attention.pattern"] = result.attentions[layer]
    ours["logits"], kept["logits"] = loaded.model(IDS, SEGMENTS, "sdpa", hooks=hooks), result.logits
    for side in (ours, kept):  # their own loss goes through float32, which float64 would show
        side["loss"] = F.cross_entropy(side["logits"].flatten(0, 1), TARGETS.flatten())
        side["loss"].backward()
    for side, found in zip((ours, kept), gradients(theirs, loaded), strict=True):
        side |= {f"gradient of {name}": tensor for name, tensor in found.items()}
    assert len(ours) > 16 * LAYERS
    return ours, kept


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("more", [{}, {"tie_word_embeddings": False, "hidden_act": "gelu_new", "type_vocab_size": 3}])
def test_all_that_happens_inside_is_what_happens_in_transformers(
    tmp_path: Path, dtype: torch.dtype, tolerance: float, more: dict[str, Any]
) -> None:
    theirs = their_model(dtype, **more)
    compare(*everything(theirs, load_model(saved(theirs, tmp_path), dtype)), tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_the_comparison_catches_a_mistake(
    tmp_path: Path, dtype: torch.dtype, tolerance: float, mutation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = their_model(dtype)
    loaded = load_model(saved(theirs, tmp_path), dtype)
    mutate(mutation, loaded, monkeypatch)
    ours, kept = everything(theirs, loaded)
    with pytest.raises(AssertionError):
        compare({"logits": ours["logits"]}, {"logits": kept["logits"]}, tolerance)
    with pytest.raises(AssertionError):
        compare(ours, kept, tolerance)


@pytest.mark.parametrize(("kind", "prefix"), [("BertModel", ""), ("BertForSequenceClassification", "bert.")])
def test_a_model_without_the_head_is_read_and_says_so(tmp_path: Path, kind: str, prefix: str) -> None:
    theirs = their_model(torch.float32, kind)
    loaded = load_model(saved(theirs, tmp_path))
    assert "no head" in loaded.facts["head"]
    assert "bert.pooler.dense.weight" in loaded.facts["left_out"]
    hooks, kept = keeping(f"encoder.blocks.{LAYERS - 1}.resid_post")
    loaded.model(IDS, SEGMENTS, hooks=hooks)
    wanted = (theirs.bert if prefix else theirs)(IDS, token_type_ids=SEGMENTS).last_hidden_state
    torch.testing.assert_close(*kept.values(), wanted, atol=2e-5, rtol=0)


def test_googles_names_gamma_and_beta_and_a_repeated_table_are_read(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    theirs = their_model(torch.float32, "BertForPreTraining")
    theirs.config.save_pretrained(tmp_path)
    tensors = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor.clone()
        for name, tensor in theirs.state_dict().items()
    }
    tensors["bert.embeddings.position_ids"] = torch.arange(CONTEXT)[None]
    assert "cls.predictions.decoder.weight" in tensors
    save_file(tensors, tmp_path / "model.safetensors")
    loaded = load_model(tmp_path)
    wanted = theirs(IDS, token_type_ids=SEGMENTS).prediction_logits
    torch.testing.assert_close(loaded.model(IDS, SEGMENTS), wanted, atol=2e-5, rtol=0)
    tensors["cls.predictions.decoder.weight"][3, 4] += 1.0
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(LabError, match=r"cls\.predictions\.decoder\.weight differs"):
        load_model(tmp_path)


def test_padding_on_either_side_changes_nothing(tmp_path: Path) -> None:
    theirs = their_model(torch.float32)
    model = load_model(saved(theirs, tmp_path)).model
    short, long = IDS[0, :9], IDS[1, :14]
    alone = [theirs(text[None]).logits[0] for text in (short, long)]
    places = torch.stack((F.pad(torch.arange(9), (5, 0)), torch.arange(14)))
    after = model(torch.stack((F.pad(short, (0, 5)), long)), mask=Padding((9, 14)))
    before = model(torch.stack((F.pad(short, (5, 0)), long)), mask=Padding((9, 14), left=True), places=places)
    for padded, part in ((after, slice(0, 9)), (before, slice(5, 14))):
        torch.testing.assert_close(padded[0, part], alone[0], atol=1e-5, rtol=0)
        torch.testing.assert_close(padded[1], alone[1], atol=1e-5, rtol=0)


def test_the_most_probable_tokens_of_hidden_places_are_those_of_transformers(tmp_path: Path) -> None:
    theirs = their_model(torch.float32)
    loaded = load_model(saved(theirs, tmp_path))
    assert torch.equal(loaded.model(IDS).argmax(-1), theirs(IDS).logits.argmax(-1))


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu", "swish"])
@pytest.mark.parametrize("tied", [True, False])
def test_what_was_trained_here_is_loaded_by_transformers(tmp_path: Path, activation: Any, tied: bool) -> None:
    shape = BertShape(2, 4, 16, CONTEXT, 31, feed_forward=40, activation=activation, tied=tied, epsilon=1e-6)
    model = randomised(Bert(shape), torch.float32)
    assert save_model(model, None, tmp_path / "out", special={"pad": 2}) == []
    theirs, report = transformers.BertForMaskedLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(report.values())
    ids = IDS % 31
    torch.testing.assert_close(
        theirs.eval()(ids, token_type_ids=SEGMENTS).logits, model(ids, SEGMENTS), atol=2e-5, rtol=0
    )
    again = load_model(tmp_path / "out")
    torch.testing.assert_close(again.model(ids, SEGMENTS), model(ids, SEGMENTS), atol=1e-6, rtol=0)
    assert again.special == {"pad": 2}


def test_what_no_form_can_say_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    for shape, named in [
        (BertShape(1, 2, 8, 8, 11, norm="pre", activation="relu"), "activation"),
        (BertShape(1, 2, 8, 8, 11, padding=1, activation="relu"), "activation"),
        (BertShape(1, 2, 8, 8, 11, segments=0, epsilon=1e-5), "epsilon"),
    ]:
        with pytest.raises(LabError, match=named):
            save_model(Bert(shape), None, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
