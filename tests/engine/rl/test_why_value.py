"""The Bellman equation with its numbers: they are those of the backup, and they add up."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_processes import chain, plain_backup, random_process

from txlab.engine.explain import Explanation
from txlab.engine.rl.dynamic_programming import even, find_converged_sweep, sweeps
from txlab.engine.rl.process import Outcome, compile_process
from txlab.engine.rl.why import MOST_LINES, why_value
from txlab.errors import LabError


def result(explanation: Explanation, name: str) -> float:
    (found,) = [float(step.result) for step in (*explanation.steps, *explanation.meaning) if step.name == name]  # type: ignore[arg-type]
    return found


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_outcomes_add_up_to_the_backup_and_the_residual_is_what_is_missing(seed: int) -> None:
    process = random_process(seed)
    table = np.where(process.allowed, np.random.default_rng(seed).normal(size=process.allowed.shape), np.nan)
    best = np.where(process.terminal, 0.0, np.nan_to_num(table, nan=-np.inf).max(axis=1))
    wanted = plain_backup(process, best, process.discount)
    for s, a in np.argwhere(process.allowed).tolist():
        told = why_value(process, table, s, a)
        worths = [float(step.result) for step in told.steps if step.name.startswith("w")]  # type: ignore[arg-type]
        assert sum(worths) == pytest.approx(wanted[s, a], abs=1e-12)
        assert result(told, "Q(s,a)") == pytest.approx(wanted[s, a], abs=1e-12)
        assert told.result == table[s, a]
        assert result(told, "residual") == pytest.approx(wanted[s, a] - table[s, a], abs=1e-12)


def test_of_settled_values_the_equation_holds_for_the_best_and_for_a_policy() -> None:
    process = random_process(5)
    for policy in (None, even(process)):
        v = find_converged_sweep(sweeps(process, 0.9, policy), 1e-15).v
        told = why_value(process, v, 0, gamma=0.9, rule="optimal" if policy is None else policy)
        assert told.meaning[-1].note == "the equation holds"
        assert told.result == v[0]
        moved = why_value(process, v + 1.0, 0, gamma=0.9, rule="optimal" if policy is None else policy)
        assert moved.meaning[-1].note.startswith("how far the number shown is from")


def test_an_end_has_no_value_of_what_follows() -> None:
    process = chain((0.0, -1.0, 3.0), 0.9)
    told = why_value(process, np.array([50.0, 70.0]), 1, 1)
    assert [step.expression for step in told.steps] == ["1 · [3]", "w₁"]
    assert told.result == 3.0
    assert "the episode ends" in told.steps[0].note
    assert why_value(process, np.array([50.0, 70.0]), 0, 1).steps[0].expression == "1 · [−1 + 0.9 · 70]"


def test_of_many_outcomes_the_likeliest_have_a_line_and_the_rest_one() -> None:
    shares = np.arange(1, 41) / np.arange(1, 41).sum()
    outcomes = [Outcome(float(p), place, 1.0) for place, p in enumerate(shares)]
    process = compile_process(["go"], [f"s{n}" for n in range(40)], {(0, 0): outcomes}, 0, 0.5)
    told = why_value(process, np.linspace(0, 1, 40), 0, 0)
    assert [step.name for step in told.steps[:MOST_LINES]] == [f"w{n}" for n in (*"₁₂₃₄₅₆₇₈₉", "₁₀", "₁₁", "₁₂")]
    assert told.steps[0].note == "the episode ends: no V(s′)"
    assert told.steps[MOST_LINES].note == "28 outcomes less likely than these"
    assert sum(float(step.result) for step in told.steps[: MOST_LINES + 1]) == pytest.approx(told.result)  # type: ignore[arg-type]


def test_what_is_not_there_is_reported() -> None:
    process = chain((0.0, -1.0, 3.0), 0.9)
    for state, action, words in ((7, None, "state 7"), (0, 5, "action 5"), (1, 0, "stay is not allowed in there")):
        with pytest.raises(LabError, match=words):
            why_value(process, np.zeros(2), state, action)


def test_a_state_in_which_nothing_can_be_done_is_worth_nothing() -> None:
    process = random_process(1)
    told = why_value(process, np.zeros(process.size), process.size - 1)
    assert (told.result, told.steps[0].result) == (0.0, 0.0)
