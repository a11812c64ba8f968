"""The formulas on a scenario's page are those of its settings, and their letters are those of the numbered list."""

from __future__ import annotations

import pytest

from txlab.experiments.formulas.content import content
from txlab.runs.scenario import load_scenario, shipped_scenarios

NAMES = sorted(shipped_scenarios())


@pytest.mark.parametrize("name", NAMES)
def test_positions_are_added_or_turned_as_the_settings_have_it(name: str) -> None:
    scenario = load_scenario(name).scenario
    positions = getattr(getattr(scenario, "model", None), "positions", None)
    formulas = "\n".join(scenario.about.formulas)
    if positions == "rotary":
        assert "+ p" not in formulas
        assert "softmax(Q Kᵀ" not in formulas
    else:
        assert "R(Q)" not in formulas


@pytest.mark.parametrize("name", NAMES)
def test_the_width_of_a_head_has_a_letter_that_is_not_that_of_the_keys(name: str) -> None:
    assert "√K" not in "\n".join(load_scenario(name).scenario.about.formulas)


def test_the_letters_of_the_list_name_it_so() -> None:
    formulas, letters = content()
    assert "dₖ" in letters
    assert not any("√K" in line for each in formulas.values() for line in each.formulas)
