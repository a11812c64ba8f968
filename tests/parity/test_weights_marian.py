"""Marian's weights: what is read from a folder computes what transformers computes (MATH T8), and back."""

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

from txlab.engine.transformer.encoder_decoder import EncoderDecoder, EncoderDecoderShape
from txlab.engine.transformer.generation import generate_target
from txlab.engine.transformer.hooks import keeping
from txlab.engine.transformer.masks import Padding
from txlab.engine.transformer.weights import Loaded, load_model, save_model
from txlab.errors import LabError

ENCODER, DECODER, VOCABULARY, PAD = 2, 3, 61, 60
SIZES = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "encoder_layers": ENCODER,
    "decoder_layers": DECODER,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 40,
    "pad_token_id": PAD,
    "decoder_start_token_id": PAD,
    "eos_token_id": 0,
    "forced_eos_token_id": None,
    "dropout": 0.0,
    "attn_implementation": "eager",
}
APART = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 67}
DRAW = torch.Generator().manual_seed(6)
# Their embedding gives the padding token no gradient, so it is not part of what is compared.
SOURCE = torch.randint(1, 50, (2, 17), generator=DRAW)
TARGET = torch.randint(1, 50, (2, 13), generator=DRAW)


def their_model(dtype: torch.dtype, **more: Any) -> Any:
    return randomised(transformers.MarianMTModel(transformers.MarianConfig(**SIZES | more)), dtype)


def everything(theirs: Any, loaded: Loaded) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """All that is compared, ours and theirs: embeddings, residuals, patterns, logits, loss and gradients."""
    wanted: dict[str, str] = {}
    norms = {
        "resid_mid": "self_attn_layer_norm",
        "resid_cross": "encoder_attn_layer_norm",
        "resid_post": "final_layer_norm",
    }
    for side, layers in (("encoder", ENCODER), ("decoder", DECODER)):
        for layer in range(layers):
            wanted |= {
                f"{side}.blocks.{layer}.{place}": f"model.{side}.layers.{layer}.{norm}"
                for place, norm in norms.items()
                if (side, place) != ("encoder", "resid_cross")
            }
    hooks, ours = keeping("*.embedding", *(f"*.blocks.*.{place}" for place in norms), "*.pattern")
    begun: dict[str, torch.Tensor] = {}
    for side in ("encoder", "decoder"):  # what enters the first layer is the embedding with its position

        def enters(module: Any, inputs: Any, keywords: Any, side: str = side) -> None:
            begun[f"{side}.embedding"] = inputs[0] if inputs else keywords["hidden_states"]

        theirs.get_submodule(f"model.{side}.layers.0").register_forward_pre_hook(enters, with_kwargs=True)
    with outputs_of(theirs, wanted) as kept:
        result = theirs(SOURCE, decoder_input_ids=TARGET, output_attentions=True)
    kept |= begun
    for layer in range(ENCODER):
        kept[f"encoder.blocks.{layer}.attention.pattern"] = result.encoder_attentions[layer]
    for layer in range(DECODER):
        kept[f"decoder.blocks.{layer}.attention.pattern"] = result.decoder_attentions[layer]
        kept[f"decoder.blocks.{layer}.cross.pattern"] = result.cross_attentions[layer]
    ours["logits"], kept["logits"] = loaded.model(SOURCE, TARGET, hooks=hooks), result.logits
    for side in (ours, kept):  # their own loss goes through float32, which float64 would show
        side["loss"] = F.cross_entropy(side["logits"][:, :-1].flatten(0, 1), TARGET[:, 1:].flatten())
        side["loss"].backward()
    for side, found in zip((ours, kept), gradients(theirs, loaded), strict=True):
        side |= {f"gradient of {name}": tensor for name, tensor in found.items()}
    assert len(ours) > 16 * (ENCODER + DECODER)
    return ours, kept


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize(
    "more",
    [
        {"activation_function": "swish", "scale_embedding": True},
        {"activation_function": "gelu", **APART},
        {"activation_function": "relu", "tie_word_embeddings": False, **APART},
        {"tie_word_embeddings": False},
    ],
    ids=["shared", "apart", "untied", "shared and untied"],
)
def test_all_that_happens_inside_is_what_happens_in_transformers(
    tmp_path: Path, dtype: torch.dtype, tolerance: float, more: dict[str, Any]
) -> None:
    theirs = their_model(dtype, **more)
    compare(*everything(theirs, load_model(saved(theirs, tmp_path), dtype)), tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("mutation", [*MUTATIONS, "no √D", "interleaved sinusoids", "no bias of the logits"])
def test_the_comparison_catches_a_mistake(
    tmp_path: Path, dtype: torch.dtype, tolerance: float, mutation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mutation == "the other ε" and dtype == torch.float32:
        pytest.skip("every norm here reads a sum of variance about 1, of which 1e-5 moves float32 less than 2e-5")
    theirs = their_model(dtype, activation_function="gelu", scale_embedding=True)
    loaded = load_model(saved(theirs, tmp_path), dtype)
    model = loaded.model
    if mutation == "no √D":
        model.shape = EncoderDecoderShape(**{**vars(model.shape), "scale_embedding": False})
    elif mutation == "interleaved sinusoids":
        table = model.position_table
        model.position_table = torch.stack((table[:, :16], table[:, 16:]), -1).flatten(1)
    elif mutation == "no bias of the logits":
        model.unembed_bias.data.zero_()
    else:
        mutate(mutation, loaded, monkeypatch)
    ours, kept = everything(theirs, loaded)
    with pytest.raises(AssertionError):
        compare({"logits": ours["logits"]}, {"logits": kept["logits"]}, tolerance)
    with pytest.raises(AssertionError):
        compare(ours, kept, tolerance)


def test_one_table_with_a_separate_unembedding_serves_both_sides(tmp_path: Path) -> None:
    """As files of transformers before 5 have it; today's has three tables, and where they differ they are three."""
    from safetensors.torch import load_file, save_file

    theirs = their_model(torch.float32, tie_word_embeddings=False)
    assert load_model(saved(theirs, tmp_path)).model.embed_source is not None
    with torch.no_grad():
        for side in ("encoder", "decoder"):
            theirs.model.get_submodule(side).embed_tokens.weight.copy_(theirs.model.shared.weight)
    assert load_model(saved(theirs, tmp_path)).model.embed_source is None
    tensors = load_file(saved(theirs, tmp_path) / "model.safetensors")
    kept = {name: tensor for name, tensor in tensors.items() if "embed_tokens" not in name}
    save_file(kept, tmp_path / "model.safetensors")
    loaded = load_model(tmp_path)
    assert loaded.model.embed_source is None
    wanted = theirs(SOURCE, decoder_input_ids=TARGET).logits
    torch.testing.assert_close(loaded.model(SOURCE, TARGET), wanted, atol=2e-5, rtol=0)


def test_tables_of_positions_in_a_file_are_compared_with_the_sinusoids(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    theirs = their_model(torch.float32)
    tensors = load_file(saved(theirs, tmp_path) / "model.safetensors")
    table = theirs.model.encoder.embed_positions.weight.detach().clone()
    tensors |= {f"model.{side}.embed_positions.weight": table.clone() for side in ("encoder", "decoder")}
    save_file(tensors, tmp_path / "model.safetensors")
    loaded = load_model(tmp_path)
    torch.testing.assert_close(
        loaded.model(SOURCE, TARGET), theirs(SOURCE, decoder_input_ids=TARGET).logits, atol=2e-5, rtol=0
    )
    tensors["model.decoder.embed_positions.weight"] = table.flip(1).contiguous()
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(LabError, match=r"decoder\.embed_positions\.weight differs from the sinusoids"):
        load_model(tmp_path)


def test_a_cache_and_padding_of_the_source_change_nothing(tmp_path: Path) -> None:
    theirs = their_model(torch.float32)
    model = load_model(saved(theirs, tmp_path)).model
    whole = theirs(SOURCE[:1], decoder_input_ids=TARGET[:1]).logits
    memory, caches = model.encode(SOURCE[:1]), model.empty_caches()
    steps = [model(SOURCE[:1], TARGET[:1, t : t + 1], caches=caches, memory=memory) for t in range(TARGET.shape[1])]
    torch.testing.assert_close(torch.cat(steps, 1), whole, atol=1e-5, rtol=0)
    padded = torch.stack((F.pad(SOURCE[0, :9], (0, 8), value=PAD), SOURCE[1]))
    ours = model(padded, TARGET, source_mask=Padding((9, 17)))
    alone = theirs(SOURCE[:1, :9], decoder_input_ids=TARGET[:1]).logits
    torch.testing.assert_close(ours[:1], alone, atol=1e-5, rtol=0)
    together = theirs(padded, attention_mask=(padded != PAD).long(), decoder_input_ids=TARGET).logits
    torch.testing.assert_close(ours, together, atol=1e-5, rtol=0)


def test_greedy_ids_are_those_of_transformers(tmp_path: Path) -> None:
    theirs = their_model(torch.float32, scale_embedding=True)
    loaded = load_model(saved(theirs, tmp_path))
    assert loaded.special == {"start": PAD, "end": 0, "pad": PAD}
    for row in SOURCE:
        wanted = theirs.generate(row[None], max_new_tokens=20, do_sample=False, num_beams=1)[0, 1:].tolist()
        for cached in (True, False):
            found = generate_target(loaded.model, [row.tolist()], 20, start=PAD, end=0, cached=cached)
            assert found == [wanted]


@pytest.mark.parametrize("half", [True, False], ids=["halves", "interleaved"])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_what_was_trained_here_is_loaded_by_transformers(
    tmp_path: Path, half: bool, shared: bool, tied: bool, bias: bool
) -> None:
    shape = EncoderDecoderShape(
        2, 1, 4, 16, 31, 31 if shared else 37, 20, activation="swish" if bias else "relu", shared=shared, tied=tied,
        half_sinusoids=half, bias=bias, output_bias=bias, scale_embedding=half is shared,
    )  # fmt: skip
    model = randomised(EncoderDecoder(shape), torch.float32)
    assert save_model(model, None, tmp_path / "out", special={"begin": 1, "end": 2, "pad": 3}) == []
    theirs, report = transformers.MarianMTModel.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(report.values())
    source, target = SOURCE % 31, TARGET % 31
    wanted = model(source, target)
    torch.testing.assert_close(theirs.eval()(source, decoder_input_ids=target).logits, wanted, atol=2e-5, rtol=0)
    again = load_model(tmp_path / "out")
    torch.testing.assert_close(again.model(source, target), wanted, atol=2e-5, rtol=0)
    assert again.special == {"start": 1, "begin": 1, "end": 2, "pad": 3}
    ids = theirs.generate(source[:1], max_new_tokens=9, do_sample=False, num_beams=1)[0, 1:].tolist()
    assert generate_target(model, [source[0].tolist()], 9, start=1, end=2) == [ids]


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("tied", [True, False])
def test_a_pegasus_is_read_with_all_its_patterns(
    tmp_path: Path, dtype: torch.dtype, tolerance: float, tied: bool
) -> None:
    """Marian with norms before the branches; its stream's places are those of transformers' sums."""
    said = SIZES | {"tie_word_embeddings": tied, "scale_embedding": tied, "activation_function": "relu"}
    theirs = randomised(transformers.PegasusForConditionalGeneration(transformers.PegasusConfig(**said)), dtype)
    loaded = load_model(saved(theirs, tmp_path), dtype)
    wanted = {f"{side}.blocks.1.resid_post": f"model.{side}.layers.1" for side in ("encoder", "decoder")}
    hooks, ours = keeping(*wanted, "*.pattern", "memory")
    with outputs_of(theirs, wanted) as kept:
        result = theirs(SOURCE, decoder_input_ids=TARGET, output_attentions=True)
    for layer in range(ENCODER):
        kept[f"encoder.blocks.{layer}.attention.pattern"] = result.encoder_attentions[layer]
    for layer in range(DECODER):
        kept[f"decoder.blocks.{layer}.attention.pattern"] = result.decoder_attentions[layer]
        kept[f"decoder.blocks.{layer}.cross.pattern"] = result.cross_attentions[layer]
    kept["memory"] = result.encoder_last_hidden_state
    ours["logits"], kept["logits"] = loaded.model(SOURCE, TARGET, hooks=hooks), result.logits
    for side in (ours, kept):
        F.cross_entropy(side["logits"][:, :-1].flatten(0, 1), TARGET[:, 1:].flatten()).backward()
    for side, found in zip((ours, kept), gradients(theirs, loaded), strict=True):
        side |= {f"gradient of {name}": tensor for name, tensor in found.items()}
    compare(ours, kept, tolerance)


@pytest.mark.parametrize("half", [True, False], ids=["halves", "interleaved"])
@pytest.mark.parametrize(
    ("shared", "tied", "sizes"),
    [
        (True, True, (31, 31)),
        (True, False, (31, 31)),
        (False, True, (31, 37)),
        (False, True, (37, 31)),
        (False, False, (37, 31)),
    ],
)
def test_a_translator_with_norms_before_the_branches_is_a_pegasus(
    tmp_path: Path, half: bool, shared: bool, tied: bool, sizes: tuple[int, int]
) -> None:
    """A vocabulary has further rows where the other one is larger; they have no probability."""
    shape = EncoderDecoderShape(2, 1, 4, 16, *sizes, 20, norm="pre", shared=shared, tied=tied, half_sinusoids=half)
    model = randomised(EncoderDecoder(shape), torch.float32)
    assert save_model(model, None, tmp_path / "out", special={"begin": 1, "end": 2, "pad": 3}) == []
    theirs, report = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(report.values())
    assert theirs.config.model_type == "pegasus"
    source, target = SOURCE % 31, TARGET % 31
    wanted = model(source, target).log_softmax(-1)
    found = theirs.eval()(source, decoder_input_ids=target).logits.log_softmax(-1)
    torch.testing.assert_close(found[..., : sizes[1]], wanted, atol=2e-5, rtol=0)
    assert float(found[..., sizes[1] :].exp().sum()) == 0.0
    again = load_model(tmp_path / "out")
    torch.testing.assert_close(again.model(source, target).log_softmax(-1), found, atol=2e-5, rtol=0)
    assert again.special == {"start": 1, "begin": 1, "end": 2, "pad": 3}
    ids = theirs.generate(source[:1], max_new_tokens=9, do_sample=False, num_beams=1)[0, 1:].tolist()
    assert generate_target(model, [source[0].tolist()], 9, start=1, end=2) == [ids]


def test_what_is_never_written_here_is_never_written_there(tmp_path: Path) -> None:
    model = randomised(EncoderDecoder(EncoderDecoderShape(2, 1, 4, 16, 31, 31, 20)), torch.float32)
    save_model(model, None, tmp_path / "out", special={"start": 1, "end": 2, "pad": 3}, never=(1, 3, 7))
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path / "out").eval()
    source = SOURCE[:1] % 31
    ids = theirs.generate(source, max_new_tokens=9)[0, 1:].tolist()
    assert generate_target(model, source.tolist(), 9, start=1, end=2, never=(1, 3, 7)) == [ids]
    assert generate_target(model, source.tolist(), 9, start=1, end=2) != [ids]
    again = load_model(tmp_path / "out")
    assert (again.generation.rules.never, again.generation.ends) == ((1, 3, 7), (2,))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"norm": "pre", "positions": "learned"}, "learned"),
        ({"positions": "rotary"}, "rotary"),
        ({"epsilon": 1e-6}, "epsilon = 1e-06"),
    ],
)
def test_what_the_form_cannot_say_is_named_and_nothing_is_written(tmp_path: Path, change: Any, named: str) -> None:
    with pytest.raises(LabError, match=named):
        save_model(EncoderDecoder(EncoderDecoderShape(1, 1, 2, 8, 11, 11, 8, **change)), None, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
