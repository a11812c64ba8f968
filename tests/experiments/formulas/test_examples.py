"""Every formula has an example, and every number in it is recomputed by another program (`recomputed_*.py` here)."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from txlab.engine.explain import IN_FACT, Explanation
from txlab.errors import LabError
from txlab.experiments.formulas.content import content
from txlab.experiments.formulas.example import MODULES, Example, Input, example_of, examples, where_they_part

NUMBERS = [number for number in content()[0] if number in examples(number[0])]


def recomputed(number: str, values: dict[str, Any], misprint: str = "") -> dict[str, Any]:
    """The name of a step → its number or row, computed from the inputs without txlab."""
    module = import_module(f"recomputed_{MODULES[number[0]]}")
    answer: dict[str, Any] = getattr(module, number)(**values, misprint=misprint)
    return answer


def changed(given: Input, random: np.random.Generator) -> Any:
    """Another value of an input: numbers moved by up to three steps, within its bounds."""
    if isinstance(given.value, str):
        return str(random.choice(given.allowed)) if given.allowed else given.value

    def move(value: Any) -> Any:
        if not isinstance(value, (int, float)):
            return [move(entry) for entry in value]
        far = value + given.step * int(random.integers(-3, 4))
        return given.cast(min(max(far, given.low), given.high))

    return move(given.value)


TEXTS = ("", " ", "★ é 😀", "aab", "1 / x", "log(x)", "x * y", "abs(x)", "exp(exp(x))", "x +", "\ud800", "a" * 1000)


def anywhere(given: Input, random: np.random.Generator) -> Any:
    """A value of an input anywhere within its bounds, often at one of them."""
    if isinstance(given.value, str):
        texts = given.allowed or (given.value, *TEXTS)
        return texts[int(random.integers(len(texts)))]

    def draw(value: Any) -> Any:
        if not isinstance(value, (int, float)):
            return [draw(entry) for entry in value]
        low, high = max(given.low, value - 100 * given.step), min(given.high, value + 100 * given.step)
        found = random.choice([low, high, 0.0 if low <= 0 <= high else low, random.uniform(low, high)])
        return given.cast(round(float(found)) if given.whole else float(found))

    return draw(given.value)


def numbers_of(value: Any) -> list[float]:
    if isinstance(value, str):
        return []
    return [value] if isinstance(value, (int, float)) else [each for entry in value for each in numbers_of(entry)]


def hold(explanation: Explanation, expected: dict[str, Any]) -> None:
    """Every step is what the other program computed."""
    assert explanation.steps[-1].name != IN_FACT, explanation.steps[-1].note
    for step in explanation.steps:
        assert step.name in expected, f"{step.name} of {explanation.math} is not recomputed"
        if isinstance(step.result, str):
            assert step.result == expected[step.name]
        else:
            np.testing.assert_allclose(step.result, expected[step.name], rtol=1e-9, atol=1e-12, err_msg=step.name)


@pytest.mark.parametrize("number", NUMBERS)
def test_every_number_of_an_example_is_recomputed_for_its_inputs_and_others(number: str) -> None:
    example, random = example_of(number), np.random.default_rng(0)
    for attempt in range(6):
        values = example.values()
        if attempt:
            values = {each.name: changed(each, random) for each in example.inputs}
        explanation = example.explain(**values)
        assert explanation.math == number
        assert math.isfinite(explanation.result)
        hold(explanation, recomputed(number, values))
        for name, misprint in example.misprints.items():
            hold(misprint.explain(**values), recomputed(number, values, name))


@pytest.mark.parametrize("number", NUMBERS)
def test_any_values_within_the_bounds_have_finite_steps_or_a_sentence(number: str) -> None:
    example, random = example_of(number), np.random.default_rng(1)
    for _ in range(60):
        values = {each.name: anywhere(each, random) for each in example.inputs}
        for explain in (example.explain, *(misprint.explain for misprint in example.misprints.values())):
            try:
                explanation = explain(**values)
            except LabError:
                continue
            assert explanation.steps[-1].name != IN_FACT, (values, explanation.steps[-1].note)
            for step in explanation.steps:
                assert all(map(math.isfinite, numbers_of(step.result))), (values, step)


@pytest.mark.parametrize("number", [n for n in NUMBERS if example_of(n).misprints])
def test_a_misprinted_form_parts_from_the_right_one_where_the_page_says(number: str) -> None:
    example: Example = example_of(number)
    values = example.values()
    for misprint in example.misprints.values():
        step = where_they_part(example.explain(**values), misprint.explain(**values))
        assert step is not None
        assert step.name == misprint.parts
