"""The score of a text is the plain product of its tokens' probabilities, whatever window it was read through."""

from __future__ import annotations

from math import exp, isnan, log

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from txlab.engine.transformer.bert import Bert, BertShape
from txlab.engine.transformer.encoder_decoder import EncoderDecoder, EncoderDecoderShape
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.scoring import score_masked, score_target, score_text, window_starts
from txlab.errors import LabError

V, T = 23, 8


def random_weights(model: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.3, generator=generator)
    return model.double().eval()


@pytest.fixture(scope="module")
def gpt() -> GPT:
    return random_weights(GPT(GPTShape(2, 2, 16, T, V, dropout=0.3)))  # type: ignore[return-value]


@pytest.fixture(scope="module")
def bert() -> Bert:
    return random_weights(Bert(BertShape(2, 2, 16, T, V)))  # type: ignore[return-value]


@pytest.fixture(scope="module")
def translator() -> EncoderDecoder:
    shape = EncoderDecoderShape(1, 2, 2, 16, V, V, T)
    return random_weights(EncoderDecoder(shape))  # type: ignore[return-value]


def naive(model: GPT, ids: list[int], t: int, seen: int) -> float:
    """log p of token t after the `seen` tokens before it: one model call, one softmax, one logarithm."""
    with torch.no_grad():
        return log(float(model(torch.tensor([ids[t - seen : t]]))[0, -1].softmax(-1)[ids[t]]))


@given(st.lists(st.integers(0, V - 1), min_size=1, max_size=30), st.integers(1, T))
def test_windows_score_each_token_once_with_the_sight_that_the_stride_promises(ids: list[int], stride: int) -> None:
    model: GPT = random_weights(GPT(GPTShape(1, 2, 8, T, V)))  # type: ignore[assignment]
    score = score_text(model, ids, stride)
    assert [token.token for token in score.tokens] == ids
    assert isnan(score.tokens[0].logp)
    assert not score.tokens[0].scored
    for t, token in enumerate(score.tokens[1:], 1):
        assert token.seen == t or T - stride + 1 <= token.seen <= T
        assert abs(token.logp - naive(model, ids, t, token.seen)) < 1e-12
    assert score.score_tokens == len(ids) - 1
    assert score.stride == (stride if len(ids) > T + 1 else 0)


def test_a_stride_of_one_gives_every_token_all_the_sight_there_is(gpt: GPT) -> None:
    ids = torch.randint(0, V, (25,), generator=torch.Generator().manual_seed(1)).tolist()
    assert [token.seen for token in score_text(gpt, ids, 1).tokens[1:]] == [min(t, T) for t in range(1, 25)]


def test_total_perplexity_and_bits_are_those_of_the_definition(gpt: GPT) -> None:
    ids = [3, 1, 4, 1, 5, 9, 2]
    score = score_text(gpt, ids)
    expected = sum(naive(gpt, ids, t, t) for t in range(1, 7))
    assert score.total == pytest.approx(expected, abs=1e-12)
    assert score.perplexity == pytest.approx(exp(-expected / 6), rel=1e-12)
    assert score.bits_per_byte(11) == pytest.approx(-expected / log(2) / 11, rel=1e-12)


def test_probabilities_of_all_continuations_sum_to_one(gpt: GPT) -> None:
    """Σ over all x₂ x₃ of p(x₂ x₃ | x₁) = 1: it is a distribution over texts."""
    total = sum(exp(score_text(gpt, [7, a, b]).total) for a in range(V) for b in range(V))
    assert total == pytest.approx(1.0, abs=1e-12)


def test_rank_entropy_and_the_likeliest_token_are_those_of_the_whole_row(gpt: GPT) -> None:
    ids = [3, 1, 4]
    with torch.no_grad():
        p = gpt(torch.tensor([ids]))[0, 1].softmax(-1)
    token = score_text(gpt, ids).tokens[2]
    assert token.rank == int((p > p[4]).sum()) + 1
    assert token.entropy == pytest.approx(float(-(p * p.log()).sum()), abs=1e-12)
    assert (token.likeliest, token.likeliest_logp) == (int(p.argmax()), pytest.approx(float(p.max().log()), abs=1e-12))


def test_dropout_does_not_score_and_the_mode_is_put_back(gpt: GPT) -> None:
    quiet = score_text(gpt, [1, 2, 3]).total
    gpt.train()
    assert score_text(gpt, [1, 2, 3]).total == quiet
    assert gpt.training
    gpt.eval()


def test_bert_hides_each_token_in_turn_and_no_special_one(bert: Bert) -> None:
    begin, end, mask = 0, 1, 2
    ids = [begin, 5, 6, 5, end]
    score = score_masked(bert, ids, mask, (begin, end))
    assert score.name == "pseudo-log-likelihood"
    assert [token.scored for token in score.tokens] == [False, True, True, True, False]
    for t in (1, 2, 3):
        hidden = list(ids)
        hidden[t] = mask
        with torch.no_grad():
            p = bert(torch.tensor([hidden]))[0, t].softmax(-1)[ids[t]]
        assert score.tokens[t].logp == pytest.approx(log(float(p)), abs=1e-12)


def test_bert_is_asked_in_batches_of_what_fits(bert: Bert, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = score_masked(bert, [5, 6, 7, 8, 9], 2)
    monkeypatch.setattr("txlab.engine.transformer.scoring.AT_ONCE", 2 * 5 * V)
    parts = score_masked(bert, [5, 6, 7, 8, 9], 2)
    assert [token.rank for token in parts.tokens] == [token.rank for token in whole.tokens]
    assert parts.total == pytest.approx(whole.total, abs=1e-12)


def test_a_target_is_scored_given_its_source(translator: EncoderDecoder) -> None:
    source, target = [4, 5, 6], [0, 7, 8, 1]
    score = score_target(translator, source, target)
    assert isnan(score.tokens[0].logp)
    for t in (1, 2, 3):
        with torch.no_grad():
            p = translator(torch.tensor([source]), torch.tensor([target[:t]]))[0, -1].softmax(-1)[target[t]]
        assert score.tokens[t].logp == pytest.approx(log(float(p)), abs=1e-12)
    assert score.total != score_target(translator, [6, 5, 4], target).total


def test_what_cannot_be_scored_is_a_readable_error(gpt: GPT, bert: Bert, translator: EncoderDecoder) -> None:
    for wrong in (
        lambda: score_text(gpt, [0, V]),
        lambda: score_text(gpt, [0, 1], stride=T + 1),
        lambda: score_masked(bert, [0] * (T + 1), 2),
        lambda: score_target(translator, [0] * (T + 1), [0, 1]),
        lambda: score_target(translator, [], [0, 1]),
    ):
        with pytest.raises(LabError):
            wrong()


def test_nothing_and_one_token_have_no_score(gpt: GPT) -> None:
    for ids in ([], [3]):
        score = score_text(gpt, ids)
        assert (score.score_tokens, score.total) == (0, 0)
        assert isnan(score.perplexity)
        assert isnan(score.bits_per_byte(3))


def test_window_starts_reach_the_end() -> None:
    assert window_starts(2, 4, 4) == [0]
    assert window_starts(6, 4, 4) == [0, 4]
