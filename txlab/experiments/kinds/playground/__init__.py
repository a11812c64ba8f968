"""The kind "playground": a small network that learns a set of points in the plane (MATH F6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from txlab.engine.explain import Explaining, Explanation, Step
from txlab.engine.feedforward.plane import CLASSES
from txlab.errors import LabError
from txlab.experiments.kinds.playground.schema import PlaygroundScenario
from txlab.experiments.metric import Metric
from txlab.experiments.protocol import Experiment, Frame
from txlab.experiments.untimed import UntimedKind

LOSSES = {
    True: ("L = mean of ln(1 + e^(−y z)),  y = ±1", "F5, F6", "z is the answer of the network; nats"),
    False: ("L = mean of (z − y)²", "F4, F6", "z is the answer of the network"),
}


class PlaygroundKind(UntimedKind):
    name = "playground"
    networks = True
    title = "Playground: a small network in the plane"
    schema = PlaygroundScenario
    screen = "playground"
    METRICS = (
        Metric("loss", less=True, primary=True),
        Metric("val_loss", label="val", less=True, primary=True),
        Metric("val_accuracy", less=False, primary=True),
    )

    def experiment(self, scenario: Any) -> Experiment:
        from txlab.experiments.kinds.playground.experiment import Playground

        return Playground(scenario)

    def resolve(self, scenario: Any, say: Callable[[str], None] = lambda text: None) -> Any:
        resolved = super().resolve(scenario, say)
        return resolved.model_copy(update={"compute": resolved.compute.model_copy(update={"attention": "sdpa"})})

    def explain_result(
        self, scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        """Explain a metric; for a loss also the loss of answering 0 everywhere."""
        value, data, train = values[name], scenario.data, scenario.train
        held = round(data.points * data.test)
        scored = (
            f"{held} points that are not learnt from" if name.startswith("val_") else f"{train.batch} of this batch"
        )
        why = Explaining(f"why is {name} {value:.4g} at step {step}?", value)
        why.input("scored", scored)
        why.measurement(name)
        if name.endswith("accuracy"):
            why.equation("accuracy = share of points with sign z = y", "F5", "counted")
            why.means(Step("wrong", f"1 − {value:.4f}", 1 - value))
        elif name.endswith("loss"):
            why.equation(*LOSSES[data.name in CLASSES])
            if data.name in CLASSES:
                why.means(Step("ln 2", "ln(1 + e⁰)", 0.6931471805599453, "the loss of answering 0 everywhere"))
            if train.l1 and name == "loss":
                why.input("L1", train.l1, "times Σ |w| is added to the objective, not to L")
        else:
            return None
        return why.result()

    def explain_frame(self, frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
        """plane (neuron, row, column): the sum of a neuron at the middle of a square of the plane."""
        from txlab.experiments.kinds.playground.experiment import explain_square

        if tensor != "plane":
            raise LabError(f"{tensor} has no explanation; allowed: plane")
        return explain_square(frame, *index)


KIND = PlaygroundKind()
