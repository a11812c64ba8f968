"""The experiment "prediction": what the states of a world are worth, learnt from what happens there (MATH M3, M4).

Notable: three experiments share a schema. Whole episodes of many runs at once; one run step by step, with its traces;
and Baird's sweeps, where learning off-policy goes astray. Only networks need torch, and only they import it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from txlab.experiments.kind import Kind
from txlab.experiments.kinds.prediction.schema import PredictionScenario
from txlab.experiments.tabular.compute import on_the_cpu

if TYPE_CHECKING:
    from txlab.engine.explain import Explanation
    from txlab.experiments.protocol import Experiment, Frame


class PredictionKind(Kind):
    name = "prediction"
    title = "Prediction: learning values"
    schema = PredictionScenario
    units = {"rms/": "RMS error", "score/": "mean RMS error of the episodes"}
    screen = "arena"

    def resolve(
        self, scenario: PredictionScenario, say: Callable[[str], None] = lambda text: None
    ) -> PredictionScenario:
        """The same scenario with [compute] as it is for NumPy, and the text of a map's file in its place.

        LabError for another device than the CPU.
        """
        from txlab.experiments.tabular.world import with_its_map

        compute = on_the_cpu(scenario.compute, "prediction")
        return scenario.model_copy(update={"compute": compute, "world": with_its_map(scenario.world)})

    def build(self, scenario: PredictionScenario) -> Experiment:
        """The experiment before its first step. LabError where the world, the features or the methods cannot be."""
        scenario = self.resolve(scenario)
        if scenario.off_policy:
            from txlab.experiments.kinds.prediction.counterexample import CounterexampleExperiment

            return CounterexampleExperiment(scenario)
        if scenario.predict.watch:
            from txlab.experiments.kinds.prediction.transitions import TransitionExperiment

            return TransitionExperiment(scenario)
        from txlab.experiments.kinds.prediction.episodes import EpisodeExperiment

        return EpisodeExperiment(scenario)

    def explain_metric(
        self, scenario: PredictionScenario, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        """Why a recorded number is what it is; None where there is no more to say."""
        from txlab.experiments.kinds.prediction.explaining import explained

        return explained(scenario, name, step, values)

    def explain_frame(self, frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
        """Why a value or a trace of a frame is what it is. LabError where that is not known."""
        from txlab.experiments.kinds.prediction.explaining import explained_value

        return explained_value(frame, tensor, index)


KIND = PredictionKind()
resolve = KIND.resolve
build = KIND.build
explain_frame = KIND.explain_frame
