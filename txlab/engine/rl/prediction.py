"""State values of a policy, learnt from its episodes with a linear unit: TD(λ), n-step TD, Monte Carlo (MATH M4).

    O(s) = w · x(s),   R_t − O(s_t) = Σ_τ≥t [ r_τ+1 + O(s_τ+1) − O(s_τ) ]          Mehlig

One episode at a time, written to be read; prediction_sweep.py does the same for thousands of runs and settings, and is
tested against these functions number by number. Every rule takes (w, features, episode, α, λ, γ) and returns the new w;
n-step TD takes n instead of λ.
"Off-line" has two meanings. Mehlig's off-line sum keeps w fixed for a whole episode and then adds everything learnt;
Sutton and Barto's off-line λ-return algorithm keeps the *targets* fixed, and goes through the episode again with a w
that changes. The first diverges where the second does not: states are visited many times in an episode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from txlab.engine.explain import Explaining, Explanation
from txlab.engine.rl.features import Features
from txlab.engine.rl.returns import accumulating, dutch, lambda_returns, n_step_returns, replacing, returns
from txlab.engine.rl.rollouts import Episode
from txlab.engine.rl.update import Term, change_step, error_step, terms

TraceKind = Literal["accumulating", "replacing", "true-online"]
Rule = Callable[[np.ndarray, Features, Episode, float, float, float], np.ndarray]


@dataclass(frozen=True)
class Learned:
    """One update with the numbers that went into it.

    here, there   O(s) and O(s′) under the weights before it; there = 0 at an end      old   true on-line: O_old
    delta         r + γ there − here          trace   the share of α δ that is added to the value of s: x(s) · e
    after         O(s) afterwards
    """

    state: int
    reward: float
    following: int
    ended: bool
    here: float
    there: float
    old: float
    delta: float
    trace: float
    after: float


class OnlineTD:
    """TD(λ) of one linear unit, one transition at a time: δ = r + γ O(s′) − O(s),  w ← w + α δ e.

    weights (D), trace (D). True on-line TD(λ) keeps `before`, the value O of this state when it was reached.
    """

    def __init__(
        self, features: Features, weights: np.ndarray, alpha: float, lam: float, gamma: float, kind: TraceKind
    ):
        self.features, self.weights = features, np.array(weights, dtype=np.float64)
        self.alpha, self.lam, self.gamma, self.kind = alpha, lam, gamma, kind
        self.begin()

    def begin(self) -> None:
        """Begin an episode: clear the traces, since nothing done in an earlier episode led here."""
        self.trace = np.zeros_like(self.weights)
        self.before = 0.0

    def learn(self, state: int, reward: float, following: int, ended: bool) -> Learned:
        """Make one update. `ended`: nothing follows; after a truncation O(s′) still counts."""
        x = self.features.matrix[state]
        here = float(self.weights @ x)
        there = 0.0 if ended else float(self.weights @ self.features.matrix[following])
        delta = reward + self.gamma * there - here
        decay, old = self.gamma * self.lam, self.before
        if self.kind == "true-online":  # Sutton and Barto 2018, p. 300
            self.trace = dutch(self.trace, x, decay, self.alpha)
            moved = here - self.before
            self.weights += (self.alpha * (delta + moved)) * self.trace
            self.weights -= (self.alpha * moved) * x
            self.before = there
        else:
            grown = accumulating if self.kind == "accumulating" else replacing
            self.trace = grown(self.trace, x, decay)
            self.weights += (self.alpha * delta) * self.trace
        trace, after = float(x @ self.trace), float(self.weights @ x)
        return Learned(state, reward, following, ended, here, there, old, delta, trace, after)


def online(kind: TraceKind) -> Rule:
    """The rule that learns at every step with traces of this kind."""

    def learn(
        w: np.ndarray, features: Features, episode: Episode, alpha: float, lam: float, gamma: float
    ) -> np.ndarray:
        learner = OnlineTD(features, w, alpha, lam, gamma, kind)
        last = len(episode.rewards) - 1
        for t, reward in enumerate(episode.rewards):
            following = int(episode.states[t + 1])
            learner.learn(int(episode.states[t]), float(reward), following, episode.ended and t == last)
        return learner.weights

    return learn


def values_along(w: np.ndarray, features: Features, episode: Episode) -> np.ndarray:
    """O(s₀) … O(s_T), (T + 1); the last is 0 if the episode ended."""
    values: np.ndarray = features.matrix[episode.states] @ w
    if episode.ended:
        values[-1] = 0.0
    return values


def offline_lambda_return(
    w: np.ndarray, features: Features, episode: Episode, alpha: float, lam: float, gamma: float
) -> np.ndarray:
    """w ← w + α [ Gₜ^λ − w · x(sₜ) ] x(sₜ) for t = 0 … T − 1; G from the initial w.   Sutton and Barto 2018, 12.4"""
    targets = lambda_returns(episode.rewards, values_along(w, features, episode), lam, gamma)
    w = w.copy()
    for state, target in zip(episode.states, targets, strict=False):
        x = features.matrix[state]
        w += (alpha * (target - w @ x)) * x
    return w


def offline_sum(
    w: np.ndarray, features: Features, episode: Episode, alpha: float, lam: float, gamma: float
) -> np.ndarray:
    """Mehlig's off-line sum, w fixed:  δw = α Σₜ [ rₜ₊₁ + γ O(sₜ₊₁) − O(sₜ) ] Σ_τ≤t (γλ)^{t−τ} x(s_τ)."""
    values = values_along(w, features, episode)
    errors = episode.rewards + gamma * values[1:] - values[:-1]
    e = np.zeros_like(w)
    change = np.zeros_like(w)
    for state, delta in zip(episode.states, errors, strict=False):
        e = accumulating(e, features.matrix[state], gamma * lam)
        change += delta * e
    return w + alpha * change


def n_step_td(w: np.ndarray, features: Features, episode: Episode, alpha: float, n: float, gamma: float) -> np.ndarray:
    """w ← w + α [ G_t:t+n − w · x(sₜ) ] x(sₜ),  G_t:t+n = rₜ₊₁ + … + γⁿ⁻¹ rₜ₊ₙ + γⁿ w · x(sₜ₊ₙ).

    Sutton and Barto 2018, eq. 7.2. On-line: step t is learnt from at step t + n, the last n at the end; each update
    uses the weights of its time. With n = 1 it is TD(0), with n above the length Monte Carlo.
    """
    T, n = len(episode.rewards), int(n)
    gains = n_step_returns(episode.rewards, np.zeros(T + 1), n, gamma)
    w = w.copy()
    for t, gain in enumerate(gains):
        reached = min(t + n, T)
        over = episode.ended and reached == T
        there = 0.0 if over else float(w @ features.matrix[episode.states[reached]])
        x = features.matrix[episode.states[t]]
        w += (alpha * (gain + gamma ** (reached - t) * there - w @ x)) * x
    return w


def monte_carlo(first_visit: bool) -> Rule:
    """w ← w + α [ Gₜ − w · x(sₜ) ] x(sₜ), at every visit or only the first.   Sutton and Barto 2018, eq. 6.1

    λ is not used. With every visit it is the off-line λ-return algorithm at λ = 1.
    """

    def learn(
        w: np.ndarray, features: Features, episode: Episode, alpha: float, lam: float, gamma: float
    ) -> np.ndarray:
        along = values_along(w, features, episode)
        targets = returns(episode.rewards, gamma, along[-1])
        w, seen = w.copy(), set()
        for state, target in zip(episode.states, targets, strict=False):
            if not (first_visit and int(state) in seen):
                x = features.matrix[state]
                w += (alpha * (target - w @ x)) * x
            seen.add(int(state))
        return w

    return learn


@dataclass(frozen=True)
class Method:
    """A rule and its description: `formula` in symbols; `depth` names how far it looks ahead, and is empty for rules
    without it."""

    title: str
    formula: str
    source: str
    rule: Rule
    depth: Literal["lam", "n", ""] = "lam"


TD_FORMULA = "w ← w + α [ r + γ O(s′) − O(s) ] e"

METHODS: dict[str, Method] = {
    "accumulating": Method(
        "TD(λ), accumulating", TD_FORMULA + ",  e ← γλ e + x(s)", "Mehlig; Sutton 1988", online("accumulating")
    ),
    "replacing": Method(
        "TD(λ), replacing",
        TD_FORMULA + ",  e ← x(s) where x(s) ≠ 0, else γλ e",
        "Singh and Sutton 1996",
        online("replacing"),
    ),
    "true-online": Method(
        "true on-line TD(λ)",
        "w ← w + α (δ + O(s) − O_old) e − α (O(s) − O_old) x(s),  e ← γλ e + (1 − α γλ eᵀx) x",
        "van Seijen and Sutton 2014",
        online("true-online"),
    ),
    "td-0": Method(
        "TD(0)",
        "w ← w + α [ r + γ O(s′) − O(s) ] x(s)",
        "Mehlig; Sutton and Barto 2018, eq. 6.2",
        lambda w, features, episode, alpha, lam, gamma: online("accumulating")(w, features, episode, alpha, 0.0, gamma),
        depth="",
    ),
    "offline-lambda-return": Method(
        "off-line λ-return",
        "w ← w + α [ Gₜ^λ − O(sₜ) ] x(sₜ)",
        "Sutton and Barto 2018, eq. 12.4",
        offline_lambda_return,
    ),
    "offline-sum": Method(
        "off-line TD(λ), one sum",
        "w ← w + α Σₜ [ rₜ₊₁ + γ O(sₜ₊₁) − O(sₜ) ] Σ_τ≤t (γλ)^{t−τ} x(s_τ)",
        "Mehlig",
        offline_sum,
    ),
    "n-step-td": Method(
        "n-step TD",
        "w ← w + α [ rₜ₊₁ + … + γⁿ⁻¹ rₜ₊ₙ + γⁿ O(sₜ₊ₙ) − O(sₜ) ] x(sₜ)",
        "Sutton and Barto 2018, eq. 7.2",
        n_step_td,
        depth="n",
    ),
    "monte-carlo": Method(
        "Monte Carlo",
        "w ← w + α [ Gₜ − O(sₜ) ] x(sₜ)",
        "Sutton and Barto 2018, eq. 6.1",
        monte_carlo(first_visit=False),
        depth="",
    ),
    "monte-carlo-first": Method(
        "Monte Carlo, first visits",
        "w ← w + α [ Gₜ − O(sₜ) ] x(sₜ) where sₜ is new",
        "Sutton and Barto 2018, 5.1",
        monte_carlo(first_visit=True),
        depth="",
    ),
}


FORMULAS: dict[TraceKind, str] = {
    "accumulating": "V(s) ← V(s) + α [ r + γ V(s′) − V(s) ] e(s),  e ← γλ e, then e(s) ← e(s) + 1",
    "replacing": "V(s) ← V(s) + α [ r + γ V(s′) − V(s) ] e(s),  e ← γλ e, then e(s) ← 1",
    "true-online": "V(s) ← V(s) + α (δ + V(s) − V_old) e(s) − α (V(s) − V_old),  e(s) ← γλ e(s) + 1 − α γλ e(s)",
}


def terms_of(update: Learned, kind: TraceKind, alpha: float, gamma: float) -> list[Term]:
    """The rule term by term, for a table: V(s) stands for O(s)."""
    here, by_trace = ("V(s)", update.here), ("e(s)", update.trace)
    head = (("V(s)", update.after), "←", here, "+", ("α", alpha))
    if kind == "true-online":
        moved = (here, "−", ("V_old", update.old))
        return terms(*head, "(", ("δ", update.delta), "+", *moved, ")", by_trace, "−", ("α", alpha), "(", *moved, ")")
    error = (("r", update.reward), "+", ("γ", gamma), "·", ("V(s′)", update.there), "−", here)
    return terms(*head, "[", *error, "]", by_trace)


def why_update(
    update: Learned, kind: TraceKind, alpha: float, lam: float, gamma: float, names: Sequence[str]
) -> Explanation:
    """Explain V(s) after this update; `names` are the names of the states."""
    here, there = names[update.state], names[update.following]
    ends = "the episode ended: nothing follows" if update.ended else f"the value of {there}, bootstrapped"
    why = Explaining(f"why is {here} worth {update.after:.4g}?", update.after)
    why.equation(FORMULAS[kind], "M4", METHODS[kind].source)
    why.input("V(s)", update.here, f"{here}, before")
    why.input("r", update.reward, "the reward of the step")
    why.input("V(s′)", update.there, ends)
    why.input("α", alpha, "step size")
    why.input("γ", gamma, "discount")
    why.input("λ", lam, "how slowly traces fade: e ← γλ e each step")
    why.input("e(s)", update.trace, "the trace, this visit included")
    meaning = "the error of this step; every state takes its share α e of it"
    why.steps.append(error_step(update.reward, gamma, update.there, update.here, meaning))
    if kind == "true-online":
        why.input("V_old", update.old, "the value of s on arrival")
        moved = update.here - update.old
        form = "{} + {} · ({} + {}) · {} − {} · {}"
        terms = (update.here, alpha, update.delta, moved, update.trace, alpha, moved)
        why.compute("V(s)", form, lambda v, α, δ, m, e, a, n: v + α * (δ + m) * e - a * n, *terms)
    else:
        why.steps.append(change_step("V(s)", update.here, alpha, update.delta, update.trace))
    return why.result()
