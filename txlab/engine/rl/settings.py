"""The settings of a learner: its rule, its policy, its numbers (MATH M4–M7).

The numbers may change while it learns; the rule may not, since the tables of one rule mean nothing to another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Literal, get_args

from txlab.errors import LabError, nearest

PolicyName = Literal["epsilon-greedy", "softmax", "greedy", "exploring-starts"]
Traces = Literal["accumulating", "replacing", "true-online"]


@dataclass(frozen=True)
class Settings:
    """rule          the update rule
    alpha         α, the step size; REINFORCE: of the policy
    beta          step size of REINFORCE's baseline
    gamma         γ; None = the world's own
    lam           λ of the rules that have traces; td-lambda with λ = 0 is TD(0)
    traces        how they grow
    n             n-step SARSA: rewards that are summed before bootstrapping
    planning      Dyna-Q: updates from memory after each step in the world
    policy        how actions are chosen; with exploring-starts (Monte Carlo) the first action of an episode is random,
                  the others are greedy; td-lambda evaluates the uniform policy
    epsilon       ε of ε-greedy     temperature   of softmax over Q
    decay         ε (and the temperature) of episode n is its value · decayⁿ, never below `floor`
    initial       the initial value of every Q(s, a), and V(s)
    """

    rule: str = "q-learning"
    alpha: float = 0.5
    beta: float = 0.1
    gamma: float | None = None
    lam: float = 0.9
    traces: Traces = "accumulating"
    n: int = 4
    planning: int = 5
    policy: PolicyName = "epsilon-greedy"
    epsilon: float = 0.1
    temperature: float = 1.0
    decay: float = 1.0
    floor: float = 0.0
    initial: float = 0.0


BOUNDS: dict[str, tuple[float, float]] = {
    "alpha": (0.0, 1.0),
    "beta": (0.0, 1.0),
    "gamma": (0.0, 1.0),
    "lam": (0.0, 1.0),
    "n": (1, 1000),
    "planning": (0, 1000),
    "epsilon": (0.0, 1.0),
    "temperature": (1e-6, inf),
    "decay": (0.0, 1.0),
    "floor": (0.0, inf),
    "initial": (-inf, inf),
}

WHOLE = ("n", "planning")


def check(settings: Settings) -> Settings:
    """The settings, each checked by itself; LabError says what is allowed. `Rule.check` also checks them against
    their rule."""
    for name, (low, high) in BOUNDS.items():
        value = getattr(settings, name)
        if value is None and name == "gamma":
            continue
        if not isinstance(value, (int, float)) or not isfinite(value) or not low <= value <= high:
            allowed = (
                f"from {low:g} to {high:g}" if isfinite(high) else f"at least {low:g}" if isfinite(low) else "finite"
            )
            raise LabError(f"{name} must be {allowed}; it is {value}")
        if name in WHOLE:
            if value != int(value):
                raise LabError(f"{name} must be a whole number; it is {value}")
            settings = replace(settings, **{name: int(value)})  # type: ignore[arg-type]
    for name, names in (("policy", get_args(PolicyName)), ("traces", get_args(Traces))):
        value = getattr(settings, name)
        if value not in names:
            raise LabError(f"{name} is {value!r}{nearest(str(value), names)}; allowed are {', '.join(names)}")
    return settings
