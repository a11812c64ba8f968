"""Advantages, whitening and the clipped losses, against fp64 numbers of an independent script (MATH M8, H4)."""

from __future__ import annotations

import json
from math import log
from pathlib import Path
from typing import Any

import pytest
import torch

from txlab.engine.policy_gradient import (
    clipped_policy_loss,
    clipped_value_loss,
    explained_variance,
    gae,
    masked_mean,
    token_entropy,
    whiten,
    zero_padding,
)
from txlab.engine.rlhf.kl import k3

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "rlhf" / "golden.json").read_text())
GIVEN = GOLDEN["given"]


def tensor(rows: Any) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def mask() -> torch.Tensor:
    return torch.arange(6) < torch.tensor(GIVEN["lengths"])[:, None]


def advantages() -> torch.Tensor:
    return gae(tensor(GIVEN["rewards"]), tensor(GIVEN["values"]), mask(), GIVEN["gamma"], GIVEN["lambda"])[1]


def close(ours: torch.Tensor, theirs: Any) -> None:
    torch.testing.assert_close(ours, tensor(theirs), rtol=1e-12, atol=1e-12)


def test_advantages_are_the_discounted_sums_of_td_errors() -> None:
    deltas, found, returns = gae(
        tensor(GIVEN["rewards"]), tensor(GIVEN["values"]), mask(), GIVEN["gamma"], GIVEN["lambda"]
    )
    for ours, name in ((deltas, "deltas"), (found, "advantages"), (returns, "returns")):
        close(ours, GOLDEN["gae"][name])


def test_tokens_after_the_end_of_a_row_never_count() -> None:
    rewards, values = tensor(GIVEN["rewards"]), tensor(GIVEN["values"])
    other = [x.masked_fill(~mask(), 1e6) for x in (rewards, values)]
    for ours, theirs in zip(gae(*other, mask()), gae(rewards, values, mask()), strict=True):
        assert torch.equal(ours, theirs)


def test_lambda_and_gamma_of_one_give_the_reward_to_go() -> None:
    rewards, values = tensor(GIVEN["rewards"]) * mask(), tensor(GIVEN["values"])
    _, _, returns = gae(rewards, values, mask(), 1.0, 1.0)
    close(returns, (rewards.flip(1).cumsum(1).flip(1) * mask()).tolist())


def test_an_episode_that_ended_takes_nothing_from_the_next_one_in_its_row() -> None:
    rewards, values = tensor([[1.0, 2.0, 3.0, 4.0]]), tensor([[0.5, -0.5, 0.25, 1.0]])
    ended = torch.tensor([[False, True, False, False]])
    joined = gae(rewards, values, None, 0.9, 0.8, tensor([7.0]), ended)
    first = gae(rewards[:, :2], values[:, :2], None, 0.9, 0.8)
    second = gae(rewards[:, 2:], values[:, 2:], None, 0.9, 0.8, tensor([7.0]))
    for whole, one, other in zip(joined, first, second, strict=True):
        torch.testing.assert_close(whole, torch.cat([one, other], 1))


def test_whitening_divides_by_n_and_ignores_padding() -> None:
    for shift, name in ((True, "whitened"), (False, "unshifted")):
        whitened, mean, sd = whiten(advantages(), mask(), shift)
        close(whitened, GOLDEN["whiten"][name])
        assert float(mean) == pytest.approx(GOLDEN["whiten"]["mean"], rel=1e-12)
        assert float(sd) == pytest.approx(GOLDEN["whiten"]["sd"], rel=1e-12)
    n = int(mask().sum())
    assert float(advantages()[mask()].std()) == pytest.approx(float(sd) * (n / (n - 1)) ** 0.5, rel=1e-12)


def test_policy_loss_and_its_clipped_tokens() -> None:
    whitened, _, _ = whiten(advantages(), mask())
    loss, ratio, clipped = clipped_policy_loss(
        tensor(GIVEN["new"]), tensor(GIVEN["old"]), whitened, mask(), GIVEN["clip"]
    )
    assert float(loss) == pytest.approx(GOLDEN["policy_loss"], rel=1e-12)
    assert int((clipped & mask()).sum()) == GOLDEN["clipped"] > 0
    close(ratio[mask()], (tensor(GIVEN["new"]) - tensor(GIVEN["old"])).exp()[mask()].tolist())


def test_a_clipped_token_gets_no_gradient() -> None:
    new = tensor([[0.5, 0.0]]).requires_grad_()
    loss, _, clipped = clipped_policy_loss(new, tensor([[0.0, 0.0]]), tensor([[1.0, 1.0]]), None, 0.2)
    loss.backward()
    assert clipped.tolist() == [[True, False]]
    assert new.grad is not None
    assert new.grad.tolist() == [[0.0, -0.5]]


def test_at_the_policy_that_sampled_the_ratio_is_one_and_nothing_is_clipped() -> None:
    old = tensor(GIVEN["old"])
    loss, ratio, clipped = clipped_policy_loss(old, old, advantages(), mask(), 0.2)
    assert bool((ratio == 1).all())
    assert not bool(clipped.any())
    assert float(loss) == pytest.approx(-float(masked_mean(advantages(), mask())))


@pytest.mark.parametrize("behind", [float("-inf"), float("inf"), float("nan")])
def test_nothing_behind_the_end_of_a_row_reaches_a_loss_or_its_gradient(behind: float) -> None:
    def found(fill: float) -> list[torch.Tensor]:
        names = ("new", "old", "new_values", "values", "rewards")
        given = {name: tensor(GIVEN[name]).masked_fill(~mask(), fill) for name in names}
        new, values = given["new"].requires_grad_(), given["new_values"].requires_grad_()
        _, advantages, returns = gae(given["rewards"], given["values"], mask())
        advantages, returns = (each.masked_fill(~mask(), fill) for each in (advantages, returns))
        whitened, mean, sd = whiten(advantages, mask())
        policy, _, _ = clipped_policy_loss(new, given["old"], whitened.masked_fill(~mask(), fill), mask(), 0.2)
        value, _ = clipped_value_loss(values, given["values"], returns, mask(), 0.2)
        loss = policy + value + masked_mean(k3(zero_padding(new, mask()), zero_padding(given["old"], mask())), mask())
        loss.backward()
        assert new.grad is not None
        assert values.grad is not None
        return [loss.detach(), new.grad, values.grad, mean, sd]

    for ours, theirs in zip(found(behind), found(0.0), strict=True):
        assert torch.equal(ours, theirs)
        assert bool(theirs.isfinite().all())


def test_a_value_that_moved_within_the_clip_is_never_counted_as_clipped() -> None:
    """V_old + (V − V_old) differs from V by rounding in some of these, and is further from R in half of them."""
    draws = torch.Generator().manual_seed(0)
    values, old, returns = torch.randn(3, 1, 1000, generator=draws)
    assert int((old + (values - old) != values).sum()) > 10
    _, clipped = clipped_value_loss(values, old, returns, None, 10.0)
    assert not bool(clipped.any())
    _, clipped = clipped_value_loss(old + 0.3, old, old - 1.0, None, 0.2)  # further away from R than it may be
    assert not bool(clipped.any())
    _, clipped = clipped_value_loss(old + 0.3, old, old + 1.0, None, 0.2)
    assert bool(clipped.all())


def test_the_explained_variance_of_a_perfect_value_is_one_and_of_a_constant_zero() -> None:
    returns = tensor([3.0, -1.0, 2.0])
    assert explained_variance(returns, returns + 7) == pytest.approx(1)
    assert explained_variance(returns, torch.ones(3)) == pytest.approx(0)
    assert explained_variance(returns, tensor([3.0, -1.0, 0.0])) == pytest.approx(1 - (8 / 9) / (26 / 9))
    assert explained_variance(returns[:1], torch.ones(1)) == 1  # a batch of one token


def test_value_loss_takes_the_worse_of_two() -> None:
    loss, clipped = clipped_value_loss(
        tensor(GIVEN["new_values"]), tensor(GIVEN["values"]), tensor(GOLDEN["gae"]["returns"]), mask(),
        GIVEN["value_clip"],
    )  # fmt: skip
    assert float(loss) == pytest.approx(GOLDEN["value_loss"], rel=1e-12)
    assert int((clipped & mask()).sum()) == GOLDEN["value_clipped"] > 0


def test_entropy_of_equal_logits_is_the_log_of_their_number() -> None:
    assert token_entropy(torch.zeros(3, 7).double()).tolist() == pytest.approx([log(7)] * 3)


def test_a_token_that_is_impossible_adds_nothing_to_the_entropy() -> None:
    some = tensor([[0.5, -1.0, 2.0]]).requires_grad_()
    entropy = token_entropy(torch.cat([some, tensor([[-torch.inf, -torch.inf]])], 1))
    assert entropy.item() == pytest.approx(token_entropy(some).item(), rel=1e-12)
    (with_impossible,) = torch.autograd.grad(entropy.sum(), some)
    (without,) = torch.autograd.grad(token_entropy(some).sum(), some)
    torch.testing.assert_close(with_impossible, without)
