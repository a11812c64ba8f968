"""Baird's counterexample: what diverges, by how much, and what does not (MATH M4; notes, "Learning, simulated")."""

from dataclasses import replace

import numpy as np
import pytest

from txlab.engine.rl.draws import uniforms
from txlab.engine.rl.off_policy import (
    RULES,
    OffPolicy,
    Weights,
    off_policy,
    projected_error,
    sample_td,
    semi_gradient_dp,
    value_error,
)
from txlab.engine.rl.process import Outcome, compile_process


def baird() -> OffPolicy:
    """Seven states; dashed goes to one of the first six, solid to the seventh; Sutton and Barto 2018, figure 11.1."""
    outcomes = {}
    for s in range(7):
        outcomes[s, 0] = [Outcome(1 / 6, other, 0.0) for other in range(6)]
        outcomes[s, 1] = [Outcome(1.0, 6, 0.0)]
    process = compile_process(["dashed", "solid"], [str(s) for s in range(7)], outcomes, np.full(7, 1 / 7), 0.99)
    features = np.zeros((7, 8))
    features[:6, :6], features[:6, 7] = 2 * np.eye(6), 1
    features[6, 6], features[6, 7] = 1, 2
    target, behaviour = np.tile([0.0, 1.0], (7, 1)), np.tile([6 / 7, 1 / 7], (7, 1))
    return off_policy(process, features, target, behaviour, np.full(7, 1 / 7), 0.99)


def first() -> Weights:
    w = np.ones(8)
    w[6] = 10
    return Weights(w, np.zeros(8))


def test_the_weights_after_1000_sweeps_are_those_of_the_reference() -> None:
    problem, at = baird(), first()
    for _ in range(1000):
        at = semi_gradient_dp(problem, at, 0.01, 0.0)
    assert at.w[:6] == pytest.approx([114.4] * 6, abs=0.05)
    assert at.w[6] == pytest.approx(6.9, abs=0.05)
    assert at.w[7] == pytest.approx(335.0, abs=0.05)


@pytest.mark.parametrize("rule", ["tdc", "gtd2"])
def test_with_gradient_correction_nothing_runs_away(rule: str) -> None:
    problem, at = baird(), first()
    begin = value_error(problem, at.w, np.zeros(7)), projected_error(problem, at.w)
    for _ in range(5000):
        at = RULES[rule](problem, at, 0.005, 0.05)
    assert value_error(problem, at.w, np.zeros(7)) < begin[0]
    assert projected_error(problem, at.w) < begin[1] / 10


@pytest.mark.parametrize("rule", ["tdc", "gtd2", "semi-gradient-dp"])
def test_an_expected_update_is_the_mean_of_the_sampled_ones(rule: str) -> None:
    """E_b[ρ …] over every state, action and outcome, by hand, from the sampled forms of section 11.7."""
    problem = baird()
    X, gamma, alpha, beta = problem.features, 0.99, 0.01, 0.02
    chance = np.random.default_rng(0)
    at = Weights(chance.normal(size=8), chance.normal(size=8))
    w, v = at.w.copy(), at.v.copy()
    for s in range(7):
        for a in range(2):
            for outcome in problem.process.outcomes(s, a):
                weight = problem.weighting[s] * problem.behaviour[s, a] * outcome.probability
                ratio = problem.target[s, a] / problem.behaviour[s, a]
                x, x_next = X[s], X[outcome.next]
                delta = outcome.reward + gamma * (at.w @ x_next) - at.w @ x
                if rule == "semi-gradient-dp":
                    w += alpha * weight * ratio * delta * x
                    continue
                v += beta * weight * ratio * (delta - at.v @ x) * x
                correction = delta * x - gamma * (x @ at.v) * x_next
                w += alpha * weight * ratio * (correction if rule == "tdc" else (x - gamma * x_next) * (x @ at.v))
    found = RULES[rule](problem, at, alpha, beta)
    assert found.w == pytest.approx(w, rel=1e-12)
    # E[ρ xxᵀ] = E[xxᵀ] state by state, for Σ_a π = Σ_a b = 1.
    assert found.v == pytest.approx(v, rel=1e-12)


def test_a_sampled_life_goes_by_the_documented_draws_and_runs_away_too() -> None:
    problem = baird()
    w, state = sample_td(problem, first().w, 2, seed=5, begin=0, steps=3, alpha=0.01)
    plain, s = first().w.copy(), 2
    for u in uniforms(5, 0, 3)[0]:
        a = 0 if u[1] < 6 / 7 else 1
        following = int(u[2] * 6) if a == 0 else 6
        delta = 0.99 * (problem.features[following] @ plain) - problem.features[s] @ plain
        plain += 0.01 * (0.0 if a == 0 else 7.0) * delta * problem.features[s]
        s = following
    assert state == s
    assert w == pytest.approx(plain)
    later, _ = sample_td(problem, first().w, 2, seed=5, begin=0, steps=3000, alpha=0.01)
    assert abs(later).max() > 50
    # The same in two stretches: nothing of chance has to be saved.
    half, state = sample_td(problem, first().w, 2, seed=5, begin=0, steps=1000, alpha=0.01)
    assert np.array_equal(sample_td(problem, half, state, seed=5, begin=1000, steps=2000, alpha=0.01)[0], later)


def test_the_projected_error_is_the_length_of_what_the_features_can_express_of_the_error() -> None:
    """√ Σ d (Π δ)², with Π δ the nearest X u in the same weighting, found by least squares; d is not even here."""
    chance = np.random.default_rng(3)
    problem = baird()
    d = chance.dirichlet(np.ones(7))
    for features in (problem.features, chance.normal(size=(7, 3))):
        weighted = replace(problem, features=features, weighting=d)
        w = chance.normal(size=features.shape[1])
        delta = weighted.errors(w)
        u = np.linalg.lstsq(np.sqrt(d)[:, None] * features, np.sqrt(d) * delta, rcond=None)[0]
        assert projected_error(weighted, w) == pytest.approx(np.sqrt(d @ (features @ u) ** 2), rel=1e-9)
