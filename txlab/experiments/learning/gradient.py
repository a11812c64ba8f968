"""What all kinds of experiment that learn by gradients have in common (MATH F3, F5)."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar

from txlab.experiments.kind import Kind
from txlab.experiments.learning.explanations import MeanLoss, explain_step

if TYPE_CHECKING:
    from txlab.engine.explain import Explanation


class GradientKind(Kind):
    """A kind that learns by gradients; `mean` says what its loss is a mean of."""

    units: ClassVar[Mapping[str, str]] = {"loss": "nats", "val_loss": "nats"}
    mean: ClassVar[MeanLoss] = MeanLoss()

    def explain_metric(
        self, scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        if not isfinite(values[name]):
            return None
        return explain_step(scenario, self.mean, name, values, step, facts)
