"""Off-policy prediction with a linear unit: how it diverges, and what prevents it (MATH M4; S&B 2018, chapter 11).

    δ(s) = Σ_s′ P^π(s, s′) [ r + γ w·x(s′) ] − w·x(s)

Notable: the first three rules are *expected* updates, a full sweep over the states weighted by how often the behaviour
policy visits them. They are deterministic, so it is plainly not chance that makes Baird's weights grow. The last rule
learns from a single run, with importance sampling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from txlab.engine.rl.draws import uniforms
from txlab.engine.rl.process import Process


@dataclass(frozen=True, eq=False)
class OffPolicy:
    """features X (S, D), target π and behaviour b (S, A), weights d (S) of the states, γ.

    step (S, S) = P^π without transitions after an end, reward (S) = r^π.
    """

    process: Process
    features: np.ndarray
    target: np.ndarray
    behaviour: np.ndarray
    weighting: np.ndarray
    gamma: float
    step: np.ndarray
    reward: np.ndarray

    def errors(self, w: np.ndarray) -> np.ndarray:
        """The expected error δ (S) of every state under π."""
        values = self.features @ w
        errors: np.ndarray = self.reward + self.gamma * (self.step @ values) - values
        return errors


def off_policy(
    process: Process,
    features: np.ndarray,
    target: np.ndarray,
    behaviour: np.ndarray,
    weighting: np.ndarray,
    gamma: float,
) -> OffPolicy:
    """The problem with P^π and r^π computed."""
    S, A = process.size, process.choices
    state, action = process.pair // A, process.pair % A
    weight = target[state, action] * process.probability
    step, reward = np.zeros((S, S)), np.zeros(S)
    np.add.at(reward, state, weight * process.reward)
    goes_on = ~process.done
    np.add.at(step, (state[goes_on], process.next[goes_on]), weight[goes_on])
    return OffPolicy(process, features, target, behaviour, weighting, gamma, step, reward)


@dataclass(frozen=True, eq=False)
class Weights:
    """w (D), and v (D) ≈ E[x xᵀ]⁻¹ E[δ x] for the rules that estimate it."""

    w: np.ndarray
    v: np.ndarray


def semi_gradient_dp(problem: OffPolicy, at: Weights, alpha: float, beta: float) -> Weights:
    """w ← w + α Σ_s d(s) δ(s) x(s).                                            Sutton and Barto 2018, eq. 11.9"""
    pull = problem.weighting * problem.errors(at.w)
    return Weights(at.w + alpha * (problem.features.T @ pull), at.v)


def tdc(problem: OffPolicy, at: Weights, alpha: float, beta: float) -> Weights:
    """w ← w + α Σ d [ δ x − γ x̄′ (xᵀv) ],  v ← v + β Σ d (δ − xᵀv) x:  TD with gradient correction.    Section 11.7

    x̄′ (S, D) is the expected next row of features.
    """
    X, d = problem.features, problem.weighting
    delta, guess = problem.errors(at.w), X @ at.v
    following = problem.step @ X
    w = at.w + alpha * (X.T @ (d * delta) - problem.gamma * (following.T @ (d * guess)))
    return Weights(w, at.v + beta * (X.T @ (d * (delta - guess))))


def gtd2(problem: OffPolicy, at: Weights, alpha: float, beta: float) -> Weights:
    """w ← w + α Σ d (x − γ x̄′) (xᵀv),  v as in TDC.                                          Sutton et al. 2009"""
    X, d = problem.features, problem.weighting
    delta, guess = problem.errors(at.w), X @ at.v
    w = at.w + alpha * ((X - problem.gamma * (problem.step @ X)).T @ (d * guess))
    return Weights(w, at.v + beta * (X.T @ (d * (delta - guess))))


RULES: dict[str, Callable[[OffPolicy, Weights, float, float], Weights]] = {
    "semi-gradient-dp": semi_gradient_dp,
    "tdc": tdc,
    "gtd2": gtd2,
}

TITLES = {
    "semi-gradient-dp": "semi-gradient DP",
    "semi-gradient-td": "semi-gradient off-policy TD",
    "tdc": "TD with gradient correction",
    "gtd2": "GTD2",
}


def sample_td(
    problem: OffPolicy, w: np.ndarray, state: int, seed: int, begin: int, steps: int, alpha: float
) -> tuple[np.ndarray, int]:
    """Take `steps` steps with the behaviour b and learn about π:  w ← w + α ρ δ x(s),  ρ = π(a|s) / b(a|s).   Eq. 11.2

    Draws are used as everywhere: draw 1 of a step chooses the action, draw 2 the outcome. Returns w and the state.
    """
    process, w = problem.process, w.copy()
    for u in uniforms(seed, begin, steps)[0]:
        action = int(np.searchsorted(np.cumsum(problem.behaviour[state])[:-1], u[1], side="right"))
        outcome = int(np.searchsorted(process.cumulative, state * process.choices + action + u[2], side="right"))
        following = int(process.next[outcome])
        ratio = problem.target[state, action] / problem.behaviour[state, action]
        x = problem.features[state]
        there = 0.0 if process.done[outcome] else float(problem.features[following] @ w)
        delta = float(process.reward[outcome]) + problem.gamma * there - float(x @ w)
        w += alpha * ratio * delta * x
        state = following
    return w, state


def value_error(problem: OffPolicy, w: np.ndarray, true: np.ndarray) -> float:
    """√ Σ d(s) (w·x(s) − V^π(s))², the root of the mean squared value error."""
    return float(np.sqrt(problem.weighting @ (problem.features @ w - true) ** 2))


def projected_error(problem: OffPolicy, w: np.ndarray) -> float:
    """√ of the mean squared projected Bellman error: the part of δ that the features can express.   Section 11.4, 11.7

    PBE = gᵀ C⁺ g with g = Σ d δ x and C = Σ d x xᵀ.
    """
    X, d = problem.features, problem.weighting
    g = X.T @ (d * problem.errors(w))
    return float(np.sqrt(max(0.0, g @ np.linalg.pinv(X.T @ (d[:, None] * X)) @ g)))
