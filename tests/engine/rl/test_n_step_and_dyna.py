"""n-step SARSA and Dyna-Q against plain loops, and against the rules that they are at the ends of their numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from txlab.engine.rl.agent import Agent
from txlab.engine.rl.draws import uniforms
from txlab.engine.rl.maps.compiling import compile_map, match_states
from txlab.engine.rl.maps.drawn import parse_map
from txlab.engine.rl.plain import Plain
from txlab.engine.rl.process import Process
from txlab.engine.rl.rules import make_agent
from txlab.engine.rl.rules.dyna_q import MEMORY
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.sweeps.sweep import OneByOne, sweep_in
from txlab.engine.rl.worlds import world_named
from txlab.errors import LabError

WORLDS = ["cliff", "frozen-lake", "gambler"]


def process_of(name: str, limit: int = 40) -> Process:
    """Episodes are cut off early, so that they are, now and then."""
    return replace(world_named(name).process, limit=limit)


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize(
    ("rule", "end", "other"), [("n-step-sarsa", {"n": 1}, "sarsa"), ("dyna-q", {"planning": 0}, "q-learning")]
)
def test_one_step_is_sarsa_and_no_memory_is_q_learning(name: str, rule: str, end: dict[str, int], other: str) -> None:
    one = make_agent(process_of(name), Settings(rule=rule, alpha=0.3, epsilon=0.2, **end), 5)  # type: ignore[arg-type]
    two = make_agent(process_of(name), Settings(rule=other, alpha=0.3, epsilon=0.2), 5)
    for each in (one, two):
        each.run(3000)
    assert one.returns == two.returns
    assert np.array_equal(one.v(), two.v())


def box(plain: Plain, n: int, steps: int) -> None:
    """n-step SARSA in the order of time, as Sutton and Barto's box has it (page 147)."""
    t = 0
    while t < steps:
        states, actions, rewards = [plain.begin(t)], [plain.act(plain.begin(t), t)], [0.0]
        first, T, tau, ended = t, 1 << 60, -1, False
        while tau != T - 1:
            at = t - first
            if at < T:
                reward, then, ended = plain.happen(states[at], actions[at], t)
                rewards.append(reward)
                states.append(then)
                if ended or at + 1 == plain.process.limit:
                    T = at + 1
                actions.append(-1 if ended else plain.act(then, t + 1))
                t += 1
                at += 1
            else:
                at = at + 1
                first -= 1  # time passes without steps
            tau = at - n
            if tau >= 0:
                end = min(tau + n, T)
                gain = sum(plain.gamma ** (i - tau - 1) * rewards[i] for i in range(tau + 1, end + 1))
                if end < T or not ended:
                    gain += plain.gamma ** (end - tau) * plain.q[states[end], actions[end]]
                pair = states[tau], actions[tau]
                plain.q[pair] += plain.alpha * (gain - plain.q[pair])
        plain.returns.append(sum(rewards))


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("n", [2, 5, 100])
def test_n_step_sarsa_lives_the_life_of_the_box(name: str, n: int) -> None:
    process = replace(process_of(name), discount=0.9)
    plain = Plain(process, 4, alpha=0.3, epsilon=0.2)
    box(plain, n, 400)
    agent = make_agent(process, Settings(rule="n-step-sarsa", alpha=0.3, epsilon=0.2, n=n), 4)
    while agent.episode < len(plain.returns):
        agent.run(1)
    assert agent.returns == pytest.approx(plain.returns)
    q = agent.q()
    assert q is not None
    for (s, a), value in plain.q.items():
        assert q[s, a] == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("name", WORLDS)
def test_dyna_q_updates_pairs_that_it_met_from_what_happened_there_last(name: str) -> None:
    process, planning = process_of(name), 3
    plain = Plain(process, 6, alpha=0.3, epsilon=0.2)
    model: dict[int, dict[int, tuple[float, int, bool]]] = {}
    s, began = plain.begin(0), 0
    for t in range(400):
        a = plain.act(s, t)
        reward, then, done = plain.happen(s, a, t)
        model.setdefault(s, {})[a] = (reward, then, done)
        draws = uniforms(6 ^ MEMORY, t * 500, 2)[0].reshape(-1)
        pairs = [(s, a)]
        for k in range(planning):
            x = list(model)[int(draws[2 * k] * len(model))]
            pairs.append((x, list(model[x])[int(draws[2 * k + 1] * len(model[x]))]))
        for x, y in pairs:
            paid, after, over = model[x][y]
            ahead = 0.0 if over or not plain.actions(after) else plain.top(after)
            plain.q[x, y] += 0.3 * (paid + plain.gamma * ahead - plain.q[x, y])
        s = then
        if done or t - began + 1 == process.limit:
            s, began = plain.begin(t + 1), t + 1
    agent = make_agent(process, Settings(rule="dyna-q", alpha=0.3, epsilon=0.2, planning=planning), 6)
    agent.run(400)
    q = agent.q()
    assert q is not None
    for (x, y), value in plain.q.items():
        assert q[x, y] == pytest.approx(value, abs=1e-12)


def test_a_value_that_was_made_from_memory_says_so() -> None:
    agent = make_agent(world_named("dyna-maze").process, Settings(rule="dyna-q", alpha=0.1, planning=20), 2)
    agent.run(3000)
    updates = [agent.last_at(s, a) for s in range(agent.process.size) for a in range(4)]
    from_memory = [each for each in updates if each is not None and each.explanation.steps[0].name == "from memory"]
    lived = agent.last
    assert len(from_memory) > 100
    assert lived is not None
    assert {lived.explanation.steps[0].name} <= {"chosen", "from memory"}


def test_in_an_edited_world_what_is_remembered_is_believed_until_it_is_tried() -> None:
    before, after = (compile_map(parse_map(f"discount: 0.9\nG: goal, pays 1\n\n{row}")) for row in ("S.G", "S.#\n..G"))
    agent = make_agent(before.process, Settings(rule="dyna-q", alpha=0.5, planning=5), 0)
    agent.run(200)
    known = len(agent.remembered)  # type: ignore[attr-defined]
    agent.adopt(after.process, match_states(before, after))
    assert 0 < len(agent.remembered) < known + 1  # type: ignore[attr-defined]
    agent.run(600)
    assert agent.greedy_path()[1] == 1.0


@pytest.mark.parametrize("rule", ["n-step-sarsa", "dyna-q"])
def test_many_of_them_are_glass_boxes_one_by_one(rule: str) -> None:
    world = replace(world_named("cliff"), process=process_of("cliff"))
    sweep = sweep_in(world, [Settings(rule=rule, alpha=0.3), Settings(rule="sarsa", alpha=0.3)], [7, 8])
    assert isinstance(sweep, OneByOne)
    first, lengths = sweep.run_episodes(10)
    more, _ = sweep.run_episodes(5)

    def alone(settings: Settings, seed: int) -> Agent:
        agent = make_agent(world.process, settings, seed)
        agent.run(1000)
        return agent

    for m, (each, seed) in enumerate(zip(sweep.settings, sweep.seeds, strict=True)):
        agent = alone(each, seed)
        assert [*first[m], *more[m]] == agent.returns[:15]
        assert lengths[m].tolist() == agent.lengths[:10]
    with pytest.raises(LabError, match=r"learns one by one, on the CPU"):
        sweep_in(world, [Settings(rule=rule)], [1], "cuda")


@pytest.mark.parametrize(("changes", "said"), [({"n": 0}, "n must be from 1"), ({"planning": 2.5}, "a whole number")])
def test_numbers_that_cannot_be_are_refused(changes: dict[str, float], said: str) -> None:
    agent = make_agent(world_named("cliff").process, Settings(rule="dyna-q"), 1)
    with pytest.raises(LabError, match=said):
        agent.set(**changes)
    agent.set(planning=7.0)
    assert agent.settings.planning == 7
