"""The kind "memory": recurrent cells that have to remember the beginning of a sequence, and the gradient that reaches
back to it (MATH R2, R3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from txlab.engine.explain import Explaining, Explanation, Step
from txlab.errors import LabError
from txlab.experiments.kinds.memory.schema import MemoryScenario
from txlab.experiments.metric import Metric
from txlab.experiments.protocol import Experiment, Frame
from txlab.experiments.untimed import UntimedKind

MEANINGS = {
    "loss": ("L = −(1/B) Σ ln p(symbol | x₁ … x_T)", "R1", "of this batch, before the update; chance is ln K"),
    "accuracy": ("share of the batch whose symbol is the likeliest", "R1", "chance is 1/K"),
    "val_loss": ("L = −(1/n) Σ ln p(symbol | x₁ … x_T)", "R1", "of sequences that it does not learn from"),
    "val_accuracy": ("share whose symbol is the likeliest", "R1", "of sequences that it does not learn from"),
    "fall": (
        "log₁₀ ‖∂L_T/∂s_T‖ − log₁₀ ‖∂L_T/∂s₁‖",
        "R2",
        "orders of magnitude lost on the way back; s = h, or h and c",
    ),
}


class MemoryKind(UntimedKind):
    name = "memory"
    networks = True
    title = "Memory: cells and their gradients"
    schema = MemoryScenario
    screen = "recurrent"
    METRICS = (
        *(Metric(f"loss/{cell}", "nats", "loss", less=True, primary=True) for cell in ("lstm", "gru", "rnn")),
        Metric("loss", "nats", less=True, primary=True),
        Metric("loss/", "nats", less=True),
        Metric("val_loss/", "nats", less=True),
        Metric("accuracy/", label="right", note="of the batch", less=False),
        Metric("val_accuracy/", label="right", note="of unseen sequences", less=False),
        Metric("fall/", "orders of magnitude", "fall", "of the gradient, to the first step"),
    )

    def resolve(self, scenario: Any, say: Callable[[str], None] = lambda text: None) -> Any:
        resolved = super().resolve(scenario, say)
        return resolved.model_copy(update={"compute": resolved.compute.model_copy(update={"attention": "sdpa"})})

    def experiment(self, scenario: Any) -> Experiment:
        from txlab.experiments.kinds.memory.experiment import MemoryExperiment

        return MemoryExperiment(scenario)

    def explain_result(
        self, scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        metric, _, cell = name.partition("/")
        why = Explaining(f"why is {name} {values[name]:.4g} at step {step}?", values[name])
        if name == "loss":
            why.equation("L = Σ L_cell", "R1", "the cells do not share weights, so none learns from another")
            losses = {key[5:]: loss for key, loss in values.items() if key.startswith("loss/")}
            for each, loss in losses.items():
                why.input(each, loss)
            why.compute("L", " + ".join(["{}"] * len(losses)), lambda *each: sum(each), *losses.values())
        elif metric in MEANINGS:
            from txlab.engine.recurrent.cells import CELLS

            why.equation(*MEANINGS[metric])
            why.input(cell, CELLS[cell].rule, CELLS[cell].source)
            why.measurement(metric)
        else:
            return None
        return why.result()

    def explain_frame(self, frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
        """curve/NAME [n]: the gradient n steps back, by what the steps between have taken. LabError without one."""
        name = tensor.removeprefix("curve/")
        if name == tensor or tensor not in frame.tensors:
            known = ", ".join(each for each in frame.tensors if each.startswith("curve/"))
            raise LabError(f"{tensor} has no explanation; allowed: {known}")
        logs = [float(each) for each in frame.tensors[tensor]]
        n = int(index[0])
        before, value = logs[0], logs[n]
        why = Explaining(f"why {value:.4g} for the {name.upper()}, {n} steps back?", value)
        why.equation(
            "‖∂L_T/∂s_{T−n}‖ = ‖∂L_T/∂s_T‖ · Π ‖∂L_T/∂s_t‖ / ‖∂L_T/∂s_{t+1}‖",
            "R2",
            "Pascanu, Mikolov and Bengio 2013, §2: a factor for each step back",
        )
        why.input("log₁₀ ‖∂L_T/∂s_T‖", before, "of the last state, where the gradient begins")
        if not n:
            why.step("log₁₀ ‖∂L_T/∂s_T‖", "no step back", value)
            return why.result()
        factors = [later - earlier for earlier, later in pairwise(logs[: n + 1])]
        why.input("log₁₀ of a factor", factors, "of each step back")
        mean = (value - before) / n
        why.step("mean", f"Σ / {n}", mean, "of these logarithms")
        why.compute("log₁₀ ‖∂L_T/∂s_{T−n}‖", "{} + {} · {}", lambda a, n, m: a + n * m, before, n, mean)
        why.means(Step("factor", "10^mean", 10**mean, "by which a step back multiplies the gradient, in the mean"))
        return why.result()


KIND = MemoryKind()
