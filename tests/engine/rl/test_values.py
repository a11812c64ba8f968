"""Rules on values of any form: a table as the glass box has it, a linear unit, a network, states without number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sampled_process import SampledProcess

from txlab.engine.rl.rules import make_agent
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.values import LinearValues, NetworkValues, Table, ValueLearner
from txlab.engine.rl.worlds import world_named
from txlab.errors import LabError

RULES = ("sarsa", "expected-sarsa", "q-learning", "sarsa-lambda", "watkins-q-lambda")


def environment() -> SampledProcess:
    return SampledProcess(replace(world_named("frozen-lake").process, limit=40))


def settings(rule: str, **more: Any) -> Settings:
    return Settings(rule=rule, alpha=0.3, gamma=0.95, lam=0.8, epsilon=0.2, **more)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("traces", ["accumulating", "replacing"])
def test_on_a_table_it_is_the_glass_box_bit_for_bit(rule: str, traces: str) -> None:
    table = Table(4)
    learner = ValueLearner(environment(), table, int, settings(rule, traces=traces), seed=3)
    for steps in (1, 700, 299):
        learner.run(steps)
    agent = make_agent(environment(), settings(rule, traces=traces), 3)
    agent.run(1000)
    assert learner.returns == agent.returns
    assert len(agent.returns) > 20
    q = agent.q()
    assert q is not None
    for s, row in table.rows.items():
        assert row == q[s].tolist()  # type: ignore[index]
    assert agent.last is not None
    assert agent.last.delta == pytest.approx(learner.delta, rel=1e-12)


@pytest.mark.parametrize("rule", RULES)
def test_a_linear_unit_of_one_feature_a_state_and_a_network_of_one_layer_are_a_table(rule: str) -> None:
    eye = np.eye(16)
    module = torch.nn.Linear(16, 4, bias=False, dtype=torch.float64)
    torch.nn.init.zeros_(module.weight)
    table, linear, network = Table(4), LinearValues(4, 16), NetworkValues(module)
    ValueLearner(environment(), table, int, settings(rule), 5).run(300)
    for values in (linear, network):
        learner = ValueLearner(environment(), values, eye.__getitem__, settings(rule), 5)
        learner.run(300)
        for s, row in table.rows.items():
            assert values.row(eye[s]) == pytest.approx(row, rel=1e-9, abs=1e-12)  # type: ignore[index]


class Line:
    """A walk on all whole numbers, whose states are not counted: the nearer to 0, the better."""

    discount = 0.9

    def reset(self, u: float) -> tuple[str, int]:
        self.place, self.steps = 10**9 + int(u * 5), 0
        return ("at", self.place)

    def step(self, action: int) -> tuple[tuple[str, int], float, bool, bool]:
        self.place += 1 if action else -1
        self.steps += 1
        return ("at", self.place), 0.0 if action else 1.0, False, self.steps == 20


def test_states_that_cannot_be_enumerated_are_learnt_by_their_features() -> None:
    values = LinearValues(2, 1)
    learner = ValueLearner(Line(), values, lambda state: np.array([state[1] / 1e9]), settings("q-learning"), 1)
    learner.run(400)
    down, up = values.row(np.array([1.0]))
    assert down > up + 0.5


def test_rules_with_their_own_tables_are_refused_with_an_error() -> None:
    for rule in ("double-q", "dyna-q", "monte-carlo"):
        with pytest.raises(LabError, match="keeps tables of its own"):
            ValueLearner(environment(), Table(4), int, settings(rule), 1)
