"""GPT-2's weights: what is read from a folder computes what transformers computes (MATH T9, K3), and back."""

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

from txlab.engine.transformer.generation import generate
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.hooks import keeping
from txlab.engine.transformer.masks import CAUSAL, Every, Padding
from txlab.engine.transformer.weights import Loaded, load_model, save_model
from txlab.errors import LabError

LAYERS, HEADS, VOCABULARY, CONTEXT = 3, 4, 61, 24
SIZES = {"vocab_size": VOCABULARY, "n_positions": CONTEXT, "n_embd": 32, "n_layer": LAYERS, "n_head": HEADS}
QUIET = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": None, "eos_token_id": None}
IDS = torch.randint(VOCABULARY, (2, CONTEXT), generator=torch.Generator().manual_seed(6))


def their_model(dtype: torch.dtype, **more: Any) -> Any:
    config = transformers.GPT2Config(**SIZES, **QUIET, attn_implementation="eager", **more)
    return randomised(transformers.GPT2LMHeadModel(config), dtype)


def everything(theirs: Any, loaded: Loaded) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """All that is compared, ours and theirs: embeddings, residuals, patterns, logits, loss and gradients."""
    wanted = {"embedding": "transformer.drop"}
    for layer in range(LAYERS):
        wanted |= {
            f"blocks.{layer}.resid_post": f"transformer.h.{layer}",
            f"fall.{layer}": f"transformer.h.{layer}.mlp",
        }
    hooks, ours = keeping("embedding", "blocks.*.resid_mid", "blocks.*.resid_post", "blocks.*.attention.pattern")
    with outputs_of(theirs, wanted) as kept:
        result = theirs(IDS, output_attentions=True)
    for layer in range(LAYERS):  # between the branches their code has no module; it is the sum less the second branch
        kept[f"blocks.{layer}.resid_mid"] = kept[f"blocks.{layer}.resid_post"] - kept.pop(f"fall.{layer}")
        kept[f"blocks.{layer}.attention.pattern"] = result.attentions[layer]
    ours["logits"], kept["logits"] = loaded.model(IDS, "sdpa", hooks=hooks), result.logits
    # Their own loss goes through float32, which float64 would show.
    for side in (ours, kept):
        side["loss"] = F.cross_entropy(side["logits"][:, :-1].flatten(0, 1), IDS[:, 1:].flatten())
        side["loss"].backward()
    for side, found in zip((ours, kept), gradients(theirs, loaded), strict=True):
        side |= {f"gradient of {name}": tensor for name, tensor in found.items()}
    assert {f"gradient of {name}" for name, _ in theirs.named_parameters()} <= ours.keys()
    return ours, kept


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("more", [{}, {"tie_word_embeddings": False, "n_inner": 48, "activation_function": "gelu"}])
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


def test_names_without_the_prefix_and_masks_among_the_weights_are_read_as_openais_files_have_them(
    tmp_path: Path,
) -> None:
    theirs = their_model(torch.float32)
    theirs.config.architectures = ["GPT2LMHeadModel"]
    theirs.config.save_pretrained(tmp_path)
    tensors = {name.removeprefix("transformer."): tensor for name, tensor in theirs.state_dict().items()}
    tensors.pop("lm_head.weight")
    for layer in range(LAYERS):
        tensors[f"h.{layer}.attn.bias"] = torch.ones(1, 1, CONTEXT, CONTEXT).tril()
        tensors[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    from safetensors.torch import save_file

    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, tmp_path / "model.safetensors")
    loaded = load_model(tmp_path)
    torch.testing.assert_close(loaded.model(IDS), theirs(IDS).logits, atol=2e-5, rtol=0)
    assert loaded.facts["parameters"] == sum(parameter.numel() for parameter in theirs.parameters())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sixteen_bits_are_widened_without_a_change(tmp_path: Path, dtype: torch.dtype) -> None:
    theirs = their_model(dtype)
    loaded = load_model(saved(theirs, tmp_path))
    assert loaded.facts["stored"] == {torch.float16: "F16", torch.bfloat16: "BF16"}[dtype]
    torch.testing.assert_close(loaded.model(IDS), theirs.float()(IDS).logits, atol=2e-5, rtol=0)


def test_shards_are_one_model(tmp_path: Path) -> None:
    theirs = their_model(torch.float32)
    theirs.save_pretrained(tmp_path, max_shard_size="20KB")
    loaded = load_model(tmp_path)
    assert len(loaded.facts["files"]) > 3
    torch.testing.assert_close(loaded.model(IDS), theirs(IDS).logits, atol=2e-5, rtol=0)


def test_a_cache_and_padding_on_either_side_change_nothing(tmp_path: Path) -> None:
    theirs = their_model(torch.float32)
    model = load_model(saved(theirs, tmp_path)).model
    short, long = IDS[0, :9], IDS[1, :14]
    alone = [theirs(text[None]).logits[0] for text in (short, long)]
    caches = model.empty_caches()
    steps = [model(IDS[:1, :5], caches=caches), *(model(IDS[:1, t : t + 1], caches=caches) for t in range(5, CONTEXT))]
    torch.testing.assert_close(torch.cat(steps, 1), theirs(IDS[:1]).logits, atol=1e-5, rtol=0)
    right = F.pad(short, (0, 5))
    left = F.pad(short, (5, 0))
    places = torch.stack((F.pad(torch.arange(9), (5, 0)), torch.arange(14)))
    after = model(torch.stack((right, long)), mask=Every((CAUSAL, Padding((9, 14)))))
    before = model(torch.stack((left, long)), mask=Every((CAUSAL, Padding((9, 14), left=True))), places=places)
    for padded, part in ((after, slice(0, 9)), (before, slice(5, 14))):
        torch.testing.assert_close(padded[0, part], alone[0], atol=1e-5, rtol=0)
        torch.testing.assert_close(padded[1], alone[1], atol=1e-5, rtol=0)
    mask = torch.ones(2, 14, dtype=torch.long)
    mask[0, :5] = 0
    padded = theirs(torch.stack((left, long)), attention_mask=mask, position_ids=places).logits
    torch.testing.assert_close(before[0, 5:], padded[0, 5:], atol=1e-5, rtol=0)


def test_greedy_ids_are_those_of_transformers(tmp_path: Path) -> None:
    theirs = their_model(torch.float32)
    model = load_model(saved(theirs, tmp_path)).model
    for cached in (True, False):
        for row in IDS[:, :4]:
            wanted = theirs.generate(row[None], max_new_tokens=18, do_sample=False, pad_token_id=0)[0, 4:].tolist()
            found = list(generate(model, row.tolist(), 18, generator=None, temperature=0.0, cached=cached))
            assert found == wanted


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu", "swish"])
@pytest.mark.parametrize(("tied", "bias"), [(True, True), (False, False)])
def test_what_was_trained_here_is_loaded_by_transformers(
    tmp_path: Path, activation: Any, tied: bool, bias: bool
) -> None:
    shape = GPTShape(2, 4, 16, 12, 31, feed_forward=40, activation=activation, tied=tied, bias=bias, epsilon=1e-6)
    model = randomised(GPT(shape), torch.float32)
    assert save_model(model, None, tmp_path / "out", special={"end": 3}) == []
    theirs, report = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(report.values())
    ids = IDS[:, :12] % 31
    torch.testing.assert_close(theirs.eval()(ids).logits, model(ids), atol=2e-5, rtol=0)
    assert theirs.config.eos_token_id == 3
    again = load_model(tmp_path / "out")
    torch.testing.assert_close(again.model(ids), model(ids), atol=1e-6, rtol=0)
    assert again.special == {"end": 3}


@pytest.mark.parametrize(
    ("change", "named"),
    [({"positions": "sinusoidal"}, "sinusoidal"), ({"norm": "post"}, "post"), ({"block": "parallel"}, "parallel")],
)
def test_what_the_form_cannot_say_is_named_and_nothing_is_written(tmp_path: Path, change: Any, named: str) -> None:
    with pytest.raises(LabError, match=named):
        save_model(GPT(GPTShape(1, 2, 8, 8, 11, **change)), None, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
