"""Sweeps: how they are asked, cut into parts, put back and refused; and the traps of the notes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from txlab.engine.rl.dynamic_programming import likely_path
from txlab.engine.rl.process import Outcome, Process, compile_process
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.sweeps.arrays import Numpy
from txlab.engine.rl.sweeps.sweep import Cancelled, Sweep, greedy_returns, policies, sweep_in
from txlab.engine.rl.worlds import world_named
from txlab.errors import LabError, RunFailed

CLIFF, LAKE = world_named("cliff").process, world_named("frozen-lake").process


def same(one: Any, other: Any) -> bool:
    return bool(np.array_equal(one, other, equal_nan=True))


@pytest.mark.parametrize("rule", ["q-learning", "sarsa", "sarsa-lambda", "reinforce"])
def test_episodes_are_the_same_however_many_are_asked_for_at_a_time(rule: Any) -> None:
    process, told = replace(LAKE, limit=40), [Settings(rule=rule, epsilon=0.5, alpha=0.1)] * 90
    whole, parted = Sweep(process, told, range(90)), Sweep(process, told, range(90))
    returns, lengths = whole.run_episodes(12)
    pieces = [parted.run_episodes(n) for n in (1, 4, 7)]
    assert same(returns, np.concatenate([piece[0] for piece in pieces], axis=1))
    assert same(lengths, np.concatenate([piece[1] for piece in pieces], axis=1))
    assert same(whole.q(), parted.q())
    assert same(whole.steps, lengths.sum(axis=1))
    assert (whole.episodes == 12).all()


def test_the_agents_do_not_depend_on_their_neighbours_nor_on_the_blocks_they_are_in() -> None:
    mixed = [Settings(rule=rule, epsilon=0.3) for rule in ("sarsa", "q-learning", "double-q") for _ in range(70)]
    small = Numpy()
    small.cache = 1  # as few as may be in a block
    whole, parted = Sweep(CLIFF, mixed, range(210)), Sweep(CLIFF, mixed, range(210), small)
    assert len(parted.blocks) > len(whole.blocks)
    assert same(whole.run_episodes(5)[0], parted.run_episodes(5)[0])
    assert same(whole.q(), parted.q())
    for m in (0, 69, 70, 209):
        alone = Sweep(CLIFF, [mixed[m]], [m])
        alone.run_episodes(5)
        assert same(alone.q()[0], whole.q()[m])
        assert same(whole.q(np.array([m, 3])), whole.q()[[m, 3]])


def test_stationary_agents_are_left_without_a_trace() -> None:
    told = [Settings(rule="sarsa-lambda", alpha=0.1, epsilon=e) for e in (0.0, 0.6)] * 6  # too few to part
    sweep = Sweep(LAKE, told, range(12))
    sweep.run_episodes(3)
    assert all((block.table["e"] == 0).all() for _, block in sweep.blocks)


@pytest.mark.parametrize("rule", ["sarsa", "double-q", "watkins-q-lambda"])
def test_it_continues_from_its_state_bit_for_bit_in_the_middle_of_episodes(rule: Any) -> None:
    told = [Settings(rule=rule, decay=0.9, epsilon=e) for e in (0.2, 0.8)]
    sweep = Sweep(CLIFF, told, [1, 2])
    sweep.advance(333)
    saved = sweep.state()
    sweep.advance(200)
    again = Sweep(CLIFF, told, [1, 2])
    again.load(saved)
    again.advance(200)
    assert same(sweep.q(), again.q())
    assert same(sweep.states, again.states)


def test_a_wrong_question_is_refused_with_an_error() -> None:
    with pytest.raises(LabError, match="a seed for each agent"):
        Sweep(CLIFF, [Settings()], [1, 2])
    with pytest.raises(LabError, match="value iteration cannot be swept"):
        Sweep(CLIFF, [Settings(rule="value-iteration")], [1])
    with pytest.raises(LabError, match="REINFORCE learns from whole episodes"):
        Sweep(CLIFF, [Settings(rule="reinforce")], [1]).advance(10)
    with pytest.raises(LabError, match="mps"):
        sweep_in(world_named("cliff"), [Settings()], [1], "mps")


def test_it_can_be_cancelled() -> None:
    with pytest.raises(Cancelled):
        Sweep(CLIFF, [Settings()], [1]).run_episodes(5, lambda: True)


def test_waiting_for_an_episode_that_never_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txlab.engine.rl.sweeps.tables.MOST_STEPS", 50)
    with pytest.raises(RunFailed, match="more than 50 steps"):
        Sweep(CLIFF, [Settings(rule="reinforce")], [1]).run_episodes(1)


# Traps


def two_ways(limit: int = 0, done: bool = True) -> Process:
    """From a one goes to b for 1, and from there to the end for 10."""
    outcomes = {(0, 0): [Outcome(1.0, 1, 1.0)], (1, 0): [Outcome(1.0, 2 if done else 0, 10.0, done)]}
    return compile_process(["on"], ["a", "b", "end"], outcomes, start=0, limit=limit)


@pytest.mark.parametrize("rule", ["q-learning", "sarsa", "expected-sarsa", "sarsa-lambda"])
def test_an_end_has_no_bootstrap_and_a_cut_has(rule: Any) -> None:
    told = [Settings(rule=rule, alpha=1.0, gamma=0.5, lam=0.0, initial=100.0)]
    ended = Sweep(two_ways(), told, [1])
    ended.run_episodes(1)
    assert ended.q()[0, 1, 0] == 10.0
    cut = Sweep(two_ways(limit=1), told, [1])
    cut.run_episodes(1)
    assert cut.q()[0, 0, 0] == 1.0 + 0.5 * 100.0
    assert cut.states[0] == 0


def test_an_end_that_leads_to_a_nonterminal_state_has_no_bootstrap_either() -> None:
    outcomes = {(0, 0): [Outcome(1.0, 0, 3.0, True)]}
    process = compile_process(["on"], ["a"], outcomes, start=0)
    sweep = Sweep(process, [Settings(alpha=1.0, gamma=0.5, initial=100.0)], [1])
    sweep.run_episodes(1)
    assert sweep.q()[0, 0, 0] == 3.0


def test_where_nothing_can_be_done_an_episode_has_ended_though_the_outcome_does_not_say_so() -> None:
    process = compile_process(["on"], ["a", "end"], {(0, 0): [Outcome(1.0, 1, 3.0)]}, start=0)
    sweep = Sweep(process, [Settings(alpha=1.0, initial=100.0)], [1])
    assert sweep.run_episodes(2)[1].tolist() == [[1, 1]]
    assert sweep.q()[0, 0, 0] == 3.0


@pytest.mark.parametrize("rule", ["sarsa-lambda", "watkins-q-lambda"])
def test_traces_are_cleared_at_each_episode(rule: Any) -> None:
    sweep = Sweep(CLIFF, [Settings(rule=rule, alpha=0.1, epsilon=0.3)] * 3, range(3))
    while not len(sweep.advance(1).agent):
        pass
    (_, block), m = sweep.blocks[0], int(np.flatnonzero(sweep.episodes > 0)[0])
    assert (block.table["e"][:, m] == 0).all()
    assert all((block.table["e"][:, other] != 0).any() for other in range(3) if sweep.episodes[other] == 0)


def test_equally_good_actions_share_the_choice() -> None:
    """First-index greedy on a lake of equal values would always go left."""
    q = np.zeros((400, LAKE.size, 4))
    returns, lengths, ended = greedy_returns(LAKE, q, range(400))
    assert ended.all()
    assert len(set(lengths)) > 10
    assert 0 < returns.mean() < 0.1


def test_no_table_is_shared() -> None:
    sweep = Sweep(CLIFF, [Settings()] * 5, range(5))
    sweep.advance(400)
    tables = sweep.q()
    for m in range(1, 5):
        assert not same(tables[0], tables[m])


# Looking


def test_q_learning_finds_the_edge_of_the_cliff() -> None:
    sweep = Sweep(CLIFF, [Settings(alpha=0.5)] * 20, range(20))
    sweep.run_episodes(300)
    returns, lengths, ended = greedy_returns(CLIFF, sweep.q(), range(20))
    assert (returns == -13).all()
    assert (lengths == 13).all()
    assert ended.all()
    chances = policies(CLIFF, sweep.q(), sweep.exploration, "epsilon-greedy")
    live = ~CLIFF.terminal
    assert np.allclose(chances[:, live].sum(axis=2), 1)
    way = likely_path(CLIFF, chances.mean(axis=0))
    assert len(way) == 14
    assert CLIFF.terminal[way[-1]]


def test_a_greedy_walk_that_goes_round_in_circles_is_cut_off_and_said_not_to_end() -> None:
    q = np.zeros((1, CLIFF.size, 4))
    q[:, :, 0] = 1.0  # up, against the wall
    returns, lengths, ended = greedy_returns(CLIFF, q, [1], limit=30)
    assert (returns[0], lengths[0], ended[0]) == (-30, 30, False)


def test_policies_are_those_that_the_agents_choose_by() -> None:
    q = np.zeros((1, CLIFF.size, 4))
    q[0, 36] = [1.0, 1.0, 0.0, 0.0]
    assert np.allclose(policies(CLIFF, q, np.array([0.2]), "epsilon-greedy")[0, 36], [0.45, 0.45, 0.05, 0.05])
    assert np.allclose(policies(CLIFF, q, np.array([0.2]), "greedy")[0, 36], [0.5, 0.5, 0, 0])
    weights = np.exp([0.5, 0.5, 0, 0])
    assert np.allclose(policies(CLIFF, q, np.array([2.0]), "softmax")[0, 36], weights / weights.sum())
