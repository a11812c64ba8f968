"""Chance as a function of (seed, step)."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from txlab.engine.rl.draws import EACH, uniforms

MASK = 2**64 - 1


def split_mix(state: int) -> int:
    """One number of SplitMix64 (Steele, Lea and Flood 2014), in Python's integers."""
    z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**40))
def test_the_draws_are_those_of_split_mix(seed: int, step: int) -> None:
    golden = 0x9E3779B97F4A7C15
    key = split_mix((seed * golden + golden) & MASK)
    first, second = (split_mix((key + (2 * step + j) * golden) & MASK) for j in (0, 1))
    expected = [half * 2.0**-32 for bits in (first, second) for half in (bits & 0xFFFFFFFF, bits >> 32)]
    assert uniforms(seed, step, 1)[0, 0].tolist() == expected


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=5), st.integers(0, 1000), st.integers(1, 40))
def test_a_step_has_the_same_draws_for_any_caller_and_count(seeds: list[int], begin: int, steps: int) -> None:
    together = uniforms(np.array(seeds), begin, steps)
    assert together.shape == (len(seeds), steps, EACH)
    for m, seed in enumerate(seeds):
        alone = np.concatenate([uniforms(seed, begin + t, 1)[0] for t in range(steps)])
        assert (together[m] == alone).all()
    ahead = uniforms(np.array(seeds), np.arange(len(seeds)) + begin, steps)  # agents that are at different steps
    assert all((ahead[m] == uniforms(seed, begin + m, steps)[0]).all() for m, seed in enumerate(seeds))


def test_seeds_and_places_are_independent() -> None:
    found = uniforms(np.arange(2000), 0, 100)
    assert abs(found.mean() - 0.5) < 5 / np.sqrt(12 * found.size)
    columns = found.reshape(-1, EACH)
    correlation = np.corrcoef(columns.T)
    assert abs(correlation - np.eye(EACH)).max() < 5 / np.sqrt(len(columns))
    neighbours = np.corrcoef(found[:-1].ravel(), found[1:].ravel())[0, 1]
    assert abs(neighbours) < 5 / np.sqrt(found.size)
