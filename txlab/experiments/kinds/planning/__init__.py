"""The experiment "planning": dynamic programming in a world that is known, sweep by sweep (MATH M1, M2).

Notable: NumPy alone, so nothing here or below imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from txlab.experiments.kind import Kind
from txlab.experiments.kinds.planning.schema import PlanningScenario
from txlab.experiments.tabular.compute import on_the_cpu

if TYPE_CHECKING:
    from txlab.engine.explain import Explanation
    from txlab.experiments.kinds.planning.experiment import PlanningExperiment
    from txlab.experiments.protocol import Frame


class PlanningKind(Kind):
    name = "planning"
    title = "Planning by dynamic programming"
    schema = PlanningScenario
    screen = "arena"

    def resolve(self, scenario: PlanningScenario, say: Callable[[str], None] = lambda text: None) -> PlanningScenario:
        """The same scenario with [compute] as it is for NumPy, and the text of a map's file in its place.

        LabError for another device than the CPU.
        """
        from txlab.experiments.tabular.world import with_its_map

        compute = on_the_cpu(scenario.compute, "planning")
        return scenario.model_copy(update={"compute": compute, "world": with_its_map(scenario.world)})

    def build(self, scenario: PlanningScenario) -> PlanningExperiment:
        """The experiment at its first step. LabError where the world or the plan cannot be."""
        from txlab.experiments.kinds.planning.experiment import PlanningExperiment

        return PlanningExperiment(self.resolve(scenario))

    def explain_metric(
        self, scenario: PlanningScenario, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        """Why a metric of a row is what it is; None where there is no more to say than the number."""
        from txlab.experiments.kinds.planning.measures import explain_metric as explain

        return explain(scenario, name, step, values)

    def explain_frame(self, frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
        """The Bellman equation over the values of the frame. LabError for what has none."""
        from txlab.experiments.tabular.frame_why import explain_value

        return explain_value(frame, tensor, index)


KIND = PlanningKind()
resolve = KIND.resolve
build = KIND.build
