"""Named places: what is seen there is what was computed, what is put there continues (MATH T)."""

import pytest
import torch

from txlab.engine.transformer.blocks import Block
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.hooks import Hooks, keeping
from txlab.engine.transformer.key_value_cache import LayerCache
from txlab.engine.transformer.masks import CAUSAL, Every, Padding

SHAPE = GPTShape(layers=2, heads=2, width=8, context=6, vocabulary=11)


def model_of(shape: GPTShape = SHAPE) -> GPT:
    model = GPT(shape).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3, generator=generator)
    return model


IDS = torch.tensor([[3, 1, 4, 1, 5, 9]])


@pytest.mark.parametrize("kernel", ["matmul", "sdpa"])
@pytest.mark.parametrize("block", ["sequential", "parallel"])
def test_looking_changes_nothing(kernel: str, block: str) -> None:
    model = model_of(GPTShape(2, 2, 8, 6, 11, block=block))
    hooks, kept = keeping("*")
    torch.testing.assert_close(model(IDS, kernel, hooks=hooks), model(IDS, kernel), atol=1e-12, rtol=0)
    assert {name.rsplit(".", 1)[-1] for name in kept} >= {
        "query",
        "pattern",
        "heads",
        "neurons",
        "resid_post",
        "logits",
    }


def test_the_stream_is_the_sum_of_what_was_seen_to_enter_it() -> None:
    model = model_of()
    hooks, kept = keeping("embedding", "blocks.*.out", "blocks.1.resid_post")
    model(IDS, hooks=hooks)
    parts = [value for name, value in kept.items() if name != "blocks.1.resid_post"]
    assert len(parts) == 5  # the embedding and two branches a layer
    torch.testing.assert_close(sum(parts), kept["blocks.1.resid_post"], atol=1e-12, rtol=0)


def test_the_result_of_a_hook_is_used() -> None:
    model = model_of()
    without = model_of()
    with torch.no_grad():
        without.blocks[1].attention.out_proj.weight[:, :4] = 0  # the columns that read head 0

    def silence(name: str, heads: torch.Tensor) -> torch.Tensor:
        heads = heads.clone()
        heads[:, 0] = 0
        return heads

    silenced = model(IDS, hooks=Hooks({"blocks.1.attention.heads": silence}))
    torch.testing.assert_close(silenced, without(IDS), atol=1e-12, rtol=0)
    assert (silenced - model(IDS)).abs().max() > 1e-3


def test_several_hooks_at_a_place_follow_each_other() -> None:
    calls = []

    def add(name: str, value: torch.Tensor) -> torch.Tensor:
        calls.append(name)
        return value + 1

    hooks = Hooks({"blocks.*.resid_post": add, "blocks.0.*": add})
    assert hooks.within("blocks.0")("resid_post", torch.zeros(())) == 2
    assert calls == ["blocks.0.resid_post"] * 2
    assert hooks.within("blocks.0").want("resid_pre")
    assert not hooks.within("blocks.1").want("resid_pre")


def test_cross_attention_takes_keys_and_values_from_the_memory_and_computes_them_once() -> None:
    torch.manual_seed(0)
    block = Block(8, 2, 16, crosses=True).double()
    x, memory = torch.randn(1, 5, 8).double(), torch.randn(1, 7, 8).double()
    hooks, kept = keeping("cross.*")
    whole = block(x, CAUSAL, "matmul", hooks=hooks, memory=memory)
    assert kept["cross.pattern"].shape == (1, 2, 5, 7)
    module = block.cross
    key, bias = module.qkv_proj.weight[8:16], module.qkv_proj.bias[8:16]
    torch.testing.assert_close(kept["cross.key"].transpose(1, 2).flatten(2), memory @ key.T + bias, atol=1e-12, rtol=0)
    theirs, pattern = torch.nn.functional.multi_head_attention_forward(
        *(t.transpose(0, 1) for t in (block.cross_norm(kept_middle(block, x)), memory, memory)),
        8, 2, module.qkv_proj.weight, module.qkv_proj.bias, None, None, False, 0.0,
        module.out_proj.weight, module.out_proj.bias,
        average_attn_weights=False,
    )  # fmt: skip
    torch.testing.assert_close(kept["cross.out"], theirs.transpose(0, 1), atol=1e-12, rtol=0)
    torch.testing.assert_close(kept["cross.pattern"], pattern, atol=1e-12, rtol=0)

    cache = LayerCache()
    steps = [
        block(x[:, t : t + 1], CAUSAL, "sdpa", cache=cache, memory=memory if t == 0 else torch.zeros_like(memory))
        for t in range(5)
    ]
    torch.testing.assert_close(torch.cat(steps, 1), whole, atol=1e-12, rtol=0)


def kept_middle(block: Block, x: torch.Tensor) -> torch.Tensor:
    hooks, kept = keeping("resid_mid")
    block(x, CAUSAL, "matmul", hooks=hooks, memory=torch.zeros(1, 1, 8).double())
    return kept["resid_mid"]


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary"])
@pytest.mark.parametrize("kernel", ["matmul", "sdpa"])
def test_padding_on_the_left_and_on_the_right_give_the_same(positions: str, kernel: str) -> None:
    model = model_of(GPTShape(2, 2, 8, 6, 11, positions=positions))
    short = IDS[:, :4]
    alone = model(short, kernel)
    right = model(torch.cat((short, IDS.new_zeros(1, 2)), 1), kernel, Every((CAUSAL, Padding((4,)))))
    places = torch.tensor([[0, 0, 0, 1, 2, 3]])
    left = model(
        torch.cat((IDS.new_zeros(1, 2), short), 1), kernel, Every((CAUSAL, Padding((4,), left=True))), places=places
    )
    torch.testing.assert_close(right[:, :4], alone, atol=1e-12, rtol=0)
    torch.testing.assert_close(left[:, 2:], alone, atol=1e-12, rtol=0)
