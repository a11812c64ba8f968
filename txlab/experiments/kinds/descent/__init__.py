"""The kind "descent": methods that look for a root or a minimum of a function that the user types, or fit a line to
points, side by side; a step is one step of each (MATH F1–F4).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isclose, isfinite
from typing import Any

from txlab.engine.explain import Explanation
from txlab.experiments.kinds.descent.schema import DescentScenario
from txlab.experiments.metric import Metric
from txlab.experiments.protocol import Experiment
from txlab.experiments.untimed import UntimedKind

EQUATIONS = {
    "value": ("f(x)", ""),
    "gradient": ("‖∇f(x)‖", "‖∇f(x)‖ = √Σ (∂f/∂xᵢ)²"),
    "x": ("x", ""),
    "y": ("y", ""),
}
"""metric → its letter, and its formula where the letter needs one"""


class DescentKind(UntimedKind):
    name = "descent"
    writes = True
    title = "Descent: roots and minima of a function"
    schema = DescentScenario
    METRICS = (
        Metric("value/", "f", less=True),
        Metric("gradient/", "length of ∇f"),
        Metric("x/", "x"),
        Metric("y/", "y"),
    )
    screen = "descent"

    def experiment(self, scenario: Any) -> Experiment:
        from txlab.experiments.kinds.descent.experiment import Descent

        return Descent(scenario)

    def explain_metric(
        self, scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        """How a method reached its current point: its rule, with the numbers of its last step, which is recomputed.
        None if its parameters have changed since, as the step would be another one."""
        what, _, label = name.partition("/")
        place = next((i for i, each in enumerate(scenario.methods) if each.name == label), None)
        if place is None or what not in EQUATIONS or not isfinite(values[name]):
            return None
        from txlab.experiments.kinds.descent.experiment import Descent

        again = Descent(scenario.model_copy(update={"methods": [scenario.methods[place]]}), place)
        while again.step_count < step - 1 and not all(again.trouble):
            again.step()
        here = [values.get(f"{axis}/{label}", x) for axis, x in zip("xy", again.states[0].x.tolist(), strict=False)]
        if not all(isclose(*pair, rel_tol=1e-9) for pair in zip(here, again.states[0].x.tolist(), strict=True)):
            return None
        question = f"why is {what} {values[name]:.6g} for {label} at step {step}?"
        return again.explain(0, question, values[name], *EQUATIONS[what])


KIND = DescentKind()
