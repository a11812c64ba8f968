"""The numbers of a learner that a person may turn: which there are for a rule, and the steps they are turned in."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from txlab.engine.rl.settings import RULES, numbers
from txlab.errors import LabError


@dataclass(frozen=True)
class Parameter:
    """`name` is that of Settings; `stops` are where turning halts; `ascii` is the letter where there are none."""

    letter: str
    ascii: str
    name: str
    about: str
    stops: tuple[float, ...]

    def turned(self, value: float, by: int) -> float:
        """The next stop above or below a value."""
        at = bisect_right(self.stops, value) if by > 0 else bisect_left(self.stops, value) - 1
        return self.stops[max(0, min(at, len(self.stops) - 1))]


SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
RATES = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, 1.0)

ALPHA = Parameter("α", "alpha", "alpha", "step size: how much of an error is corrected", RATES)
BETA = Parameter("β", "beta", "beta", "step size of the baseline", RATES)
GAMMA = Parameter(
    "γ", "gamma", "gamma", "discount: what a reward is worth a step later", (0.0, 0.5, 0.8, 0.9, 0.95, 0.99, 1.0)
)
LAM = Parameter("λ", "lambda", "lam", "how long traces last: 0 one step, 1 the episode", SHARES)
EPSILON = Parameter(
    "ε", "eps", "epsilon", "share of actions that are chosen evenly", (0.0, 0.01, 0.02, 0.05, *SHARES[1:])
)
TEMPERATURE = Parameter(
    "τ", "temp", "temperature", "of softmax: high is even, low is greedy", (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
)

STEPS = Parameter("n", "n", "n", "rewards that are waited for before the rest is guessed", (1, 2, 4, 8, 16, 32, 64))
PLANNING = Parameter(
    "plan", "plan", "planning", "updates from memory after each step in the world", (0, 1, 2, 5, 10, 20, 50, 100)
)

BY_NAME = {each.name: each for each in (ALPHA, BETA, EPSILON, TEMPERATURE, LAM, STEPS, PLANNING)}
PLANNED = ("value-iteration", "policy-iteration", "evaluation")


def parameters(told: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """Those that mean something to the rule and the policy of a side, as a frame tells of it, and have a value."""
    found = meant(told)
    return tuple(each for each in found if isinstance(told.get(each.name), (int, float))) or found


def meant(told: Mapping[str, Any]) -> tuple[Parameter, ...]:
    rule, policy = told.get("rule", ""), told.get("policy", "epsilon-greedy")
    if rule in PLANNED:
        return (GAMMA,)
    if "n" in told and rule not in RULES:  # n-step TD, of a recorded prediction
        return (ALPHA, STEPS, GAMMA)
    return (*(BY_NAME[name] for name in numbers(rule, policy)), GAMMA)


def typed(text: str) -> float:
    """A number that a person wrote, fractions too; LabError says what would be one."""
    try:
        above, line, below = text.strip().replace("−", "-").partition("/")
        value = float(above) / float(below) if line else float(above)
    except (ValueError, ZeroDivisionError):
        raise LabError(f"{text.strip()[:40]!r} is no number; write one such as 0.5 or 1/3") from None
    if not abs(value) < 1e12:
        raise LabError(f"{text.strip()[:40]!r} is no number that can be used; write one such as 0.5 or 1/3")
    return value
