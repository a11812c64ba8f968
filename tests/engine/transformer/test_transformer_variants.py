"""Each erratum, switched on, differs from the right form in the way described; off, it has left no trace."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from txlab.engine.transformer.bert import Bert, BertShape
from txlab.engine.transformer.blocks import Block
from txlab.engine.transformer.encoder_decoder import EncoderDecoder, EncoderDecoderShape
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.hooks import Hooks, keeping
from txlab.engine.transformer.masks import CAUSAL, NO_MASK, Padding
from txlab.engine.transformer.norms import LayerNorm
from txlab.engine.transformer.variants import VARIANTS, switch_on, together, unfit
from txlab.engine.transformer.vision import VisionShape, VisionTransformer
from txlab.errors import LabError

NOTED = ["causal-encoder", "gradient-over-all-centres"]  # nothing to switch on
OF_DECODERS = [name for name in VARIANTS if name not in (*NOTED, "query-from-encoder")]
IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])


def randomise(module: nn.Module, seed: int = 1) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.3, generator=generator)


@pytest.fixture
def model() -> GPT:
    made = GPT(GPTShape(2, 2, 16, 12, 11)).double()
    randomise(made)
    return made.eval()


@torch.no_grad()
def seen(model: GPT, ids: torch.Tensor, name: str = "", *places: str, **how: object) -> dict[str, torch.Tensor]:
    """What was at the places, and the logits, with a variant on or without."""
    hooks, kept = keeping(*places)
    if name:
        with switch_on(name, model) as changed:
            logits = model(ids, hooks=together(changed, hooks), **how)
    else:
        logits = model(ids, hooks=hooks, **how)
    return {**kept, "out": logits}


@pytest.mark.parametrize("name", OF_DECODERS)
def test_a_variant_changes_the_answer_and_leaves_no_trace(model: GPT, name: str) -> None:
    before, members = seen(model, IDS)["out"], {id(m): dict(m.__dict__) for m in model.modules()}
    assert (seen(model, IDS, name)["out"] - before).abs().max() > 1e-7
    assert torch.equal(seen(model, IDS)["out"], before)
    assert {id(m): dict(m.__dict__) for m in model.modules()} == members


@pytest.mark.parametrize("name", OF_DECODERS)
def test_an_exception_inside_leaves_no_trace_either(model: GPT, name: str) -> None:
    before = seen(model, IDS)["out"]
    with pytest.raises(ValueError, match="context"), switch_on(name, model) as hooks:
        model(torch.zeros(1, 13, dtype=torch.long), hooks=hooks)
    assert torch.equal(seen(model, IDS)["out"], before)


@pytest.mark.parametrize("mask", [CAUSAL, NO_MASK, Padding((6,))])
def test_the_softmax_over_the_matrix_makes_the_matrix_sum_to_one(model: GPT, mask: object) -> None:
    places = ("blocks.*.attention.scores", "blocks.*.attention.pattern")
    kept = seen(model, IDS, "softmax-over-matrix", *places, mask=mask)
    scores, alpha = (kept[f"blocks.0.attention.{what}"] for what in ("scores", "pattern"))
    assert torch.allclose(alpha.sum((-2, -1)), torch.ones(1, 2).double())
    assert (alpha.sum(-1) < 0.9).all()  # no row is a distribution any more
    allowed = mask.allowed_pairs(8, 8)  # type: ignore[attr-defined]
    weights = scores.exp() * (1.0 if allowed is None else allowed)
    assert torch.allclose(alpha, weights / weights.sum((-2, -1), keepdim=True))


def test_under_the_softmax_over_the_matrix_the_future_speaks_through_the_mask(model: GPT) -> None:
    other = IDS.clone()
    other[0, -1] = 7
    assert torch.equal(seen(model, IDS)["out"][0, :-1], seen(model, other)["out"][0, :-1])
    leaked = seen(model, IDS, "softmax-over-matrix")["out"] - seen(model, other, "softmax-over-matrix")["out"]
    assert leaked[0, 0].abs().max() > 1e-6


def test_a_scaled_output_is_a_colder_softmax_and_a_quieter_head(model: GPT) -> None:
    places = [f"blocks.0.attention.{what}" for what in ("query", "key", "value", "pattern", "heads")]
    kept = seen(model, IDS, "scaled-output", *places)
    q, k, v, alpha, heads = (kept[place] for place in places)
    bias = torch.full((8, 8), -math.inf).double().triu(1)
    expected = (q @ k.mT + bias).softmax(-1)
    assert torch.allclose(alpha, expected)
    assert torch.allclose(heads, expected @ v / math.sqrt(8))
    assert torch.allclose(alpha.sum(-1), torch.ones(8).double())
    right = seen(model, IDS, "", *places)
    assert (alpha.max(-1).values >= right[places[3]].max(-1).values - 1e-12).all()


def normed(name: str, x: torch.Tensor, norm: LayerNorm) -> torch.Tensor:
    with torch.no_grad():
        if not name:
            return norm(x)
        with switch_on(name, norm):
            return norm(x)


def test_sigma_plus_epsilon_shows_only_where_sigma_is_small() -> None:
    norm = LayerNorm(64).double()
    ordinary = torch.randn(5, 64, generator=torch.Generator().manual_seed(0)).double()
    sigma = ordinary.std(-1, correction=0, keepdim=True)
    changed = normed("sigma-plus-epsilon", ordinary, norm)
    assert torch.allclose(changed, (ordinary - ordinary.mean(-1, keepdim=True)) / (sigma + 1e-5))
    assert torch.allclose(changed, normed("", ordinary, norm), atol=1e-4)
    tiny = 1e-6 * ordinary
    ratio = normed("sigma-plus-epsilon", tiny, norm) / normed("", tiny, norm)
    assert torch.allclose(ratio, (sigma * 1e-6).square().add(1e-5).sqrt() / (sigma * 1e-6 + 1e-5))
    assert (ratio > 250).all()


def test_a_scalar_gain_is_the_same_for_every_feature() -> None:
    norm, x = LayerNorm(16).double(), torch.randn(5, 16, generator=torch.Generator().manual_seed(0)).double()
    assert torch.allclose(normed("scalar-gain", x, norm), normed("", x, norm))  # γ = 1, β = 0
    randomise(norm)
    plain = F.layer_norm(x, (16,))
    assert torch.allclose(normed("scalar-gain", x, norm), plain * norm.weight.mean() + norm.bias.mean())
    assert not torch.allclose(normed("scalar-gain", x, norm), normed("", x, norm))


def test_batch_statistics_are_those_of_batch_normalisation(model: GPT) -> None:
    norm, x = LayerNorm(16).double(), torch.randn(3, 5, 16, generator=torch.Generator().manual_seed(0)).double()
    randomise(norm)
    theirs = F.batch_norm(x.flatten(0, 1), None, None, norm.weight, norm.bias, training=True, eps=1e-5)
    assert torch.allclose(normed("batch-statistics", x, norm), theirs.view(x.shape))
    alone = normed("batch-statistics", x[:1, :1], norm)
    assert torch.allclose(alone[0, 0], norm.bias)  # a text of one token is normalised to nothing
    other = IDS.clone()
    other[0, -1] = 7  # and a later token changes what came before it
    leaked = seen(model, IDS, "batch-statistics")["out"] - seen(model, other, "batch-statistics")["out"]
    assert leaked[0, 0].abs().max() > 1e-6


def logits_of(model: GPT, x: torch.Tensor) -> torch.Tensor:
    """LN x W_Eᵀ: the head of a tied model."""
    return F.layer_norm(x, (16,), model.final_norm.weight, model.final_norm.bias) @ model.embed.weight.T  # type: ignore[union-attr]


@torch.no_grad()
def test_scores_without_their_root_are_sharper_and_with_that_of_the_model_flatter(model: GPT) -> None:
    """H = 2, K = 8, D = 16: s, s √8, s √(8/16) before the softmax of a row."""
    plain = seen(model, IDS, "", "*.scores", "*.pattern")
    for name, factor in (("unscaled-scores", math.sqrt(8)), ("model-width-scale", math.sqrt(8 / 16))):
        changed = seen(model, IDS, name, "*.scores", "*.pattern")
        scores = plain["blocks.0.attention.scores"] * factor
        allowed = torch.ones(8, 8, dtype=torch.bool).tril()
        expected = scores.masked_fill(~allowed, float("-inf")).softmax(-1)
        assert torch.allclose(changed["blocks.0.attention.pattern"], expected, atol=1e-12), name
    q, k = (seen(model, IDS, "", f"*.{which}")[f"blocks.0.attention.{which}"] for which in ("query", "key"))
    bare = q @ k.transpose(-2, -1)  # Becker-Kahn (3.5)
    again = seen(model, IDS, "unscaled-scores", "*.pattern")["blocks.0.attention.pattern"]
    assert torch.allclose(again, bare.masked_fill(~allowed, float("-inf")).softmax(-1), atol=1e-12)


@torch.no_grad()
def test_without_the_residual_around_attention_a_block_is_becker_kahns_printed_one(model: GPT) -> None:
    x = model.embed(IDS) + model.positions.weight[:8]  # type: ignore[union-attr]
    for block in model.blocks:
        looked = block.attention(block.attention_norm(x), CAUSAL, "matmul")
        x = x + block.feed_forward(block.feed_forward_norm(x + looked))  # (4.2): X + m(X + Σ h(X))
    kept = seen(model, IDS, "dropped-residual", "blocks.1.resid_post")
    assert torch.allclose(kept["out"], logits_of(model, x), atol=1e-10)


@torch.no_grad()
def test_of_becker_kahns_block_a_head_is_heard_in_its_own_feed_forward_alone(model: GPT) -> None:
    for block in model.blocks:
        for parameter in block.feed_forward.parameters():
            parameter.zero_()
    x = model.embed(IDS) + model.positions.weight[:8]  # type: ignore[union-attr]
    assert torch.allclose(seen(model, IDS, "dropped-residual")["out"], logits_of(model, x), atol=1e-12)
    assert not torch.allclose(seen(model, IDS)["out"], logits_of(model, x))


@pytest.mark.parametrize("name", NOTED)
def test_an_erratum_of_words_alone_has_nothing_to_switch_on_and_masks_nothing(name: str) -> None:
    for model, given in every_model():
        with pytest.raises(LabError, match=VARIANTS[name].never), switch_on(name, model):
            model(*given)
    encoder, given = every_model()[1]
    hooks, kept = keeping("*.pattern")
    encoder(*given, hooks=hooks)
    assert all((alpha.triu(1).abs().amax(dim=(-2, -1)) > 0).all() for alpha in kept.values())


@torch.no_grad()
def test_a_query_from_the_encoder_needs_equal_lengths_and_mixes_the_decoder_alone() -> None:
    block = Block(16, 2, 32, crosses=True).double()
    randomise(block)
    generator = torch.Generator().manual_seed(0)
    x, memory = torch.randn(2, 1, 5, 16, generator=generator).double()
    hooks, kept = keeping("cross.*")
    with switch_on("query-from-encoder", block) as changed:
        block(x, CAUSAL, "sdpa", memory=memory, hooks=together(changed, hooks))
        with pytest.raises(LabError, match=r"4 × 4.*5 values"):
            block(x, CAUSAL, "sdpa", memory=memory[:, :4])
    assert block.cross is not None
    weight, bias = block.cross.qkv_proj.weight, block.cross.qkv_proj.bias
    asked = (memory @ weight[:16].T + bias[:16]).view(1, 5, 2, 8).transpose(1, 2)
    assert torch.allclose(kept["cross.query"], asked)
    # The memory's keys, but no value of it: with the same pattern, another memory would say the same.
    plain, before = keeping("cross.*", "resid_mid")
    block(x, CAUSAL, "sdpa", memory=memory, hooks=plain)
    assert torch.allclose(kept["cross.key"], before["cross.key"])
    assert not torch.allclose(kept["cross.value"], before["cross.value"])
    read = block.cross_norm(before["resid_mid"]) @ weight[32:].T + bias[32:]  # type: ignore[misc]
    assert torch.allclose(kept["cross.value"], read.view(1, 5, 2, 8).transpose(1, 2))


def every_model() -> list[tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    """A model of each kind, and what it reads."""
    made: list[tuple[nn.Module, tuple[torch.Tensor, ...]]] = [
        (GPT(GPTShape(2, 2, 16, 12, 11, positions="rotary", norm="post")), (IDS,)),
        (Bert(BertShape(2, 2, 16, 12, 11, epsilon=1e-5)), (IDS,)),
        (EncoderDecoder(EncoderDecoderShape(2, 2, 2, 16, 11, 11, 12)), (IDS, IDS.flip(1))),
        (VisionTransformer(VisionShape(2, 2, 16, 8, 4, 5)), (torch.linspace(-1, 1, 192).view(1, 3, 8, 8).double(),)),
    ]
    for model, _ in made:
        randomise(model.double().eval())
    return made


@pytest.mark.parametrize("name", VARIANTS)
@torch.no_grad()
def test_a_variant_works_in_every_kind_of_model_that_it_fits(name: str) -> None:
    tried = 0
    for model, given in every_model():
        if unfit(name, model):
            continue
        before = model(*given)
        with switch_on(name, model) as hooks:
            changed = model(*given, hooks=hooks)
        assert changed.isfinite().all()
        assert (changed - before).abs().max() > 1e-7, type(model).__name__
        assert torch.equal(model(*given), before)
        tried += 1
    fits = {**dict.fromkeys(NOTED, 0), "query-from-encoder": 1, "dropped-residual": 1}
    assert tried == fits.get(name, 4)


@torch.no_grad()
def test_a_query_from_the_encoder_is_refused_by_a_translator_whose_texts_differ_in_length() -> None:
    model, (source, target) = every_model()[2]
    with switch_on("query-from-encoder", model), pytest.raises(LabError, match=r"8 × 8.*6 values"):
        model(source, target[:, :6])


def test_what_does_not_fit_is_reported(model: GPT) -> None:
    for name, reason in {"causal-encoder": "only the word", "query-from-encoder": "cross-attention"}.items():
        assert reason in str(unfit(name, model))
        with pytest.raises(LabError, match=reason), switch_on(name, model):
            pass
    with pytest.raises(LabError, match="nearest: scalar-gain"), switch_on("scaler-gain", model):
        pass
    assert not any(unfit(name, model) for name in OF_DECODERS)
    assert "one head" in str(unfit("model-width-scale", GPT(GPTShape(1, 1, 8, 4, 5))))
    for norm, order in (("post", "sequential"), ("pre", "parallel")):
        other = GPT(GPTShape(1, 2, 8, 4, 5, norm=norm, block=order))  # type: ignore[arg-type]
        assert "sequential pre-LN" in str(unfit("dropped-residual", other))


def test_hooks_that_wait_at_one_place_each_get_what_the_one_before_left() -> None:
    one, two = Hooks({"a": lambda name, x: x + 1}), Hooks({"a": lambda name, x: x * 10})
    assert together(one, two)("a", torch.tensor(1)) == 20
    assert together(two, one)("a", torch.tensor(1)) == 11


@pytest.mark.parametrize("name", ["sigma-plus-epsilon", "scalar-gain", "batch-statistics"])
def test_errata_of_layer_norm_do_not_concern_a_model_with_rmsnorm(name: str) -> None:
    model = GPT(GPTShape(1, 2, 8, 6, 11, positions="rotary", normalisation="rms", gated=True))
    assert "RMSNorm" in (unfit(name, model) or "")
    assert unfit("scaled-output", model) is None
