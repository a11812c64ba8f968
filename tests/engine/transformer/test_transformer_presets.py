"""The published models: their counts against what was published and against transformers', nothing allocated."""

from __future__ import annotations

import doctest
import importlib
import re
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from txlab.engine.transformer import positions as positions_module
from txlab.engine.transformer.costs import costs
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.norms import LayerNorm
from txlab.engine.transformer.positions import bucket
from txlab.engine.transformer.presets import (
    PRESETS,
    agrees,
    compared_parameters,
    module_of,
    parameters,
    parts,
    preset_named,
    training_flops,
)
from txlab.errors import LabError

# Where the published count and the published shape do not go together; the preset's notes say so.
APART = {"vaswani-base": -0.03, "vaswani-big": 0.006, "llama-65b": 0.0013, "palm-540b": 0.00002}


def wide_shape(
    layers: int, heads: int, head_width: int, width: int, feed_forward: int, context: int, vocabulary: int, **more: Any
) -> GPTShape:
    """A decoder whose heads are as wide as they please; without biases its norms only divide."""
    norms = "layer" if more.get("bias", True) else "rms"
    sizes = {"feed_forward": feed_forward, "head_dim": head_width, "normalisation": norms}
    return GPTShape(layers, heads, width, context, vocabulary, **sizes, **more)  # type: ignore[arg-type]


def counted(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("name", PRESETS)
def test_the_count_is_the_published_one_as_far_as_that_was_written_out(name: str) -> None:
    preset = PRESETS[name]
    if name in APART:
        assert compared_parameters(preset) / preset.published - 1 == pytest.approx(APART[name], abs=0.001)
        assert any("no one vocabulary" in note or "published" in note for note in preset.notes)
    else:
        assert agrees(preset)


def library() -> Any:
    transformers = pytest.importorskip("transformers")
    importlib.import_module("torch._dynamo")  # which torch 2.6 cannot import where the meta device is the default
    return transformers


def reference(name: str) -> nn.Module:
    transformers = library()
    shape: Any = PRESETS[name].shape
    sizes: dict[str, Any] = {"vocab_size": shape.vocabulary}
    with torch.device("meta"):
        if name.startswith("bert"):
            sizes |= {"hidden_size": shape.width, "num_hidden_layers": shape.layers}
            sizes |= {"num_attention_heads": shape.heads, "intermediate_size": shape.inner}
            return transformers.BertForMaskedLM(transformers.BertConfig(**sizes))
        sizes |= {"n_embd": shape.width, "n_layer": shape.layers, "n_head": shape.heads, "n_positions": shape.context}
        if name == "gpt-1":
            return transformers.OpenAIGPTLMHeadModel(transformers.OpenAIGPTConfig(**sizes))
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes))


@pytest.mark.parametrize("name", ["gpt-1", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "bert-base", "bert-large"])
def test_it_has_as_many_parameters_as_the_reference_implementation(name: str) -> None:
    theirs = reference(name)
    assert all(parameter.is_meta for parameter in theirs.parameters())
    assert parameters(PRESETS[name].shape) == counted(theirs)


def test_what_the_bert_presets_leave_out_is_as_much_as_they_say() -> None:
    transformers = library()
    for name in ("bert-base", "bert-large"):
        shape: Any = PRESETS[name].shape
        with torch.device("meta"):
            config = transformers.BertConfig(
                vocab_size=shape.vocabulary,
                hidden_size=shape.width,
                num_hidden_layers=shape.layers,
                num_attention_heads=shape.heads,
                intermediate_size=shape.inner,
            )
            whole = counted(transformers.BertForPreTraining(config))
        (more,) = re.findall(r"next-sentence head, ([\d ]+) parameters", PRESETS[name].notes[0])
        assert whole - parameters(shape) == int(more.replace(" ", ""))


@pytest.mark.parametrize("name", PRESETS)
def test_one_block_of_each_stack_tells_the_count_that_paper_tells(name: str) -> None:
    assert parameters(PRESETS[name].shape) == costs(PRESETS[name].shape).parameters


@pytest.mark.parametrize("name", ["vaswani-base", "gpt3-175b", "bert-base", "lamda-137b"])
def test_the_whole_module_has_as_many_and_takes_no_memory(name: str) -> None:
    whole = module_of(PRESETS[name].shape)
    assert counted(whole) == parameters(PRESETS[name].shape)
    assert all(parameter.is_meta for parameter in whole.parameters())


def test_where_the_parameters_sit_follows_from_the_modules_not_from_their_names() -> None:
    shape = PRESETS["gpt2"].shape
    norms = sum(counted(module) for module in module_of(shape).modules() if isinstance(module, LayerNorm))
    here = parts(shape)
    assert here["norms"] == norms
    assert here["token table"] == 50257 * 768
    assert here["positions"] == 1024 * 768
    assert here["attention"] == 12 * (4 * 768**2 + 4 * 768)
    assert here["feed-forward"] == 12 * (8 * 768**2 + 5 * 768)
    across = parts(PRESETS["vaswani-base"].shape)
    assert (
        across["cross-attention"] * 2 == across["attention"]
    )  # six blocks of each of the two stacks look at their own


def test_the_errata_are_as_the_notes_say() -> None:
    xl = PRESETS["gpt2-xl"].shape
    assert isinstance(xl, GPTShape)
    assert (xl.heads, xl.inner) == (25, 6400)
    assert "12 heads" in " ".join(PRESETS["gpt2-xl"].notes)
    as_wang = GPTShape(48, 12, 1600, 1024, 50257, feed_forward=3072)
    assert parameters(as_wang) < 1.1e9  # and not the 1542 M of the same row
    as_the_table = GPTShape(24, 24, 2048, 2048, 50257, head_dim=128)
    assert f"{parameters(as_the_table) / 1e9:.2f} B" in " ".join(PRESETS["gpt3-xl"].notes)
    as_printed = GPTShape(40, 40, 5140, 2048, 50257, head_dim=128)
    assert f"{parameters(as_printed) / 1e9:.2f} B" in " ".join(PRESETS["gpt3-13b"].notes)
    lamda = PRESETS["lamda-137b"].shape
    assert isinstance(lamda, GPTShape)
    assert parameters(replace(lamda, gated=False)) < 1.04e11
    assert parameters(replace(lamda, head_dim=64)) < 1.21e11


def test_training_costs_about_what_was_published_where_it_was() -> None:
    for preset in PRESETS.values():
        if preset.name.startswith("gpt3"):
            # Theirs is 6 times the parameters times the tokens; ours counts attention too.
            ours = costs(preset.shape).flops_per_token * preset.tokens
            assert preset.flops == pytest.approx(6 * compared_parameters(preset) * preset.tokens, rel=0.01)
            assert 1 < ours / preset.flops < 1.35


@pytest.mark.parametrize(("name", "N", "D", "expected"), [("base", 12, 768, 2.90e19), ("large", 24, 1024, 8.85e19)])
def test_bert_was_trained_on_short_sequences_nine_times_of_ten(name: str, N: int, D: int, expected: float) -> None:
    """6 FLOPs a weight that is multiplied with and token, 12 T D a layer and token; T = 128, then 512."""
    weights = N * 12 * D**2 + D**2 + 30522 * D
    parts = [(9e5, 128), (1e5, 512)]
    preset = PRESETS[f"bert-{name}"]
    by_hand = sum(steps * 256 * T * (6 * weights + 12 * N * T * D) for steps, T in parts)
    assert training_flops(preset) == pytest.approx(by_hand, rel=1e-12)
    assert training_flops(preset) == pytest.approx(expected, rel=0.002)
    assert preset.tokens == sum(steps * 256 * T for steps, T in parts)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("positions", ["learned", "relative"])
def test_a_wide_decoder_on_paper_is_the_one_that_runs(bias: bool, gated: bool, positions: Any) -> None:
    shape = wide_shape(3, 3, 10, 16, 24, 8, 19, gated=gated, bias=bias, positions=positions)
    model, ids = GPT(shape), torch.zeros(2, 8, dtype=torch.long)
    assert counted(model) == costs(shape).parameters
    with FlopCounterMode(display=False) as counter:
        model(ids, "matmul").sum().backward()
    assert counter.get_total_flops() == costs(shape).flops_per_token * 2 * 8


@torch.no_grad()
def test_with_heads_as_wide_as_the_model_a_wide_decoder_is_the_gpt() -> None:
    gpt = GPT(GPTShape(2, 4, 16, 9, 13)).double()
    mirror = GPT(wide_shape(2, 4, 4, 16, 64, 9, 13)).double()
    generator = torch.Generator().manual_seed(1)
    for parameter in gpt.parameters():
        parameter.normal_(0, 0.1, generator=generator)
    mirror.load_state_dict(gpt.state_dict())  # the same names, the same shapes
    ids = torch.tensor([[1, 5, 12, 0, 7]])
    assert torch.allclose(mirror(ids), gpt(ids), atol=1e-12)


@torch.no_grad()
def test_a_gate_multiplies_and_relative_positions_move_the_scores() -> None:
    model = GPT(wide_shape(1, 2, 6, 8, 12, 0, 11, gated=True, bias=False, positions="relative")).double()
    ids = torch.tensor([[1, 5, 2, 3]])
    before = model(ids)
    assert model.distances is not None
    model.distances.weight[3] += 5.0  # three back: only the last token has one
    moved = (model(ids) - before).abs().amax(-1)[0]
    assert (moved[:3] < 1e-12).all()
    assert moved[3] > 1e-6
    for block in model.blocks:
        block.feed_forward.gate_proj.weight.zero_()  # closed: as if there were no feed-forward
    closed = model(ids)
    for block in model.blocks:
        block.feed_forward.down_proj.weight.zero_()
    assert torch.allclose(model(ids), closed)


def test_distances_fall_into_t5s_buckets() -> None:
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    distance = torch.arange(-10, 400)
    theirs = t5.T5Attention._relative_position_bucket(-distance, bidirectional=False, num_buckets=32, max_distance=128)
    assert torch.equal(bucket(distance), theirs)


def test_a_wrong_name_gets_the_nearest() -> None:
    with pytest.raises(LabError, match="nearest: gpt2-medium"):
        preset_named("gpt2-medum")


def test_rumoured_numbers_are_not_presets() -> None:
    assert not any(name.startswith(("gpt-4", "gpt4")) for name in PRESETS)
    with pytest.raises(LabError, match="GPT-4 is unpublished"):
        preset_named("gpt-4")


def test_the_examples_in_the_docstrings_are_true() -> None:
    assert doctest.testmod(positions_module).failed == 0
