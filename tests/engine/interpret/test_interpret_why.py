"""An answer ends in the number that was asked about, and its lines lead there."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from interpret_models import MODELS, PAIR, TEXT, model_named, text_for

from txlab.engine.explain import IN_FACT, Explanation
from txlab.engine.interpret.activation_cache import rollout, run_with_cache
from txlab.engine.interpret.circuits import circuit
from txlab.engine.interpret.direct import direct_effects
from txlab.engine.interpret.effects import effect, lens
from txlab.engine.interpret.interventions import Edge, Erratum, Patch, ScaleHead
from txlab.engine.interpret.sites import Text
from txlab.engine.interpret.why import (
    why_copying,
    why_direct,
    why_kl,
    why_lens,
    why_next,
    why_pattern,
    why_rollout,
    why_score,
    with_form,
)
from txlab.errors import LabError
from txlab.runs.scenario import load_scenario


def named(token: int) -> str:
    return f"<{token}>"


def step(answer: Explanation, name: str) -> float:
    value = next(step.result for step in answer.steps if step.name == name)
    assert isinstance(value, float | int)
    return float(value)


def complete(answer: Explanation, result: float) -> None:
    assert answer.result == result
    assert answer.steps[-1].result == result
    assert answer.question
    assert answer.equation
    assert answer.math
    assert answer.source


@pytest.mark.parametrize("name", MODELS)
def test_why_a_position_looks_at_another(name: str) -> None:
    model = model_named(name)
    text = text_for(model)
    seen = run_with_cache(model, text)
    for site, found in seen.sites.items():
        T, S = seen.size(site)
        rows, columns = [f"r{i}" for i in range(T)], [f"c{j}" for j in range(S)]
        answer = why_pattern(seen, site, 1, 1, 3, 2, rows, columns)
        complete(answer, float(seen.row(site, 1, 1, 3)[2]))
        assert answer.result == pytest.approx(float(seen.pattern(site, 1, 1)[3, 2]), rel=1e-14)
        q, k = seen.queries[site][1, 1, 3], seen.keys[site][1, 1]
        raw = (k @ q / len(q) ** 0.5)[: 4 if found.mask_name == "causal" else S]
        exponentials = (raw - raw.max()).exp()
        assert step(answer, "max") == pytest.approx(float(raw.max()), rel=1e-5)
        assert step(answer, "sum") == pytest.approx(float(exponentials.sum()), rel=1e-5)
        assert answer.result == pytest.approx(float(exponentials[2] / exponentials.sum()), rel=1e-5)
        assert "'r3'" in answer.question
        assert "'c2'" in answer.question
        assert answer.labels[answer.asked or 0] == "c2"
        raw_score, formed = float(raw[2]), with_form(answer, model, seen, site, 1, 1, 3, 2)
        assert formed.result == answer.result
        if getattr(model.shape, "positions", "") == "rotary" and site != "cross":
            assert formed == answer  # a form for each distance
            continue
        (step_of_form,) = (one for one in formed.steps if "W_QK" in one.expression)
        assert step_of_form.result == pytest.approx(raw_score, abs=1e-6)
        assert len(formed.steps) == len(answer.steps) + 1
    with pytest.raises(LabError, match="outside"):
        why_pattern(seen, site, 0, 0, 99, 0)


def test_why_under_interventions_is_of_the_changed_model() -> None:
    model, second = model_named("gpt"), Text(tuple(reversed(TEXT.ids)))
    cut = run_with_cache(
        model, TEXT, [Edge("self", 1, 0, 5, 2), Edge("self", None, None, 5, 8, True), ScaleHead("self", 0, 1)]
    )
    for head, column in [(0, 2), (0, 3), (0, 8), (1, 2), (1, 8)]:
        answer = why_pattern(cut, "self", 1, head, 5, column)
        complete(answer, float(cut.row("self", 1, head, 5)[column]))
        assert step(answer, "αᵢⱼ") == answer.result
        raw = cut.keys["self"][1, head] @ cut.queries["self"][1, head, 5] / 2
        allowed = [j for j in range(10) if j <= 5 or j == 8]
        if head == 0:
            allowed.remove(2)
        expected = float((raw[column] - raw[allowed].logsumexp(0)).exp()) if column in allowed else 0.0
        assert answer.result == pytest.approx(expected, rel=1e-5)
        assert "by hand" in str(answer.operands[3].value)
    for wishes in ([Patch("blocks.1.attention.pattern", 5, 7)], [Erratum("softmax-over-matrix")]):
        changed = run_with_cache(model, TEXT, wishes, second)
        answer = why_pattern(changed, "self", 1, 0, 5, 3)
        complete(answer, float(changed.row("self", 1, 0, 5)[3]))
        assert answer.steps[-1].name == IN_FACT
        assert wishes[0].says in answer.steps[-1].note
        assert answer.steps[-2].result != pytest.approx(answer.result, rel=1e-3)


def test_why_a_token_comes_next() -> None:
    seen = run_with_cache(model_named("gpt"), TEXT)
    p = seen.logits[4].softmax(-1)
    for token in (int(p.argmin()), int(p.argmax())):
        answer = why_next(seen, 4, token, named, after="mouse")
        complete(answer, pytest.approx(float(p[token]), abs=1e-15))
        assert answer.labels[answer.asked or 0] == named(token)
        assert step(answer, "exp") / step(answer, "sum") == pytest.approx(answer.result)
        assert step(answer, "−ln p") == pytest.approx(-math.log(answer.result))
        assert step(answer, "rank") == (1 if token == int(p.argmax()) else 11)
        assert "'mouse'" in answer.question
    with pytest.raises(LabError, match=r"no token .*; allowed: 0 to 10"):
        why_next(seen, 4, 11)


def test_why_a_layer_would_say_a_token() -> None:
    found = lens(model_named("translator"), PAIR, 2)
    answer = why_lens(found, 1, 2, named)
    complete(answer, pytest.approx(float(found.probabilities[1, 2]), abs=1e-15))
    assert named(int(found.ids[1, 2])) in answer.question


def test_why_a_divergence() -> None:
    model = model_named("gpt")
    found = effect(model, TEXT, [ScaleHead("self", 0, 0)])
    answer = why_kl(found, named)
    complete(answer, found.kl)
    p, q = found.before, found.after
    terms = {named(v): float(p[v] * (p[v] / q[v]).log()) for v in range(11)}
    for one in answer.steps[:-2]:
        assert one.result == pytest.approx(terms[one.name.removeprefix("of ").strip("'")], abs=1e-12)
    assert sum(float(one.result) for one in answer.steps[:-1]) == pytest.approx(found.kl)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["gpt", "translator"])
def test_why_a_part_adds_what_it_adds(name: str) -> None:
    model = model_named(name)
    found = direct_effects(model, text_for(model), 3, 5)
    for part in found.parts:
        answer = why_direct(found, part, named)
        complete(answer, part.value)
        assert answer.labels[answer.asked or 0] == part.name
        assert step(answer, "Σ") == pytest.approx(found.logit, abs=1e-9)
        if part.kind in ("head", "embedding", "feed_forward"):
            reads, given = (operand.value for operand in answer.operands[-2:])
            product = sum(a * b for a, b in zip(reads, given, strict=True))  # type: ignore[arg-type, misc]
            assert product == pytest.approx(part.value, abs=1e-12)


@pytest.mark.parametrize("name", ["gpt", "translator"])
def test_why_a_position_holds_so_much_of_a_token(name: str) -> None:
    model = model_named(name)
    seen = run_with_cache(model, text_for(model))
    for site in seen.sites:
        layers = seen.sites[site].layers
        answer = why_rollout(seen, site, 3, 2)
        complete(answer, float(rollout(seen, site)[3, 2]))
        before = [float(rollout(seen, site, layer)[3, 2]) for layer in range(layers)]
        assert [one.result for one in answer.steps[:layers]] == before
        looked = step(answer, "Σₖ Aᵢₖ Rₖⱼ")
        if site in ("self", "encoder"):
            expected = looked / 2 + before[-1] / 2
        else:
            expected = looked / 4 + before[-1] / 4 + (step(answer, "Σₖ Cᵢₖ Eₖⱼ") / 2 if site == "cross" else 0)
        assert answer.result == pytest.approx(expected, abs=1e-12)


def test_why_a_head_has_its_score() -> None:
    seen = run_with_cache(model_named("rotary"), TEXT)
    scores = seen.scores("self")
    for score in scores:
        answer = why_score(seen, "self", 1, 1, score, [str(token) for token in TEXT.ids])
        complete(answer, float(scores[score][1, 1]))
        assert step(answer, "Σ") / step(answer, "n") == pytest.approx(answer.result)
    alpha = seen.pattern("self", 1, 1)
    rows = why_score(seen, "self", 1, 1, "induction").operands
    # 1 comes again at 3 and 8, 4 at 9; what came after them is at 2, (2, 4) and 3.
    assert rows[0].value == [3, 8, 9]
    expected = [float(alpha[3, 2]), float(alpha[8, 2] + alpha[8, 4]), float(alpha[9, 3])]
    assert rows[1].value == pytest.approx(expected)
    with pytest.raises(LabError, match="first"):
        why_score(run_with_cache(model_named("translator"), PAIR), "cross", 0, 0, "induction")


@pytest.mark.parametrize("ids", [(3, 3, 4, 4, 4, 5, 3), (1, 2, 1, 1, 2, 2, 1)])
def test_the_induction_score_is_its_stated_formula_even_with_immediate_repeats(ids: tuple[int, ...]) -> None:
    """Σⱼ α[i, j] over j < i with token j−1 = token i, averaged over the i that have such a j; the scenario agrees."""
    seen = run_with_cache(model_named("rotary"), replace(TEXT, ids=ids))
    alpha = seen.pattern("self", 1, 1)
    such = {i: [j for j in range(1, i) if ids[j - 1] == ids[i]] for i in range(len(ids))}
    expected = np.mean([sum(float(alpha[i, j]) for j in js) for i, js in such.items() if js])
    answer = why_score(seen, "self", 1, 1, "induction")
    assert answer.result == pytest.approx(expected, abs=1e-12)
    assert answer.equation == "score = mean over i that have such a j of Σⱼ αᵢⱼ, tokenⱼ₋₁ = tokenᵢ, j < i"
    told = load_scenario("gpt-copy").scenario.about.formulas[2]
    assert told.endswith("mean over i of Σⱼ α[i, j], token j−1 = token i, j < i; over the i that have such a j")


def test_why_a_head_copies() -> None:
    found = circuit(model_named("gpt"), "self", 0, 1, "ov")
    answer = why_copying(found, "ov", "head 1.2")
    complete(answer, found.positive)
    assert step(answer, "Σλ") / step(answer, "Σ|λ|") == pytest.approx(found.positive)
    assert torch.is_complex(found.eigenvalues)


def test_a_copying_score_says_which_path_it_is_of() -> None:
    from txlab.engine.interpret.circuits import Circuit
    from txlab.engine.interpret.why import why_copying

    assert (
        "what earlier layers write"
        in why_copying(Circuit(torch.tensor([1 + 0j, -2 + 0j]), -1 / 3), "ov", "2.1").steps[-1].note
    )
