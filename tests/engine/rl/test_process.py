"""A decision process as arrays: what is refused, and that what is drawn follows its probabilities."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlab.engine.rl.process import Outcome, Process, check, compile_process
from txlab.errors import LabError


def coin(heads: float = 0.25) -> Process:
    """From `start`, a toss: heads ends with 1, tails stays; or leave at once. `end` is terminal."""
    toss = [Outcome(heads, 1, 1.0, True), Outcome(1 - heads, 0, -1.0)]
    return compile_process(["toss", "leave"], ["start", "end"], {(0, 0): toss, (0, 1): [Outcome(1.0, 1, 0.0, True)]}, 0)


def test_the_arrays_say_what_was_given() -> None:
    process = coin()
    assert process.outcomes(0, 0) == [Outcome(0.25, 1, 1.0, True), Outcome(0.75, 0, -1.0, False)]
    assert process.outcomes(0, 1) == [Outcome(1.0, 1, 0.0, True)]
    assert process.allowed.tolist() == [[True, True], [False, False]]
    assert process.terminal.tolist() == [False, True]
    assert process.pair.tolist() == [0, 0, 1]


@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=6), min_size=1, max_size=8), st.integers(0, 2**32 - 1))
def test_one_search_draws_from_any_pair(weights: list[list[int]], bits: int) -> None:
    """The same outcome as walking through the probabilities of the pair, for every u of 32 bits."""
    u = bits / 2**32
    outcomes = {
        (state, 0): [Outcome(w / sum(row), place % len(weights), 0.0) for place, w in enumerate(row)]
        for state, row in enumerate(weights)
    }
    process = compile_process(["go"], [str(s) for s in range(len(weights))], outcomes, 0)
    for state, row in enumerate(weights):
        found = int(np.searchsorted(process.cumulative, state + u, side="right")) - int(process.first[state])
        edges = np.cumsum([each.probability for each in process.outcomes(state, 0)])
        expected = next((place for place, edge in enumerate(edges) if u < edge), len(row) - 1)
        assert found == expected or abs(edges[min(found, expected)] - u) < 1e-12


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        ({"probability": np.array([0.25, 0.5, 1.0])}, "start, toss: the probabilities of what may follow sum to 0.75"),
        ({"probability": np.array([1.25, -0.25, 1.0])}, "start, toss: a probability is -0.25, below zero"),
        ({"next": np.array([1, 7, 1])}, "start, toss: state 7 does not exist; there are 2"),
        ({"reward": np.array([1.0, np.nan, 0.0])}, "start, toss: a reward is nan"),
        ({"discount": 1.5}, "the discount γ must be from 0 to 1; it is 1.5"),
        ({"start": np.array([0.5, 0.2])}, "where an episode begins must be one a state and sum to 1"),
        ({"start": np.array([0.5, 0.5])}, "an episode cannot begin in end: nothing can be done there"),
        ({"first": np.array([0, 3])}, "2 states and 2 actions need as many stretches"),
    ],
)
def test_an_invalid_process_is_refused_with_an_error(broken: dict[str, np.ndarray], sentence: str) -> None:
    with pytest.raises(LabError, match=sentence.replace(".", r"\.")):
        check(replace(coin(), **broken))
