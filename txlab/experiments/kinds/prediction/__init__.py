"""The kind "prediction": the values of a world's states, learnt from experience (MATH M3, M4).

Three experiments share its schema: whole episodes of many parallel runs; one run step by step, with its traces; and
Baird's counterexample, where off-policy learning diverges. Only networks need torch, and only they import it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from txlab.experiments.kinds.prediction.schema import PredictionScenario
from txlab.experiments.metric import Metric
from txlab.experiments.untimed import UntimedKind

if TYPE_CHECKING:
    from txlab.engine.explain import Explanation
    from txlab.experiments.protocol import Experiment, Frame

"""The methods that learn at every step, and their traces; TD(0) is λ = 0."""


class PredictionKind(UntimedKind):
    name = "prediction"
    title = "Prediction: learning values"
    schema = PredictionScenario
    METRICS = (Metric("rms/", "RMS error", less=True), Metric("score/", "mean RMS error of the episodes", less=True))
    screen = "arena"

    def experiment(self, scenario: PredictionScenario) -> Experiment:
        """The one of the three experiments that the scenario describes."""
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
        from txlab.experiments.kinds.prediction.explaining import explain_metric

        return explain_metric(scenario, name, step, values)

    def explain_frame(self, frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
        """Explain a value or a trace of a frame. LabError if that is not known."""
        from txlab.experiments.kinds.prediction.explaining import explain_value

        return explain_value(frame, tensor, index)


KIND = PredictionKind()
