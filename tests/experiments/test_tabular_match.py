"""Learners side by side in one world: what the arena steps, turns, edits and looks at."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from txlab.engine.rl.gymnasium_adapter import adapt_environment
from txlab.engine.rl.maps.compiling import compile_map
from txlab.engine.rl.rules import make_agent, rule_named, rule_names
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.worlds import world_named
from txlab.errors import LabError
from txlab.experiments.protocol import Experiment
from txlab.experiments.tabular.match import Match
from txlab.experiments.tabular.world import ENDLESS, WorldSection, world_of
from txlab.runs.checkpoints import put_together, take_apart

PAIR = [Settings(rule="sarsa", alpha=0.5), Settings(rule="q-learning", alpha=0.5)]


def match(sides: list[Settings] | None = None, world: str = "cliff", seed: int = 3) -> Match:
    return Match(world_named(world), sides or PAIR, seed)


def same_frames(one: Match, two: Match) -> None:
    first, second = one.frame(), two.frame()
    assert first.facts == second.facts
    assert first.tensors.keys() == second.tensors.keys()
    for name, values in first.tensors.items():
        assert np.array_equal(np.asarray(values), np.asarray(second.tensors[name]), equal_nan=True)


def test_q_learning_finds_the_edge_and_pays_for_it() -> None:
    """Trap 5: the greedy path of Q-learning is 13 steps for every seed, its return while it explores is far below."""
    for seed in range(3):
        found = match(seed=seed)
        found.run(12_000)
        assert found.greedy(1)[1] == -13
        assert len(found.greedy(1)[0]) == 14
        late = [float(np.mean(found.history(side)[-100:])) for side in (0, 1)]
        assert late[1] < -30 < late[0]


def test_every_side_makes_the_same_number_of_updates() -> None:
    found = match([Settings(rule=rule, gamma=0.9, alpha=0.1) for rule in rule_names()], "four-by-three")
    found.run(700)
    found.step()
    assert {agent.updates for agent in found.agents} == {701}
    assert found.frame().facts["updates"] == [701] * len(rule_names())


@pytest.mark.parametrize("rule", rule_names())
def test_a_match_continues_from_a_checkpoint_bit_for_bit(rule: str) -> None:
    sides = [Settings(rule=rule, gamma=0.95, alpha=0.2, temperature=2.0), PAIR[0]]
    one, two = match(sides, "frozen-lake"), match(sides, "frozen-lake")
    one.run(333)
    one.set(0, alpha=0.3)
    one.run(100)
    two.load_state_dict(put_together(*take_apart(one.state_dict())))
    same_frames(one, two)
    one.run(500)
    for _ in range(500):
        two.run(1)
    same_frames(one, two)
    assert one.history(0) == two.history(0)
    assert one.explain(0, 4) == two.explain(0, 4)
    assert one.changes == two.changes == [{"update": 333, "side": 0, "key": "alpha", "from": 0.2, "to": 0.3}]


def test_a_wall_across_the_path_bends_the_policy() -> None:
    found = match()
    found.run(15_000)
    straight = found.greedy(1)[0]
    assert found.world.map is not None
    found.edit_world(compile_map(found.world.map.with_cell(2, 6, "#")))
    assert found.table.keys() == {"map"}
    found.run(15_000)
    bent, earned = found.greedy(1)
    place = found.world.layout.place
    assert earned == -15  # up, round the wall, and back: two steps more
    assert (2, 6) not in {tuple(place[s][1:]) for s in bent}
    assert len(bent) == len(straight) + 2


def test_who_stood_where_a_wall_is_now_begins_again() -> None:
    found = match()
    found.run(500)
    assert found.world.map is not None
    for agent in found.agents:
        while True:
            row, column = found.world.layout.place[agent.state][1:].tolist()
            if row < 3:
                break
            agent.run(1)
    row, column = found.world.layout.place[found.agents[0].state][1:].tolist()
    episodes, updates = found.agents[0].episode, found.agents[0].updates
    found.edit_world(compile_map(found.world.map.with_cell(row, column, "#")))
    agent = found.agents[0]
    assert agent.state == int(agent.process.start.argmax())
    assert (agent.episode, agent.began, agent.total) == (episodes, updates, 0.0)


@pytest.mark.parametrize("rule", rule_names())
def test_a_learner_of_any_rule_lives_on_in_an_edited_world(rule: str) -> None:
    found = match([Settings(rule=rule, alpha=0.05, gamma=0.9, traces="replacing")], "four-by-three")
    found.run(457)
    assert found.world.map is not None
    found.edit_world(compile_map(found.world.map.with_cell(0, 1, "#")))
    agent = found.agents[0]
    for state in range(agent.process.size):
        found.explain(0, state)  # of an update before the edit, or of none
    found.run(2000)
    assert np.isfinite(agent.v()).all()
    assert agent.lengths == [] or max(agent.lengths) <= ENDLESS
    assert sum(agent.lengths) <= agent.updates


def test_a_limit_that_is_behind_already_cuts_off_now() -> None:
    found = match([Settings(rule="q-learning", policy="greedy", alpha=0.0, initial=0.0)])
    found.run(120)
    agent = found.agents[0]
    while agent.updates - agent.began < 40:
        agent.run(1)
    began, episodes = agent.began, agent.episode
    agent.adopt(replace(agent.process, limit=10), np.arange(agent.process.size))
    agent.run(1)
    assert agent.episode == episodes + 1
    assert agent.lengths[-1] == agent.updates - began
    agent.run(200)
    assert max(agent.lengths[episodes + 1 :]) <= 10


def test_a_world_that_is_refused_leaves_everything_as_it_was() -> None:
    found = match([PAIR[0], Settings(rule="q-learning")])
    found.run(400)
    kept, world = match([PAIR[0], Settings(rule="q-learning")]), world_named("windy", moves="king")
    kept.run(400)
    with pytest.raises(LabError, match="other actions"):
        found.edit_world(world)
    same_frames(found, kept)
    found.run(300)
    kept.run(300)
    same_frames(found, kept)


def test_another_rule_begins_empty_and_keeps_what_was_said() -> None:
    found = match()
    found.run(100)
    found.rule(0, "reinforce")
    assert found.agents[0].settings.policy == "softmax"
    found.rule(0, "td-lambda")
    found.set(0, traces="true-online")
    found.rule(0, "sarsa-lambda")  # which has no such traces
    assert found.agents[0].settings.traces == "accumulating"
    assert found.agents[0].settings.policy == "epsilon-greedy"
    assert np.nanmax(abs(found.agents[0].q())) == 0
    assert [change["key"] for change in found.changes] == ["rule", "rule", "traces", "rule"]


def test_a_world_without_a_limit_gets_one_and_says_so() -> None:
    found = match()
    assert found.world.process.limit == ENDLESS
    assert any(str(ENDLESS) in note for note in found.world.notes)


def test_why_is_the_last_update_or_the_bellman_equation() -> None:
    found = match()
    never = found.explain(1, 5, 2)
    assert "MATH" not in never.question
    assert never.result == 0 or np.isfinite(never.result)
    found.run(3000)
    agent = found.agents[1]
    q = agent.q()
    assert q is not None
    for state in (0, 13, 24):
        for action in range(4):
            if agent.last_at(state, action) is not None:
                assert found.explain(1, state, action).result == q[state, action]


@pytest.mark.parametrize("rule", ["sarsa-lambda", "watkins-q-lambda", "td-lambda"])
def test_the_traces_of_an_update_are_those_it_used(rule: str) -> None:
    """Every entry of the table that an update touched changed by α δ e of the reported trace, and no other did."""
    found = match([Settings(rule=rule, alpha=0.25, lam=0.8, gamma=0.9, initial=0.5, epsilon=0.3)], "frozen-lake")
    agent = found.agents[0]
    several = 0
    for _ in range(400):
        before = (agent.v() if rule == "td-lambda" else np.nan_to_num(agent.q())).ravel().copy()
        agent.run(1)
        after = (agent.v() if rule == "td-lambda" else np.nan_to_num(agent.q())).ravel()
        update = agent.last
        assert update is not None
        assert update.trace
        expected = before.copy()
        for place, e in update.trace.items():
            expected[place] += 0.25 * update.delta * e
        assert np.array_equal(after, expected)
        several += len(update.trace) > 3
    assert several > 20


def test_no_learner_moves_where_one_of_them_cannot() -> None:
    """A cell that pays for staying is endless riches without discount, which value iteration refuses."""
    sides = [Settings(rule="q-learning"), Settings(rule="value-iteration")]
    found, kept = match(sides), match(sides)
    for each in (found, kept):
        each.run(300)
    assert found.world.map is not None
    with pytest.raises(LabError):
        found.edit_world(compile_map(found.world.map.with_reward(1, 4, 5.0)))
    for each in (found, kept):
        each.run(300)
    same_frames(found, kept)


def test_learners_of_a_match_step_separate_environments() -> None:
    section = {"name": "gymnasium:Blackjack-v1"}
    world = world_of(WorldSection.model_validate(section), by_stepping=True)
    here = Match(world, [Settings(rule="q-learning"), Settings(rule="sarsa")], seed=3, table=section)
    here.run(500)
    alone = make_agent(adapt_environment("Blackjack-v1"), Settings(rule="sarsa"), 3)
    alone.run(500)
    assert here.agents[1].returns == alone.returns
    again = Match(world, here.sides, seed=3, table=section)
    again.load_state_dict(here.state_dict())
    here.run(100)
    again.run(100)
    assert again.frame().tensors["0/q"].tobytes() == here.frame().tensors["0/q"].tobytes()
    last = here.agents[0].last
    assert last is not None
    assert here.explain(0, last.state, last.action).result == pytest.approx(last.after)
    with pytest.raises(LabError, match="no update has touched"):
        here.explain(0, 0)


def test_a_match_is_an_experiment_whose_numbers_are_changed_by_side() -> None:
    found: Experiment = match([Settings(rule="q-learning", epsilon=0.1), Settings(rule="n-step-sarsa", n=3)])
    found.step()
    assert found.step_count == found.frame().step == 1
    assert set(found.adjustable()) == {"alpha/0", "epsilon/0", "alpha/1", "epsilon/1", "n/1"}
    found.adjust("epsilon/1", 0.3)
    found.adjust("n/1", 5.0)
    assert (found.adjustable()["epsilon/0"].value, found.adjustable()["epsilon/1"].value) == (0.1, 0.3)
    assert found.adjustable()["n/1"].value == 5
    with pytest.raises(LabError, match="nearest: epsilon/1"):
        found.adjust("epsilon/2", 0.3)
    assert (found.evaluate(), found.samples()) == ({}, ())
    assert found.facts()["headline"] == ["delta/q-learning", "delta/n-step-sarsa"]


def fallen(rule: str) -> Match:
    """A match that has just stepped off the cliff: every other action of the cell is worth more."""
    found = match([Settings(rule=rule, epsilon=0.5)])
    while True:
        found.run(1)
        last = found.agents[0].last
        assert last is not None
        if last.reward == -100:
            return found


@pytest.mark.parametrize("rule", ["sarsa", "q-learning", "sarsa-lambda"])
def test_why_begins_with_the_update_just_made(rule: str) -> None:
    found = fallen(rule)
    last = found.agents[0].last
    assert last is not None
    for told in (found.explain(0), found.explain(0, last.state), found.explanations(0)[0]):
        assert told == last.explanation
    chosen = {step.name: step.result for step in last.explanation.steps}["chosen"]
    assert chosen == found.world.process.actions[last.action]


def test_why_goes_through_the_actions_of_the_cell() -> None:
    found = match([Settings(rule="sarsa-lambda", epsilon=0.3)])
    agent, taken = found.agents[0], np.zeros((48, 4), dtype=int)
    for _ in range(60):
        found.run(1)
        last = agent.last
        assert last is not None
        taken[last.state, last.action] += 1
    state = found.updated_state(0)
    first, cell, *others = found.explanations(0)
    assert len(others) == 3
    assert len({told.question for told in (first, *others)}) == 4
    rows = {operand.name: operand.value for operand in cell.operands}
    q, trace = agent.q(), agent.trace()
    assert q is not None
    assert trace is not None
    assert rows["Q(s,·)"] == q[state].tolist()
    assert rows["e(s,·)"] == trace[state].tolist()
    assert rows["visits"] == taken[state].tolist()
    assert rows["π(·|s)"] == agent.policy()[state].tolist()
    assert list(cell.labels) == list(found.world.process.actions)
    assert cell.result == pytest.approx(float(agent.policy()[state] @ q[state]))


@pytest.mark.parametrize("rule", [rule for rule in rule_names() if rule_named(rule).steers])
def test_visits_are_the_steps_taken_and_survive_a_checkpoint(rule: str) -> None:
    one, two = (match([Settings(rule=rule, gamma=0.9, alpha=0.1)], "frozen-lake") for _ in range(2))
    one.run(400)
    assert sum(map(sum, one.agents[0].visits)) == 400
    two.load_state_dict(put_together(*take_apart(one.state_dict())))
    assert two.agents[0].visits == one.agents[0].visits


@pytest.mark.parametrize("rule", ["sarsa", "expected-sarsa", "monte-carlo", "sarsa-lambda"])
def test_an_untouched_action_of_an_on_policy_learner_has_its_own_equation(rule: str) -> None:
    found = match([Settings(rule=rule, epsilon=0.2), Settings(rule="q-learning")])
    assert "Σₐ′ π(a′|s′) Q(s′,a′)" in found.explain(0, 5, 2).equation
    assert "max" not in found.explain(0, 5, 2).equation
    assert "maxₐ′ Q(s′,a′)" in found.explain(1, 5, 2).equation


@pytest.mark.parametrize("rule", ["sarsa", "sarsa-lambda"])
def test_the_next_action_of_sarsa_has_its_name(rule: str) -> None:
    found = match([Settings(rule=rule)])
    found.run(7)
    agent = found.agents[0]
    last = agent.last
    assert last is not None
    assert agent.pending is not None
    named = {step.name: step.result for step in last.explanation.steps}
    assert named["a′"] == agent.process.actions[agent.world.actions[agent.state][agent.pending]]
