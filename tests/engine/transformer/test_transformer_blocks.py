"""Blocks against torch.nn.TransformerEncoderLayer in float64, with weights that show a mistake (MATH T3–T6)."""

import pytest
import torch
from torch import nn

from txlab.engine.interpret.circuits import (
    affine,
    bilinear_attention,
    bilinear_pattern,
    head_weights,
    virtual_head,
)
from txlab.engine.transformer.blocks import Block, MultiHeadAttention, Placement
from txlab.engine.transformer.hooks import Hooks
from txlab.engine.transformer.masks import CAUSAL, NO_MASK, GraphMask, Padding
from txlab.engine.transformer.norms import LayerNorm


def randomise(module: nn.Module, seed: int = 1) -> None:
    """Standard deviation .1 and random γ and β: with the usual .02 a wrong GELU moves nothing that one would see."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.1, generator=generator)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_block_is_torchs_encoder_layer(norm: str, activation: str) -> None:
    ours = Block(16, 4, 40, norm=norm, activation=activation).double()
    theirs = nn.TransformerEncoderLayer(
        16, 4, 40, dropout=0.0, activation=activation, batch_first=True, norm_first=norm == "pre"
    ).double()
    randomise(theirs)
    pairs = {
        ours.attention.qkv_proj.weight: theirs.self_attn.in_proj_weight,
        ours.attention.qkv_proj.bias: theirs.self_attn.in_proj_bias,
        ours.attention.out_proj.weight: theirs.self_attn.out_proj.weight,
        ours.attention.out_proj.bias: theirs.self_attn.out_proj.bias,
        ours.feed_forward.up_proj.weight: theirs.linear1.weight,
        ours.feed_forward.up_proj.bias: theirs.linear1.bias,
        ours.feed_forward.down_proj.weight: theirs.linear2.weight,
        ours.feed_forward.down_proj.bias: theirs.linear2.bias,
        ours.attention_norm.weight: theirs.norm1.weight,
        ours.attention_norm.bias: theirs.norm1.bias,
        ours.feed_forward_norm.weight: theirs.norm2.weight,
        ours.feed_forward_norm.bias: theirs.norm2.bias,
    }
    assert len(pairs) == len(list(ours.parameters()))
    for mine, other in pairs.items():
        mine.data = other.data.clone()
    x = torch.randn(2, 7, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    causal = nn.Transformer.generate_square_subsequent_mask(7, dtype=torch.float64)
    for kernel in ("matmul", "sdpa"):
        torch.testing.assert_close(ours(x, CAUSAL, kernel), theirs(x, causal), atol=1e-10, rtol=0)
        torch.testing.assert_close(ours(x, NO_MASK, kernel), theirs(x), atol=1e-10, rtol=0)
    ours.zero_grad()
    ours(x, CAUSAL, "matmul").pow(2).sum().backward()
    theirs(x, causal).pow(2).sum().backward()
    for mine, other in pairs.items():
        torch.testing.assert_close(mine.grad, other.grad, atol=1e-9, rtol=0)


def test_a_parallel_block_adds_both_branches_of_the_same_input() -> None:
    block = Block(16, 2, 24, order="parallel").double()
    randomise(block)
    x = torch.randn(1, 5, 16, dtype=torch.float64)
    looked = block.attention(block.attention_norm(x), CAUSAL, "matmul")
    assert block.feed_forward is not None
    assert block.feed_forward_norm is not None
    thought = block.feed_forward(block.feed_forward_norm(x))
    torch.testing.assert_close(block(x, CAUSAL, "matmul"), x + looked + thought, atol=1e-14, rtol=0)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_block_of_attention_alone_adds_what_attention_says_and_has_nothing_else(norm: Placement) -> None:
    block = Block(16, 2, 24, order="attention", norm=norm).double()
    randomise(block)
    x = torch.randn(1, 5, 16, dtype=torch.float64)
    first = block.attention_norm
    if norm == "pre":
        wanted = x + block.attention(first(x), CAUSAL, "matmul")
    else:
        wanted = first(x + block.attention(x, CAUSAL, "matmul"))
    torch.testing.assert_close(block(x, CAUSAL, "matmul"), wanted, atol=1e-14, rtol=0)
    assert {name.partition(".")[0] for name, _ in block.named_parameters()} == {"attention", "attention_norm"}


def test_layer_norm_divides_by_the_root_of_variance_plus_epsilon() -> None:
    norm = LayerNorm(3).double()
    randomise(norm)
    x = torch.tensor([[1e-3, 2e-3, 4e-3]], dtype=torch.float64)  # so small that √(σ²+ε) and σ+ε differ visibly
    mean, variance = x.mean(), ((x - x.mean()) ** 2).mean()
    wanted = norm.weight * (x - mean) / torch.sqrt(variance + 1e-5) + norm.bias
    torch.testing.assert_close(norm(x), wanted, atol=1e-14, rtol=0)
    assert not torch.allclose(norm(x), norm.weight * (x - mean) / (variance.sqrt() + 1e-5) + norm.bias, atol=1e-3)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("mask", [CAUSAL, NO_MASK, Padding((6, 4)), GraphMask.of_edges(6, [(0, 1), (2, 1), (5, 0)])])
def test_the_bilinear_form_is_the_ordinary_head(bias: bool, mask: object) -> None:
    module = MultiHeadAttention(12, 3, bias, dropout=0.0).double()
    randomise(module)
    x = torch.randn(2, 6, 12, dtype=torch.float64)
    torch.testing.assert_close(bilinear_attention(module, x, mask), module(x, mask, "matmul"), atol=1e-12, rtol=0)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("mask", [NO_MASK, Padding((5, 3))])
def test_the_bilinear_form_of_cross_attention_pairs_two_streams(bias: bool, mask: object) -> None:
    module = MultiHeadAttention(12, 3, bias, dropout=0.0).double()
    randomise(module)
    x, memory = torch.randn(2, 6, 12, dtype=torch.float64), torch.randn(2, 5, 12, dtype=torch.float64)
    ordinary = module(x, mask, "matmul", memory=memory)
    torch.testing.assert_close(bilinear_attention(module, x, mask, memory), ordinary, atol=1e-12, rtol=0)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("across", [False, True])
def test_two_heads_one_after_the_other_are_a_virtual_head(bias: bool, across: bool) -> None:
    """MATH T4: the second layer's use of the output of one head of the first, computed by removing that head."""
    first, second = (MultiHeadAttention(12, 3, bias, dropout=0.0).double() for _ in range(2))
    randomise(first, 1)
    randomise(second, 2)
    x, memory = torch.randn(2, 6, 12, dtype=torch.float64), torch.randn(2, 5, 12, dtype=torch.float64)
    read = memory if across else None
    patterns: dict[str, torch.Tensor] = {}
    whole = x + first(x, NO_MASK, "matmul", memory=read)
    hooks = Hooks({"pattern": lambda name, value: patterns.setdefault("second", value)})
    ordinary = second(whole, CAUSAL, "matmul", hooks=hooks)  # the second's patterns, frozen from here on
    frozen = Hooks({"pattern": lambda name, value: patterns["second"]})

    def silence(name: str, heads: torch.Tensor) -> torch.Tensor:
        return torch.cat((torch.zeros_like(heads[:, :1]), heads[:, 1:]), 1)

    without = x + first(x, NO_MASK, "matmul", memory=read, hooks=Hooks({"heads": silence}))
    moved = ordinary - second(without, CAUSAL, "matmul", hooks=frozen)
    one = bilinear_pattern(first, 0, x, NO_MASK, read)
    y = affine(first, x if read is None else read)
    together = sum(
        virtual_head(head_weights(first, 0), one, head_weights(second, h), patterns["second"][:, h])(y)
        for h in range(3)
    )
    torch.testing.assert_close(together, moved, atol=1e-12, rtol=0)
