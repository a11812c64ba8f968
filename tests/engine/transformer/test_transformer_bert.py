"""BERT against torch's encoder, and the tokens that are hidden from it (MATH T10)."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from txlab.engine.transformer.bert import NOT_ASKED, Bert, BertShape, mask_tokens
from txlab.engine.transformer.hooks import keeping
from txlab.engine.transformer.masks import Padding

IDS = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 7, 1, 8, 2, 8]])
SEGMENTS = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 1]])


def model_of(**changes: object) -> Bert:
    model = Bert(BertShape(**({"layers": 2, "heads": 2, "width": 8, "context": 7, "vocabulary": 11} | changes)))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3, generator=generator)
    return model.double()


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("tied", [True, False])
def test_the_model_is_torchs_encoder_between_tables_and_head(norm: str, tied: bool) -> None:
    model = model_of(norm=norm, tied=tied)
    layer = nn.TransformerEncoderLayer(8, 2, 32, 0.0, "gelu", 1e-12, batch_first=True, norm_first=norm == "pre")
    last = nn.LayerNorm(8, 1e-12) if norm == "pre" else None
    theirs = nn.TransformerEncoder(layer, 2, last, enable_nested_tensor=False).double()
    with torch.no_grad():
        for block, other in zip(model.encoder.blocks, theirs.layers, strict=True):
            other.self_attn.in_proj_weight.copy_(block.attention.qkv_proj.weight)
            other.self_attn.in_proj_bias.copy_(block.attention.qkv_proj.bias)
            other.self_attn.out_proj.load_state_dict(block.attention.out_proj.state_dict())
            other.linear1.load_state_dict(block.feed_forward.up_proj.state_dict())
            other.linear2.load_state_dict(block.feed_forward.down_proj.state_dict())
            other.norm1.load_state_dict(block.attention_norm.state_dict())
            other.norm2.load_state_dict(block.feed_forward_norm.state_dict())
        if last is not None:
            theirs.norm.load_state_dict(model.encoder.final_norm.state_dict())
    x = model.embed.weight[IDS] + model.positions.weight[:6] + model.segments.weight[SEGMENTS]
    x = theirs(F.layer_norm(x, (8,), model.embedding_norm.weight, model.embedding_norm.bias, 1e-12))
    x = F.gelu(x @ model.transform.weight.T + model.transform.bias)
    x = F.layer_norm(x, (8,), model.transform_norm.weight, model.transform_norm.bias, 1e-12)
    table = model.embed.weight if tied else model.unembed.weight
    for kernel in ("matmul", "sdpa"):
        ours = model(IDS, SEGMENTS, kernel)
        torch.testing.assert_close(ours, x @ table.T + model.unembed_bias, atol=1e-12, rtol=0)


def test_every_position_sees_every_other() -> None:
    """MATH T10, erratum: an encoder's attention is not causal."""
    model = model_of()
    changed = IDS.clone()
    changed[:, -1] = 10
    assert (model(changed) - model(IDS)).abs().amax((0, 2)).min() > 1e-5
    hooks, kept = keeping("encoder.blocks.*.pattern", "embedding", "logits")
    model(IDS, hooks=hooks)
    assert len(kept) == 4
    assert all((value > 0).all() for name, value in kept.items() if name.endswith("pattern"))


@pytest.mark.parametrize("kernel", ["matmul", "sdpa"])
def test_padding_on_either_side_is_the_text_alone(kernel: str) -> None:
    model = model_of()
    alone = model(IDS[:1, :4], None, kernel)
    pad = IDS.new_full((1, 2), 10)
    right = model(torch.cat((IDS[:1, :4], pad), 1), None, kernel, Padding((4,)))
    left = model(
        torch.cat((pad, IDS[:1, :4]), 1),
        None,
        kernel,
        Padding((4,), left=True),
        places=torch.tensor([[0, 0, 0, 1, 2, 3]]),
    )
    torch.testing.assert_close(right[:, :4], alone, atol=1e-12, rtol=0)
    torch.testing.assert_close(left[:, 2:], alone, atol=1e-12, rtol=0)


def test_segments_that_are_not_given_are_the_first_and_others_are_heard() -> None:
    model = model_of()
    torch.testing.assert_close(model(IDS), model(IDS, torch.zeros_like(IDS)), atol=1e-12, rtol=0)
    assert (model(IDS, SEGMENTS) - model(IDS)).abs().max() > 1e-4
    with pytest.raises(ValueError, match="8 positions do not fit a context of 7"):
        model(torch.ones(1, 8, dtype=torch.long))


def test_what_a_layer_would_say_is_the_head_on_its_stream() -> None:
    for norm in ("pre", "post"):
        model = model_of(norm=norm)
        hooks, kept = keeping("encoder.blocks.1.resid_post")
        logits = model(IDS, hooks=hooks)
        torch.testing.assert_close(model.logits(kept["encoder.blocks.1.resid_post"]), logits, atol=1e-12, rtol=0)


def test_hidden_tokens_come_in_the_published_shares() -> None:
    ids = torch.randint(5, 1000, (500, 400), generator=torch.Generator().manual_seed(0))
    inputs, targets = mask_tokens(ids, torch.Generator().manual_seed(1), mask_id=3, vocabulary=1000)
    asked = targets != NOT_ASKED
    assert torch.equal(targets[asked], ids[asked])
    assert torch.equal(inputs[~asked], ids[~asked])
    n = int(asked.sum())
    hidden, kept = inputs[asked] == 3, inputs[asked] == ids[asked]
    # Five deviations of a binomial; a random id is the old one, or the mask's, once in a thousand.
    for share, count, of in (
        (0.15, n, ids.numel()),
        (0.8 + 0.1 / 1000, int(hidden.sum()), n),
        (0.1 + 0.1 / 1000, int(kept.sum()), n),
    ):
        assert abs(count - share * of) < 5 * (share * (1 - share) * of) ** 0.5
    drawn = inputs[asked][~hidden & ~kept]
    assert drawn.min() >= 0
    assert drawn.max() >= 990
    assert (drawn < 5).any()  # from the whole vocabulary


def test_hidden_tokens_are_a_function_of_the_generator_and_spare_what_they_must() -> None:
    ids = torch.tensor([[1, 5, 6, 3, 2, 0, 0]] * 50)
    one, other = (
        mask_tokens(ids, torch.Generator().manual_seed(7), 1.0, mask_id=3, vocabulary=9, never=(0, 1, 2))
        for _ in range(2)
    )
    assert torch.equal(one[0], other[0])
    assert torch.equal(one[1], other[1])
    spared = torch.isin(ids, torch.tensor([0, 1, 2, 3]))
    assert (one[1][spared] == NOT_ASKED).all()
    assert torch.equal(one[0][spared], ids[spared])
    assert (one[1][~spared] == ids[~spared]).all()  # a share of 1 asks for all that may be asked for
    none = mask_tokens(ids, torch.Generator().manual_seed(7), 0.0, mask_id=3, vocabulary=9)
    assert torch.equal(none[0], ids)
    assert (none[1] == NOT_ASKED).all()
