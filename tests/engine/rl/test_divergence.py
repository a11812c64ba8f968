"""A learner whose values are impossible says so; one that only learns does not."""

from __future__ import annotations

import numpy as np
import pytest

from txlab.engine.rl.divergence import divergence, possible_values
from txlab.engine.rl.rules import make_agent, rule_named, rule_names
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.worlds import world_named
from txlab.experiments.tabular.match import Match


def warning(settings: Settings, updates: int, world: str = "cliff") -> str:
    found = Match(world_named(world), [settings], 0)
    found.run(updates)
    said: str = found.frame().facts["warnings"][0]
    return said


def test_accumulating_traces_that_diverge_say_so_and_what_helps() -> None:
    settings = Settings(rule="sarsa-lambda", alpha=0.5, lam=0.9)
    said = warning(settings, 20_000)
    assert said.startswith("SARSA(λ) diverges: a value has reached ")
    assert "no return here is above 0" in said or "below" in said
    assert said.endswith("replacing traces, or a smaller α or λ helps")


@pytest.mark.parametrize("rule", [rule for rule in rule_names() if not rule_named(rule).traces])
@pytest.mark.parametrize("world", ["cliff", "frozen-lake"])
def test_no_rule_without_traces_is_accused(rule: str, world: str) -> None:
    settings = Settings(rule=rule, alpha=0.5, gamma=0.95, initial=2.0)
    assert warning(settings, 3000, world) == ""


def test_replacing_traces_and_smaller_steps_are_not_accused() -> None:
    for settings in (
        Settings(rule="sarsa-lambda", alpha=0.5, lam=0.9, traces="replacing"),
        Settings(rule="sarsa-lambda", alpha=0.1, lam=0.5),
        Settings(rule="td-lambda", alpha=0.05, lam=0.5),
    ):
        assert warning(settings, 5000) == ""


def test_the_bounds_are_those_of_the_returns() -> None:
    process = world_named("cliff").process
    assert possible_values(process, Settings(gamma=0.9)) == (pytest.approx(-1000), 0)
    assert possible_values(process, Settings(gamma=0.9, initial=7.0))[1] == 7
    agent = make_agent(process, Settings(gamma=0.9), 0)
    q = agent.q()
    assert q is not None
    q[3, 1] = 0.5
    assert "has reached 0.5, and no return here is above 0" in divergence(process, agent.settings, q)
    assert divergence(process, agent.settings, q, known=False) == ""
    q[3, 1] = np.inf
    assert "has reached inf" in divergence(process, agent.settings, q, known=False)
