"""The vision transformer against transformers' ViT with random weights that show a mistake (MATH T14)."""

from __future__ import annotations

import doctest

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from txlab.engine.transformer import vision
from txlab.engine.transformer.blocks import Block
from txlab.engine.transformer.hooks import keeping
from txlab.engine.transformer.vision import Pooling, VisionShape, VisionTransformer, patch_names, patches

SHAPE = VisionShape(layers=2, heads=3, width=24, image=12, patch=4, classes=5, feed_forward=40)


def randomise(module: nn.Module, seed: int = 1) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.1, generator=generator)


def copy(pairs: dict[nn.Parameter, torch.Tensor]) -> None:
    with torch.no_grad():
        for ours, theirs in pairs.items():
            assert ours.numel() == theirs.numel()
            ours.copy_(theirs.reshape(ours.shape))


def test_cutting_and_mapping_is_one_convolution() -> None:
    images = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(0)).double()
    weight = torch.randn(7, 3, 4, 4, generator=torch.Generator().manual_seed(1)).double()
    convolved = F.conv2d(images, weight, stride=4).flatten(2).mT  # (B, R², 7)
    assert torch.allclose(patches(images, 4) @ weight.flatten(1).T, convolved)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_it_is_transformers_vit_in_every_residual_pattern_logit_and_gradient(dtype: torch.dtype) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=40,
        image_size=12,
        patch_size=4,
        num_channels=3,
        num_labels=5,
        layer_norm_eps=1e-6,
        # Their explicit attention rounds its softmax to float32 whatever the dtype; their fused one does not.
        attn_implementation="sdpa" if dtype == torch.float64 else "eager",
    )
    theirs = transformers.ViTForImageClassification(config).to(dtype).eval()
    randomise(theirs)
    ours = VisionTransformer(SHAPE).to(dtype).eval()
    state = dict(theirs.named_parameters())
    found = {name: name for name in state}

    def named(ending: str) -> torch.Tensor:
        (name,) = (name for name in found if name.endswith(ending))
        return state[found.pop(name)]

    pairs = {
        ours.embed.weight: named("patch_embeddings.projection.weight"),
        ours.embed.bias: named("patch_embeddings.projection.bias"),
        ours.class_token: named("cls_token"),
        ours.positions.weight: named("position_embeddings"),
        ours.final_norm.weight: named("vit.layernorm.weight"),
        ours.final_norm.bias: named("vit.layernorm.bias"),
        ours.head.weight: named("classifier.weight"),
        ours.head.bias: named("classifier.bias"),
    }
    # What is left is the layers', each in the order its parts were made: Q, K, V, output, W₁, W₂, and two norms.
    for layer, block in enumerate(ours.blocks):
        left = {name: state[name] for name in found if f".{layer}." in name}
        norms = {name: tensor for name, tensor in left.items() if "norm" in name}
        maps = [tensor for name, tensor in left.items() if name not in norms]
        q, qb, k, kb, v, vb, o, ob, rise, rise_b, fall, fall_b = maps
        pairs |= {
            block.attention.qkv_proj.weight: torch.cat((q, k, v)),
            block.attention.qkv_proj.bias: torch.cat((qb, kb, vb)),
            block.attention.out_proj.weight: o,
            block.attention.out_proj.bias: ob,
            block.feed_forward.up_proj.weight: rise,
            block.feed_forward.up_proj.bias: rise_b,
            block.feed_forward.down_proj.weight: fall,
            block.feed_forward.down_proj.bias: fall_b,
            block.attention_norm.weight: next(t for n, t in norms.items() if n.endswith("before.weight")),
            block.attention_norm.bias: next(t for n, t in norms.items() if n.endswith("before.bias")),
            block.feed_forward_norm.weight: next(t for n, t in norms.items() if n.endswith("after.weight")),
            block.feed_forward_norm.bias: next(t for n, t in norms.items() if n.endswith("after.bias")),
        }
    assert len(pairs) == len(list(ours.parameters()))
    copy(pairs)
    images = torch.randn(3, 3, 12, 12, generator=torch.Generator().manual_seed(2)).to(dtype)
    wanted = torch.tensor([0, 3, 4])
    said = theirs(images, output_hidden_states=True, output_attentions=dtype == torch.float32)
    hooks, kept = keeping("embedding", "blocks.*.resid_post", "blocks.*.attention.pattern")
    logits = ours(images, "sdpa", hooks)
    close = {"atol": 1e-10, "rtol": 0} if dtype == torch.float64 else {"atol": 2e-5, "rtol": 0}
    residuals = [kept["embedding"], *(kept[f"blocks.{layer}.resid_post"] for layer in range(2))]
    for mine, other in zip(residuals, said.hidden_states, strict=True):
        assert torch.allclose(mine, other, **close)
    for layer, alpha in enumerate(said.attentions or ()):
        assert torch.allclose(kept[f"blocks.{layer}.attention.pattern"], alpha, **close)
    assert (said.attentions is not None) == (dtype == torch.float32)
    assert torch.allclose(logits, said.logits, **close)
    assert torch.allclose(ours(images), said.logits, **close)  # the fused kernel
    F.cross_entropy(logits, wanted).backward()
    F.cross_entropy(said.logits, wanted).backward()
    for mine, other in ((ours.embed, "patch_embeddings.projection.weight"), (ours.head, "classifier.weight")):
        gradient = next(p.grad for name, p in theirs.named_parameters() if name.endswith(other))
        assert torch.allclose(mine.weight.grad, gradient.reshape(mine.weight.shape), **close)
    gradient = next(p.grad for name, p in theirs.named_parameters() if name.endswith("position_embeddings"))
    assert torch.allclose(ours.positions.weight.grad, gradient[0], **close)


def test_with_the_mean_it_is_torchs_encoder_with_a_linear_map_at_each_end() -> None:
    shape = VisionShape(2, 4, 16, image=8, patch=4, classes=3, channels=1, pooling="mean")
    ours = VisionTransformer(shape).double()
    layer = nn.TransformerEncoderLayer(
        16, 4, 64, dropout=0.0, activation="gelu", batch_first=True, norm_first=True, layer_norm_eps=1e-6
    )
    theirs = nn.TransformerEncoder(layer, 2, nn.LayerNorm(16, eps=1e-6), enable_nested_tensor=False).double()
    randomise(ours)
    for block, other in zip(ours.blocks, theirs.layers, strict=True):
        assert isinstance(block, Block)
        assert block.feed_forward_norm is not None
        copy(
            {
                other.self_attn.in_proj_weight: block.attention.qkv_proj.weight,
                other.self_attn.in_proj_bias: block.attention.qkv_proj.bias,
                other.self_attn.out_proj.weight: block.attention.out_proj.weight,
                other.self_attn.out_proj.bias: block.attention.out_proj.bias,
                other.linear1.weight: block.feed_forward.up_proj.weight,
                other.linear1.bias: block.feed_forward.up_proj.bias,
                other.linear2.weight: block.feed_forward.down_proj.weight,
                other.linear2.bias: block.feed_forward.down_proj.bias,
                other.norm1.weight: block.attention_norm.weight,
                other.norm1.bias: block.attention_norm.bias,
                other.norm2.weight: block.feed_forward_norm.weight,
                other.norm2.bias: block.feed_forward_norm.bias,
            }
        )
    copy({theirs.norm.weight: ours.final_norm.weight, theirs.norm.bias: ours.final_norm.bias})
    images = torch.randn(2, 1, 8, 8, generator=torch.Generator().manual_seed(2)).double()
    cut = images.unfold(2, 4, 4).unfold(3, 4, 4).flatten(4).flatten(1, 3)  # (B, R², P²)
    x = cut @ ours.embed.weight.T + ours.embed.bias + ours.positions.weight
    expected = theirs(x).mean(1) @ ours.head.weight.T + ours.head.bias
    assert torch.allclose(ours(images), expected, atol=1e-10, rtol=0)


@pytest.mark.parametrize("pooling", ["class", "mean"])
def test_every_position_has_a_name(pooling: Pooling) -> None:
    shape = VisionShape(1, 1, 4, image=6, patch=2, classes=2, pooling=pooling)
    hooks, kept = keeping("embedding")
    VisionTransformer(shape)(torch.zeros(1, 3, 6, 6), hooks=hooks)
    assert kept["embedding"].shape[1] == len(patch_names(shape)) == shape.context


def test_the_same_generator_makes_the_same_weights() -> None:
    one, two = (VisionTransformer(SHAPE, torch.Generator().manual_seed(4)).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_an_image_that_no_patches_fill_is_refused() -> None:
    with pytest.raises(ValueError, match=r"12 pixels.*patches of 5"):
        VisionTransformer(VisionShape(1, 1, 4, image=12, patch=5, classes=2))


def test_the_examples_in_the_docstrings_are_true() -> None:
    assert doctest.testmod(vision).failed == 0
