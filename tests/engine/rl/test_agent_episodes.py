"""Where an episode ends, and what a learner keeps in addition to its tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from txlab.engine.rl.process import Outcome, Process, compile_process
from txlab.engine.rl.rules import make_agent
from txlab.engine.rl.rules.one_step import OneStep
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.worlds import world_named

CONTROL: tuple[str, ...] = (
    "sarsa", "expected-sarsa", "q-learning", "double-q", "n-step-sarsa", "dyna-q", "sarsa-lambda", "watkins-q-lambda",
)  # fmt: skip
TRACED: tuple[str, ...] = ("sarsa-lambda", "watkins-q-lambda", "td-lambda")


def ends_where_it_began() -> Process:
    """One state, one action that pays 1 and ends the episode in the very state it began in."""
    return compile_process(["stay"], ["here"], {(0, 0): [Outcome(1.0, 0, 1.0, True)]}, 0)


def ends_unsaid() -> Process:
    """The outcome does not say that it ends; but nothing can be done where it leads."""
    return compile_process(["go"], ["here", "end"], {(0, 0): [Outcome(1.0, 1, 1.0, False)]}, 0)


@pytest.mark.parametrize("rule", [*CONTROL, "td-lambda"])
@pytest.mark.parametrize("process", [ends_where_it_began(), ends_unsaid()])
def test_nothing_follows_an_end_wherever_it_is(rule: str, process: Process) -> None:
    agent = make_agent(process, Settings(rule=rule, alpha=1.0, initial=100.0, lam=0.0), 0)
    agent.run(8)
    assert agent.v()[0] == 1.0
    assert agent.lengths == [1] * 8
    assert agent.last is not None
    assert agent.last.done
    assert not agent.last.truncated


@pytest.mark.parametrize("rule", ["sarsa", "expected-sarsa", "q-learning"])
@pytest.mark.parametrize("name", ["gridworld-corners", "cliff"])
@pytest.mark.parametrize("initial", [0.0, -30.0])
def test_the_best_of_every_row_is_known_though_it_is_not_looked_for(rule: str, name: str, initial: float) -> None:
    """With α = 1 values are whole numbers, and equally good actions come and go: from above, and from below."""
    process = replace(world_named(name).process, limit=50)
    agent = make_agent(process, Settings(rule=rule, alpha=1.0, gamma=1.0, epsilon=0.4, initial=initial), 2)
    assert isinstance(agent, OneStep)
    ties = 0
    for _ in range(900):
        agent.run(1)
        for row, top, pick in zip(agent.rows, agent.tops, agent.picks, strict=True):
            best = [k for k, value in enumerate(row) if value == max(row)]
            assert top == max(row, default=0.0)
            assert pick == (best[0] if len(best) == 1 else -1)
            ties += 1 < len(best) < len(row)
    assert ties > 50


@pytest.mark.parametrize("rule", TRACED)
def test_a_new_episode_remembers_nothing_of_the_old(rule: str) -> None:
    agent = make_agent(replace(world_named("frozen-lake").process, limit=20), Settings(rule=rule, lam=1.0), 1)
    begun = 0
    while begun < 20:
        before = agent.episode
        agent.run(1)
        trace = agent.trace()
        assert trace is not None
        if agent.episode > before:
            assert not trace.any()
            agent.run(1)
            assert agent.last is not None
            assert len(agent.last.trace) == 1
            begun += 1


@pytest.mark.parametrize("rule", ["monte-carlo", "n-step-sarsa", "reinforce", "reinforce-baseline"])
def test_who_learns_from_whole_episodes_begins_again_in_an_edited_world(rule: str) -> None:
    process = world_named("cliff").process
    agent = make_agent(process, Settings(rule=rule, alpha=0.01), 1)
    start = agent.state
    agent.run(57)
    while agent.state == start or agent.updates == agent.began:
        agent.run(1)
    agent.adopt(process, np.arange(process.size))
    assert (agent.state, agent.began, agent.total) == (start, agent.updates, 0.0)


def test_true_online_td_continues_in_an_edited_world_with_the_value_of_its_state() -> None:
    """The world is edited into itself, and V(s) is not late: nothing changed it."""
    process = world_named("walk-5").process
    agent = make_agent(process, Settings(rule="td-lambda", traces="true-online", alpha=0.5, initial=0.5), 4)
    for _ in range(50):
        agent.run(1)
        agent.adopt(process, np.arange(process.size))
        agent.run(1)
        if agent.last is not None:
            assert all(term.letters != "late" for term in agent.last.terms)


@pytest.mark.parametrize("rule", [*CONTROL, "td-lambda"])
def test_what_is_cut_off_still_counts_on_what_would_have_followed(rule: str) -> None:
    """Two rooms, nothing ends, cut off after every step: with 10 everywhere δ is −1 + .5 · 10 − 10."""
    rooms = compile_process(
        ["go"], ["one", "two"], {(0, 0): [Outcome(1.0, 1, -1.0)], (1, 0): [Outcome(1.0, 0, -1.0)]}, 0
    )
    agent = make_agent(replace(rooms, limit=1), Settings(rule=rule, alpha=1.0, initial=10.0, gamma=0.5, planning=0), 0)
    agent.run(1)
    assert agent.last is not None
    assert (agent.last.truncated, agent.last.done) == (True, False)
    assert agent.last.delta == -1.0 + 0.5 * 10.0 - 10.0
