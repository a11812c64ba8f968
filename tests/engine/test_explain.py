"""The numbers in an expression give the result beside it."""

from __future__ import annotations

from dataclasses import replace
from math import log

import pytest
from calculator import calculated
from hypothesis import given
from hypothesis import strategies as st

from txlab.engine.explain import SHOWN, Explanation, substituted
from txlab.engine.rl.rules import make_agent, rule_names
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.worlds import world_named
from txlab.experiments.kind import explain_metric

numbers = st.floats(-1e6, 1e6).filter(lambda x: not x or abs(x) > 1e-9)


def agrees(found: float, result: float, largest: float) -> bool:
    return f"{found:.{SHOWN}g}" == f"{result:.{SHOWN}g}" or abs(found - result) <= 1.1e-12 * largest


@given(numbers, numbers, numbers, numbers)
def test_what_is_written_gives_what_is_shown(r: float, γ: float, v: float, q: float) -> None:
    text = substituted("{} + {} · {} − {}", lambda r, γ, v, q: r + γ * v - q, r, γ, v, q)
    found = calculated(text)
    assert found is not None
    assert agrees(found, r + γ * v - q, max(map(abs, (r, γ, v, q))))


@given(numbers, numbers)
def test_no_more_digits_are_written_than_needed(a: float, b: float) -> None:
    digits = [len(part.strip("()−-").split("e")[0].replace(".", "").lstrip("0")) for part in
              substituted("{} − {}", lambda a, b: a - b, a, b).split(" − ")]  # fmt: skip
    if max(digits) > SHOWN:
        fewer = [float(f"{x:.{max(digits) - 1}g}") for x in (a, b)]
        assert not agrees(fewer[0] - fewer[1], a - b, 0.0)


def test_whole_numbers_are_written_out() -> None:
    assert substituted("{} / √{}", lambda s, n: s / n, 2.0, 123456) == "2 / √123456"


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
