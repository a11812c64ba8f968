"""What is shown is what the model did, and the scores of a head are what they say (MATH T1)."""

import math

import torch

from txlab.engine.transformer.attention import CAUSAL, attention
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.inspection import induction_scores, inspect, previous_token_scores


def test_the_recorded_patterns_are_those_that_made_the_logits() -> None:
    model = GPT(GPTShape(2, 2, 8, 6, 11, dropout=0.5, positions="rotary"))
    model.train()
    ids = [1, 2, 3, 1, 2]
    seen = inspect(model, ids)
    assert model.training
    assert seen.patterns.shape == (2, 2, 5, 5)
    torch.testing.assert_close(seen.patterns.sum(-1), torch.ones(2, 2, 5))
    mixed = attention(seen.queries, seen.keys, seen.values, CAUSAL, "sdpa")
    torch.testing.assert_close(seen.patterns @ seen.values, mixed)
    model.eval()
    torch.testing.assert_close(seen.probabilities, model(torch.tensor([ids]))[0].softmax(-1).detach())


def test_a_perfect_previous_token_head_scores_one() -> None:
    previous = torch.eye(6).roll(-1, 1).tril()
    torch.testing.assert_close(previous_token_scores(previous[None, None]), torch.ones(1, 1))
    uniform = torch.ones(6, 6) / 6
    torch.testing.assert_close(previous_token_scores(uniform[None, None]), torch.full((1, 1), 1 / 6))
    assert math.isnan(float(previous_token_scores(torch.ones(1, 1, 1, 1))))


def test_a_perfect_induction_head_scores_one_on_a_repeated_text() -> None:
    ids = [3, 1, 4, 5, 3, 1, 4, 5]
    perfect = torch.zeros(8, 8)
    for i in range(4, 8):
        perfect[i, i - 3] = 1
    torch.testing.assert_close(induction_scores(perfect[None, None], ids), torch.ones(1, 1))
    # Looking at the earlier occurrence itself is copying, not induction.
    copying = torch.zeros(8, 8)
    for i in range(4, 8):
        copying[i, i - 4] = 1
    torch.testing.assert_close(induction_scores(copying[None, None], ids), torch.zeros(1, 1))


def test_a_text_in_which_nothing_comes_twice_has_no_induction_score() -> None:
    assert bool(induction_scores(torch.ones(2, 3, 4, 4) / 4, [1, 2, 3, 4]).isnan().all())
    # The token right after itself has only itself to look at: no evidence of anything.
    assert bool(induction_scores(torch.ones(1, 1, 2, 2) / 2, [7, 7]).isnan().all())
