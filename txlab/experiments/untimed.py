"""Kinds whose steps are too small for a measurement to pay: their device and fixed settings.

Tables, bandits, games and small networks: nothing is timed before they begin, as it is for `GradientKind`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, ClassVar

from txlab.engine.explain import Explanation
from txlab.errors import LabError, nearest
from txlab.experiments.kind import Kind
from txlab.experiments.metric import metric_of
from txlab.experiments.protocol import Adjustable, Experiment, Frame, Sample
from txlab.experiments.schema import Compute

FOR_NETWORKS = {
    "dtype": "float32",
    "attention": "matmul",
    "thread_mode": "operations",
    "compile": False,
    "cuda_graphs": False,
}


class UntimedKind(Kind):
    """any_device   whether the scenario may ask for something other than NumPy on the CPU
    networks     whether torch computes it, so that threads and kernels are set before it is built
    """

    writes: ClassVar[bool] = False
    any_device: ClassVar[bool] = False
    networks: ClassVar[bool] = False

    def resolve(self, scenario: Any, say: Callable[[str], None] = lambda text: None) -> Any:
        """Return the scenario with [compute] as it is for small steps, and with a map's file replaced by its text.

        LabError for a device other than the CPU, unless `any_device`.
        """
        compute: Compute = scenario.compute
        if not self.any_device and compute.device not in ("auto", "cpu"):
            raise LabError(
                f"compute.device = {compute.device!r}: {self.name} is computed on the CPU; allowed: auto, cpu"
            )
        # Most of [compute] is for networks. `auto` is the CPU, which is faster than a GPU below 100 000 agents.
        chosen = {name: value for name, value in FOR_NETWORKS.items() if getattr(compute, name) == "auto"}
        chosen |= {"device": "cpu" if compute.device == "auto" else compute.device, "threads": compute.threads or 1}
        decided: dict[str, Any] = {"compute": compute.model_copy(update=chosen)}
        if hasattr(scenario, "world"):
            from txlab.experiments.tabular.world import with_its_map

            decided["world"] = with_its_map(scenario.world)
        return scenario.model_copy(update=decided)

    def build(self, scenario: Any) -> Experiment:
        """The experiment before its first step. LabError for an impossible world, rule or device."""
        resolved = self.resolve(scenario)
        if self.networks:
            from txlab.experiments.learning.gradient import prepare

            prepare(resolved.compute)
        return self.experiment(resolved)

    def experiment(self, scenario: Any) -> Experiment:
        """The experiment of a scenario that leaves nothing open."""
        raise NotImplementedError

    def explain_metric(
        self, scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        """Of a network, the rate and the norm of a step; of all, what `explain_result` says."""
        if not isfinite(values[name]):
            return None
        if self.networks and metric_of(name).group == "aside":
            from txlab.experiments.learning.explanations import MeanLoss, explain_step

            return explain_step(scenario, MeanLoss(), name, values, step, facts)
        return self.explain_result(scenario, name, step, values, facts)

    def explain_result(
        self, scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        """As `explain_metric`, for the kind's own metrics; values[name] is finite."""
        return None

    def explain_frame(self, frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
        """The Bellman equation over the values of a world in the frame. LabError if `tensor` has none."""
        from txlab.experiments.tabular.explaining import explain_value

        return explain_value(frame, tensor, index)


class UntimedExperiment:
    """Default answers of experiments with small steps; see protocol.Experiment.

    fixed   why nothing can be changed while it runs, if `adjustable` is empty
    """

    fixed: ClassVar[str] = ""
    step_count = 0

    def verify(self) -> None:
        """Do nothing: NumPy reports errors immediately."""

    def evaluate(self) -> Mapping[str, float]:
        return {}

    def samples(self) -> Sequence[Sample]:
        return ()

    def adjustable(self) -> Mapping[str, Adjustable]:
        return {}

    def adjust(self, name: str, value: float) -> None:
        known = self.adjustable()
        if not known:
            raise LabError(f"{name!r} cannot be changed {self.fixed}")
        if name not in known:
            raise LabError(f"{name!r} cannot be changed{nearest(name, known)}; allowed: {', '.join(known)}")
        self.change(name, value)

    def change(self, name: str, value: float) -> None:
        """Set one of the `adjustable` parameters."""
