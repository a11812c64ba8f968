"""What is shown is what the model did, and the scores of a head are what they say (MATH T1)."""

import math

import torch

from txlab.engine.interpret.activation_cache import induction_scores, previous_token_scores, run_with_cache
from txlab.engine.interpret.sites import Text
from txlab.engine.transformer.blocks import attention
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.hooks import keeping
from txlab.engine.transformer.masks import CAUSAL


def test_the_recorded_patterns_are_those_that_made_the_logits() -> None:
    model = GPT(GPTShape(2, 2, 8, 6, 11, dropout=0.5, positions="rotary"))
    model.train()
    ids = [1, 2, 3, 1, 2]
    hooks, kept = keeping("*.value")
    cache = run_with_cache(model, Text(tuple(ids)), hooks=hooks)
    assert model.training
    patterns, values = cache.patterns("self"), torch.cat(list(kept.values()))  # (L, H, T, T), (L, H, T, K)
    assert patterns.shape == (2, 2, 5, 5)
    torch.testing.assert_close(patterns.sum(-1), torch.ones(2, 2, 5))
    mixed = attention(cache.queries["self"], cache.keys["self"], values, CAUSAL, "sdpa")
    torch.testing.assert_close(patterns @ values, mixed)
    model.eval()
    expected = model(torch.tensor([ids]))[0].softmax(-1).detach()
    torch.testing.assert_close(cache.probabilities(slice(None)), expected)


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
