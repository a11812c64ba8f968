"""Returns, λ-returns and traces against their definitions as double sums (MATH M3, M4)."""

import numpy as np
import pytest

from txlab.engine.rl.returns import accumulating, dutch, lambda_returns, n_step_returns, replacing, returns

CHANCE = np.random.default_rng(3)
REWARDS = CHANCE.normal(size=7)
VALUES = CHANCE.normal(size=8)
GAMMA = 0.8


def test_a_return_is_the_discounted_sum_of_what_follows() -> None:
    found = returns(REWARDS, GAMMA, 1.5)
    for t in range(7):
        wanted = sum(GAMMA ** (k - t) * REWARDS[k] for k in range(t, 7)) + GAMMA ** (7 - t) * 1.5
        assert found[t] == pytest.approx(wanted, rel=1e-13)


def n_step(t: int, n: int) -> float:
    """The definition: n rewards, then the value of where one is; less where the episode is over."""
    end = min(t + n, 7)
    return float(sum(GAMMA ** (k - t) * REWARDS[k] for k in range(t, end)) + GAMMA ** (end - t) * VALUES[end])


@pytest.mark.parametrize("n", [1, 2, 5, 7, 12])
def test_an_n_step_return_sums_n_rewards_and_a_value(n: int) -> None:
    assert n_step_returns(REWARDS, VALUES, n, GAMMA) == pytest.approx([n_step(t, n) for t in range(7)], rel=1e-13)


@pytest.mark.parametrize("lam", [0.0, 0.3, 0.9, 1.0])
def test_a_lambda_return_is_the_weighted_mean_of_n_step_returns(lam: float) -> None:
    found = lambda_returns(REWARDS, VALUES, lam, GAMMA)
    for t in range(7):
        n = range(1, 7 - t)
        wanted = sum((1 - lam) * lam ** (k - 1) * n_step(t, k) for k in n) + lam ** (6 - t) * n_step(t, 7 - t)
        assert found[t] == pytest.approx(wanted, rel=1e-12)


def test_lambda_returns_of_many_settings_are_those_of_each() -> None:
    lams = np.array([0.0, 0.5, 1.0])
    values = np.stack([VALUES, 2 * VALUES, -VALUES], axis=1)
    found = lambda_returns(REWARDS, values, lams, GAMMA)
    for k, lam in enumerate(lams):
        assert np.array_equal(found[:, k], lambda_returns(REWARDS, values[:, k], float(lam), GAMMA))


def test_traces_are_the_sums_that_they_shorten() -> None:
    visits = [0, 1, 0, 0, 2]
    rows = np.eye(3)[visits]
    e = replaced = dutchman = np.zeros(3)
    for x in rows:
        e, replaced, dutchman = (
            accumulating(e, x, 0.5),
            replacing(replaced, x, 0.5),
            dutch(dutchman, x, 0.5, 0.25),
        )
    assert e == pytest.approx(sum(0.5 ** (4 - t) * x for t, x in enumerate(rows)))
    assert replaced == pytest.approx([0.5, 0.125, 1.0])
    # The dutch trace is a product of matrices:  e ← γλ (1 − α x xᵀ) e + x.
    wanted = np.zeros(3)
    for x in rows:
        wanted = 0.5 * (np.eye(3) - 0.25 * np.outer(x, x)) @ wanted + x
    assert dutchman == pytest.approx(wanted)
    assert not np.allclose(dutchman, e)
