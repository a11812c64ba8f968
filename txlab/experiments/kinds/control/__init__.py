"""The experiment "control": learners that steer, many seeds and many settings of each at once (MATH M5–M7).

Notable: no torch, unless the scenario asks for a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from txlab.engine.explain import Explanation
from txlab.experiments.kinds.control.schema import ControlScenario
from txlab.experiments.tabular.compute import for_tables

if TYPE_CHECKING:
    from txlab.experiments.kinds.control.experiment import ControlExperiment


def resolve(scenario: ControlScenario, say: Callable[[str], None] = lambda text: None) -> ControlScenario:
    """The same scenario with [compute] as it is for tables, and the text of a map's file in its place."""
    from txlab.experiments.tabular.world import with_its_map

    compute = for_tables(scenario.compute)
    return scenario.model_copy(update={"compute": compute, "world": with_its_map(scenario.world)})


def build(scenario: ControlScenario) -> ControlExperiment:
    """The experiment at its first step. LabError where a world, a rule or a device cannot be."""
    from txlab.experiments.kinds.control.experiment import ControlExperiment

    return ControlExperiment(resolve(scenario))


def explain_metric(
    scenario: ControlScenario, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
) -> Explanation | None:
    """Why a metric of a row is what it is; None where there is no more to say than the number."""
    from txlab.experiments.kinds.control.measures import explain_metric as explain

    return explain(scenario, name, step, values)
