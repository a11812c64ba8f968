"""The numbers in an expression give the result printed next to it."""

from __future__ import annotations

import ast
from dataclasses import replace
from math import log
from operator import add, mul, sub
from pathlib import Path

import pytest
from calculator import calculated, contradictions
from hypothesis import given
from hypothesis import strategies as st

import txlab
from txlab.drawing.explanation import PARTS, explanation_lines
from txlab.engine.explain import (
    HALF,
    IN_FACT,
    SHOWN,
    Explaining,
    Explanation,
    bracket,
    compute_step,
    digits_needed,
    looks_like,
    number,
    rounded,
    substitute,
)
from txlab.engine.rl.rules import make_agent, rule_names
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.worlds import world_named
from txlab.experiments.kind import explain_metric

numbers = st.floats(-1e6, 1e6).filter(lambda x: not x or abs(x) > 1e-9)


def agrees(found: float, result: float, largest: float, digits: int = SHOWN) -> bool:
    return rounded(found, digits) == rounded(result, digits) or abs(found - result) <= 1.1e-12 * largest


@given(numbers, numbers, numbers, numbers)
def test_what_is_written_gives_what_is_shown(r: float, γ: float, v: float, q: float) -> None:
    text = substitute("{} + {} · {} − {}", lambda r, γ, v, q: r + γ * v - q, r, γ, v, q)
    found = calculated(text)
    assert found is not None
    assert agrees(found, r + γ * v - q, max(map(abs, (r, γ, v, q))))


def test_large_numbers_are_written_as_on_the_screens() -> None:
    from txlab.drawing.formatting import number as on_the_screens

    for value in (1234.5, 12345.678, 99999.7, 9999.96, -123456.7, 9999999.6, 1e7, 2.5e9, 12345, -20000):
        assert number(value) == on_the_screens(value)
    step = compute_step("FLOP", "{} · {}", mul, 12345.678, 4.0)
    assert step.expression == "12 345.7 · 4"  # 49 382.7, of which the screen shows 49 383
    shown = explanation_lines(explained(step.result, 12345.678, 4.0), 60, dict.fromkeys(PARTS, ""))
    assert any("12 345.7 · 4" in line.plain and "49 383" in line.plain for line in shown)
    assert not any("e4" in line.plain for line in shown)


def explained(value: float, a: float, b: float) -> Explanation:
    why = Explaining(f"why {value:.3f}?", value)
    why.equation("a b", "M1", "")
    why.compute("ab", "{} · {}", mul, a, b)
    return why.result()


@given(numbers, numbers)
def test_no_more_digits_are_written_than_needed(a: float, b: float) -> None:
    text = substitute("{} − {}", lambda a, b: a - b, a, b)
    digits = next(each for each in range(SHOWN, 18) if text == f"{number(a, each)} − {bracket(b, each)}")
    if digits > SHOWN:
        fewer = [rounded(x, digits - 1) for x in (a, b)]
        found, result = fewer[0] - fewer[1], a - b
        needed = digits_needed(result, [a, b])
        seen = not any(looks_like(each, result, needed, less) for each, less in zip((a, b), fewer, strict=True))
        assert not (seen and agrees(found, result, 0.0) and agrees(found, result, 0.0, needed))


def test_an_operand_that_is_the_result_needs_no_more_digits_than_the_result() -> None:
    assert compute_step("x", "{} · {}", mul, 8.00667157297, 1).expression == "8.007 · 1"
    assert substitute("{} − {}", sub, 0.0410684496164, -3.5e-16) == "0.04107 − (−3.5e-16)"


def test_whole_numbers_are_written_out() -> None:
    assert substitute("{} / √{}", lambda s, n: s / n, 2.0, 123456) == "2 / √123 456"


def wrong(explanation: Explanation) -> list[str]:
    found = []
    for step in explanation.steps:
        value = calculated(step.expression) if isinstance(step.result, float) else None
        if value is not None and not agrees(value, float(step.result), 1e3):  # type: ignore[arg-type]
            found.append(f"{step.name} = {step.expression} = {step.result}, not {value}")
    return found


@pytest.mark.parametrize("rule", [rule for rule in rule_names() if not rule.endswith("-iteration")])
def test_every_line_of_an_update_can_be_checked_with_a_calculator(rule: str) -> None:
    settings = Settings(rule=rule, alpha=1 / 3, gamma=0.97, lam=0.7, epsilon=0.3, initial=0.123456)
    if rule == "td-lambda":
        settings = replace(settings, traces="true-online")
    agent = make_agent(world_named("frozen-lake").process, settings, 1)
    seen = 0
    for _ in range(300):
        agent.run(1)
        if agent.last is not None:
            assert wrong(agent.last.explanation) == []
            assert contradictions(agent.last.explanation) == []
            seen += sum(calculated(step.expression) is not None for step in agent.last.explanation.steps)
    assert seen > 100


@pytest.mark.parametrize("loss", [0.000156789, 2.3456789, 0.03, 12.0])
def test_a_loss_in_bits_is_computed_from_the_loss_that_is_written(loss: float) -> None:
    told = explain_metric({"kind": "language-model"}, "val_loss", 10, {"val_loss": loss}, {})
    assert told is not None
    (bits,) = [step for step in told.meaning if step.name == "L / ln 2"]
    found = calculated(bits.expression)
    assert found is not None
    assert f"{found:.4g}" == f"{loss / log(2):.4g}"


def difference(value: float, minuend: float, subtrahend: float) -> Explaining:
    why = Explaining("why?", value)
    why.equation("d = a − b", "F1", "")
    why.compute("d", "{} − {}", sub, minuend, subtrahend)
    return why


def test_steps_that_give_another_number_say_so_and_end_in_the_number() -> None:
    why = difference(1.25, 3.0, 1.77).result(because="b was changed while it ran")
    assert [step.name for step in why.steps] == ["d", IN_FACT]
    assert why.steps[-1].note == "these steps give 1.23, the value shown is 1.25: b was changed while it ran"
    assert why.result == 1.25
    assert contradictions(why) == [why.steps[-1].note]


@pytest.mark.parametrize(("value", "steps"), [(float("nan"), 1.0), (1.0, float("inf")), (0.0, 1e-9), (5.0, 5.001)])
def test_numbers_that_differ_are_told_apart_whatever_they_are(value: float, steps: float) -> None:
    why = Explaining("why?", value)
    why.step("x", "", steps)
    assert why.result().steps[-1].name == IN_FACT
    same = Explaining("why?", value)
    same.step("x", "", value)
    assert [step.name for step in same.result().steps] == ["x"]


def test_a_difference_is_compared_by_its_terms_and_not_by_what_they_leave() -> None:
    """1000.0001 − 1000 in single precision is 1.2e-4, a fifth off."""
    rounded = 1000.00012 - 1000
    assert [step.name for step in difference(1e-4, 1000.00012, 1000.0).result().steps] == ["d"]
    assert difference(1e-4, 1000.00012, 1000.0).result().result == 1e-4 != rounded
    assert difference(0.5, 1000.00012, 1000.0).result().steps[-1].name == IN_FACT


def test_the_rounding_of_half_precision_is_told_where_it_is_seen() -> None:
    assert difference(0.4995, 1.0, 0.5).result().steps[-1].name == IN_FACT
    why = difference(0.4995, 1.0, 0.5).result(HALF)
    assert why.steps[-1].name == "d"
    assert why.steps[-1].note == "stored in half precision as 0.4995"
    assert why.result == 0.5
    assert difference(0.49999, 1.0, 0.5).result(HALF).steps[-1].note == ""


def shown(why: Explanation) -> str:
    return "\n".join(line.plain for line in explanation_lines(why, 100, dict.fromkeys(PARTS, "")))


@given(st.floats(-999, 999).filter(lambda x: abs(x) > 1e-3), st.floats(1e-10, 1e-3), st.sampled_from([-1, 1]))
def test_a_change_is_seen_however_small_it_is(before: float, share: float, sign: int) -> None:
    change = sign * share * before
    step = compute_step("x", "{} + {}", add, before, change)
    why = Explanation("why?", "x ← x + Δ", "F1", "", [], [step])
    line = next(line for line in shown(why).splitlines() if line.strip().startswith("x  = "))
    _, written, result = line.replace("\u2212", "-").split("= ")
    first, last = (float(text.replace(" ", "")) for text in (written.split(" + ")[0], result))
    assert (last - first) * change > 0


def test_no_zero_has_a_sign() -> None:
    why = Explaining("why?", -0.0)
    why.input("a", -0.0)
    why.compute("x", "{} · {}", mul, -0.0, 3.0)
    assert "−" not in shown(why.result())


def test_nothing_but_the_builder_makes_an_explanation() -> None:
    """So each of them has been compared with its number."""
    root = Path(txlab.__file__).parent
    found = []
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "Explanation":
                found.append(path.relative_to(root).as_posix())
    assert found == ["engine/explain.py"]
