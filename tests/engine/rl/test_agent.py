"""The glass box: every rule against a plain one, what it tells of its updates, and that nothing is lost."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from sampled_process import SampledProcess

from txlab.engine.rl.agent import Agent
from txlab.engine.rl.maps.compiling import compile_map, match_states
from txlab.engine.rl.plain import Plain
from txlab.engine.rl.process import Outcome, Process, compile_process
from txlab.engine.rl.rules import make_agent, rule_named, rule_names
from txlab.engine.rl.rules.reinforce import Reinforce
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.sweeps.sweep import Sweep
from txlab.engine.rl.worlds import world_named
from txlab.errors import LabError

ONE_STEP: tuple[str, ...] = ("sarsa", "expected-sarsa", "q-learning")
WITH_TRACES: tuple[str, ...] = ("sarsa-lambda", "watkins-q-lambda")


def world(name: str, limit: int = 60) -> Process:
    """A world of the catalogue whose episodes are cut off early, so that they are, now and then."""
    return replace(world_named(name).process, limit=limit)


@pytest.mark.parametrize("name", ["cliff", "frozen-lake", "gambler"])
@pytest.mark.parametrize("rule", [*ONE_STEP, *WITH_TRACES])
def test_a_rule_lives_the_life_of_ten_plain_lines(rule: str, name: str) -> None:
    """To the last bit: the same draws, the same actions, the same table; termination, truncation, traces, ties."""
    plain = Plain(world(name), seed=5, alpha=0.3, epsilon=0.2)
    plain.live(rule, 700, lam=0.8)
    agent = make_agent(world(name), Settings(rule=rule, alpha=0.3, epsilon=0.2, lam=0.8), seed=5)
    agent.run(700)
    q = agent.q()
    assert q is not None
    assert agent.returns == plain.returns
    assert len(agent.returns) > 3
    tolerance = 1e-13 if rule == "expected-sarsa" else 0.0  # a mean of the actions may be added up in another way
    assert all(abs(q[pair] - value) <= tolerance for pair, value in plain.q.items())


def test_replacing_traces_are_those_of_the_plain_lines() -> None:
    plain = Plain(world("cliff"), seed=2, alpha=0.3, epsilon=0.2)
    plain.live("sarsa-lambda", 500, lam=0.9, replacing=True)
    agent = make_agent(world("cliff"), Settings(rule="sarsa-lambda", traces="replacing", alpha=0.3, epsilon=0.2), 2)
    agent.run(500)
    q = agent.q()
    assert q is not None
    assert all(q[pair] == value for pair, value in plain.q.items())


@pytest.mark.parametrize("rule", rule_names())
def test_steps_one_by_one_and_in_one_call_are_the_same(rule: str) -> None:
    together, single = (make_agent(world("four-by-three"), Settings(rule=rule, alpha=0.2), 3) for _ in range(2))
    together.run(5000)
    for _ in range(5000):
        single.run(1)
    assert together.returns == single.returns
    assert np.array_equal(together.v(), single.v())
    assert together.state == single.state


@pytest.mark.parametrize("rule", rule_names())
def test_a_learner_is_put_back_in_the_middle_of_an_episode(rule: str) -> None:
    settings = Settings(rule=rule, alpha=0.2, policy="softmax")
    agent = make_agent(world("frozen-lake"), settings, 3)
    agent.run(1003)
    saved = agent.state_dict()
    json.dumps(
        {key: value for key, value in saved.items() if key not in ("tables", "returns", "lengths", "ends", "worth")}
    )
    other = make_agent(world("frozen-lake"), Settings(rule=rule), 9)
    other.load(saved)
    for each in (agent, other):
        each.run(500)
        each.set(alpha=0.1)
        each.run(500)
    assert agent.returns == other.returns
    assert np.array_equal(agent.v(), other.v())
    one, two = agent.last, other.last
    assert one == two or (one is None and two is None)


@pytest.mark.parametrize("rule", rule_names())
def test_what_an_update_tells_is_what_it_did(rule: str) -> None:
    """At any time the last update of every cell ends with the number in the table: bit for bit."""
    agent = make_agent(world("four-by-three"), Settings(rule=rule, alpha=0.2, traces="replacing"), 1)
    agent.run(3001)
    told = 0
    for s in range(agent.process.size):
        for a in range(agent.process.choices):
            update = agent.last_at(s, a)
            if update is None:
                continue
            told += 1
            assert update.explanation.operands
            assert update.terms[0].value is not None
            if isinstance(agent, Reinforce):
                assert update.after == agent.preferences()[s, a]
            elif rule == "td-lambda":
                assert update.after == agent.v()[s]
            else:
                q = agent.q()
                assert q is not None
                assert update.after == pytest.approx(q[s, a], abs=0 if rule != "double-q" else 1e-15)
    assert told > 20


@pytest.mark.parametrize("rule", ["q-learning", "sarsa", "expected-sarsa"])
def test_the_terms_of_an_update_make_its_number(rule: str) -> None:
    """Letters above numbers, and the numbers add up: Q ← Q + α [ r + γ V − Q ]."""
    agent = make_agent(world("cliff"), Settings(rule=rule, alpha=0.5), 4)
    for _ in range(300):
        agent.run(1)
        update = agent.last
        assert update is not None
        new, old, alpha, r, gamma, value, again = (term.value for term in update.terms if term.value is not None)
        assert (old, new, again) == (update.before, update.after, update.before)
        assert new == old + alpha * (r + gamma * value - old)
        assert (r, alpha, gamma) == (update.reward, 0.5, 1.0)
        if update.done:
            assert value == 0.0


def test_an_update_is_described_with_the_numbers_of_its_time() -> None:
    """Turning α afterwards does not change what was done before."""
    agent = make_agent(world("cliff"), Settings(rule="q-learning", alpha=0.5), 4)
    agent.run(50)
    before = agent.last
    agent.set(alpha=0.1, epsilon=0.0)
    assert agent.last == before
    agent.run(1)
    assert agent.last is not None
    assert agent.last.terms[4].value == 0.1


class TestTraps:
    """Of the notes; each of these fails when its rule is broken."""

    def chain(self, limit: int = 0) -> Process:
        """a → b → c, a reward of 1 at the end; there is one action."""
        outcomes = {(s, 0): [Outcome(1.0, s + 1, float(s == 1), s == 1)] for s in range(2)}
        return compile_process(["on"], ["a", "b", "c"], outcomes, 0, limit=limit)

    def test_traces_are_cleared_at_each_episode(self) -> None:
        agent = make_agent(self.chain(), Settings(rule="sarsa-lambda", alpha=0.5, lam=1.0), 0)
        agent.run(2)  # an episode: 1 reaches both
        assert agent.v().tolist() == [0.5, 0.5, 0.0]
        agent.run(1)  # the first step of the next: only a has a trace
        assert np.count_nonzero(agent.trace()) == 1
        agent.run(1)
        assert agent.v()[1] == 0.75

    def test_watkins_forgets_where_it_explores(self) -> None:
        agent = make_agent(world("cliff"), Settings(rule="watkins-q-lambda", epsilon=0.5, lam=1.0, alpha=0.2), 8)
        kept = cut = 0
        for _ in range(400):
            agent.run(1)
            trace, q = agent.trace(), agent.q()
            assert trace is not None
            assert q is not None
            update = agent.last
            assert update is not None
            if update.done or update.truncated or agent.pending is None:
                continue
            before = update.explanation  # the row of s′ as it was when a′ was chosen
            row = next(list(each.value) for each in before.operands if each.name == "Q(s′,·)")
            greedy = row[agent.pending] == max(row)
            assert bool(np.count_nonzero(trace)) == greedy
            kept, cut = kept + greedy, cut + (not greedy)
        assert kept > 50
        assert cut > 50

    def test_termination_has_no_bootstrap_and_truncation_has(self) -> None:
        """b is worth 1. Where the first step is the last because it is *cut off*, a still learns from b."""
        for limit, expected in ((0, 1.0), (1, 1.0)):
            agent = make_agent(self.chain(limit), Settings(rule="q-learning", alpha=1.0), 0)
            agent.rows[1] = [1.0]
            agent.prepare()  # what it keeps of its rows
            agent.run(1)
            assert agent.v()[0] == expected
            assert agent.last is not None
            assert agent.last.truncated == (limit == 1)
        ends = compile_process(["on"], ["a", "b"], {(0, 0): [Outcome(1.0, 1, 3.0, True)]}, 0)
        agent = make_agent(ends, Settings(rule="q-learning", alpha=1.0, initial=7.0), 0)
        agent.run(1)
        assert agent.v()[0] == 3.0

    def test_equally_good_actions_share_the_choice(self) -> None:
        agent = make_agent(world("frozen-lake"), Settings(rule="q-learning", policy="greedy", alpha=0.0), 6)
        met = set()
        for _ in range(200):
            agent.run(1)
            assert agent.last is not None
            met.add(agent.last.action)
        assert met == {0, 1, 2, 3}

    def test_the_return_while_exploring_is_not_that_of_the_greedy_policy(self) -> None:
        agent = make_agent(world("cliff", 5000), Settings(rule="q-learning", alpha=0.5), 0)
        agent.run(60_000)
        assert agent.greedy_path()[1] == -13
        assert np.mean(agent.returns[-200:]) < -30


def test_traces_of_zero_length_are_the_rules_without() -> None:
    for with_traces, without in (("sarsa-lambda", "sarsa"), ("watkins-q-lambda", "q-learning")):
        one = make_agent(world("cliff"), Settings(rule=with_traces, lam=0.0, epsilon=0.0), 3)  # type: ignore[arg-type]
        two = make_agent(world("cliff"), Settings(rule=without, epsilon=0.0), 3)  # type: ignore[arg-type]
        one.run(3000)
        two.run(3000)
        if without == "sarsa":
            assert np.array_equal(one.v(), two.v())
            assert one.returns == two.returns
        else:  # Q-learning chooses after the update, Watkins before: the same targets along its own life
            assert abs(one.v() - two.v()).max() < 40


def test_expected_sarsa_without_exploring_is_q_learning() -> None:
    one, two = (
        make_agent(world("windy", 200), Settings(rule=r, epsilon=0.0), 3) for r in ("expected-sarsa", "q-learning")
    )  # type: ignore[arg-type]
    one.run(4000)
    two.run(4000)
    assert np.array_equal(one.v(), two.v())


@pytest.mark.parametrize("rule", [name for name in rule_names() if rule_named(name).has_array_form])
@pytest.mark.parametrize("policy", ["epsilon-greedy", "softmax"])
def test_an_agent_of_a_sweep_lives_the_life_of_the_glass_box(rule: str, policy: str) -> None:
    settings = [
        Settings(rule=rule, policy=policy, alpha=a, epsilon=0.2, decay=0.99, temperature=0.5)  # type: ignore[arg-type]
        for a in (0.05, 0.3)
    ]
    if rule.startswith("reinforce"):
        settings = [Settings(rule=rule, policy="softmax", alpha=a) for a in (0.01, 0.02)]
    sweep = Sweep(world("frozen-lake"), settings, [11, 12])
    returns, lengths = sweep.run_episodes(40)
    for m, each in enumerate(settings):
        agent = make_agent(world("frozen-lake"), each, 11 + m)
        while agent.episode < 40:
            agent.run(1)
        assert agent.returns == returns[m].tolist()
        assert agent.lengths == lengths[m].tolist()
        q = agent.preferences() if isinstance(agent, Reinforce) else agent.q()
        assert q is not None
        # exp of two libraries may differ in its last bit
        exact = policy != "softmax" and not rule.startswith("reinforce")
        assert np.nanmax(abs(q - sweep.q()[m])) <= (0 if exact else 1e-12)


@pytest.mark.parametrize("baseline", [False, True])
def test_the_step_of_reinforce_is_the_gradient_of_the_logarithm_of_its_policy(baseline: bool) -> None:
    """θ moves by α γᵗ (G − b) ∇ ln π(a|s), ∇ by automatic differentiation in double precision."""
    rule: str = "reinforce-baseline" if baseline else "reinforce"
    agent = make_agent(world("four-by-three", 8), Settings(rule=rule, alpha=0.1, beta=0.2, gamma=0.9), 2)
    assert isinstance(agent, Reinforce)
    while agent.episode < 5:
        agent.run(1)
    theta = torch.tensor(np.nan_to_num(agent.preferences()), dtype=torch.float64)
    worth = np.array(agent.worth)
    steps: list[tuple[int, int, float]] = []
    while agent.episode < 6:
        s, total = agent.state, agent.total
        agent.run(1)
        action, reward = (agent.trail[-1][1], agent.trail[-1][2][0]) if agent.trail else (-1, 0.0)
        if not agent.trail:
            last = agent.last
            assert last is not None
            reward = agent.returns[-1] - total
            action = agent.latest[1] if agent.latest is not None else -1
        steps.append((s, action, reward))
    for t, (s, a, _) in enumerate(steps):
        G = sum(0.9**k * reward for k, (_, _, reward) in enumerate(steps[t:]))
        b = worth[s] if baseline else 0.0
        worth[s] += 0.2 * (G - worth[s])
        row = theta[s].clone().requires_grad_()
        torch.log_softmax(row, 0)[a].backward()
        assert row.grad is not None
        theta[s] += 0.1 * 0.9**t * (G - b) * row.grad
    assert np.nanmax(abs(agent.preferences() - theta.numpy())) < 1e-12


def test_an_edited_world_keeps_what_was_learnt_where_it_still_is() -> None:
    old = world_named("cliff")
    assert old.map is not None
    new = compile_map(old.map.with_cell(1, 4, "#"))
    agent = make_agent(old.process, Settings(rule="sarsa"), 1)
    agent.run(20_000)
    before, states = agent.v(), match_states(old, new)
    agent.adopt(new.process, states)
    after = agent.v()
    for s, place in enumerate(states):
        assert after[s] == (before[place] if place >= 0 else 0.0)
    agent.run(20_000)  # and it continues
    path, earned = agent.greedy_path()
    wall = [tuple(p) for p in new.layout.place.tolist()]
    assert (0, 1, 4) not in wall
    assert earned > -40
    assert len(path) > 13


def test_wrong_numbers_are_refused_with_an_error() -> None:
    agent = make_agent(world("cliff"), Settings(), 0)
    with pytest.raises(LabError, match=r"alpha must be from 0 to 1; it is 1\.5"):
        agent.set(alpha=1.5)
    with pytest.raises(LabError, match="a learner has no 'alhpa'"):
        agent.set(alhpa=0.1)
    with pytest.raises(LabError, match="the tables of Q-learning mean nothing to another rule"):
        agent.set(rule="sarsa")
    assert agent.settings == Settings()


@pytest.mark.parametrize("rule", [rule for rule in rule_names() if not rule.endswith("-iteration")])
def test_an_environment_that_can_only_be_stepped_is_learnt_too(rule: str) -> None:
    environment = SampledProcess(world("cliff", 200))
    agent: Agent = make_agent(environment, Settings(rule=rule, alpha=0.1), 1)
    agent.run(3000)
    assert len(agent.returns) > 3
    saved = agent.state_dict()
    other = make_agent(SampledProcess(world("cliff", 200)), Settings(rule=rule), 5)
    other.load(saved)
    agent.greedy_path(50)  # leaves no trace in the episode it is in
    agent.run(300)
    other.run(300)
    assert agent.returns == other.returns
    assert np.array_equal(agent.v(), other.v())


def test_value_iteration_must_be_told_how_the_world_works() -> None:
    with pytest.raises(LabError, match="can only be stepped"):
        make_agent(SampledProcess(world("cliff")), Settings(rule="value-iteration"), 0)
