"""One backup and what follows from it, on random processes and on worlds small enough to know by heart."""

from dataclasses import replace
from fractions import Fraction
from itertools import islice, pairwise
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_processes import chain, corners, plain_backup, random_process

from txlab.engine.rl.dynamic_programming import (
    ROUNDING,
    UNSETTLED,
    Order,
    backup,
    backup_of,
    best_policy,
    constant,
    count_changed,
    even,
    find_converged_sweep,
    from_start,
    greedy,
    policies,
    success_within,
    sweep,
    sweeps,
    value_within,
    values,
)
from txlab.engine.rl.exact_values import check_values_exist, solve_values
from txlab.engine.rl.process import Outcome, Process, compile_process
from txlab.engine.rl.worlds import world_named
from txlab.errors import LabError, RunFailed

seeds = st.integers(0, 2**32 - 1)
ORDERS = get_args(Order)
quickly = settings(max_examples=40, deadline=None)


def some_values(process: Process, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=process.size) * 10


def some_policy(process: Process, seed: int) -> np.ndarray:
    weights = np.random.default_rng(seed + 1).random(process.allowed.shape) * process.allowed
    return weights / np.maximum(weights.sum(1, keepdims=True), 1e-300)


# The backup


@quickly
@given(seeds)
def test_the_backup_is_the_definition_outcome_by_outcome(seed: int) -> None:
    process = random_process(seed)
    v = some_values(process, seed)
    np.testing.assert_allclose(backup(process, v, 0.7), plain_backup(process, v, 0.7), atol=1e-12)


@quickly
@given(seeds)
def test_one_state_s_backup_has_the_bits_of_all_states_backup(seed: int) -> None:
    process = random_process(seed)
    v = some_values(process, seed)
    rows = np.stack([backup_of(process, v, 0.9, s) for s in range(process.size)])
    assert rows.tobytes() == backup(process, v, 0.9).tobytes()


def test_where_an_episode_ends_there_is_no_bootstrap() -> None:
    """Trap 2: an outcome that ends it may name any state; what that state is worth does not count."""
    for done, worth in ((True, 2.0), (False, 902.0)):
        outcomes = {(0, 0): [Outcome(1.0, 1, 2.0, done)], (1, 0): [Outcome(1.0, 1, 5.0)]}
        process = compile_process(["go"], ["here", "there"], outcomes, 0)
        assert backup(process, np.array([0.0, 1000.0]), 0.9)[0, 0] == worth


def test_a_limit_cuts_off_and_does_not_change_a_value() -> None:
    process = random_process(3)
    v = some_values(process, 3)
    assert backup(replace(process, limit=2), v, 0.9).tobytes() == backup(process, v, 0.9).tobytes()


# Value iteration


@quickly
@given(seeds)
def test_the_backup_brings_any_two_tables_nearer_by_the_discount(seed: int) -> None:
    process = random_process(seed)
    one, other = some_values(process, seed), some_values(process, seed + 7)
    for policy in (None, some_policy(process, seed)):
        for order in ("synchronous", "in-place"):
            apart = np.abs(
                sweep(process, one, 0.8, policy, order=order) - sweep(process, other, 0.8, policy, order=order)
            )
            assert apart.max() <= 0.8 * np.abs(one - other).max() + 1e-12


@quickly
@given(seeds)
def test_what_settles_solves_the_bellman_equation_in_either_order(seed: int) -> None:
    process = random_process(seed)
    found = [find_converged_sweep(sweeps(process, 0.9, order=order)).v for order in ORDERS]
    for v in found:
        q = plain_backup(process, v, 0.9)
        best = np.where(process.terminal, 0.0, np.nanmax(np.where(process.terminal[:, None], 0.0, q), axis=1))
        np.testing.assert_allclose(v, best, atol=1e-9)
        np.testing.assert_allclose(v, found[0], atol=1e-9)


@quickly
@given(seeds)
def test_no_policy_is_better_than_the_best_value(seed: int) -> None:
    process = random_process(seed)
    best = find_converged_sweep(sweeps(process, 0.9)).v
    assert (solve_values(process, some_policy(process, seed), 0.9) <= best + 1e-9).all()
    np.testing.assert_allclose(solve_values(process, greedy(backup(process, best, 0.9)), 0.9), best, atol=1e-6)


@quickly
@given(seeds)
def test_the_best_soft_policy_has_the_value_that_its_sweeps_say(seed: int) -> None:
    process = random_process(seed)
    best = find_converged_sweep(sweeps(process, 0.9, epsilon=0.3)).v
    policy = greedy(backup(process, best, 0.9), epsilon=0.3)
    assert policy[process.allowed].min() >= 0.3 / process.choices - 1e-12
    np.testing.assert_allclose(solve_values(process, policy, 0.9), best, atol=1e-6)
    assert (best <= find_converged_sweep(sweeps(process, 0.9)).v + 1e-9).all()


def test_prioritised_backups_go_where_something_is_to_be_gained() -> None:
    """A corridor of 40 cells with its end at the right: from the left a sweep carries the news one cell, and by
    priority it comes all the way; where nothing is to be gained nothing is touched."""
    outcomes = {(s, 0): [Outcome(1.0, s + 1, float(s == 39), s == 39)] for s in range(40)}
    process = compile_process(["right"], [str(s) for s in range(41)], outcomes, 0, 0.9)
    zero = np.zeros(41)
    assert np.flatnonzero(sweep(process, zero, 0.9, order="in-place")).tolist() == [39]
    once = sweep(process, zero, 0.9, order="prioritised")
    np.testing.assert_allclose(once[:40], 0.9 ** np.arange(39, -1, -1))
    assert sweep(process, once, 0.9, order="prioritised").tobytes() == once.tobytes()


# Evaluation and improvement


@quickly
@given(seeds, st.sampled_from(ORDERS))
def test_sweeps_come_to_the_solution_of_the_linear_equations(seed: int, order: str) -> None:
    process = random_process(seed)
    policy = some_policy(process, seed)
    np.testing.assert_allclose(
        find_converged_sweep(sweeps(process, 0.95, policy, order=order), 1e-13).v,
        solve_values(process, policy, 0.95),
        atol=1e-9,
    )


@quickly
@given(seeds)
def test_policy_iteration_never_makes_a_state_worse_and_comes_to_value_iteration(seed: int) -> None:
    process = random_process(seed)
    found = list(policies(process, 0.9))
    for worse, better in pairwise(found):
        assert (better.v >= worse.v - 1e-9).all()
        assert worse.changes == count_changed(better.policy, worse.policy) > 0
    assert found[-1].changes == 0
    np.testing.assert_allclose(found[-1].v, find_converged_sweep(sweeps(process, 0.9)).v, atol=1e-7)
    assert len(found) <= 12


def test_a_better_policy_is_made_with_its_own_value_and_not_with_the_best() -> None:
    """The erratum of M2: the second policy here is greedy to V of the first, and is not yet the best one."""
    process = chain((0.0, -1.0, 3.0), 0.9)
    lazy = constant(process, 0)
    first, second, *_ = policies(process, 0.9, lazy)
    np.testing.assert_allclose(first.v, solve_values(process, lazy, 0.9), atol=1e-9)
    assert count_changed(second.policy, greedy(backup(process, first.v, 0.9))) == 0


def test_policies_are_compared_after_rounding_and_equals_share() -> None:
    """Trap 3: noise in the last digits neither breaks a tie nor counts as a change."""
    for equal, noise in ((ROUNDING, 3e-15), (UNSETTLED, 3e-13)):
        noisy = np.array([[1.0, 1.0 + noise, 0.5], [np.nan, 2.0, 2.0 - 3 * noise]])
        other = noisy + np.array([[noise / 3, 0, 0], [0, 0, noise / 3]])
        assert greedy(noisy, equal=equal).tolist() == [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]
        assert count_changed(greedy(noisy, equal=equal), greedy(other, equal=equal)) == 0
    assert greedy(np.array([[1.0, 1.001]])).tolist() == [[0.0, 1.0]]


def test_which_actions_are_best_does_not_depend_on_the_unit_of_rewards() -> None:
    process = world_named("gridworld").process
    best = find_converged_sweep(sweeps(process, 0.9)).v
    small = replace(process, reward=process.reward * 1e-12)
    assert greedy(backup(small, best * 1e-12, 0.9)).tolist() == greedy(backup(process, best, 0.9)).tolist()


def exact_stakes(heads: Fraction) -> dict[int, set[int]]:
    """The best stakes of each capital, by the closed form of the gambler's value, in rational numbers.

    With a favourable coin a stake of 1 is best: V(s) = (1 − rˢ)/(1 − r¹⁰⁰), r = (1 − p)/p. With another one
    all that can be used is staked: V(s) = p V(2s) up to 50, p + (1 − p) V(2s − 100) above. Either is checked here.
    """
    p, v = heads, {0: Fraction(0), 100: Fraction(1)}
    for s in range(1, 100):
        if p > Fraction(1, 2):
            v[s] = (1 - ((1 - p) / p) ** s) / (1 - ((1 - p) / p) ** 100)
            continue
        share, sure, x, passed = Fraction(1), Fraction(0), s, {}  # V(s) = share · V(x) + sure
        while x not in v and x not in passed:
            passed[x] = (share, sure)
            share, sure, x = (share * p, sure, 2 * x) if x <= 50 else (share * (1 - p), sure + share * p, 2 * x - 100)
        if x not in v:  # a circle: solve for V(x)
            before, known = passed[x]
            v[x] = (sure - known) / (before - share)
        v[s] = share * v[x] + sure
    stakes = {}
    for s in range(1, 100):
        q = {k: p * v[s + k] + (1 - p) * v[s - k] for k in range(1, min(s, 100 - s) + 1)}
        assert max(q.values()) == v[s]
        stakes[s] = {k for k, worth in q.items() if worth == v[s]}
    return stakes


@pytest.mark.parametrize("heads", ["0.25", "0.4", "0.5", "0.55"])
def test_stakes_are_equally_good_exactly_where_they_are_in_rational_numbers(heads: str) -> None:
    process = world_named("gambler", heads=float(heads)).process
    near = find_converged_sweep(sweeps(process, 1.0), 1e-7).v
    policies_found = [best_policy(process, near, 1.0)]
    if heads != "0.5":  # there V(s) = s / 100 and every stake is best, which only settled values show
        policies_found.append(greedy(backup(process, find_converged_sweep(sweeps(process, 1.0)).v, 1.0)))
    wanted = exact_stakes(Fraction(heads))
    for policy in policies_found:
        for s, stakes in wanted.items():
            assert set((np.flatnonzero(policy[s]) + 1).tolist()) == stakes


@quickly
@given(seeds)
def test_the_best_policy_is_that_of_settled_values_already_where_sweeps_have_only_come_near(seed: int) -> None:
    process = random_process(seed)
    best = find_converged_sweep(sweeps(process, 0.9)).v
    near = best + 1e-4 * some_values(process, seed) * ~process.terminal
    for epsilon in (0.0, 0.3):
        found = best_policy(process, near, 0.9, epsilon)
        np.testing.assert_allclose(
            solve_values(process, found, 0.9), find_converged_sweep(sweeps(process, 0.9, epsilon=epsilon)).v
        )


def test_ties_are_shared_where_the_first_of_the_best_would_never_arrive() -> None:
    """Trap 3 in four cells: staying is as good as going as long as nothing is lost by it, and only going arrives."""
    process = chain((0.0, 0.0, 1.0))
    v = find_converged_sweep(sweeps(process, 1.0)).v
    q = backup(process, v, 1.0)
    assert v[0] == v[1] == 1.0
    first = np.eye(2)[np.nanargmax(q, axis=1)]
    assert solve_values(process, first, 1.0)[0] == 0.0
    assert solve_values(process, greedy(q), 1.0)[0] == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["frozen-lake", "frozen-lake-8"])
def test_on_the_frozen_lake_the_first_of_the_best_actions_never_arrives(name: str) -> None:
    """Trap 3, as it is met: without discount, after rounding."""
    process = world_named(name).process
    q = backup(process, find_converged_sweep(sweeps(process, 1.0), 1e-14).v, 1.0)
    first = np.eye(4)[np.round(np.nan_to_num(q, nan=-1.0), 9).argmax(axis=1)] * process.allowed
    assert from_start(process, success_within(process, first, 1000)) == 0.0
    shared = greedy(q)
    assert from_start(process, solve_values(process, shared, 1.0)) == pytest.approx(
        {16: 14 / 17, 64: 1.0}[process.size]
    )


@pytest.mark.parametrize("name", ["gridworld", "four-by-three", "frozen-lake-8", "windy", "taxi", "walk-19"])
def test_in_known_worlds_the_equations_and_the_sweeps_agree(name: str) -> None:
    process = world_named(name).process
    policy, gamma = even(process), min(process.discount, 0.99)
    v = find_converged_sweep(sweeps(process, gamma, policy), 1e-14).v
    np.testing.assert_allclose(solve_values(process, policy, gamma), v, rtol=1e-9, atol=1e-9)


def test_sweeps_that_do_not_settle_are_given_up_with_an_error() -> None:
    with pytest.raises(RunFailed, match="after 50 sweeps a value still changed by 1"):
        find_converged_sweep(sweeps(chain((1.0, 0.0, 0.0)), 1.0), most=50)


def test_even_and_constant_policies_know_what_is_allowed() -> None:
    process = chain((0.0, 0.0, 0.0))
    assert even(process).tolist() == [[0.5, 0.5], [0.0, 1.0]]
    assert constant(process, 0).tolist() == [[1.0, 0.0], [0.0, 1.0]]


# Published


@pytest.mark.parametrize(("order", "count"), [("synchronous", 173), ("in-place", 114)])
def test_figure_4_1_takes_as_many_sweeps_as_it_does(order: str, count: int) -> None:
    process = corners()
    found = list(islice(sweeps(process, 1.0, even(process), order=order), 200))
    assert next(each.number for each in found if each.delta < 1e-4) == count
    if order == "synchronous":
        assert [found[k - 1].v[1] for k in (1, 2, 3)] == [-1, -1.75, -2.4375]
        assert round(found[9].v[1], 3) == -6.138


# Without discount


def test_a_policy_that_never_ends_is_refused_where_that_costs() -> None:
    process = corners()
    check_values_exist(process, 1.0, even(process))
    check_values_exist(process, 1.0)
    with pytest.raises(LabError, match=r"from cell 1 \(and 10 other states\) this policy never ends"):
        check_values_exist(process, 1.0, constant(process, 0))
    check_values_exist(process, 0.99, constant(process, 0))
    with pytest.raises(LabError, match="never ends"):
        solve_values(process, constant(process, 0), 1.0)


@pytest.mark.parametrize(
    ("rewards", "words"),
    [
        ((-1.0, -1.0, 0.0), None),  # continuing for ever costs, so no policy does
        ((0.0, -1.0, 5.0), None),  # it is free
        ((0.5, -1.0, 5.0), "can collect reward for ever around here"),
    ],
)
def test_best_values_without_discount_exist_unless_a_cycle_pays(rewards: tuple[float, ...], words: str | None) -> None:
    process = chain(rewards)
    if words is None:
        check_values_exist(process, 1.0)
        assert find_converged_sweep(sweeps(process, 1.0)).v[0] == max(
            0.0 if rewards[0] == 0 else -np.inf, sum(rewards[1:])
        )
    else:
        with pytest.raises(LabError, match=words):
            check_values_exist(process, 1.0)


def walk(there: float, back: float, leave: float) -> Process:
    outcomes = {
        (0, 0): [Outcome(1.0, 1, there)],
        (1, 0): [Outcome(1.0, 0, back)],
        (0, 1): [Outcome(1.0, 2, leave, True)],
    }
    return compile_process(["on", "out"], ["a", "b", "c"], outcomes, 0)


@pytest.mark.parametrize(("there", "back", "fine"), [(3.0, -4.0, True), (3.0, -3.0, False), (3.0, -2.0, False)])
def test_a_cycle_that_pays_here_and_costs_there_is_judged_as_a_whole(there: float, back: float, fine: bool) -> None:
    process = walk(there, back, 1.0)
    if fine:
        check_values_exist(process, 1.0)
        assert find_converged_sweep(sweeps(process, 1.0)).v.tolist() == [1.0, -3.0, 0.0]
    else:
        with pytest.raises(LabError, match="for ever"):
            check_values_exist(process, 1.0)


def test_a_world_without_a_way_out_is_refused_and_the_state_named() -> None:
    outcomes = {(0, 0): [Outcome(0.5, 1, -1.0, True), Outcome(0.5, 2, -1.0)], (2, 0): [Outcome(1.0, 2, -1.0)]}
    process = compile_process(["go"], ["a", "b", "pit"], outcomes, 0)
    with pytest.raises(LabError, match=r"from a \(and 1 other state\) no policy ends for certain"):
        check_values_exist(process, 1.0)
    check_values_exist(process, 1 - 1e-9)


def test_with_chance_in_every_choice_a_soft_policy_ends_where_a_hard_one_might_not() -> None:
    process = corners()
    check_values_exist(process, 1.0, epsilon=0.1)
    with pytest.raises(LabError, match="never ends"):
        check_values_exist(walk(-1.0, -1.0, 0.0), 1.0, constant(walk(-1.0, -1.0, 0.0), 0))


# Cut off


@quickly
@given(seeds)
def test_values_within_n_steps_are_sums_over_all_ways(seed: int) -> None:
    process = random_process(seed)
    policy = some_policy(process, seed)

    def by_hand(s: int, steps: int) -> float:
        if not steps or process.terminal[s]:
            return 0.0
        return sum(
            policy[s, a] * o.probability * (o.reward + (0 if o.done else by_hand(o.next, steps - 1)))
            for a in range(process.choices)
            for o in process.outcomes(s, a)
        )

    assert value_within(process, policy, 2)[0] == pytest.approx(by_hand(0, 2), abs=1e-9)


def test_success_is_counted_once_and_not_paid() -> None:
    process = chain((0.0, 7.0, 4.0))
    p = success_within(process, even(process), 3)
    assert p.tolist() == [0.75, 1.0]
    assert from_start(process, p) == 0.75
    assert values(np.array([[np.nan, np.nan]])).tolist() == [0.0]
