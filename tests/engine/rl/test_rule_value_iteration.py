"""Value iteration in the glass box: a state an update, the bits of a sweep in place, and what each was made of."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_processes import random_process

from txlab.engine.rl.dynamic_programming import backup_of, even, find_converged_sweep, sweep, sweeps
from txlab.engine.rl.maps.compiling import compile_map
from txlab.engine.rl.process import Process
from txlab.engine.rl.rules import make_agent
from txlab.engine.rl.rules.value_iteration import ValueIteration
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.worlds import world_named
from txlab.errors import LabError
from txlab.experiments.tabular.match import Match


def planner(process: Process, settings: Settings, seed: int) -> ValueIteration:
    found = make_agent(process, settings, seed)
    assert isinstance(found, ValueIteration)
    return found


PLAN = Settings(rule="value-iteration")


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_as_many_updates_as_there_are_states_are_a_sweep_in_place_bit_for_bit(seed: int) -> None:
    process = random_process(seed)
    agent = planner(process, PLAN, 1)
    v = np.zeros(process.size)
    for _ in range(3):
        agent.run(int((~process.terminal).sum()))
        v = sweep(process, v, process.discount, order="in-place")
        assert agent.v().tobytes() == v.tobytes()


def test_it_comes_to_the_best_values_and_stays() -> None:
    process = world_named("cliff").process
    agent = planner(process, PLAN, 1)
    agent.run(40 * process.size)
    np.testing.assert_allclose(agent.v(), find_converged_sweep(sweeps(process, 1.0)).v)
    assert agent.v()[process.start.argmax()] == -13
    assert agent.last is not None
    assert agent.last.delta == 0.0
    assert (agent.returns, agent.lengths) == ([], [])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_what_an_update_says_is_what_the_loop_used(seed: int, updates: int) -> None:
    process = random_process(seed)
    agent = planner(process, PLAN, 1)
    agent.run(updates - 1)
    v, q = agent.v(), agent.q()
    agent.run(1)
    told = agent.last
    assert told is not None
    assert q is not None
    assert (told.number, told.before) == (updates, q[told.state, told.action])
    assert told.after == backup_of(process, v, process.discount, told.state)[told.action]
    letters = {term.letters: term.value for term in told.terms}
    assert letters["r(s,a)"] + letters["γ"] * letters["Σ p V(s′)"] == letters["Q(s,a)"] == told.after  # type: ignore[operator]
    assert told.delta == told.after - told.before
    assert told.explanation.result == pytest.approx(told.after, abs=1e-12)
    agent.run(17)
    state, action = told.state, told.action
    at = agent.last_at(state, action)
    assert at is not None
    assert at.after == agent.q()[state, action]  # type: ignore[index]


def test_gamma_may_be_turned_and_each_update_knows_its_own() -> None:
    process = world_named("four-by-three").process
    agent = planner(process, PLAN, 1)
    agent.run(30)
    agent.set(gamma=0.5)
    agent.run(1)
    turned = agent.last
    before = agent.last_at(agent.order[(30 - 1) % len(agent.order)], 0)
    assert turned is not None
    assert before is not None
    assert [{term.letters: term.value for term in each.terms}["γ"] for each in (before, turned)] == [1.0, 0.5]


def test_values_that_would_grow_without_end_are_refused() -> None:
    process = world_named("gridworld").process
    with pytest.raises(LabError, match="for ever"):
        planner(process, replace(PLAN, gamma=1.0), 1)
    agent = planner(process, PLAN, 1)
    with pytest.raises(LabError, match="for ever"):
        agent.set(gamma=1.0)
    agent.run(50)
    assert agent.gamma == 0.9


def test_in_a_match_it_is_next_to_a_learner_and_continues_in_an_edited_world() -> None:
    world = world_named("cliff")
    match = Match(world, [PLAN, Settings(rule="q-learning")], 1)
    match.run(800)
    told = match.explain(0, int(world.process.start.argmax()))
    assert told.result == -13
    assert match.greedy(0)[1] == -13
    assert world.map is not None
    match.edit_world(compile_map(world.map.with_cell(2, 5, "#")))
    assert match.agents[0].last_at(0, 0) is None
    match.run(800)
    process = match.world.process
    np.testing.assert_allclose(match.agents[0].v(), find_converged_sweep(sweeps(process, 1.0)).v)
    assert match.frame().facts["sides"][0]["rule"] == "value-iteration"


def test_a_restored_state_continues_bit_for_bit() -> None:
    process = world_named("frozen-lake").process
    whole, half = planner(process, PLAN, 1), planner(process, PLAN, 1)
    whole.run(100)
    half.load(whole.state_dict())
    whole.run(77), half.run(77)
    assert whole.v().tobytes() == half.v().tobytes()
    assert whole.last == half.last


ITERATE = Settings(rule="policy-iteration")


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_policy_iteration_comes_to_the_values_of_value_iteration_in_few_improvements(seed: int) -> None:
    process = random_process(seed)
    agent = planner(process, replace(ITERATE, gamma=0.7), 1)
    agent.run(300 * agent.turn)
    np.testing.assert_allclose(agent.v(), find_converged_sweep(sweeps(process, 0.7)).v, atol=1e-6)
    assert agent.progress()["improvements"] <= process.size + 2
    np.testing.assert_allclose(agent.policy().sum(axis=1), ~process.terminal)


def test_policy_iteration_evaluates_before_it_improves() -> None:
    process = world_named("gridworld").process
    agent = planner(process, replace(ITERATE, gamma=0.9), 1)
    v = np.zeros(process.size)
    even_policy = even(process)
    for _ in range(20):
        agent.run(agent.turn)
        newer = sweep(process, v, 0.9, even_policy, order="in-place")
        assert agent.progress()["improvements"] == 0
        np.testing.assert_allclose(agent.v(), newer)
        assert agent.progress()["delta"] == pytest.approx(np.abs(newer - v).max())
        v = newer


def test_a_step_of_planners_is_a_sweep_whose_change_is_in_the_frame() -> None:
    found = Match(world_named("four-by-three"), [PLAN, Settings(rule="policy-iteration")], 1)
    found.step()
    states = int((~found.world.process.terminal).sum())
    sides = found.frame().facts["sides"]
    assert found.updates == states
    assert [(side["sweeps"], side["delta"] > 0) for side in sides] == [(1, True), (1, True)]
    mixed = Match(world_named("four-by-three"), [PLAN, Settings(rule="sarsa")], 1)
    mixed.step()
    assert mixed.updates == 1
