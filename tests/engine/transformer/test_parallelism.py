"""Training on many cards, on paper: every term counted separately, and what must not change with the split."""

from __future__ import annotations

from dataclasses import replace

import pytest

from txlab.engine.transformer.costs import costs, step_memory
from txlab.engine.transformer.gpt import GPTShape
from txlab.engine.transformer.parallelism import (
    CARDS,
    USABLE,
    Split,
    all_plans,
    best_plan,
    card_named,
    make_plan,
    named_splits,
)
from txlab.errors import LabError

SHAPE = GPTShape(8, 8, 512, 256, 1000)
CARD = CARDS["h100"]
BATCH, TOKENS = 256 * 64.0, 1e9


def test_one_card_has_the_memory_of_a_step_and_sends_nothing() -> None:
    plan = make_plan(SHAPE, CARD, Split(1, micro=64), BATCH, TOKENS)
    whole = step_memory(SHAPE, 64, bfloat16=True)
    assert plan.memory["weights"] == whole.weights
    assert plan.memory["moments"] == whole.moments
    assert plan.memory["activations"] == pytest.approx(whole.activations)
    assert set(plan.wire.values()) == {0.0}
    work = costs(SHAPE).flops_per_token * BATCH
    assert plan.seconds["arithmetic"] == pytest.approx(work / 989e12)
    assert plan.share == pytest.approx(work / 989e12 / plan.step)
    assert plan.days == pytest.approx(TOKENS / BATCH * plan.step / 86400)
    assert plan.card_hours == pytest.approx(24 * plan.days)


def test_fsdp_divides_the_state_and_sends_the_weights_for_each_micro_batch() -> None:
    """Rajbhandari et al. 2020, §7.2.2: Ψ for each gathering and Ψ for the gradients, where an all-reduce sends 2 Ψ;
    here gathered weights have half the bytes of gradients."""
    copies, sharded = (make_plan(SHAPE, CARD, Split(8, sharded=each, micro=8), BATCH, TOKENS) for each in (False, True))
    for part in ("weights", "gradients", "moments"):
        assert sharded.memory[part] == pytest.approx(copies.memory[part] / 8)
    assert sharded.memory["activations"] == copies.memory["activations"]
    P = costs(SHAPE).parameters
    assert copies.wire["data"] == pytest.approx(2 * 7 / 8 * 4 * P)
    assert sharded.wire["data"] == pytest.approx(7 / 8 * (2 * 2 * P + 4 * P))
    more = make_plan(SHAPE, CARD, Split(8, sharded=True, micro=2), BATCH, TOKENS)  # gathered for each of four
    assert more.wire["data"] == pytest.approx(7 / 8 * (4 * 2 * 2 * P + 4 * P))


def test_the_tensor_wire_is_four_rings_a_layer() -> None:
    """Count the bytes of a ring: each card sends (t − 1)/t of a vector twice; two such forward and two backward."""
    plan = make_plan(SHAPE, CARD, Split(2, tensor=4, micro=4), BATCH, TOKENS)
    sent = 0.0
    for _ in range(8):  # layers
        for _ in range(int(64 / (2 * 4))):  # micro-batches
            vector = 4 * 256 * 512 * 2  # bytes
            sent += 4 * 2 * (vector - vector / 4)
    assert plan.wire["tensor"] == pytest.approx(sent)
    alone = make_plan(SHAPE, CARD, Split(2, micro=4), BATCH, TOKENS)
    assert plan.memory["weights"] == pytest.approx(alone.memory["weights"] / 4)
    assert plan.memory["activations"] == pytest.approx(alone.memory["activations"] / 4)


def test_a_pipeline_waits_as_a_simulated_one_does() -> None:
    """Stages in a row, each taking one unit a micro-batch forward and two backward: units from start to end."""
    stages, micro = 4, 8
    plan = make_plan(SHAPE, CARD, Split(2, pipeline=stages, micro=4), BATCH, TOKENS)
    ends = [[0.0] * micro for _ in range(stages)]
    for m in range(micro):
        for s in range(stages):
            before = max(ends[s][m - 1] if m else 0.0, ends[s - 1][m] if s else 0.0)
            ends[s][m] = before + 1
    back = [[0.0] * micro for _ in range(stages)]
    for m in range(micro):
        for s in reversed(range(stages)):
            before = max(back[s][m - 1] if m else ends[-1][-1], back[s + 1][m] if s + 1 < stages else 0.0)
            back[s][m] = before + 2
    whole, busy = max(map(max, back)), 3.0 * micro
    took = plan.seconds
    base = max(took["arithmetic"], took["memory traffic"]) + took["tensor wire"] + took["pipeline wire"]
    assert (base + took["bubble"]) / base == pytest.approx(whole / busy)
    assert plan.wire["pipeline"] == 2 * micro * 4 * 256 * 512 * 2


def test_work_in_all_is_the_same_however_it_is_divided() -> None:
    plans = list(all_plans(SHAPE, CARD, 16, BATCH, TOKENS))
    assert len({plan.flops for plan in plans}) == 1
    for plan in plans:
        assert plan.split.cards == 16
        again = 4 / 3 if plan.split.recompute else 1
        assert plan.seconds["arithmetic"] * 16 * CARD.flops == pytest.approx(
            again * costs(SHAPE).flops_per_token * BATCH
        )
        assert 0 < plan.share <= 1 + 1e-12
        assert plan.step >= max(plan.seconds["arithmetic"], plan.seconds["data wire"])
        assert plan.fits == (not plan.refused)
        if plan.fits:
            assert plan.total_memory <= USABLE * CARD.memory


def test_recomputation_takes_less_memory_and_more_time() -> None:
    usual, again = (make_plan(SHAPE, CARD, Split(4, recompute=each, micro=4), BATCH, TOKENS) for each in (False, True))
    assert again.memory["activations"] < usual.memory["activations"]
    assert again.seconds["arithmetic"] == pytest.approx(4 / 3 * usual.seconds["arithmetic"])


def test_the_best_plan_is_the_quickest_that_fits_and_says_why_none_does() -> None:
    plans = [plan for plan in all_plans(SHAPE, CARD, 8, BATCH, TOKENS) if plan.fits]
    assert best_plan(SHAPE, CARD, 8, BATCH, TOKENS).step == min(plan.step for plan in plans)
    huge = replace(SHAPE, layers=4, width=65536, heads=8)
    plan = best_plan(huge, CARD, 2, BATCH, TOKENS)
    assert not plan.fits
    assert plan.limit == "memory"
    assert "GB a card, of 80" in plan.refused
    assert set(named_splits(SHAPE, CARD, 8, BATCH, TOKENS)) == {
        "data-parallel",
        "FSDP",
        "tensor",
        "pipeline",
    }
    assert "of 64 sequences" not in make_plan(SHAPE, CARD, Split(64), BATCH, TOKENS).refused
    assert "128 copies" in make_plan(SHAPE, CARD, Split(128), BATCH, TOKENS).refused
    assert "8 heads" in make_plan(SHAPE, CARD, Split(1, tensor=16), BATCH, TOKENS).refused
    assert "8 layers" in make_plan(SHAPE, CARD, Split(1, pipeline=16), BATCH, TOKENS).refused


def test_a_slow_network_binds_and_a_fast_one_does_not() -> None:
    slow = replace(CARD, network=1e8)
    split = Split(64, sharded=True)
    assert make_plan(SHAPE, slow, split, BATCH, TOKENS).limit == "network"
    fast = replace(CARD, network=1e15, link=1e15, bandwidth=1e18)
    assert make_plan(SHAPE, fast, split, BATCH, TOKENS).limit == "arithmetic"
    assert make_plan(SHAPE, replace(fast, bandwidth=1e9), split, BATCH, TOKENS).limit == "bandwidth"


def test_cards_and_contexts_that_are_not_known_are_refused() -> None:
    with pytest.raises(LabError, match=r"'h10' \(nearest: h100\)|h10"):
        card_named("h10")
    assert card_named("H100") is CARD
    with pytest.raises(LabError, match="context is not published"):
        make_plan(replace(SHAPE, context=0), CARD, Split(1), BATCH, TOKENS)
