"""The experiment "control": learners that steer, many seeds and many settings of each at once (MATH M5–M7).

Notable: no torch, unless the scenario asks for a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from txlab.engine.explain import Explanation
from txlab.experiments.kind import Kind
from txlab.experiments.kinds.control.schema import ControlScenario
from txlab.experiments.tabular.compute import for_tables

if TYPE_CHECKING:
    from txlab.experiments.kinds.control.experiment import ControlExperiment
    from txlab.experiments.protocol import Frame


class ControlKind(Kind):
    name = "control"
    title = "Control: learning to act"
    schema = ControlScenario
    units = {"return/": "return of an episode", "length/": "steps of an episode", "left/": "share that went left"}
    screen = "arena"

    def resolve(self, scenario: ControlScenario, say: Callable[[str], None] = lambda text: None) -> ControlScenario:
        """The same scenario with [compute] as it is for tables, and the text of a map's file in its place."""
        from txlab.experiments.tabular.world import with_its_map

        compute = for_tables(scenario.compute)
        return scenario.model_copy(update={"compute": compute, "world": with_its_map(scenario.world)})

    def build(self, scenario: ControlScenario) -> ControlExperiment:
        """The experiment at its first step. LabError where a world, a rule or a device cannot be."""
        from txlab.experiments.kinds.control.experiment import ControlExperiment

        return ControlExperiment(self.resolve(scenario))

    def explain_metric(
        self, scenario: ControlScenario, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        """Why a metric of a row is what it is; None where there is no more to say than the number."""
        from txlab.experiments.kinds.control.measures import explain_metric as explain

        return explain(scenario, name, step, values)

    def explain_frame(self, frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
        """The Bellman equation over the values of the frame. LabError for what has none."""
        from txlab.experiments.tabular.frame_why import explain_value

        return explain_value(frame, tensor, index)


KIND = ControlKind()
resolve = KIND.resolve
build = KIND.build
