"""What the numbers of a learner may be."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isfinite
from typing import get_args

from txlab.engine.rl.settings import RULES, PolicyName, Settings, Traces
from txlab.errors import LabError, nearest

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


def checked(settings: Settings) -> Settings:
    """The settings, or LabError with what is allowed."""
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
    for name, names in (("rule", RULES), ("policy", get_args(PolicyName)), ("traces", get_args(Traces))):
        value = getattr(settings, name)
        if value not in names:
            raise LabError(f"{name} is {value!r}{nearest(str(value), names)}; allowed are {', '.join(names)}")
    if settings.policy == "exploring-starts" and settings.rule != "monte-carlo":
        raise LabError(f"exploring-starts belongs to monte-carlo; {settings.rule} has another policy")
    if settings.traces == "true-online" and settings.rule in ("sarsa-lambda", "watkins-q-lambda"):
        raise LabError(f"true-online traces belong to td-lambda; {settings.rule} has accumulating or replacing ones")
    return settings
