"""A batch of agents equals the same agents alone: the same numbers as the glass box, one by one, and as torch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from txlab.engine.rl.draws import uniforms
from txlab.engine.rl.process import Outcome, Process, compile_process
from txlab.engine.rl.rules import make_agent
from txlab.engine.rl.settings import PolicyName, Settings
from txlab.engine.rl.sweeps.arrays import Numpy
from txlab.engine.rl.sweeps.sweep import Sweep
from txlab.engine.rl.worlds import world_named

ONE_STEP: list[str] = ["q-learning", "sarsa", "expected-sarsa", "double-q"]
TRACED: list[str] = ["sarsa-lambda", "watkins-q-lambda"]
WHOLE: list[str] = ["monte-carlo", "reinforce", "reinforce-baseline"]


def worlds() -> dict[str, Process]:
    """One outcome a move; chance; a limit that cuts off; states that have fewer actions than others, and noise."""
    return {
        "cliff": world_named("cliff").process,
        "lake": world_named("frozen-lake").process,
        "cut": replace(world_named("windy").process, limit=23),
        "bias": world_named("bias").process,
        "round": ends_where_it_began(),
    }


def ends_where_it_began() -> Process:
    """Going on leads round three states; what ends the episode leads to a state in which others go on, and so does what
    cuts it off."""
    again = {(s, 0): [Outcome(0.7, (s + 1) % 3, -1.0), Outcome(0.3, (s + 2) % 3, 2.0, s == 1)] for s in range(3)}
    back = {(s, 1): [Outcome(0.9, s, 0.5), Outcome(0.1, 0, 5.0, True)] for s in range(3)}
    return compile_process(["on", "stay"], ["a", "b", "c"], again | back, 0, discount=0.9, limit=4)


WORLDS = worlds()


def settings(rule: str, policy: PolicyName) -> list[Settings]:
    """Agents that differ in every number."""
    first = Settings(rule=rule, policy=policy, alpha=0.5, lam=0.7)
    return [
        first,
        replace(first, alpha=0.1, epsilon=0.4, temperature=0.5, initial=1.0, gamma=0.9),
        replace(first, epsilon=1.0, decay=0.9, floor=0.05, temperature=3.0, lam=0.0),
        replace(first, epsilon=0.0, alpha=0.9, initial=-2.0, lam=1.0),
    ]


def assert_alone(process: Process, told: list[Settings], exact: bool) -> None:
    seeds = [3, 1 << 40, 0, 77]
    sweep = Sweep(process, told, seeds)
    first, second = sweep.advance(137), sweep.advance(300)
    tables = sweep.q()
    same = np.array_equal if exact else lambda a, b, equal_nan=True: np.allclose(a, b, 1e-9, 1e-9, equal_nan)
    for m, seed in enumerate(seeds):
        agent = make_agent(process, told[m], seed)
        agent.run(437)
        assert sweep.states[m] == agent.state
        assert sweep.steps[m] == agent.updates
        returns = [*first.returns[first.agent == m], *second.returns[second.agent == m]]
        lengths = [*first.lengths[first.agent == m], *second.lengths[second.agent == m]]
        assert lengths == agent.lengths
        assert same(np.array(returns), np.array(agent.returns), equal_nan=True)
        assert same(tables[m], agent.q(), equal_nan=True)


@pytest.mark.parametrize("rule", ONE_STEP)
@pytest.mark.parametrize("name", WORLDS)
def test_agent_m_is_number_for_number_the_glass_box_of_its_seed(rule: str, name: str) -> None:
    # Normal rewards go through log and cos, whose last bit numpy may round otherwise in a longer array.
    assert_alone(WORLDS[name], settings(rule, "epsilon-greedy"), exact=name != "bias")


@pytest.mark.parametrize("rule", TRACED)
@pytest.mark.parametrize("traces", ["accumulating", "replacing"])
@pytest.mark.parametrize("name", ["cliff", "cut", "round"])
def test_agents_with_traces_are_too(rule: str, traces: str, name: str) -> None:
    told = [replace(each, traces=traces, alpha=each.alpha / 2) for each in settings(rule, "epsilon-greedy")]
    assert_alone(WORLDS[name], told, exact=True)


@pytest.mark.parametrize("policy", ["softmax", "greedy"])
@pytest.mark.parametrize("rule", ["q-learning", "sarsa", "expected-sarsa"])
def test_other_policies_are_too(rule: str, policy: PolicyName) -> None:
    assert_alone(WORLDS["lake"], settings(rule, policy), exact=policy == "greedy")


@pytest.mark.parametrize("rule", WHOLE)
@pytest.mark.parametrize("name", ["corridor", "frozen-lake", "cliff"])
def test_rules_of_whole_episodes_are_too(rule: str, name: str) -> None:
    process, exact = replace(world_named(name).process, limit=60), rule == "monte-carlo"
    first = Settings(rule=rule, alpha=0.01, epsilon=0.3, beta=0.05)
    told, seeds = [first, replace(first, alpha=0.02, gamma=0.9, initial=0.5, decay=0.8)], [5, 6]
    sweep = Sweep(process, told, seeds)
    returns, lengths = sweep.run_episodes(9)
    for m, seed in enumerate(seeds):
        agent = make_agent(process, told[m], seed)
        agent.run(int(lengths[m].sum()))
        assert agent.lengths == list(lengths[m])
        assert agent.returns == list(returns[m])
        assert agent.state == sweep.states[m]
        table = agent.q() if exact else agent.preferences()  # type: ignore[attr-defined]
        same = np.array_equal if exact else np.allclose  # numpy's exp may round otherwise than Python's
        assert same(np.asarray(table)[process.allowed], sweep.q()[m][process.allowed])
        if not exact:
            assert np.allclose(sweep.w(np.array([m]))[0], agent.v())


# Against loops that were written for these tests, from the boxes of Sutton and Barto


def tossed(seed: int, t: int) -> np.ndarray:
    return uniforms(seed, t, 1)[0, 0]


def soft(preferences: np.ndarray) -> np.ndarray:
    raw = np.exp(preferences - preferences.max())
    return raw / raw.sum()


def reinforce_alone(process: Process, told: Settings, seed: int, episodes: int) -> tuple[np.ndarray, list[int]]:
    """θ (observations, A) and the episodes' lengths: one update a time step, with what the one before it left."""
    seen = np.arange(process.size) if process.observation is None else process.observation
    theta, w, gamma = np.full((process.size, process.choices), told.initial), np.zeros(process.size), told.gamma or 1.0
    t, lengths = 0, []
    for _ in range(episodes):
        s, moves, over = int(np.flatnonzero(process.start)[0]), [], False
        while not over and not (process.limit and len(moves) == process.limit):
            a = int((np.cumsum(soft(theta[seen[s]])) <= tossed(seed, t)[1]).sum())
            outcomes = process.outcomes(s, a)
            chances = np.cumsum([each.probability for each in outcomes])
            chosen = outcomes[int((chances[:-1] <= tossed(seed, t)[2]).sum())]
            moves.append((s, a, chosen.reward))
            s, over, t = chosen.next, chosen.done, t + 1
        lengths.append(len(moves))
        for k, (s, a, _) in enumerate(moves):
            error = sum(gamma ** (j - k) * moves[j][2] for j in range(k, len(moves)))
            if told.rule == "reinforce-baseline":
                error -= w[seen[s]]
                w[seen[s]] += told.beta * error
            chosen_one = np.eye(process.choices)[a]
            theta[seen[s]] += told.alpha * gamma**k * error * (chosen_one - soft(theta[seen[s]]))
    return theta[seen], lengths


@pytest.mark.parametrize("rule", ["reinforce", "reinforce-baseline"])
@pytest.mark.parametrize("name", ["corridor", "windy"])
def test_reinforce_is_the_box_of_the_book(rule: str, name: str) -> None:
    process = replace(world_named(name).process, limit=50)
    first = Settings(rule=rule, alpha=0.01, beta=0.05, gamma=0.9)
    told, seeds = [first, replace(first, alpha=0.2, initial=0.5)], [5, 6]
    sweep = Sweep(process, told, seeds)
    _, lengths = sweep.run_episodes(8)
    for m, seed in enumerate(seeds):
        theta, alone = reinforce_alone(process, told[m], seed, 8)
        assert list(lengths[m]) == alone
        allowed = process.allowed
        assert np.allclose(sweep.q()[m][allowed], theta[allowed], 1e-9, 1e-12)
        assert not np.allclose(theta[allowed], told[m].initial)


def test_states_that_look_the_same_share_their_preferences() -> None:
    sweep = Sweep(world_named("corridor").process, [Settings(rule="reinforce", alpha=0.01)] * 3, range(3))
    sweep.run_episodes(3)
    tables = sweep.q()
    assert (tables[:, 0] == tables[:, 1]).all()
    assert (tables[:, 0] == tables[:, 2]).all()
    assert (tables[:, 0, 0] != tables[:, 0, 1]).all()


def test_monte_carlo_moves_every_visit_towards_its_return() -> None:
    process, told = replace(world_named("frozen-lake").process, limit=30), Settings(rule="monte-carlo", epsilon=1.0)
    told = replace(told, alpha=0.25, gamma=0.9, initial=0.2)
    sweep = Sweep(process, [told], [9])
    _, lengths = sweep.run_episodes(20)
    q, t = np.full((process.size, 4), 0.2), 0
    for length in lengths[0]:
        s, moves = 0, []
        for _ in range(length):
            u = tossed(9, t)
            a = int(u[1] * 4)
            outcomes = process.outcomes(s, a)
            one = outcomes[int((np.cumsum([each.probability for each in outcomes])[:-1] <= u[2]).sum())]
            moves.append((s, a, one.reward))
            s, t = one.next, t + 1
        returned = 0.0
        for s, a, reward in reversed(moves):
            returned = reward + 0.9 * returned
            q[s, a] += 0.25 * (returned - q[s, a])
    assert np.allclose(sweep.q()[0][process.allowed], q[process.allowed], 1e-12)


# Torch


@pytest.mark.parametrize("rule", [*ONE_STEP, *TRACED, *WHOLE])
def test_torch_on_a_cpu_gives_the_numbers_of_numpy(rule: str) -> None:
    from txlab.engine.rl.sweeps.on_torch import Torch

    for process in (WORLDS["cut"], WORLDS["lake"], WORLDS["bias"]):
        process = process if process.limit else replace(process, limit=40)
        told, seeds = settings(rule, "epsilon-greedy") * 8, range(32)
        ours, theirs = Sweep(process, told, seeds), Sweep(process, told, seeds, Torch("cpu"))
        one, other = ours.run_episodes(4), theirs.run_episodes(4)
        exact = rule not in ("reinforce", "reinforce-baseline") and process.noise is None  # exp, log and cos are not
        assert np.array_equal(one[1], other[1])
        assert np.array_equal(ours.steps, theirs.steps)
        if exact:
            assert np.array_equal(one[0], other[0])
            assert np.array_equal(ours.q(), theirs.q(), equal_nan=True)
        else:
            assert np.allclose(ours.q(), theirs.q(), 1e-9, 1e-12, equal_nan=True)


def test_torch_draws_the_same_bits() -> None:
    from txlab.engine.rl.sweeps.on_torch import Torch

    seeds, begin = [0, 1, 2**63 - 1], [0, 5, 1 << 33]
    wanted = uniforms(np.array(seeds), np.array(begin), 7).transpose(1, 2, 0)
    for xp in (Numpy(), Torch("cpu")):
        keys, steps = xp.keys(seeds), xp.array(begin, int)
        assert np.array_equal(xp.numpy(xp.uniforms(keys, steps, 7, True)), wanted)
        assert np.array_equal(xp.numpy(xp.uniforms(keys, steps, 7, False)), wanted[:, :2])
