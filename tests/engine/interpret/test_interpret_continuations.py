"""The tree of continuations: its probabilities are the model's own, along every path and under interventions."""

from __future__ import annotations

from math import exp

import pytest
import torch
from interpret_models import model_named, text_for

from txlab.engine.interpret.continuations import continuations, extend_text, why_path
from txlab.engine.interpret.interventions import ScaleHead
from txlab.engine.interpret.sites import attention_at, sites
from txlab.engine.transformer.encoder_decoder import EncoderDecoder
from txlab.engine.transformer.scoring import score_target, score_text
from txlab.errors import LabError

WRITERS = ["gpt", "rotary", "parallel", "llama", "translator"]


@pytest.mark.parametrize("name", WRITERS)
def test_a_path_has_the_probability_that_the_model_gives_its_tokens(name: str) -> None:
    """Against the score of the whole text, which reads it once."""
    model, path, total = model_named(name), [], 0.0
    text = text_for(model)
    for rank in (2, 0):
        found = continuations(model, text, path)
        assert list(found.logp) == sorted(found.logp, reverse=True)
        total += found.logp[rank]
        path.append(found.tokens[rank])
    whole = extend_text(text, path)
    if isinstance(model, EncoderDecoder):
        scores = score_target(model, whole.ids, whole.target).tokens
    else:
        scores = score_text(model, whole.ids).tokens
    assert total == pytest.approx(sum(score.logp for score in scores[-2:]), abs=1e-9)
    assert [score.rank for score in scores[-2:]] == [3, 1]


def test_what_is_not_listed_has_the_rest_of_the_probability() -> None:
    model = model_named("gpt")
    few, all_of_them = (continuations(model, text_for(model), most=most) for most in (3, 50))
    assert (len(few.tokens), few.others) == (3, 8)
    assert sorted(all_of_them.tokens) == list(range(11))
    assert few.rest == pytest.approx(sum(exp(each) for each in all_of_them.logp[3:]))
    assert all_of_them.rest == pytest.approx(0, abs=1e-12)


def test_what_is_never_written_is_not_offered_and_changes_no_probability() -> None:
    model = model_named("gpt")
    text = text_for(model)
    free = continuations(model, text, most=50)
    without = continuations(model, text, most=50, never=(free.tokens[0],))
    assert without.tokens == free.tokens[1:]
    assert without.logp == pytest.approx(free.logp[1:])


def test_a_head_that_is_off_is_off_along_the_path() -> None:
    model, changed = model_named("gpt"), model_named("gpt")
    (site,) = sites(changed)
    with torch.no_grad():
        attention = attention_at(changed, site, 1)
        attention.out_proj.weight[:, attention.head_width :] = 0
    text, path = text_for(model), [7, 2]
    edited = continuations(model, text, path, 11, (ScaleHead("self", 1, 1, 0.0),))
    by_hand = continuations(changed, text, path, 11)
    assert edited.tokens == by_hand.tokens
    assert edited.logp == pytest.approx(by_hand.logp, abs=1e-10)
    assert edited.logp != pytest.approx(continuations(model, text, path, 11).logp, abs=1e-4)


def test_a_model_that_does_not_write_and_a_path_that_is_too_long_are_refused_with_an_error() -> None:
    model = model_named("bert")
    with pytest.raises(LabError, match="fills masks"):
        continuations(model, text_for(model))
    model = model_named("gpt")
    with pytest.raises(LabError, match="13 tokens; this model reads at most 12"):
        continuations(model, text_for(model), (1, 2, 3))


def test_the_explanation_multiplies_the_tokens_of_the_path() -> None:
    said = why_path(["a", " b"], [-0.5, -1.25])
    assert said.result == pytest.approx(exp(-0.5) * exp(-1.25))
    assert said.steps[0].expression == "−0.5 −1.25"
