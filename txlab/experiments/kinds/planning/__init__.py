"""The experiment "planning": dynamic programming in a world that is known, sweep by sweep (MATH M1, M2).

Notable: NumPy alone, so nothing here or below imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from txlab.experiments.kinds.planning.schema import PlanningScenario
from txlab.experiments.tabular.compute import on_the_cpu

if TYPE_CHECKING:
    from txlab.engine.explain import Explanation
    from txlab.experiments.kinds.planning.experiment import PlanningExperiment


def resolve(scenario: PlanningScenario, say: Callable[[str], None] = lambda text: None) -> PlanningScenario:
    """The same scenario with [compute] as it is for NumPy, on one thread, and the text of a map's file in its place.

    LabError for another device than the CPU.
    """
    from txlab.experiments.tabular.world import with_its_map

    compute = on_the_cpu(scenario.compute, "planning")
    return scenario.model_copy(update={"compute": compute, "world": with_its_map(scenario.world)})


def build(scenario: PlanningScenario) -> PlanningExperiment:
    """The experiment at its first step. LabError where the world or the plan cannot be."""
    from txlab.experiments.kinds.planning.experiment import PlanningExperiment

    return PlanningExperiment(resolve(scenario))


def explain_metric(
    scenario: PlanningScenario, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
) -> Explanation | None:
    """Why a metric of a row is what it is; None where there is no more to say than the number."""
    from txlab.experiments.kinds.planning.measures import explain_metric as explain

    return explain(scenario, name, step, values)
