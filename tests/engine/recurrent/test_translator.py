"""Recurrent translation: attention against loops, teacher forcing against decoding step by step (MATH R4)."""

from __future__ import annotations

from itertools import product
from math import exp, sqrt, tanh
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from txlab.engine.recurrent.cells import CELLS
from txlab.engine.recurrent.translation import (
    Attention,
    RecurrentTranslator,
    RecurrentTranslatorShape,
    additive_scores,
    flops_per_pair,
)
from txlab.engine.recurrent.why_translation import explain_additive
from txlab.engine.transformer.beam import beam_search
from txlab.engine.transformer.blocks import Kernel
from txlab.engine.transformer.costs import costs
from txlab.engine.transformer.generation import generate_target
from txlab.engine.transformer.masks import Padding
from txlab.engine.transformer.scoring import score_target
from txlab.errors import LabError

START, END = 1, 2
LENGTHS = (4, 7, 1, 6)
KINDS: list[Attention] = ["additive", "dot"]


def model_of(
    cell: str = "gru", layers: int = 1, attention: Attention = "additive", sharp: float = 1.0
) -> RecurrentTranslator:
    """A model in float64; `sharp` multiplies its logits' map, so that decoding is not all one token."""
    shape = RecurrentTranslatorShape(cell, layers, 6, 11, 13, 12, attention)
    model = RecurrentTranslator(shape, torch.Generator().manual_seed(3)).double().eval()
    with torch.no_grad():
        model.unembed.weight *= sharp
    return model


def sources(lengths: tuple[int, ...] = LENGTHS) -> list[list[int]]:
    draws = torch.Generator().manual_seed(5)
    return [torch.randint(3, 11, (length,), generator=draws).tolist() for length in lengths]


def padded(rows: list[list[int]], filler: int = 0) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[filler] * (longest - len(row))] for row in rows])


def targets(batch: int, length: int = 8) -> Tensor:
    draws = torch.Generator().manual_seed(7)
    written = torch.randint(3, 13, (batch, length), generator=draws)
    written[:, 0] = START
    return written


@pytest.mark.parametrize("attention", KINDS)
def test_scores_and_weights_are_those_of_a_plain_loop(attention: Attention) -> None:
    model, rows = model_of(attention=attention), sources()
    target, mask = targets(len(rows)), Padding(LENGTHS)
    with torch.no_grad():
        memory = model.encode(padded(rows), mask=mask)
        seen = model.look(padded(rows), target, source_mask=mask, memory=memory)
    U, states, H = model.scores.U.weight.tolist(), seen.states.tolist(), model.shape.width
    for b, t in product(range(len(rows)), range(target.shape[1])):
        found = []
        for j in range(LENGTHS[b]):
            m = memory[b, j].tolist()
            key = [sum(U[a][c] * m[c] for c in range(2 * H)) for a in range(H)]
            if attention == "dot":
                found.append(sum(states[b][t][a] * key[a] for a in range(H)) / sqrt(H))
                continue
            assert model.scores.W is not None
            assert model.scores.v is not None
            W, v = model.scores.W.weight.tolist(), model.scores.v.tolist()
            query = [sum(W[a][c] * states[b][t][c] for c in range(H)) for a in range(H)]
            found.append(sum(v[a] * tanh(query[a] + key[a]) for a in range(H)))
        total = sum(map(exp, found))
        assert seen.scores[b, t, : LENGTHS[b]].tolist() == pytest.approx(found, abs=1e-12)
        assert seen.pattern[b, t].tolist() == pytest.approx(
            [exp(score) / total for score in found] + [0.0] * (7 - LENGTHS[b]), abs=1e-12
        )


def test_logits_come_from_what_attention_found_and_the_state() -> None:
    """W_V tanh(W_c [Σ α m; s] + b) + b, and s₀ = tanh(W [h→; h←] + b), written out for one sentence."""
    model, source, target = model_of(), torch.tensor([sources()[1]]), targets(1)
    with torch.no_grad():
        memory, seen = model.encode(source), model.look(source, target)
        first = model.first_states(memory)[0][0][0]
        H = model.shape.width
        ended = torch.cat((memory[0, -1, :H], memory[0, 0, H:]))
        torch.testing.assert_close(first, (model.begin.weight @ ended + model.begin.bias).tanh())
        cell = model.decoder.cells()[0][0]
        state = (first[None],)
        for t in range(target.shape[1]):
            state = cell(cell.drive(model.embed_target(target[:, t])), state)
            found = sum(seen.pattern[0, t, j] * memory[0, j] for j in range(source.shape[1]))
            combined = (model.combine.weight @ torch.cat((found, state[0][0])) + model.combine.bias).tanh()
            logits = model.unembed.weight @ combined + model.unembed.bias
            torch.testing.assert_close(seen.logits[0, t], logits, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kernel", ["sdpa", "matmul"])
@pytest.mark.parametrize(("cell", "layers", "attention"), [*product(CELLS, (1, 2), KINDS)])
def test_a_target_token_by_token_has_the_logits_of_teacher_forcing(
    cell: str, layers: int, attention: Attention, kernel: Kernel
) -> None:
    model, source, mask = model_of(cell, layers, attention), padded(sources()), Padding(LENGTHS)
    target = targets(len(LENGTHS))
    with torch.no_grad():
        whole = model(source, target, source_mask=mask)
        memory, caches = model.encode(source, kernel, mask), model.empty_caches()
        steps = [
            model(source, target[:, t : t + 1], kernel, source_mask=mask, caches=caches, memory=memory)
            for t in range(target.shape[1])
        ]
    torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("cell", "layers"), [("gru", 1), ("lstm", 2), ("gru-mehlig", 1)])
def test_padding_changes_nothing_neither_logits_nor_gradients(cell: str, layers: int) -> None:
    model, rows = model_of(cell, layers), sources()
    target = targets(len(rows))
    found = []
    for filler in (0, 9):
        model.zero_grad()
        logits = model(padded(rows, filler), target, source_mask=Padding(LENGTHS))
        logits.square().sum().backward()
        table = model.embed_source.weight.grad
        assert table is not None
        found.append((logits, table.clone()))
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)
    for row, source in enumerate(rows):
        alone = model(torch.tensor([source]), target[row : row + 1])
        torch.testing.assert_close(found[0][0][row : row + 1], alone, rtol=0, atol=1e-12)


def test_a_later_token_of_the_target_changes_no_earlier_logits() -> None:
    model, source, target = model_of(layers=2), padded(sources((5,))), targets(1)
    other = target.clone()
    other[0, 5] = 3 if int(target[0, 5]) != 3 else 4
    one, two = model(source, target), model(source, other)
    torch.testing.assert_close(one[:, :5], two[:, :5], rtol=0, atol=0)
    assert not torch.equal(one[:, 5:], two[:, 5:])


@pytest.mark.parametrize("attention", KINDS)
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_one_beam_is_greedy_and_many_sources_are_as_each_alone(cell: str, attention: Attention) -> None:
    model, rows = model_of(cell, attention=attention, sharp=8.0), sources((4, 7, 1, 6, 3, 5))
    greedy = generate_target(model, rows, 10, start=START, end=END, never=(0, START))
    assert len({tuple(each) for each in greedy}) > 2
    for source, written in zip(rows, greedy, strict=True):
        (alone,) = generate_target(model, [source], 10, start=START, end=END, never=(0, START), cached=False)
        assert alone == written
        beam = beam_search(model, source, 10, beams=1, start=START, end=END, never=(0, START))
        assert beam[0].ids == written


def test_a_beam_s_probability_is_the_model_s_own_whatever_rows_were_dropped() -> None:
    model, source = model_of("lstm", 2, sharp=3.0), sources()[1]
    for found in beam_search(model, source, 9, beams=5, start=START, end=END):
        score = score_target(model, source, [START, *found.ids])
        assert score.total == pytest.approx(found.logp, abs=1e-9)


def test_what_does_not_fit_is_refused() -> None:
    model = model_of()
    with pytest.raises(ValueError, match="13 positions do not fit a context of 12"):
        model(torch.ones(1, 13, dtype=torch.long), targets(1))
    with pytest.raises(ValueError, match="13 positions"):
        model(torch.ones(1, 3, dtype=torch.long), torch.ones(1, 13, dtype=torch.long))
    with pytest.raises(LabError, match="at most 12"):
        score_target(model, [3] * 13, [START, END])


def test_an_additive_weight_is_explained_by_its_score() -> None:
    model, source, target = model_of(), padded(sources((5,))), targets(1, 4)
    with torch.no_grad():
        seen = model.look(source, target)
        queries, v = model.scores.queries(seen.states)[0], model.scores.v
        assert v is not None
        told = explain_additive(queries, seen.keys[0], v, 2, 3, list("abcd"), list("vwxyz"))
        assert told.result == pytest.approx(float(seen.pattern[0, 2, 3]), abs=1e-12)
        steps: dict[str, Any] = {step.name: step.result for step in told.steps}
        assert sum(a * t for a, t in zip(v.tolist(), steps["tⱼ"], strict=True)) == pytest.approx(
            steps["sᵢⱼ"], abs=1e-12
        )
        assert steps["sᵢⱼ"] == pytest.approx(float(seen.scores[0, 2, 3]), abs=1e-12)
        assert steps["sᵢⱼ′"] == pytest.approx(seen.scores[0, 2].tolist(), abs=1e-12)
        assert steps["αᵢⱼ"] == told.result
        assert "'c' look at 'y'" in told.question
        torch.testing.assert_close(additive_scores(queries[None], seen.keys, v), seen.scores)


@pytest.mark.parametrize(("cell", "layers", "attention"), [*product(CELLS, (1, 3), KINDS)])
def test_parameters_and_flops_are_those_of_the_model(cell: str, layers: int, attention: Attention) -> None:
    shape = RecurrentTranslatorShape(cell, layers, 16, 11, 13, 12, attention)
    model = RecurrentTranslator(shape)
    assert costs(shape).parameters == sum(parameter.numel() for parameter in model.parameters())
    source, target = torch.zeros(2, 11, dtype=torch.long), torch.zeros(2, 7, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        model(source, target, "matmul").sum().backward()
    counted = counter.get_total_flops() / 2
    # torch's counter leaves products of a matrix and a vector out, such as that with v
    uncounted = 6 * 11 * 7 * 16 if attention == "additive" else 0
    assert flops_per_pair(shape, [(11, 7)]) == pytest.approx(counted + uncounted, rel=0.02)
