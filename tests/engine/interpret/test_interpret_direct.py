"""A logit is the sum of what its parts add; what each layer would say; how far tokens have travelled (MATH T1–T9)."""

import math

import pytest
import torch
from interpret_models import MODELS, PAIR, TEXT, model_named, text_for
from torch import nn

from txlab.engine.interpret.activation_cache import rollout, run_with_cache
from txlab.engine.interpret.direct import direct_effects, neurons
from txlab.engine.interpret.effects import lens, lens_at
from txlab.engine.interpret.interventions import (
    EditWeight,
    Erratum,
    Intervention,
    Patch,
    ScaleBlock,
    ScaleHead,
    intervening,
)
from txlab.engine.interpret.sites import Text, run
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.hooks import keeping
from txlab.engine.transformer.norms import LayerNorm
from txlab.errors import LabError

CLOSE = {"atol": 1e-12, "rtol": 0}
LINEAR = [name for name in MODELS if name != "bert"]


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("against", [None, 2])
def test_parts_sum_to_the_logit(name: str, against: int | None) -> None:
    model = model_named(name)
    text = text_for(model)
    logits = run(model, text)[3]
    found = direct_effects(model, text, 7, against, position=3)
    expected = float(logits[7] if against is None else logits[7] - logits[against])
    assert found.logit == pytest.approx(expected, abs=1e-12)
    assert sum(part.value for part in found.parts) == pytest.approx(expected, abs=1e-9)
    layers, sites = (3, 2) if "translator" in name else (2, 1)
    kinds = [part.kind for part in found.parts]
    assert kinds.count("head") == layers * sites * 2
    assert kinds.count("feed_forward") == (0 if "attention" in name else layers)
    assert kinds.count("bias") == layers * sites
    assert kinds[0] == "embedding"
    assert "put in" not in kinds


class HeldNorm(nn.Module):
    """A LayerNorm whose σ, one a position, is given and stays: a linear map."""

    def __init__(self, norm: LayerNorm, sigma: torch.Tensor) -> None:
        super().__init__()
        self.norm, self.sigma, self.weight, self.bias = norm, sigma, norm.weight, norm.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean(-1, keepdim=True)) / self.sigma * self.weight + self.bias


@pytest.mark.parametrize("name", ["gpt", "parallel"])
def test_a_heads_part_is_what_the_logit_loses_without_it_when_the_scale_is_held(name: str) -> None:
    model = model_named(name)
    assert isinstance(model, GPT)
    hooks, kept = keeping("blocks.1.resid_post")
    before = run(model, TEXT, hooks)
    sigma = (kept["blocks.1.resid_post"].var(-1, correction=0, keepdim=True) + model.shape.epsilon).sqrt()
    model.final_norm = HeldNorm(model.final_norm, sigma)  # type: ignore[assignment]
    found = {part.name: part.value for part in direct_effects(model_named(name), TEXT, 7).parts}
    # The parallel block's feed-forward does not read its attention; the sequential one does, so what comes after the
    # last attention is the feed-forward alone.
    wish: Intervention = (
        ScaleHead("self", 1, 0, 0.0) if name == "parallel" else ScaleBlock("self", 1, "feed_forward", 0.0)
    )
    with intervening(model, TEXT, [wish]) as hooks_:
        lost = float((before - run(model, TEXT, hooks_))[-1, 7])
    assert found["head 2.1" if name == "parallel" else "feed-forward 2"] == pytest.approx(lost, abs=1e-9)
    assert abs(lost) > 1e-3


@pytest.mark.parametrize("name", [name for name in LINEAR if "attention" not in name])
def test_neurons_and_their_bias_sum_to_the_feed_forwards_part(name: str) -> None:
    model = model_named(name)
    text = text_for(model)
    found = direct_effects(model, text, 4, 1)
    prefix = "decoder.blocks.1" if "translator" in name else "blocks.1"
    effects = neurons(model, text, 1, 4, 1).effects
    bias = model.get_parameter(f"{prefix}.feed_forward.down_proj.bias").detach()
    total = float(effects.sum() + found.direction[f"{prefix}.feed_forward.out"] @ bias)
    assert effects.shape == (model.shape.inner,)
    part = next(part for part in found.parts if part.kind == "feed_forward" and part.layer == 1)
    assert total == pytest.approx(part.value, abs=1e-9)


@pytest.mark.parametrize(
    "wishes",
    [
        [ScaleHead("self", 0, 1, 0.0)],
        [ScaleBlock("self", 1, "attention", 3.0), Patch("blocks.1.resid_pre", 9, 2)],
        [Erratum("softmax-over-matrix")],
        [Patch("logits", 9, 1)],
    ],
)
def test_parts_sum_to_the_logit_under_interventions(wishes: list[Intervention]) -> None:
    model, second = model_named("gpt"), Text(tuple(reversed(TEXT.ids)))
    found = direct_effects(model, TEXT, 7, interventions=wishes, second=second)
    with intervening(model, TEXT, wishes, second) as hooks:
        assert found.logit == pytest.approx(float(run(model, TEXT, hooks)[-1, 7]), abs=1e-12)
    assert sum(part.value for part in found.parts) == pytest.approx(found.logit, abs=1e-9)
    parts = {part.name: part.value for part in found.parts}
    put_in = abs(parts["put in by hand"])
    assert put_in > 1e-3 if any(isinstance(wish, Patch | ScaleBlock) for wish in wishes) else put_in < 1e-9
    if isinstance(wishes[0], ScaleHead):
        assert parts["head 1.2"] == 0.0


def test_what_has_no_direct_effect_says_why() -> None:
    with pytest.raises(LabError, match="BERT's head"):
        direct_effects(model_named("bert"), TEXT, 1)
    gpt = model_named("gpt")
    with pytest.raises(LabError, match="scalar-gain"):
        direct_effects(gpt, TEXT, 1, interventions=[Erratum("scalar-gain")])
    with pytest.raises(LabError, match="dropped-residual takes what heads add out"):
        direct_effects(model_named("gpt"), TEXT, 5, interventions=[Erratum("dropped-residual")])
    with pytest.raises(LabError, match="no token 11; allowed: 0 to 10"):
        direct_effects(gpt, TEXT, 11)
    with pytest.raises(LabError, match=r"no prediction at position .*; allowed: 0 to 9"):
        direct_effects(gpt, TEXT, 1, position=10)
    with pytest.raises(LabError, match="no layer 3; allowed: 1 to 2"):
        neurons(gpt, TEXT, 2, 1)
    with pytest.raises(LabError, match="block 2 has no neurons: its attention has no feed-forward behind it"):
        neurons(model_named("attention"), TEXT, 1, 1)


@pytest.mark.parametrize("name", MODELS)
def test_the_lens_is_what_a_model_cut_off_after_each_layer_would_say(name: str) -> None:
    model = model_named(name)
    text = text_for(model)
    found = lens(model, text, 3, k=4)
    logits = run(model, text)[3]
    torch.testing.assert_close(found.logits[-1], logits, **CLOSE)
    torch.testing.assert_close(found.probabilities[-1], logits.softmax(-1).topk(4).values, **CLOSE)
    torch.testing.assert_close(found.final, found.logits.softmax(-1)[:, int(logits.argmax())], **CLOSE)
    assert float(found.kl[-1]) == 0.0
    last = found.logits[-1].softmax(-1)
    for row, kl in zip(found.logits, found.kl.tolist(), strict=True):  # KL(last row ‖ this one), token by token
        terms = zip(last.tolist(), row.softmax(-1).tolist(), strict=True)
        assert kl == pytest.approx(sum(p * math.log(p / q) for p, q in terms), abs=1e-9)
    assert len(found.ids) == (4 if "translator" in name else 3)
    if name in ("gpt", "post"):
        short = GPT(GPTShape(1, 2, 8, 12, 11, norm="post" if name == "post" else "pre")).double()
        short.load_state_dict({k: v for k, v in model.state_dict().items() if not k.startswith("blocks.1")})
        torch.testing.assert_close(found.logits[1], run(short, text)[3], **CLOSE)


def test_the_lens_sees_interventions() -> None:
    model = model_named("gpt")
    wish = ScaleBlock("self", 1, "attention", 0.0)
    other = ScaleBlock("self", 1, "feed_forward", 0.0)
    found = lens(model, TEXT, -1, interventions=[wish, other])
    torch.testing.assert_close(found.logits[1], found.logits[2], **CLOSE)


def test_the_lens_of_a_pass_already_seen_is_that_of_a_new_one() -> None:
    model, second = model_named("pre-translator"), Text((5, 1, 4, 1, 5, 9, 6), (0, 3, 3, 8, 2))
    wishes = [
        EditWeight("embed_target.weight", (3, 1), 2.0),
        Patch("decoder.blocks.1.resid_post", 1),
        Erratum("scalar-gain"),
    ]
    seen = run_with_cache(model, PAIR, wishes, second)
    for position in range(5):
        found = lens_at(model, seen, position)
        torch.testing.assert_close(found.logits, lens(model, PAIR, position, 5, wishes, second).logits, **CLOSE)
        torch.testing.assert_close(found.logits[-1], seen.logits[position], **CLOSE)
    with pytest.raises(LabError, match="no prediction at position 5; allowed: 0 to 4"):
        lens_at(model, seen, 5)


def test_rollout_is_the_product_of_half_steps() -> None:
    seen = run_with_cache(model_named("gpt"), TEXT)
    one, two = (seen.average("self", layer) / 2 + torch.eye(10) / 2 for layer in range(2))
    torch.testing.assert_close(rollout(seen, "self"), two @ one, **CLOSE)
    torch.testing.assert_close(rollout(seen, "self", 1), one, **CLOSE)
    torch.testing.assert_close(rollout(seen, "self", 0), torch.eye(10, dtype=torch.float64), **CLOSE)
    with pytest.raises(LabError, match="0 to 2 layers, not 3"):
        rollout(seen, "self", 3)
    with pytest.raises(LabError, match="there is: self"):
        rollout(seen, "cross")


def test_rollout_across_is_that_of_one_graph_over_both_texts() -> None:
    """All of it as one chain on S + T nodes, encoder first: an independent way to the same numbers."""
    seen = run_with_cache(model_named("translator"), PAIR)
    S, T = 7, 5
    eye = torch.eye(S + T, dtype=torch.float64)
    total = eye.clone()

    def step(rows: slice, columns: slice, average: torch.Tensor) -> None:
        nonlocal total
        change = eye.clone()
        change[rows] /= 2
        change[rows, columns] += average / 2
        total = change @ total

    source, target = slice(0, S), slice(S, S + T)
    for layer in range(2):
        step(source, source, seen.average("encoder", layer))
    for layer in range(3):
        step(target, target, seen.average("decoder", layer))
        step(target, source, seen.average("cross", layer))
    torch.testing.assert_close(rollout(seen, "cross"), total[target, source], **CLOSE)
    torch.testing.assert_close(rollout(seen, "decoder"), total[target, target], **CLOSE)
    torch.testing.assert_close(rollout(seen, "encoder"), total[source, source], **CLOSE)
    both = rollout(seen, "cross").sum(-1) + rollout(seen, "decoder").sum(-1)
    torch.testing.assert_close(both, torch.ones(T, dtype=torch.float64), **CLOSE)
