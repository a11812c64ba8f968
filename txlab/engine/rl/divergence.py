"""Whether a learner diverges: some of its values cannot be returns of its world (MATH M1, M5).

With rewards between r₋ ≤ 0 ≤ r₊, every return lies between n r₋ and n r₊, n = 1 / (1 − γ), or without discount the
longest episode. One-step updates with α ≤ 1 are means of such numbers and stay between them; accumulating traces are
not means, and with too large an α they overshoot by more each time.
"""

from __future__ import annotations

from math import inf, isfinite

import numpy as np

from txlab.engine.explain import number
from txlab.engine.rl.process import Process
from txlab.engine.rl.rules import rule_named
from txlab.engine.rl.settings import Settings


def possible_values(process: Process, settings: Settings) -> tuple[float, float]:
    """The lowest and the highest value that a return, or the initial value, can have."""
    gamma = process.discount if settings.gamma is None else settings.gamma
    n = 1 / (1 - gamma) if gamma < 1 else float(process.limit or inf)
    low, high = float(process.reward.min(initial=0.0)), float(process.reward.max(initial=0.0))
    lowest, highest = (n * reward if reward else 0.0 for reward in (low, high))
    return min(lowest, settings.initial), max(highest, settings.initial)


def divergence(process: Process, settings: Settings, values: np.ndarray, known: bool = True) -> str:
    """A sentence with the fault and a remedy, if these values (…) of a learner are impossible; else "".

    values   V or Q, NaN where there is none; of all runs, if there are several
    known    whether `process` has the rewards; if not, only numbers that are not finite are impossible
    """
    rule = rule_named(settings.rule)
    if rule.prefers or not values.size:
        return ""
    low, high = possible_values(process, settings) if known else (-inf, inf)
    least, most = float(np.nanmin(values, initial=0.0)), float(np.nanmax(values, initial=0.0))
    slack = 1e-6 * max([1.0, *(abs(bound) for bound in (low, high) if isfinite(bound))])
    if most > high + slack or most == inf:
        seen, bound = most, f", and no return here is above {number(high)}"
    elif least < low - slack or least == -inf:
        seen, bound = least, f", and no return here is below {number(low)}"
    else:
        return ""
    fault = f"a value has reached {number(seen, 5)}" + (bound if isfinite(seen) else "")
    helps = "a smaller α helps"
    if rule.traces:
        helps = "a smaller α or λ helps"
        helps = f"replacing traces, or {helps}" if settings.traces == "accumulating" else helps
    return f"{rule.title} diverges: {fault}; {helps}"
