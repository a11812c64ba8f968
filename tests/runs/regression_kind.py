"""A kind of experiment for the tests of runs: stochastic gradient descent of a linear regression, in NumPy.

It shows that the loop does not depend on language models, and it is fast enough to be killed twenty times. Run as a
program, `regression_kind.py RUN [--rewind-to STEP]` executes a run of this kind.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from txlab.experiments import kind
from txlab.experiments.protocol import Adjustable, Frame, NotFinite, Sample
from txlab.experiments.randomness import generator
from txlab.experiments.schema import Compute, Scenario, Section

WIDTH = 6
TRUTH = np.arange(1.0, WIDTH + 1)


class Train(Section):
    steps: int = 100
    learning_rate: float = 0.05
    noise: float = 0.1
    wait_ms: float = 0.0
    blow_up_at: int = -1
    fail_at: int = -1
    out_of_memory_at: int = -1


class RegressionScenario(Scenario):
    kind: Literal["test-regression"] = "test-regression"
    compute: Compute = Field(default_factory=lambda: Compute(device="cpu", threads=1, dtype="float32"))
    train: Train = Field(default_factory=Train)


class Regression:
    """y = x·w + noise; weights and momentum are the state, the batch is a function of (seed, step)."""

    def __init__(self, scenario: RegressionScenario) -> None:
        self.scenario = scenario
        self.step_count = 0
        self.steps = scenario.train.steps
        self.learning_rate = scenario.train.learning_rate
        self.weights = np.zeros(WIDTH)
        self.momentum = np.zeros(WIDTH)

    def batch(self, purpose: str, step: int) -> tuple[np.ndarray, np.ndarray]:
        random = generator(self.scenario.seed, purpose, step)
        x = random.normal(size=(16, WIDTH))
        return x, x @ TRUTH + self.scenario.train.noise * random.normal(size=16)

    def step(self) -> Mapping[str, float]:
        train = self.scenario.train
        if train.wait_ms:
            time.sleep(train.wait_ms / 1000)
        step = self.step_count + 1
        if step == train.fail_at:
            raise ValueError("an ordinary bug")
        if step == train.out_of_memory_at:
            raise MemoryError
        if step == train.blow_up_at:
            raise NotFinite(step, "loss", "NaN")
        x, y = self.batch("batch", step)
        error = x @ self.weights - y
        gradient = 2 * x.T @ error / len(y)
        self.momentum = 0.9 * self.momentum + gradient
        self.weights = self.weights - self.learning_rate * self.momentum / 10
        self.step_count = step
        return {
            "loss": float(np.mean(error**2)),
            "lr": self.learning_rate,
            "grad_norm": float(np.linalg.norm(gradient)),
        }

    def verify(self) -> None:
        return

    def evaluate(self) -> Mapping[str, float]:
        x, y = self.batch("validation", 0)
        return {"val_loss": float(np.mean((x @ self.weights - y) ** 2))}

    def frame(self) -> Frame:
        return Frame(self.step_count, {"weights": self.weights.copy()}, facts={"width": WIDTH})

    def samples(self) -> Sequence[Sample]:
        return [Sample("w =", np.array2string(self.weights, precision=3))]

    def facts(self) -> Mapping[str, Any]:
        return {
            "parameters": WIDTH, "unit": "tokens", "units_per_step": 16, "flops_per_step": 400.0, "peak_flops": 1e9,
            "compute": {"device": "cpu", "dtype": "float64"},
        }  # fmt: skip

    def adjustable(self) -> Mapping[str, Adjustable]:
        return {"lr": Adjustable("lr", self.learning_rate, 0.0, 1.0)}

    def adjust(self, name: str, value: float) -> None:
        self.learning_rate = value

    def state_dict(self) -> dict[str, Any]:
        return {
            "step": self.step_count, "lr": self.learning_rate, "weights": self.weights, "momentum": self.momentum,
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.step_count, self.learning_rate = state["step"], state["lr"]
        self.weights, self.momentum = state["weights"], state["momentum"]


class RegressionKind(kind.Kind):
    name = "test-regression"
    title = "Linear regression"
    schema = RegressionScenario

    def resolve(self, scenario: RegressionScenario, say: object = None) -> RegressionScenario:
        """Replace `auto` by explicit settings: here always the plainest choice."""
        plain = {"device": "cpu", "threads": 1, "dtype": "float32", "attention": "matmul", "compile": False}
        compute = scenario.compute.model_copy(update=plain | {"thread_mode": "operations"})
        return scenario.model_copy(update={"compute": compute})

    def build(self, scenario: RegressionScenario) -> Regression:
        return Regression(scenario)


def register() -> None:
    """Register the kind in this process."""
    kind.register(RegressionKind())


if __name__ == "__main__":
    from txlab.runs.process import main

    register()
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main(sys.argv[1:]))
