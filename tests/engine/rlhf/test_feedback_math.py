"""KL, token rewards, ranking losses, DPO, group advantages and best-of-n, against fp64 numbers of golden.py."""

from __future__ import annotations

import json
import runpy
from math import exp, log
from pathlib import Path
from typing import Any

import pytest
import torch

from txlab.engine.rlhf.direct import best_of_n_kl, dpo_loss, expected_best, grpo_advantages, rloo_advantages
from txlab.engine.rlhf.kl import AdaptiveKL, exact_kl, k1, k2, k3, token_rewards
from txlab.engine.rlhf.reward import Normaliser, choice_loss, ranking_loss

HERE = Path(__file__).parent
GOLDEN: dict[str, Any] = json.loads((HERE / "golden.json").read_text())
GIVEN = GOLDEN["given"]


def tensor(rows: Any) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def test_the_kept_numbers_are_those_that_the_script_computes() -> None:
    assert runpy.run_path(str(HERE / "golden.py"))["computed"]() == GOLDEN


def test_rewards_of_an_answer_add_up_to_its_score_less_the_kl() -> None:
    mask = torch.arange(6) < torch.tensor(GIVEN["lengths"])[:, None]
    divergence = k1(tensor(GIVEN["old"]), tensor(GIVEN["reference"]))
    rewards = token_rewards(tensor(GIVEN["scores"]), divergence, GIVEN["beta"], mask)
    torch.testing.assert_close(rewards, tensor(GOLDEN["token_rewards"]), rtol=1e-12, atol=1e-12)
    total = tensor(GIVEN["scores"]) - GIVEN["beta"] * (divergence * mask).sum(1)
    torch.testing.assert_close(rewards.sum(1), total)


def test_the_exact_kl_is_what_k1_and_k3_estimate() -> None:
    policy, reference = tensor(GOLDEN["kl"]["logits"])
    exact = float(exact_kl(policy, reference))
    assert exact == pytest.approx(GOLDEN["kl"]["exact"], rel=1e-12)
    p, logp, logq = policy.softmax(-1), policy.log_softmax(-1), reference.log_softmax(-1)
    for estimate in (k1, k3):  # their expectation under π, summed over all tokens
        assert float((p * estimate(logp, logq)).sum()) == pytest.approx(exact, rel=1e-12)
    assert bool((k2(logp, logq) >= 0).all())
    assert bool((k3(logp, logq) >= 0).all())


def test_the_three_estimates_of_a_token_are_those_of_their_definitions() -> None:
    p, q = tensor([0.5, 0.1, 0.2]), tensor([0.25, 0.4, 0.2])
    for estimate, expected in ((k1, [log(2), -log(4), 0]), (k2, [log(2) ** 2 / 2, log(4) ** 2 / 2, 0])):
        torch.testing.assert_close(estimate(p.log(), q.log()), tensor(expected))
    torch.testing.assert_close(k3(p.log(), q.log()), tensor([0.5 - 1 + log(2), 4 - 1 - log(4), 0]))


def test_a_token_that_the_policy_never_says_adds_nothing_to_the_kl() -> None:
    some, other = tensor([[0.5, -1.0, 2.0]]).requires_grad_(), tensor([[1.0, 0.0, 0.5]])
    never, sometimes = tensor([[-torch.inf]]), tensor([[0.3]])
    expected = exact_kl(some, other)
    assert exact_kl(torch.cat([some, never], 1), torch.cat([other, never], 1)).item() == pytest.approx(expected.item())
    found = exact_kl(torch.cat([some, never], 1), torch.cat([other, sometimes], 1))
    total = torch.cat([other, sometimes], 1).logsumexp(1) - other.logsumexp(1)  # the reference gives some of it away
    torch.testing.assert_close(found, expected + total)
    gradients = [torch.autograd.grad(each.sum(), some)[0] for each in (found, exact_kl(some, other))]
    torch.testing.assert_close(*gradients)
    assert exact_kl(torch.cat([some, sometimes], 1), torch.cat([other, never], 1)).item() == torch.inf


def test_what_cannot_be_compared_or_has_no_token_is_refused() -> None:
    one = tensor([[1.0], [2.0]])
    for refused in (rloo_advantages, grpo_advantages, lambda scores: grpo_advantages(scores, divide=False)):
        with pytest.raises(ValueError, match="at least 2 answers to each prompt; given 1"):
            refused(one)
    mask = torch.tensor([[True, True], [False, False]])
    with pytest.raises(ValueError, match="at least one token"):
        token_rewards(tensor([1.0, 2.0]), torch.zeros(2, 2).double(), 0.1, mask)
    with pytest.raises(ValueError, match="at least one token"):
        token_rewards(tensor([1.0]), torch.zeros(1, 0).double(), 0.1, torch.zeros(1, 0, dtype=torch.bool))
    with pytest.raises(ValueError, match="at least 2 samples; given 1"):
        Normaliser.of_samples(tensor([3.0]))


@pytest.mark.parametrize("loss", [lambda *given: ranking_loss(*given).loss, choice_loss])
@pytest.mark.parametrize("behind", [float("-inf"), float("nan")])
def test_padded_answers_and_prompts_without_answers_reach_no_loss_and_no_gradient(loss: Any, behind: float) -> None:
    scores = tensor([[1.0, 0.5, behind], [0.3, behind, behind], [behind] * 3]).requires_grad_()
    found = loss(scores, torch.tensor([[2, 1, 0], [1, 0, 0], [0, 0, 0]]))
    found.backward()
    assert found.item() == pytest.approx(log(1 + exp(0.5)), rel=1e-12)
    assert scores.grad is not None
    slope = 1 / (1 + exp(-0.5))
    torch.testing.assert_close(scores.grad, tensor([[slope, -slope, 0.0], [0.0] * 3, [0.0] * 3]))


def test_the_adaptive_controller_holds_to_its_fixture() -> None:
    controller = AdaptiveKL(target=6, horizon=10_000)
    for kl, beta in GOLDEN["adaptive"].items():
        assert controller.update_weight(0.2, float(kl), 256) == pytest.approx(beta, rel=1e-12)
    beta, course = 0.2, []
    for kl in (3, 12, 100):
        beta = controller.update_weight(beta, kl, 256)
        course.append(round(beta, 6))
    assert course == [0.198976, 0.199995, 0.201019]


def test_ranking_loss_averages_the_pairs_of_a_prompt_first_and_drops_ties() -> None:
    golden = GOLDEN["ranking"]
    found = ranking_loss(tensor(golden["scores"]), torch.tensor(golden["ranks"]))
    torch.testing.assert_close(found.per_prompt, tensor(golden["per_prompt"]), rtol=1e-12, atol=1e-12)
    assert float(found.loss) == pytest.approx(golden["loss"], rel=1e-12)
    assert found.pairs.tolist() == golden["pairs"] == [8, 10, 2]
    assert found.right.tolist() == golden["right"]


def test_ranking_loss_does_not_change_with_a_shift_of_all_scores() -> None:
    golden = GOLDEN["ranking"]
    scores, ranks = tensor(golden["scores"]), torch.tensor(golden["ranks"])
    assert float(ranking_loss(scores + 3, ranks).loss) == pytest.approx(golden["loss"], rel=1e-12)
    torch.testing.assert_close(Normaliser.of_samples(scores + 3)(scores + 3), Normaliser.of_samples(scores)(scores))


def test_a_prompt_of_ties_only_counts_nothing() -> None:
    scores = tensor(GOLDEN["ranking"]["scores"])[:2].requires_grad_()
    loss = ranking_loss(scores, torch.tensor([[1, 2, 3, 4, 5], [2, 2, 2, 2, 2]])).loss
    loss.backward()
    assert float(loss) == pytest.approx(float(ranking_loss(scores[:1], torch.tensor([[1, 2, 3, 4, 5]])).loss))
    assert scores.grad is not None
    assert not bool(scores.grad[1].any())


def test_a_choice_between_two_is_a_ranking_of_two() -> None:
    golden = GOLDEN["ranking"]
    scores = tensor(golden["scores"])
    K = scores.shape[1]
    second = torch.tensor([[2 if i == 0 else 1 if i == 1 else 3 for i in range(K)]] * 3)
    assert float(choice_loss(scores, second)) == pytest.approx(golden["choice_of_second"], rel=1e-12)
    two = scores[:, :2]
    pairwise = ranking_loss(two, torch.tensor([[2, 1]] * 3)).loss
    assert float(choice_loss(two, torch.tensor([[2, 1]] * 3))) == pytest.approx(float(pairwise), rel=1e-12)


def test_of_a_choice_only_who_is_first_counts() -> None:
    scores = tensor(GOLDEN["ranking"]["scores"])[:1, :4].clone().requires_grad_()
    whole = choice_loss(scores, torch.tensor([[1, 2, 3, 4]]))
    assert torch.equal(whole, choice_loss(scores, torch.tensor([[1, 4, 2, 2]])))
    shared = choice_loss(scores, torch.tensor([[1, 1, 3, 4]]))  # two are first: the mean of both choices
    other = choice_loss(scores, torch.tensor([[2, 1, 3, 4]]))
    assert float(shared.detach()) == pytest.approx(float((whole + other).detach()) / 2, rel=1e-12)
    padded = choice_loss(torch.cat([scores, torch.full((1, 2), 99.0).double()], 1), torch.tensor([[1, 2, 3, 4, 0, 0]]))
    assert float(padded.detach()) == pytest.approx(float(whole.detach()), rel=1e-12)
    equal = choice_loss(scores, torch.tensor([[1, 1, 1, 1]]))
    equal.backward()
    assert float(equal.detach()) == 0.0
    assert scores.grad is not None
    assert not bool(scores.grad.any())


def test_dpo_loss() -> None:
    logps = tensor(GOLDEN["dpo"]["logps"])
    assert float(dpo_loss(*logps, GIVEN["beta"])) == pytest.approx(GOLDEN["dpo"]["loss"], rel=1e-12)
    assert float(dpo_loss(logps[0], logps[1], logps[0], logps[1], 0.3)) == pytest.approx(log(2), rel=1e-12)


def test_group_advantages() -> None:
    scores = tensor(GOLDEN["ranking"]["scores"])
    torch.testing.assert_close(rloo_advantages(scores), tensor(GOLDEN["rloo"]), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(grpo_advantages(scores), tensor(GOLDEN["grpo"]), rtol=1e-12, atol=1e-12)
    assert float(rloo_advantages(scores).sum(1).abs().max()) < 1e-12
    assert not bool(grpo_advantages(torch.ones(2, 4)).isnan().any())


def test_expected_best_of_n_is_the_mean_over_all_subsets() -> None:
    golden = GOLDEN["best"]
    by, of = tensor([golden["by"]]), tensor([golden["of"]])
    found = [float(expected_best(by, of, n)) for n in range(1, 8)]
    assert found == pytest.approx(golden["expected"], rel=1e-10)
    with pytest.raises(ValueError, match="1 to 7"):
        expected_best(by, of, 8)


def test_the_kl_of_best_of_n() -> None:
    """ln n − (n − 1)/n, against the KL of the best of n over a uniform variable, integrated numerically."""
    u = (torch.arange(200_000, dtype=torch.float64) + 0.5) / 200_000
    for n in (1, 2, 4, 16):
        density = n * u ** (n - 1)
        assert best_of_n_kl(n) == pytest.approx(float((density * density.log()).mean()), abs=1e-4)
