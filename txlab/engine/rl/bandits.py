"""The k-armed testbed and its action-selection methods, for many runs in parallel (MATH M5; S&B 2018, §2.2–2.8).

    ε-greedy    A = argmax Q, or with probability ε any arm           Q(A) ← Q(A) + step [R − Q(A)]
        UCB         A = argmax Q(a) + c √(ln t / N(a))                    the same; untried arms first
    gradient    π(a) = exp H(a) / Σ exp H(b), A ~ π                   H(a) ← H(a) + α (R − b) (1[a = A] − π(a))

`step` is 1/N(A), the sample average, or a constant α. b is the mean of the previous rewards (R̄ in S&B, eq. 2.12 and
its footnote), or 0 without a baseline. Optimism is a high initial Q. Ties are broken uniformly at random.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erf, sqrt
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Arms = npt.NDArray[np.intp]
Method = Literal["epsilon-greedy", "ucb", "gradient"]
TITLES: dict[Method, str] = {
    "epsilon-greedy": "ε-greedy",
    "ucb": "upper confidence bound",
    "gradient": "gradient bandit",
}


@dataclass(frozen=True)
class Choice:
    """How an agent chooses and learns; `alpha` 0 = sample averages (gradient needs a positive α)."""

    method: Method = "epsilon-greedy"
    epsilon: float = 0.1
    c: float = 2.0
    alpha: float = 0.0
    initial: float = 0.0
    baseline: bool = True


@dataclass
class Agents:
    """`runs` agents with the same Choice, each with its own estimates."""

    choice: Choice
    q: Floats  # (runs, k) estimates Q, or preferences H
    n: Floats  # (runs, k) how often each arm was played
    mean: Floats  # (runs) of the rewards
    steps: int = 0

    @classmethod
    def new(cls, choice: Choice, runs: int, arms: int) -> Agents:
        first = 0.0 if choice.method == "gradient" else choice.initial
        return cls(choice, np.full((runs, arms), first), np.zeros((runs, arms)), np.zeros(runs))

    def choose(self, explore: Floats, pick: Floats) -> Arms:
        """The arm (runs) that each agent plays; `explore` and `pick` (runs) are uniform in [0, 1)."""
        arms = self.q.shape[1]
        match self.choice.method:
            case "gradient":
                reached = np.cumsum(softmax(self.q), axis=1) > pick[:, None]
                reached[:, -1] = True  # where rounding leaves the sum below 1
                drawn: Arms = reached.argmax(axis=1)
                return drawn
            case "ucb":
                with np.errstate(divide="ignore", invalid="ignore"):
                    bonus = self.choice.c * np.sqrt(np.log(self.steps + 1) / self.n)
                return argmax_evenly(self.q + np.where(self.n == 0, np.inf, bonus), pick)
            case _:
                best = argmax_evenly(self.q, pick)
                return np.where(explore < self.choice.epsilon, (pick * arms).astype(np.intp), best)

    def learn(self, arm: Arms, reward: Floats) -> None:
        """Update every agent, which played `arm` (runs) and received `reward` (runs)."""
        rows = np.arange(len(arm))
        self.steps += 1
        self.n[rows, arm] += 1
        if self.choice.method == "gradient":
            mean = self.mean if self.steps > 1 else reward  # its first value is R₁
            advantage = reward - mean if self.choice.baseline else reward
            change = -softmax(self.q)
            change[rows, arm] += 1
            self.q += self.choice.alpha * advantage[:, None] * change
        else:
            step = self.choice.alpha or 1 / self.n[rows, arm]
            self.q[rows, arm] += step * (reward - self.q[rows, arm])
        self.mean += (reward - self.mean) / self.steps


def softmax(values: Floats) -> Floats:
    """(runs, k) exp(v) / Σ exp(v) of each row."""
    raw = np.exp(values - values.max(axis=1, keepdims=True))
    shares: Floats = raw / raw.sum(axis=1, keepdims=True)
    return shares


def argmax_evenly(values: Floats, pick: Floats) -> Arms:
    """The index (runs) of the largest value in each row; `pick` (runs) selects evenly among m tied values."""
    largest = values == values.max(axis=1, keepdims=True)
    wanted = np.floor(pick * largest.sum(axis=1))
    chosen: Arms = (np.cumsum(largest, axis=1) > wanted[:, None]).argmax(axis=1)
    return chosen


def expected_maximum(arms: int) -> float:
    """E max of `arms` independent standard normal variables: no agent of the testbed can exceed it on average.

    ∫ x d Φ(x)^k, by the midpoint rule over Φ's range: 1.53875 for k = 10 (the book's "about 1.55").
    """
    x = np.linspace(-10, 10, 20_001)
    powers = np.array([(0.5 * (1 + erf(each / sqrt(2)))) ** arms for each in x])
    return float(((x[1:] + x[:-1]) / 2 * np.diff(powers)).sum())
