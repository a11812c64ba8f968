"""A cache that changes no result, and distributions that are cut where they say (MATH T9)."""

import pytest
import torch

from txlab.engine.transformer.generation import generate, next_probabilities, window_start
from txlab.engine.transformer.gpt import GPT, GPTShape


def model_with(positions: str) -> GPT:
    model = GPT(GPTShape(2, 2, 16, 8, 13, positions=positions))
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3, generator=generator)
    return model.eval()


def written(model: GPT, prompt: list[int], cached: bool, temperature: float, tokens: int = 40) -> list[int]:
    generator = torch.Generator().manual_seed(11)
    return list(generate(model, prompt, tokens, generator=generator, temperature=temperature, cached=cached))


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("prompt", [[1], [1, 2, 3], list(range(12))])
def test_the_cache_changes_no_token_also_past_the_context(
    positions: str, temperature: float, prompt: list[int]
) -> None:
    model = model_with(positions)
    assert written(model, prompt, True, temperature) == written(model, prompt, False, temperature)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary"])
@pytest.mark.parametrize("kernel", ["matmul", "sdpa"])
def test_cached_logits_are_those_of_reading_everything_again(positions: str, kernel: str) -> None:
    model = model_with(positions).double()
    ids = torch.randint(13, (2, 8), generator=torch.Generator().manual_seed(4))
    whole = model(ids, kernel)
    caches = model.empty_caches()
    parts = [model(ids[:, a:b], kernel, caches=caches) for a, b in [(0, 3), (3, 4), (4, 7), (7, 8)]]
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-12, rtol=0)


def test_generation_is_a_function_of_the_generator_alone() -> None:
    model = model_with("learned")
    torch.manual_seed(1)
    one = written(model, [5], True, 1.0)
    torch.manual_seed(2)
    assert written(model, [5], True, 1.0) == one


def test_the_window_never_holds_more_than_the_context_nor_less_than_half() -> None:
    for context in (2, 3, 8, 9, 64):
        for length in range(1, 300):
            kept = length - window_start(length, context)
            assert min(length, context // 2) <= kept <= context


def test_distributions_are_cut_where_they_say() -> None:
    logits = torch.tensor([0.1, 0.4, 0.2, 0.3]).log()
    torch.testing.assert_close(next_probabilities(logits), torch.tensor([0.1, 0.4, 0.2, 0.3]))
    torch.testing.assert_close(next_probabilities(logits, top_k=2), torch.tensor([0, 4 / 7, 0, 3 / 7]))
    torch.testing.assert_close(next_probabilities(logits, top_p=0.41), torch.tensor([0, 4 / 7, 0, 3 / 7]))
    torch.testing.assert_close(next_probabilities(logits, top_p=0.39), torch.tensor([0, 1.0, 0, 0]))
    torch.testing.assert_close(next_probabilities(logits, temperature=0), torch.tensor([0, 1.0, 0, 0]))
    squared = torch.tensor([0.01, 0.16, 0.04, 0.09]) / 0.30
    torch.testing.assert_close(next_probabilities(logits, temperature=0.5), squared)


def test_no_mass_at_all_leaves_the_likeliest_token() -> None:
    logits = torch.tensor([[0.1, 0.4, 0.2, 0.3], [0.7, 0.1, 0.1, 0.1]]).log()
    for top_k in (0, 2):
        found = next_probabilities(logits, top_k=top_k, top_p=0.0)
        torch.testing.assert_close(found, torch.tensor([[0, 1.0, 0, 0], [1.0, 0, 0, 0]]))


def test_a_mass_that_is_reached_exactly_keeps_no_token_more() -> None:
    """Powers of two, so that sums are exact."""
    kept = [int((next_probabilities(torch.zeros(8), top_p=p) > 0).sum()) for p in (0.125, 0.25, 0.5, 0.75, 0.76, 1.0)]
    assert kept == [1, 2, 4, 6, 7, 8]


def test_with_both_cuts_the_mass_is_that_of_the_k_likeliest() -> None:
    """.4 of .4 + .3 is 57 %: within the two likeliest one token has a mass of .5, within all tokens it has not."""
    logits = torch.tensor([0.1, 0.4, 0.2, 0.3]).log()
    torch.testing.assert_close(next_probabilities(logits, top_k=2, top_p=0.5), torch.tensor([0, 1.0, 0, 0]))
    torch.testing.assert_close(next_probabilities(logits, top_k=2, top_p=0.6), torch.tensor([0, 4 / 7, 0, 3 / 7]))


def test_an_empty_prompt_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="no tokens"):
        written(model_with("learned"), [], True, 1.0)
