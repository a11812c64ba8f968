"""A recurrent language model: it scores and continues texts as its formulas say, whatever is cached (MATH R1)."""

from __future__ import annotations

import pytest
import torch

from txlab.engine.interpret.activation_cache import run_with_cache
from txlab.engine.interpret.sites import Text
from txlab.engine.recurrent.cells import CELLS
from txlab.engine.recurrent.language_model import RecurrentLM, RecurrentShape
from txlab.engine.transformer.beam import beam_search
from txlab.engine.transformer.costs import costs
from txlab.engine.transformer.generation import generate, generate_batch, reading_of
from txlab.engine.transformer.scoring import score_text
from txlab.errors import LabError

PROMPTS = [[3, 1, 4, 1, 5], [9], [2, 6, 5]]


def model(cell: str = "lstm", **shape: object) -> RecurrentLM:
    made = RecurrentShape(cell, 2, 6, 11, 8, **shape)  # type: ignore[arg-type]
    return RecurrentLM(made, torch.Generator().manual_seed(5)).double().eval()


@pytest.mark.parametrize("cell", CELLS)
def test_each_text_of_a_batch_is_continued_as_it_would_be_alone(cell: str) -> None:
    lm = model(cell)
    reading = reading_of(lm, PROMPTS)
    texts = [list(prompt) for prompt in PROMPTS]
    for rows, tokens in (([0, 1, 2], [7, 8, 0]), ([2, 0], [1, 10]), ([1, 1, 0], [2, 3, 4])):
        found = reading.logits()
        for row, text in zip(found, texts, strict=True):
            torch.testing.assert_close(row, lm(torch.tensor([text]))[0, -1], rtol=0, atol=1e-12)
        reading.go_on(rows, tokens)
        texts = [[*texts[row], token] for row, token in zip(rows, tokens, strict=True)]
        assert reading.texts == texts


def test_with_and_without_the_state_the_same_is_written() -> None:
    lm = model("gru")
    kept, anew = (
        list(generate(lm, PROMPTS[0], 30, generator=torch.Generator().manual_seed(1), cached=cached))
        for cached in (True, False)
    )
    assert kept == anew
    greedy = generate_batch(lm, PROMPTS, 12, generator=None, temperature=0)
    assert greedy == [list(generate(lm, prompt, 12, generator=None, temperature=0)) for prompt in PROMPTS]
    assert beam_search(lm, PROMPTS[0], 12, beams=1)[0].ids == greedy[0]
    best = beam_search(lm, PROMPTS[0], 6, beams=11**2)[0]
    assert best.logp >= beam_search(lm, PROMPTS[0], 6, beams=1)[0].logp


def test_a_text_of_any_length_is_scored_in_one_pass() -> None:
    lm = model()
    ids = [each % 11 for each in range(3, 60, 4)]
    found = score_text(lm, ids)
    logp = lm(torch.tensor([ids[:-1]]))[0].log_softmax(-1)
    wanted = logp[torch.arange(len(ids) - 1), torch.tensor(ids[1:])]
    assert found.total == pytest.approx(float(wanted.detach().sum()), abs=1e-12)
    assert found.stride == 0
    assert score_text(lm, []).score_tokens == 0


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("tied", [True, False])
def test_the_cost_is_that_of_its_matrices(cell: str, tied: bool) -> None:
    lm = model(cell, tied=tied)
    found = costs(lm.shape)
    assert found.parameters == sum(parameter.numel() for parameter in lm.parameters())
    recurrent = sum(p.numel() for name, p in lm.recurrent.named_parameters() if name.endswith(("W", "U")))
    assert found.flops_per_token == 6 * (recurrent + 6 * 11)


def test_training_is_truncated_and_looking_is_not() -> None:
    lm = model(truncate=3)
    ids = torch.tensor([[1, 2, 3, 4, 5, 6, 7]])

    def reached() -> torch.Tensor:
        x = lm.embed_ids(ids).detach().requires_grad_()
        h, _ = lm.recurrent(x, truncate=lm.shape.truncate if lm.training else 0)
        (gradient,) = torch.autograd.grad(h[0, 5].sum(), x)
        return gradient[0].abs().sum(-1)

    assert bool((reached()[:6] > 0).all())
    lm.train()
    assert bool((reached()[:3] == 0).all())
    before = lm(ids)
    torch.testing.assert_close(before, lm.eval()(ids))


def test_a_request_that_needs_attention_is_refused_with_an_error() -> None:
    with pytest.raises(LabError, match="no attention"):
        run_with_cache(model(), Text((1, 2, 3)))  # type: ignore[arg-type]
