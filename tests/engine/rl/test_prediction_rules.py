"""Prediction with a linear unit: the ends λ = 0 and λ = 1, the two views, true on-line TD(λ), two traps (MATH M4)."""

import numpy as np
import pytest
from small_walks import some_episodes, walk

from txlab.engine.rl.features import Features, aggregate, radial, tabular, tile
from txlab.engine.rl.prediction import (
    METHODS,
    OnlineTD,
    TraceKind,
    monte_carlo,
    offline_lambda_return,
    offline_sum,
    online,
    values_along,
)
from txlab.engine.rl.returns import lambda_returns
from txlab.engine.rl.rollouts import Episode
from txlab.engine.rl.rules import make_agent
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.worlds import world_named

PROCESS = walk(7, -1, 1)
EPISODES = some_episodes(PROCESS, 4)
CUT = Episode(np.array([4, 5, 4, 5, 6]), np.array([0.0, 0.5, -0.25, 0.0]), ended=False)
DENSE = Features(np.random.default_rng(5).normal(size=(9, 4)))
SEEN = [tabular(9), aggregate(9, 3), radial(9, 4), tile(9, 3, 2), DENSE]
BY_NAME = pytest.mark.parametrize("features", SEEN, ids=["tabular", "aggregated", "radial", "tiled", "dense"])


def start(features: Features) -> np.ndarray:
    return np.random.default_rng(6).normal(size=features.size)


def offline_forward(
    w: np.ndarray, features: Features, episode: Episode, alpha: float, lam: float, gamma: float
) -> np.ndarray:
    """δw = α Σₜ [ Gₜ^λ − O(sₜ) ] x(sₜ), w fixed: the forward view of the same sum, and equal to it."""
    values = values_along(w, features, episode)
    errors = lambda_returns(episode.rewards, values, lam, gamma) - values[:-1]
    found: np.ndarray = w + alpha * (errors @ features.matrix[episode.states[:-1]])
    return found


def online_lambda_return(
    w: np.ndarray, features: Features, episode: Episode, alpha: float, lam: float, gamma: float
) -> np.ndarray:
    """Redo the whole episode after every step, with the λ-returns known by then.

    w₀ʰ = w,  w^h_t+1 = w^h_t + α [ G^λ_t:h − w^h_t · x(sₜ) ] x(sₜ) for t < h, for h = 1 … T; O(sₜ) in the returns uses
    w^t−1_t−1. It takes T² updates; true on-line TD(λ) gets the same with one per step.   Sutton and Barto 2018, 12.4
    """
    T = len(episode.rewards)
    values = np.zeros(T + 1)  # values[t]: O(sₜ) under the weights when it was reached
    newest = w.copy()
    for h in range(1, T + 1):
        if h < T or not episode.ended:
            values[h] = features.matrix[episode.states[h]] @ newest
        targets = lambda_returns(episode.rewards[:h], values[: h + 1], lam, gamma)
        newest = w.copy()
        for state, target in zip(episode.states, targets, strict=False):
            x = features.matrix[state]
            newest += (alpha * (target - newest @ x)) * x
    return newest


@BY_NAME
def test_offline_with_lambda_1_is_monte_carlo(features: Features) -> None:
    """δw = α Σ [Rₜ − O(sₜ)] ∂O/∂w, Mehlig's first formula, with R summed up plainly."""
    w = start(features)
    for episode in [*EPISODES, CUT]:
        left = 0.0 if episode.ended else float(features.matrix[episode.states[-1]] @ w)
        change = np.zeros_like(w)
        for t in range(len(episode.rewards)):
            x = features.matrix[episode.states[t]]
            change += (episode.rewards[t:].sum() + left - w @ x) * x
        for rule in (offline_sum, offline_forward):
            assert rule(w, features, episode, 0.1, 1.0, 1.0) == pytest.approx(w + 0.1 * change, rel=1e-12, abs=1e-13)


@BY_NAME
def test_the_lambda_return_algorithm_with_lambda_1_is_every_visit_monte_carlo(features: Features) -> None:
    w = start(features)
    for episode in [*EPISODES, CUT]:
        one = offline_lambda_return(w, features, episode, 0.1, 1.0, 0.9)
        assert one == pytest.approx(monte_carlo(first_visit=False)(w, features, episode, 0.1, 0.3, 0.9), rel=1e-12)


@BY_NAME
@pytest.mark.parametrize("lam", [0.0, 0.4, 0.95, 1.0])
def test_the_forward_and_the_backward_view_are_one_sum(features: Features, lam: float) -> None:
    w = start(features)
    for episode in [*EPISODES, CUT]:
        forward = offline_forward(w, features, episode, 0.2, lam, 0.9)
        assert offline_sum(w, features, episode, 0.2, lam, 0.9) == pytest.approx(forward, rel=1e-11, abs=1e-13)
        assert not np.allclose(forward, w)


@BY_NAME
def test_every_trace_with_lambda_0_is_td_0(features: Features) -> None:
    if features is not DENSE and features.number is None:
        kinds = ["accumulating", "true-online"]  # a replacing trace is for zeros and ones
    else:
        kinds = ["accumulating", "replacing", "true-online"]
    for episode in [*EPISODES, CUT]:
        w = start(features)
        plain = w.copy()
        for t, reward in enumerate(episode.rewards):
            x, x_next = features.matrix[episode.states[t]], features.matrix[episode.states[t + 1]]
            there = 0.0 if episode.ended and t == len(episode.rewards) - 1 else plain @ x_next
            plain = plain + 0.1 * (reward + 0.9 * there - plain @ x) * x
        for kind in kinds:
            found = METHODS[kind].rule(w, features, episode, 0.1, 0.0, 0.9)
            assert found == pytest.approx(plain, rel=1e-12, abs=1e-14)
        assert METHODS["td-0"].rule(w, features, episode, 0.1, 0.7, 0.9) == pytest.approx(plain, rel=1e-12)


@BY_NAME
@pytest.mark.parametrize("lam", [0.0, 0.5, 0.9, 1.0])
def test_true_online_td_is_the_online_lambda_return_algorithm(features: Features, lam: float) -> None:
    """Van Seijen et al. 2016, theorem 1: the same weights, with one update a step in the place of all of them again."""
    w = start(features)
    for episode in [*EPISODES, CUT]:
        slow = online_lambda_return(w, features, episode, 0.15, lam, 0.9)
        assert online("true-online")(w, features, episode, 0.15, lam, 0.9) == pytest.approx(slow, rel=1e-10, abs=1e-12)
    accumulating = online("accumulating")(w, features, EPISODES[0], 0.15, 0.9, 0.9)
    assert not np.allclose(accumulating, online_lambda_return(w, features, EPISODES[0], 0.15, 0.9, 0.9))


def test_first_visits_are_counted_once() -> None:
    episode = Episode(np.array([2, 1, 2, 0]), np.array([1.0, 2.0, 4.0]), ended=True)
    w = np.zeros(3)
    assert monte_carlo(first_visit=True)(w, tabular(3), episode, 0.5, 0.0, 1.0) == pytest.approx([0, 3, 3.5])
    assert monte_carlo(first_visit=False)(w, tabular(3), episode, 0.5, 0.0, 1.0) == pytest.approx([0, 3, 3.75])


@pytest.mark.parametrize("world", ["walk-5", "four-by-three", "frozen-lake"])
@pytest.mark.parametrize("kind", ["accumulating", "replacing", "true-online"])
def test_the_glass_box_learner_of_the_same_seed_learns_the_same(kind: TraceKind, world: str) -> None:
    process = world_named(world).process
    told = Settings(rule="td-lambda", alpha=0.3, lam=0.8, traces=kind, initial=0.5)
    agent = make_agent(process, told, seed=7)
    w = np.full(process.size, 0.5)
    for episode in some_episodes(process, 5, seed=7):
        agent.run(len(episode.rewards))
        w = METHODS[kind].rule(w, tabular(process.size), episode, 0.3, 0.8, process.discount)
        open_states = ~process.terminal
        assert agent.v()[open_states] == pytest.approx(w[open_states], rel=1e-12, abs=1e-14)
    assert agent.episode == 5


# Traps


@pytest.mark.parametrize("kind", ["accumulating", "replacing", "true-online"])
def test_traces_are_cleared_where_an_episode_begins(kind: str) -> None:
    """What was done in one episode did not bring about what happens in the next."""
    learner = OnlineTD(tabular(4), np.zeros(4), 0.5, 1.0, 1.0, kind)  # type: ignore[arg-type]
    learner.learn(1, 0.0, 0, ended=True)
    learner.begin()
    learner.learn(2, 1.0, 3, ended=True)
    assert learner.weights.tolist() == [0, 0, 0.5, 0]


@pytest.mark.parametrize("name", list(METHODS))
def test_an_end_has_no_future_and_a_cut_has_one(name: str) -> None:
    w = np.array([0.0, 0.0, 0.0, 8.0])
    walked = np.array([1, 3]), np.array([0.0])
    depth = 2 if METHODS[name].depth == "n" else 0.5
    over = METHODS[name].rule(w, tabular(4), Episode(*walked, ended=True), 0.5, depth, 0.5)
    cut = METHODS[name].rule(w, tabular(4), Episode(*walked, ended=False), 0.5, depth, 0.5)
    assert over.tolist() == [0, 0, 0, 8]
    assert cut.tolist() == [0, 2, 0, 8]


def n_step_box(episode: Episode, values: np.ndarray, alpha: float, n: int, gamma: float) -> np.ndarray:
    """n-step TD step by step in time, as Sutton and Barto's box has it (page 144): at time t the state of τ = t − n + 1
    learns, from what is known by then."""
    v, states, T, t = values.copy(), episode.states, len(episode.rewards), 0
    while True:
        tau = t - n + 1
        if tau >= 0:
            end = min(tau + n, T)
            gain = sum(gamma ** (i - tau) * episode.rewards[i] for i in range(tau, end))
            if end < T or not episode.ended:
                gain += gamma ** (end - tau) * v[states[end]]
            v[states[tau]] += alpha * (gain - v[states[tau]])
        if tau == T - 1:
            return v
        t += 1


@pytest.mark.parametrize("n", [1, 2, 5, 100])
@pytest.mark.parametrize("limit", [0, 12])
def test_n_step_td_learns_in_the_order_of_time(n: int, limit: int) -> None:
    w = np.random.default_rng(1).normal(size=9)
    for episode in some_episodes(walk(7, -1, 1, limit), 6):
        found = METHODS["n-step-td"].rule(w, tabular(9), episode, 0.3, n, 0.9)
        assert found == pytest.approx(n_step_box(episode, w, 0.3, n, 0.9), rel=1e-12)
        if n == 1:
            assert found == pytest.approx(METHODS["td-0"].rule(w, tabular(9), episode, 0.3, 0, 0.9), rel=1e-12)
        if n == 100 and episode.ended:
            assert found == pytest.approx(METHODS["monte-carlo"].rule(w, tabular(9), episode, 0.3, 0, 0.9), rel=1e-12)
