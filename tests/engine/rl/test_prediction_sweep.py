"""Thousands of runs and settings at once are, number by number, the plain functions one at a time (MATH M4)."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from small_walks import walk

from txlab.engine.rl import prediction_sweep
from txlab.engine.rl.dynamic_programming import even
from txlab.engine.rl.exact_values import solve_values
from txlab.engine.rl.features import Features, aggregate, radial, tabular
from txlab.engine.rl.prediction import METHODS
from txlab.engine.rl.prediction_sweep import PredictionSettings, PredictionSweep, rms_error
from txlab.engine.rl.rollouts import Rollouts

SETTINGS = PredictionSettings(np.array([0.1, 0.4, 0.9, 0.3]), np.array([0.0, 0.8, 0.5, 1.0]), 1.0)
RUNS, EPISODES = 7, 3


def both_ways(method: str, features: Features, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """(M, D, K) weights: in batches, and by the plain functions."""
    rollouts = Rollouts(walk(7, -1, 1, limit), np.arange(RUNS))
    settings = SETTINGS if METHODS[method].depth != "n" else replace(SETTINGS, depths=np.array([1, 3, 1, 40]))
    sweep = PredictionSweep(method, features, RUNS, settings, 0.25)
    plain = sweep.weights.copy()
    cut = 0
    for _ in range(EPISODES):
        episodes = rollouts.episodes()
        cut += int((~episodes.ended).sum())
        sweep.learn(episodes)
        for run in range(RUNS):
            for k, (alpha, lam) in enumerate(zip(settings.alphas, settings.depths, strict=True)):
                w = plain[run, :, k]
                plain[run, :, k] = METHODS[method].rule(w, features, episodes.of(run), alpha, lam, SETTINGS.gamma)
    assert bool(cut) == bool(limit)
    return sweep.weights, plain


@pytest.mark.parametrize("limit", [0, 12], ids=["ended", "cut off"])
@pytest.mark.parametrize("method", list(METHODS))
def test_a_sweep_over_a_table_is_the_plain_loop_bit_for_bit(
    method: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prediction_sweep, "BLOCK", 3 * 8 * 9 * 4 * 3)  # three runs a block
    sweep, plain = both_ways(method, tabular(9), limit)
    if method == "offline-sum":  # by the forward view here, by the backward view there
        assert sweep == pytest.approx(plain, rel=1e-10, abs=1e-12)
    else:
        assert np.array_equal(sweep, plain)


@pytest.mark.parametrize("method", list(METHODS))
@pytest.mark.parametrize("features", [aggregate(9, 3), radial(9, 5)], ids=["aggregated", "radial"])
def test_a_sweep_over_features_is_the_plain_loop(method: str, features: Features) -> None:
    sweep, plain = both_ways(method, features, 0)
    assert sweep == pytest.approx(plain, rel=1e-9, abs=1e-11)


def test_before_anything_is_learnt_the_error_is_the_spread_of_the_values() -> None:
    process = walk(19, -1, 1)
    true = solve_values(process, even(process), 1.0)
    sweep = PredictionSweep("accumulating", tabular(21), 2, SETTINGS)
    open_states = np.arange(1, 20)
    assert sweep.rms_error(true, open_states) == pytest.approx(np.sqrt(0.3) * np.ones((2, 4)))


def test_accumulating_traces_explode_without_a_warning() -> None:
    """λ = .9, α = 1 on the 19-state walk: kept, and said to be infinite where it is no number any more."""
    process = walk(19, -1, 1)
    rollouts = Rollouts(process, np.arange(20))
    sweep = PredictionSweep(
        "accumulating", tabular(21), 20, PredictionSettings(np.array([1.0, 3.0]), np.array([0.9, 1.0]), 1.0)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(30):
            sweep.learn(rollouts.episodes())
        found = sweep.rms_error(solve_values(process, even(process), 1.0), np.arange(1, 20))
    assert found.max(axis=0)[0] > 1e6
    assert np.isinf(found[:, 1]).any()
    assert not np.isnan(found).any()
    assert rms_error(np.full((1, 2, 1), np.nan), np.zeros(2), np.arange(2)) == np.inf


def test_the_best_settings_of_the_19_state_walk_are_about_where_the_books_curves_are_lowest() -> None:
    """A tenth of the runs of `txlab verify`; replacing traces are best, Mehlig's off-line sum runs away."""
    process, runs = walk(19, -1, 1), 30
    true, rollouts = solve_values(process, even(process), 1.0), Rollouts(process, np.arange(runs))
    at = {"offline-lambda-return": 0.35, "accumulating": 0.3, "true-online": 0.4, "replacing": 0.5, "offline-sum": 0.35}
    sweeps = {
        name: PredictionSweep(name, tabular(21), runs, PredictionSettings(np.array([alpha]), np.array([0.8]), 1.0))
        for name, alpha in at.items()
    }
    errors = dict.fromkeys(at, 0.0)
    for _ in range(10):
        episodes = rollouts.episodes()
        for name, sweep in sweeps.items():
            sweep.learn(episodes)
            errors[name] += sweep.rms_error(true, np.arange(1, 20)).mean() / 10
    assert 0.24 < errors["replacing"] < errors["true-online"] < errors["accumulating"] < 0.29
    assert 0.25 < errors["offline-lambda-return"] < 0.29
    assert errors["offline-sum"] > 1
