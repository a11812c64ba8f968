"""The count on paper against the count of what was allocated and of what ran (MATH T9)."""

import itertools
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from txlab.engine.transformer.bert import Bert, BertShape
from txlab.engine.transformer.costs import AnyShape, costs, memory, step_memory
from txlab.engine.transformer.encoder_decoder import EncoderDecoder, EncoderDecoderShape
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.vision import Pooling, VisionShape, VisionTransformer

EVERY = itertools.product(
    ["learned", "rotary"], ["pre", "post"], ["sequential", "parallel", "attention"], [True, False], [True, False]
)


@pytest.mark.parametrize(("positions", "norm", "block", "tied", "bias"), list(EVERY))
def test_parameters_on_paper_are_those_allocated(positions: str, norm: str, block: str, tied: bool, bias: bool) -> None:
    shape = GPTShape(3, 2, 12, 7, 19, 31, positions=positions, norm=norm, block=block, tied=tied, bias=bias)
    allocated = sum(parameter.numel() for parameter in GPT(shape).parameters())
    assert costs(shape).parameters == allocated


LLAMAS = [
    GPTShape(
        3,
        4,
        12,
        7,
        19,
        31,
        "rotary",
        normalisation="rms",
        gated=gated,
        kv_heads=groups,
        head_dim=K,
        bias=bias,
        tied=tied,
    )
    for gated in (True, False)
    for groups, K, tied in ((1, 2, True), (2, 4, False))
    for bias in (True, False, ("qkv",), ("feed_forward", "norm"), ("out",))
]


@pytest.mark.parametrize("shape", LLAMAS)
def test_grouped_queries_gates_and_biases_here_and_there_are_counted(shape: GPTShape) -> None:
    model, ids = GPT(shape), torch.zeros(4, 7, dtype=torch.long)
    assert costs(shape).parameters == sum(parameter.numel() for parameter in model.parameters())
    with FlopCounterMode(display=False) as counter:
        model(ids, "matmul").sum().backward()
    assert counter.get_total_flops() == costs(shape).flops_per_token * 4 * 7


def test_llama_2_has_its_published_number_of_parameters() -> None:
    """Touvron et al. 2023 say 7B and 70B; the numbers are those of the weights that Meta published."""
    seven = GPTShape(
        32, 32, 4096, 4096, 32000, 11008, "rotary", normalisation="rms", gated=True, tied=False, bias=False
    )
    assert costs(seven).parameters == 6_738_415_616
    seventy = replace(seven, layers=80, heads=64, width=8192, feed_forward=28672, kv_heads=8)
    assert costs(seventy).parameters == 68_976_648_192
    assert memory(seventy).cache == 4 * 1000 * 2 * 80 * 8 * 128


def test_gpt2_has_its_published_number_of_parameters() -> None:
    small = GPTShape(layers=12, heads=12, width=768, context=1024, vocabulary=50257)
    assert costs(small).parameters == 124_439_808


@pytest.mark.parametrize("tied", [True, False])
def test_flops_on_paper_are_those_of_a_training_step(tied: bool) -> None:
    shape = GPTShape(3, 2, 16, 10, 23, tied=tied)
    model, ids = GPT(shape), torch.zeros(4, 10, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        F.cross_entropy(model(ids, "matmul").flatten(0, 1), ids.flatten()).backward()
    assert counter.get_total_flops() == costs(shape).flops_per_token * 4 * 10


BERTS = [
    BertShape(3, 2, 12, 7, 19, 31, segments=3, norm=norm, tied=tied)
    for norm in ("post", "pre")
    for tied in (True, False)
]
PAIRS = [
    EncoderDecoderShape(
        2,
        3,
        2,
        12,
        19,
        19 if shared else 23,
        7,
        31,
        positions=positions,
        norm=norm,
        shared=shared,
        tied=tied,
        output_bias=bias,
        bias=bias,
    )
    for positions in ("sinusoidal", "learned")
    for norm in ("post", "pre")
    for shared in (True, False)
    for tied in (True, False)
    for bias in (True, False)
]
IMAGES = [VisionShape(3, 2, 12, 12, 4, 5, feed_forward=31, pooling=pooling) for pooling in ("class", "mean")]


@pytest.mark.parametrize("shape", [*BERTS, *PAIRS, *IMAGES])
def test_every_shape_has_on_paper_what_is_allocated(shape: AnyShape) -> None:
    makers = {BertShape: Bert, EncoderDecoderShape: EncoderDecoder, VisionShape: VisionTransformer}
    assert costs(shape).parameters == sum(parameter.numel() for parameter in makers[type(shape)](shape).parameters())


def test_flops_of_bert_are_those_of_a_training_step() -> None:
    shape = BertShape(2, 2, 16, 10, 23)
    model, ids = Bert(shape), torch.zeros(3, 10, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        model(ids, kernel="matmul").sum().backward()
    assert counter.get_total_flops() == costs(shape).flops_per_token * 3 * 10


def test_flops_of_an_encoder_decoder_are_those_of_a_training_step() -> None:
    shape = EncoderDecoderShape(2, 3, 2, 16, 23, 23, 10)
    model, ids = EncoderDecoder(shape), torch.zeros(3, 10, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        model(ids, ids, kernel="matmul").sum().backward()
    assert counter.get_total_flops() == costs(shape).flops_per_token * 3 * 10


@pytest.mark.parametrize("pooling", ["class", "mean"])
def test_flops_of_a_vision_transformer_are_those_of_a_training_step(pooling: Pooling) -> None:
    shape = VisionShape(2, 2, 16, 12, 4, 5, pooling=pooling)
    images = torch.zeros(3, 3, 12, 12, requires_grad=True)  # or its first product has one gradient less
    with FlopCounterMode(display=False) as counter:
        VisionTransformer(shape)(images, kernel="matmul").sum().backward()
    # An image's head is spread over its positions, rounded down: less than 6 FLOPs a position are lost.
    missing = counter.get_total_flops() - costs(shape).flops_per_token * 3 * shape.context
    assert 0 <= missing < 6 * 3 * shape.context


def kept_for_backward(model: torch.nn.Module, targets: torch.Tensor, *inputs: torch.Tensor, **how: str) -> int:
    """Bytes of floating-point numbers, in addition to the parameters, that autograd holds once the loss is computed."""
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own and tensor.is_floating_point():
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = F.cross_entropy(model(*inputs, **how).flatten(0, 1), targets.flatten())
    assert loss.isfinite()
    return sum(kept.values())


@pytest.mark.parametrize(
    "shape",
    [
        GPTShape(4, 4, 64, 128, 97),
        GPTShape(
            4,
            4,
            64,
            128,
            97,
            160,
            "rotary",
            normalisation="rms",
            gated=True,
            kv_heads=2,
            bias=False,
            activation="swish",
        ),
        GPTShape(4, 4, 64, 128, 256, block="attention"),
    ],
    ids=["gpt", "llama", "attention"],
)
def test_activations_are_those_that_torch_keeps_for_the_backward_pass(shape: GPTShape) -> None:
    model = GPT(shape)
    ids = torch.zeros(1, 128, dtype=torch.long)
    assert memory(shape).activations == pytest.approx(kept_for_backward(model, ids, ids), rel=0.1)
    assert memory(shape).weights == 4 * costs(shape).parameters
    caches = model.empty_caches()
    model(torch.zeros(1, 10, dtype=torch.long), caches=caches)
    held = sum(c.keys.nbytes + c.values.nbytes for c in caches if c.keys is not None and c.values is not None)
    assert memory(shape).cache == 100 * held


@pytest.mark.parametrize("kernel", ["sdpa", "matmul"])
@pytest.mark.parametrize("bfloat16", [False, True])
def test_a_steps_memory_is_what_torch_keeps_in_either_dtype_with_either_kernel(kernel: str, bfloat16: bool) -> None:
    shape = GPTShape(4, 4, 64, 128, 97)
    model, ids = GPT(shape), torch.zeros(3, 128, dtype=torch.long)
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        kept = kept_for_backward(model, ids, ids, kernel=kernel)
    needed = step_memory(shape, 3, bfloat16=bfloat16, pattern=kernel == "matmul")
    assert needed.copies + needed.activations == pytest.approx(kept, rel=0.05)
    assert needed.weights == needed.gradients == needed.moments / 2 == sum(4 * p.numel() for p in model.parameters())
    assert needed.total == 16 * costs(shape).parameters + needed.copies + needed.activations


def test_a_block_that_crosses_keeps_what_torch_keeps_for_it() -> None:
    """What a decoder's block keeps, by the difference of one more of them; without its cross-attention 27 % less."""
    ids = torch.zeros(1, 128, dtype=torch.long)
    two, three = (EncoderDecoderShape(1, layers, 4, 64, 97, 97, 128, activation="gelu") for layers in (2, 3))
    kept = [kept_for_backward(EncoderDecoder(shape), ids, ids, ids) for shape in (two, three)]
    on_paper = [memory(shape).activations for shape in (two, three)]
    assert on_paper[1] - on_paper[0] == pytest.approx(kept[1] - kept[0], rel=0.05)
    assert on_paper[0] == pytest.approx(kept[0], rel=0.1)
