"""Blocks against torch's own layers: outputs, patterns, gradients; and mistakes that must be seen (MATH T1–T8).

Weights of deviation .1 and random γ, β: with the usual .02 a wrong GELU moves results by 1e-5 and passes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import product

import pytest
import torch
from torch import Tensor, nn

from txlab.engine.transformer import blocks as module
from txlab.engine.transformer.blocks import ACTIVATIONS, Block, MultiHeadAttention
from txlab.engine.transformer.hooks import keeping
from txlab.engine.transformer.masks import CAUSAL, NO_MASK, Every, GraphMask, Mask, Padding

D, H, F, B, T, S = 24, 4, 56, 3, 9, 7
PRECISION = {torch.float64: 1e-10, torch.float32: 2e-5}
DTYPES = pytest.mark.parametrize("dtype", PRECISION, ids=["fp64", "fp32"])
MASKS: dict[str, Mask] = {
    "none": NO_MASK,
    "causal": CAUSAL,
    "padding": Padding((9, 6, 2)),
    "causal and padding": Every((CAUSAL, Padding((9, 6, 2)))),
    "graph": GraphMask.of_edges(T, [(j, i) for i in range(T) for j in range(T) if (i * j + i + j) % 3 != 1 or i == j]),
}


def numbers(*shape: int, seed: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def randomise(module: nn.Module, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    module.to(torch.float64)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            gain = "norm" in name and name.endswith("weight")
            parameter.normal_(float(gain), 0.1, generator=generator)
    module.to(dtype)


def refused(mask: Mask, queries: int, keys: int) -> Tensor | None:
    """Our mask as torch wants it: (B·H, T, S), True where attention is forbidden."""
    allowed = mask.allowed_pairs(queries, keys)
    if allowed is None:
        return None
    return ~allowed.expand(B, H, queries, keys).reshape(B * H, queries, keys)


def attention_pairs(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> list[tuple[Tensor, Tensor]]:
    return [
        (ours.qkv_proj.weight, theirs.in_proj_weight),
        (ours.qkv_proj.bias, theirs.in_proj_bias),
        (ours.out_proj.weight, theirs.out_proj.weight),
        (ours.out_proj.bias, theirs.out_proj.bias),
    ]


def block_pairs(ours: Block, theirs: nn.Module) -> list[tuple[Tensor, Tensor]]:
    """Our parameters and torch's: all of both, or the comparison would miss one."""
    norms = [(ours.attention_norm, theirs.norm1), (ours.feed_forward_norm, theirs.norm2)]
    pairs = attention_pairs(ours.attention, theirs.self_attn)
    if ours.cross is not None:
        norms = [norms[0], (ours.cross_norm, theirs.norm2), (ours.feed_forward_norm, theirs.norm3)]
        pairs += attention_pairs(ours.cross, theirs.multihead_attn)
    maps = [(ours.feed_forward.up_proj, theirs.linear1), (ours.feed_forward.down_proj, theirs.linear2)]
    pairs += [(getattr(a, name), getattr(b, name)) for a, b in [*norms, *maps] for name in ("weight", "bias")]
    assert len(pairs) == len(list(ours.parameters())) == len(list(theirs.parameters()))
    return pairs


def copy(pairs: list[tuple[Tensor, Tensor]]) -> None:
    with torch.no_grad():
        for ours, theirs in pairs:
            ours.copy_(theirs)


def compare(
    pairs: list[tuple[Tensor, Tensor]],
    outputs: tuple[Tensor, Tensor],
    patterns: list[tuple[Tensor, Tensor]],
    inputs: list[tuple[Tensor, Tensor]],
) -> None:
    """Outputs, patterns, and the gradients of a loss by every parameter and input. A loss of about 1, and so gradients
    of the size of the outputs: what is asked of one can be asked of the other."""
    close = {"atol": PRECISION[outputs[0].dtype], "rtol": 0}
    torch.testing.assert_close(*outputs, **close)
    for ours, theirs in patterns:
        torch.testing.assert_close(ours, theirs, **close)
    direction = numbers(*outputs[0].shape, seed=9, dtype=outputs[0].dtype) / outputs[0].numel() ** 0.5
    for output in outputs:
        (output * direction).sum().backward()
    for ours, theirs in [*pairs, *inputs]:
        assert float(theirs.grad.abs().max()) > 1e-4 or float(ours.grad.abs().max()) < 1e-9
        torch.testing.assert_close(ours.grad, theirs.grad, **close)


class Watched:
    """torch's layers never hand out their patterns: the same modules are asked once more, on what they were given."""

    def __init__(self, *modules: nn.MultiheadAttention) -> None:
        self.patterns: list[Tensor] = []
        self.handles = [module.register_forward_pre_hook(self.ask, with_kwargs=True) for module in modules]

    def ask(self, module: nn.MultiheadAttention, args: tuple[Tensor, ...], kwargs: dict[str, object]) -> None:
        wanted = {"need_weights": True, "average_attn_weights": False, "is_causal": False}
        plain = {name: value for name, value in kwargs.items() if name == "attn_mask"}
        forward = nn.MultiheadAttention.forward
        self.patterns.append(forward(module, *args, **plain, **wanted)[1])  # type: ignore[arg-type]


@DTYPES
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("kernel", ["matmul", "sdpa"])
def test_self_attention(dtype: torch.dtype, mask: Mask, kernel: str) -> None:
    ours, theirs = MultiHeadAttention(D, H, True, 0.0).to(dtype), nn.MultiheadAttention(D, H, batch_first=True)
    randomise(theirs, dtype)
    pairs = attention_pairs(ours, theirs)
    copy(pairs)
    x, y = (numbers(B, T, D, seed=2, dtype=dtype).requires_grad_() for _ in range(2))
    hooks, kept = keeping("pattern")
    with torch.no_grad():
        ours(x, mask, kernel, hooks=hooks)
    wanted, pattern = theirs(y, y, y, attn_mask=refused(mask, T, T), average_attn_weights=False)
    compare(pairs, (ours(x, mask, kernel), wanted), [(kept["pattern"], pattern.detach())], [(x, y)])


@DTYPES
@pytest.mark.parametrize("mask", [NO_MASK, Padding((7, 3, 1))], ids=["none", "padding"])
@pytest.mark.parametrize("kernel", ["matmul", "sdpa"])
def test_cross_attention(dtype: torch.dtype, mask: Mask, kernel: str) -> None:
    ours, theirs = MultiHeadAttention(D, H, True, 0.0).to(dtype), nn.MultiheadAttention(D, H, batch_first=True)
    randomise(theirs, dtype)
    pairs = attention_pairs(ours, theirs)
    copy(pairs)
    x, y = (numbers(B, T, D, seed=2, dtype=dtype).requires_grad_() for _ in range(2))
    m, n = (numbers(B, S, D, seed=3, dtype=dtype).requires_grad_() for _ in range(2))
    hooks, kept = keeping("pattern")
    with torch.no_grad():
        ours(x, mask, kernel, hooks=hooks, memory=m)
    wanted, pattern = theirs(y, n, n, attn_mask=refused(mask, T, S), average_attn_weights=False)
    outputs = (ours(x, mask, kernel, memory=m), wanted)
    compare(pairs, outputs, [(kept["pattern"], pattern.detach())], [(x, y), (m, n)])


@DTYPES
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_encoder_layer(dtype: torch.dtype, norm: str, activation: str, mask: Mask) -> None:
    ours = Block(D, H, F, norm=norm, activation=activation).to(dtype)
    theirs = nn.TransformerEncoderLayer(D, H, F, 0.0, activation, batch_first=True, norm_first=norm == "pre")
    randomise(theirs, dtype)
    pairs = block_pairs(ours, theirs)
    copy(pairs)
    x, y = (numbers(B, T, D, seed=2, dtype=dtype).requires_grad_() for _ in range(2))
    hooks, kept = keeping("attention.pattern")
    with torch.no_grad():
        ours(x, mask, "sdpa", hooks=hooks)
    watched = Watched(theirs.self_attn)
    outputs = (ours(x, mask, "sdpa"), theirs(y, refused(mask, T, T)))
    (pattern,) = watched.patterns
    compare(pairs, outputs, [(kept["attention.pattern"], pattern.detach())], [(x, y)])


@DTYPES
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("kernel", ["matmul", "sdpa"])
@pytest.mark.parametrize("memory_mask", [NO_MASK, Padding((7, 3, 1))], ids=["none", "padding"])
def test_decoder_layer(dtype: torch.dtype, norm: str, activation: str, kernel: str, memory_mask: Mask) -> None:
    ours, theirs, pairs = decoder_layers(dtype, norm, activation)
    decoder_comparison(ours, theirs, pairs, kernel, memory_mask)


def decoder_layers(
    dtype: torch.dtype, norm: str, activation: str
) -> tuple[Block, nn.TransformerDecoderLayer, list[tuple[Tensor, Tensor]]]:
    ours = Block(D, H, F, norm=norm, activation=activation, crosses=True).to(dtype)
    theirs = nn.TransformerDecoderLayer(D, H, F, 0.0, activation, batch_first=True, norm_first=norm == "pre")
    randomise(theirs, dtype)
    pairs = block_pairs(ours, theirs)
    copy(pairs)
    return ours, theirs, pairs


def decoder_comparison(
    ours: Block,
    theirs: nn.TransformerDecoderLayer,
    pairs: list[tuple[Tensor, Tensor]],
    kernel: str = "matmul",
    memory_mask: Mask = NO_MASK,
) -> None:
    dtype = pairs[0][0].dtype
    x, y = (numbers(B, T, D, seed=2, dtype=dtype).requires_grad_() for _ in range(2))
    m, n = (numbers(B, S, D, seed=3, dtype=dtype).requires_grad_() for _ in range(2))
    hooks, kept = keeping("attention.pattern", "cross.pattern")
    with torch.no_grad():
        ours(x, CAUSAL, kernel, hooks=hooks, memory=m, memory_mask=memory_mask)
    watched = Watched(theirs.self_attn, theirs.multihead_attn)
    masks = {"tgt_mask": refused(CAUSAL, T, T), "memory_mask": refused(memory_mask, T, S)}
    outputs = (ours(x, CAUSAL, kernel, memory=m, memory_mask=memory_mask), theirs(y, n, **masks))
    patterns = [
        (kept[f"{part}.pattern"], pattern.detach())
        for part, pattern in zip(("attention", "cross"), watched.patterns, strict=True)
    ]
    compare(pairs, outputs, patterns, [(x, y), (m, n)])


# Mistakes that a comparison with .02 and 1e-3 would let through.


def wrong_gelu(ours: Block) -> None:
    ours.feed_forward.activation = "gelu_tanh"


def wrong_epsilon(ours: Block) -> None:
    ours.cross_norm.epsilon = 1e-12


def transposed_projection(ours: Block) -> None:
    ours.cross.out_proj.weight.data = ours.cross.out_proj.weight.data.T.contiguous()


def exchanged_query_and_key(ours: Block) -> None:
    q, k, v = ours.cross.qkv_proj.weight.data.view(3, D, D)
    ours.cross.qkv_proj.weight.data = torch.cat((k, q, v))


MISTAKES = (wrong_gelu, wrong_epsilon, transposed_projection, exchanged_query_and_key)
# 1e-5 next to a variance of about 1 is less than what float32 is compared to.
UNSEEN = (wrong_epsilon, torch.float32)
SEEN = [pair for pair in product(MISTAKES, PRECISION) if pair != UNSEEN]


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize(("mistake", "dtype"), SEEN)
def test_a_mistake_is_seen(mistake: Callable[[Block], None], dtype: torch.dtype, norm: str) -> None:
    ours, theirs, pairs = decoder_layers(dtype, norm, "gelu")
    mistake(ours)
    with pytest.raises(AssertionError):
        decoder_comparison(ours, theirs, pairs)


@DTYPES
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_scores_that_are_not_scaled_are_seen(dtype: torch.dtype, norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs, pairs = decoder_layers(dtype, norm, "gelu")
    whole = module.attention
    root = (D // H) ** 0.5
    monkeypatch.setattr(module, "attention", lambda q, *rest: whole(q * root, *rest))
    with pytest.raises(AssertionError):
        decoder_comparison(ours, theirs, pairs)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_there_is_an_activation_for_each_of_torchs() -> None:
    x = numbers(50, seed=1, dtype=torch.float64) * 3
    for name, theirs in {
        "relu": nn.ReLU(),
        "gelu": nn.GELU(),
        "gelu_tanh": nn.GELU("tanh"),
        "swish": nn.SiLU(),
    }.items():
        torch.testing.assert_close(ACTIVATIONS[name](x), theirs(x), atol=1e-14, rtol=0)
