"""Prediction for M runs and K settings (λ, α) of one rule in parallel (MATH M4): prediction.py in batches.

Notable: all settings of a run learn from the same episode, and every run has its own weights, (M, D, K). Runs are
sorted by episode length, longest first, so that the unfinished ones are the first n rows and no mask is needed, and
processed in blocks whose weights, traces and products stay in a cache. Where traces accumulate and α is too large the
weights grow without bound: to infinity, with neither an error nor a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from txlab.engine.rl.features import Features
from txlab.engine.rl.prediction import METHODS, TraceKind
from txlab.engine.rl.returns import n_step_returns
from txlab.engine.rl.rollouts import Episodes

BLOCK = 3_000_000
"""Bytes of weights, traces and products per block. benchmarks/rl_prediction.py with half the runs, on a core with 1 MB
of L2 and 32 MB of shared L3 cache: .2 MB 9.0 s, .8 MB 3.9 s, 3 MB 3.0 s, 10 MB 2.9 s; call overhead costs more than
cache misses."""


@dataclass(frozen=True, eq=False)
class PredictionSettings:
    """K settings of one rule: alphas (K), depths (K), which are λ or the n of n-step TD, and a common γ."""

    alphas: np.ndarray
    depths: np.ndarray
    gamma: float


class PredictionSweep:
    """Weights (M, D, K) of a rule, updated with one episode of every run at a time."""

    def __init__(
        self, method: str, features: Features, runs: int, settings: PredictionSettings, initial: float = 0.0
    ) -> None:
        self.method, self.features, self.settings = method, features, settings
        start = features.weights(initial)
        self.weights = np.empty((runs, features.size, len(settings.alphas)))
        self.weights[:] = start[:, None]

    def learn(self, episodes: Episodes) -> None:
        """Learn from one episode of every run."""
        longest_first = np.argsort(-episodes.lengths, kind="stable")
        a_run = 3 * 8 * self.features.size * len(self.settings.alphas)
        many = max(1, BLOCK // a_run)
        rule = RULES[self.method]
        with np.errstate(over="ignore", invalid="ignore"):
            for begin in range(0, len(longest_first), many):
                runs = longest_first[begin : begin + many]
                w = self.weights[runs]
                rule(w, self.features, episodes.some(runs), self.settings)
                self.weights[runs] = w

    def values(self) -> np.ndarray:
        """The estimated values of all states, (M, S, K)."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.features.values(self.weights)

    def rms_error(self, true: np.ndarray, states: np.ndarray) -> np.ndarray:
        """(M, K): √ mean over `states` of (V(s) − V^π(s))²; infinite, not NaN, where a value has overflowed."""
        return rms_error(self.values(), true, states)

    def state(self) -> dict[str, np.ndarray]:
        return {"weights": self.weights.copy()}

    def load(self, state: Mapping[str, Any]) -> None:
        self.weights = np.array(state["weights"], dtype=np.float64)


def rms_error(values: np.ndarray, true: np.ndarray, states: np.ndarray) -> np.ndarray:
    """The error (M, K) of values (M, S, K) against true (S); `states` selects which of the S count."""
    with np.errstate(over="ignore", invalid="ignore"):
        wrong = values[:, states] - true[states][:, None]
        error: np.ndarray = np.sqrt(np.mean(wrong * wrong, axis=1))
    return np.where(np.isnan(error), np.inf, error)


# The rules on a block: w (R, D, K) is changed in place; the longest episodes come first.


def going_on(lengths: np.ndarray, t: int) -> int:
    """How many episodes, sorted longest first, have a step t."""
    return int(np.searchsorted(-lengths, -t, side="left"))


def online(
    w: np.ndarray, features: Features, episodes: Episodes, settings: PredictionSettings, kind: TraceKind
) -> None:
    """At every step: δ (n, K) = r + γ O(s′) − O(s), traces e (n, D, K), w ← w + (α δ) e."""
    alphas, decay, gamma = settings.alphas, settings.gamma * settings.depths, settings.gamma
    traces, product = np.zeros_like(w), np.empty_like(w)
    before = np.zeros((len(w), len(alphas)))  # true on-line: O of this state when it was reached
    for t in range(int(episodes.lengths[0])):
        n = going_on(episodes.lengths, t)
        on, e, change = w[:n], traces[:n], product[:n]
        here_in, there_in = episodes.states[:n, t], episodes.states[:n, t + 1]
        here, there = features.look(on, here_in), features.look(on, there_in)
        there[episodes.ended[:n] & (episodes.lengths[:n] == t + 1)] = 0.0
        delta = episodes.rewards[:n, t, None] + gamma * there - here
        e *= decay
        if kind == "true-online":
            features.add(e, here_in, 1 - alphas * features.look(e, here_in))
            moved = here - before[:n]
            np.multiply(e, (alphas * (delta + moved))[:, None], out=change)
            on += change
            features.add(on, here_in, -(alphas * moved))
            before[:n] = there
        else:
            if kind == "accumulating":
                features.add(e, here_in, np.ones(1))
            else:
                features.put(e, here_in)
            np.multiply(e, (alphas * delta)[:, None], out=change)
            on += change


def td_0(w: np.ndarray, features: Features, episodes: Episodes, settings: PredictionSettings) -> None:
    """Without traces: w ← w + α δ x(s)."""
    for t in range(int(episodes.lengths[0])):
        n = going_on(episodes.lengths, t)
        here_in = episodes.states[:n, t]
        here, there = features.look(w[:n], here_in), features.look(w[:n], episodes.states[:n, t + 1])
        there[episodes.ended[:n] & (episodes.lengths[:n] == t + 1)] = 0.0
        delta = episodes.rewards[:n, t, None] + settings.gamma * there - here
        features.add(w[:n], here_in, settings.alphas * delta)


def targets_of(
    w: np.ndarray, features: Features, episodes: Episodes, settings: PredictionSettings, lams: np.ndarray
) -> np.ndarray:
    """λ-returns (T, R, K) under the present weights. Backwards; an episode joins in at its own last step."""
    T, gamma = int(episodes.lengths[0]), settings.gamma
    targets = np.empty((T, len(w), len(settings.alphas)))
    after = np.zeros(targets.shape[1:])
    for t in range(T - 1, -1, -1):
        n = going_on(episodes.lengths, t)
        there = features.look(w[:n], episodes.states[:n, t + 1])
        last = episodes.lengths[:n] == t + 1
        there[episodes.ended[:n] & last] = 0.0
        after[:n][last] = there[last]
        targets[t, :n] = episodes.rewards[:n, t, None] + gamma * ((1 - lams) * there + lams * after[:n])
        after[:n] = targets[t, :n]
    return targets


def n_step_td(w: np.ndarray, features: Features, episodes: Episodes, settings: PredictionSettings) -> None:
    """w ← w + α [ G_t:t+n − O(sₜ) ] x(sₜ), all settings with the same n together, from the first step to the last."""
    T, gamma, lengths = int(episodes.lengths[0]), settings.gamma, episodes.lengths
    runs, rewards = np.arange(len(w)), episodes.rewards.T  # 0 after the end
    for n in np.unique(settings.depths).astype(int).tolist():
        these = np.flatnonzero(settings.depths == n)
        part, alphas = w[:, :, these], settings.alphas[these]
        gains = n_step_returns(rewards, np.zeros((len(rewards) + 1, len(w))), n, gamma)
        for t in range(T):
            on = going_on(lengths, t)
            reached = np.minimum(t + n, lengths[:on])
            here, there = (features.look(part[:on], episodes.states[runs[:on], at]) for at in (t, reached))
            there[episodes.ended[:on] & (reached == lengths[:on])] = 0.0
            there *= (gamma ** (reached - t))[:, None]
            features.add(part[:on], episodes.states[:on, t], alphas * (gains[t, :on, None] + there - here))
        w[:, :, these] = part


def offline_lambda_return(w: np.ndarray, features: Features, episodes: Episodes, settings: PredictionSettings) -> None:
    """Compute all targets, then w ← w + α [ Gₜ^λ − O(sₜ) ] x(sₜ) from the first step to the last."""
    walk_again(w, features, episodes, settings, targets_of(w, features, episodes, settings, settings.depths))


def monte_carlo(
    w: np.ndarray, features: Features, episodes: Episodes, settings: PredictionSettings, first_visit: bool
) -> None:
    """The same with returns as targets."""
    gains = np.zeros((*episodes.rewards.shape, 1))  # (R, T, 1): a return does not depend on α
    after = np.zeros((len(w), 1))
    looked = None if episodes.ended.all() else last_values(w, features, episodes)
    if looked is not None:  # a truncated episode ends with the estimated value of its last state
        gains, after = np.zeros((*episodes.rewards.shape, w.shape[2])), np.zeros((len(w), w.shape[2]))
    for t in range(int(episodes.lengths[0]) - 1, -1, -1):
        n = going_on(episodes.lengths, t)
        if looked is not None:
            last = episodes.lengths[:n] == t + 1
            after[:n][last] = looked[:n][last]
        gains[:n, t] = episodes.rewards[:n, t, None] + settings.gamma * after[:n]
        after[:n] = gains[:n, t]
    walk_again(w, features, episodes, settings, gains.swapaxes(0, 1), first_visits(episodes) if first_visit else None)


def last_values(w: np.ndarray, features: Features, episodes: Episodes) -> np.ndarray:
    """(R, K): O(s_T), 0 where the episode ended."""
    values = features.look(w, episodes.states[np.arange(len(w)), episodes.lengths])
    values[episodes.ended] = 0.0
    return values


def first_visits(episodes: Episodes) -> np.ndarray:
    """(R, T) bool: whether the state of this step occurs for the first time in its episode."""
    first = np.zeros(episodes.rewards.shape, dtype=bool)
    for run, row in enumerate(episodes.states):
        first[run, np.unique(row[: episodes.lengths[run]], return_index=True)[1]] = True
    return first


def walk_again(
    w: np.ndarray,
    features: Features,
    episodes: Episodes,
    settings: PredictionSettings,
    targets: np.ndarray,
    counts: np.ndarray | None = None,
) -> None:
    """w ← w + α [ targetₜ − O(sₜ) ] x(sₜ) for t = 0 … T − 1 with a changing w; targets (T, R, K or 1)."""
    for t in range(int(episodes.lengths[0])):
        n = going_on(episodes.lengths, t)
        here_in = episodes.states[:n, t]
        change = settings.alphas * (targets[t, :n] - features.look(w[:n], here_in))
        if counts is not None:
            change[~counts[:n, t]] = 0.0
        features.add(w[:n], here_in, change)


def offline_sum(w: np.ndarray, features: Features, episodes: Episodes, settings: PredictionSettings) -> None:
    """Mehlig's sum by its forward view: all [ Gₜ^λ − O(sₜ) ] x(sₜ) under the initial w, added together at the end."""
    targets = targets_of(w, features, episodes, settings, settings.depths)
    change = np.zeros_like(w)
    for t in range(int(episodes.lengths[0])):
        n = going_on(episodes.lengths, t)
        here_in = episodes.states[:n, t]
        features.add(change[:n], here_in, targets[t, :n] - features.look(w[:n], here_in))
    w += settings.alphas * change


BlockRule = Callable[[np.ndarray, Features, Episodes, PredictionSettings], None]

RULES: dict[str, BlockRule] = {
    "accumulating": partial(online, kind="accumulating"),
    "replacing": partial(online, kind="replacing"),
    "true-online": partial(online, kind="true-online"),
    "td-0": td_0,
    "offline-lambda-return": offline_lambda_return,
    "offline-sum": offline_sum,
    "n-step-td": n_step_td,
    "monte-carlo": partial(monte_carlo, first_visit=False),
    "monte-carlo-first": partial(monte_carlo, first_visit=True),
}
assert RULES.keys() == METHODS.keys()
