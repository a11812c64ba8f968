"""Methods side by side on one function, a step of each at a time (MATH F1–F4).

Notable: the next step follows from the point and the method's state, both in the checkpoint; noise, and the order in
which stochastic descent visits the data, are functions of (seed, step). A method that has converged, or cannot
continue, rests, and the run ends when all do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from txlab.engine.descent.explain import explain_step
from txlab.engine.descent.expressions import Expression, expression
from txlab.engine.descent.methods import (
    METHODS,
    Method,
    State,
    Step,
    cycle,
    format_point,
    gradient_of,
    hessian_of,
    step,
)
from txlab.engine.descent.regression import LineData, line_data, sample_at
from txlab.engine.explain import Explanation
from txlab.errors import LabError
from txlab.experiments.kinds.descent.schema import DescentScenario, MethodSection
from txlab.experiments.protocol import Adjustable, Frame, Sample
from txlab.experiments.protocol import State as Checkpoint
from txlab.experiments.randomness import generator
from txlab.experiments.schema import several
from txlab.experiments.untimed import UntimedExperiment

ARRIVED = "arrived"
HIGHEST = {"rate": 1e6, "momentum": 0.9999, "beta1": 0.9999, "beta2": 0.99999, "noise": 1e6, "anywhere": 1.0}


class Descent(UntimedExperiment):
    """See protocol.Experiment. Of each method: `sections`, its settings now; `states`; `trouble`, why it rests, "" = it
    is active; `paths`, all its points; `last`, its last step, None = it has made none since it was restored. The first
    method is number `first` of its scenario: noise depends on the number."""

    def __init__(self, scenario: DescentScenario, first: int = 0) -> None:
        self.scenario, self.first = scenario, first
        self.f = function_of(scenario)
        self.sections: list[MethodSection] = list(scenario.methods)
        self.rules: list[Method] = [METHODS[each.method] for each in scenario.methods]
        self.states = [State.at(scenario.function.start) for _ in self.rules]
        self.trouble = [""] * len(self.rules)
        self.paths: list[list[Tensor]] = [[state.x] for state in self.states]
        self.drawn = [np.empty((0, 1 + len(state.x))) for state in self.states]  # f and x, of what frames have had
        self.last: list[Step | None] = [None] * len(self.rules)
        self.step_count = 0

    @property
    def steps(self) -> int:
        return self.step_count if all(self.trouble) else max(self.scenario.descent.steps, self.step_count)

    def step(self) -> Mapping[str, float]:
        """Make one step of each method that does not rest. Of the point before it, for each LABEL:

        value/LABEL   f         gradient/LABEL   ‖∇f‖, without noise added to it         x/LABEL, y/LABEL   the point

        For sgd the gradient is that of the one sample, and f that of all.
        """
        number = self.step_count + 1
        metrics: dict[str, float] = {}
        for i in range(len(self.rules)):
            if not self.trouble[i]:
                metrics |= self.move(i, number)
        self.step_count = number
        return metrics

    def move(self, i: int, number: int) -> dict[str, float]:
        state, section = self.states[i], self.sections[i]
        noise = None
        if section.noise:
            draws = generator(self.scenario.seed, f"noise {self.first + i}", number).standard_normal(len(state.x))
            noise = section.noise * torch.from_numpy(draws)
        made = step(self.rules[i], self.f, state, section.settings(), noise, self.draw_sample(i))
        label = section.name
        clean = made.gradient if noise is None else made.gradient - noise
        self.last[i] = made
        metrics = {f"value/{label}": made.value, f"gradient/{label}": float(torch.linalg.vector_norm(clean))}
        metrics |= {f"{axis}/{label}": float(x) for axis, x in zip("xy", state.x, strict=False)}
        self.trouble[i] = made.trouble
        if not made.trouble:
            self.states[i] = made.after
            self.paths[i].append(made.after.x)
            if float((made.after.x - state.x).abs().max()) <= self.scenario.descent.tolerance:
                self.trouble[i] = ARRIVED
            elif back := cycle(self.paths[i]):
                self.trouble[i] = f"it goes in a circle of {several(back, 'step')}"
        return metrics

    def draw_sample(self, i: int) -> LineData | None:
        """The sample whose error stochastic descent goes down in its next step; each is visited once an epoch."""
        if self.rules[i].name != "sgd" or not isinstance(self.f, LineData):
            return None
        n = len(self.f.u)
        return self.f.sample(sample_at(self.states[i].t, n, lambda epoch: self.order(i, epoch)))

    def order(self, i: int, epoch: int) -> np.ndarray:
        """The order in which method i visits the samples in an epoch."""
        n = len(self.f.u) if isinstance(self.f, LineData) else 0
        return generator(self.scenario.seed, f"shuffle {self.first + i}", epoch).permutation(n)

    def frame(self) -> Frame:
        """Of method i: i/path (n, dimensions), its points so far, and i/values (n), f there; i/value (), i/gradient
        (dimensions), f and ∇f where it is now; i/curvature (), f″ there, of one variable; i/hessian (2, 2),
        H there, of two, for Newton's method. data/u, data/v (points), if there are data. facts: f, its variables, the
        methods, their rules, steps and settings, and why each rests."""
        tensors: dict[str, np.ndarray] = {}
        for i, state in enumerate(self.states):
            drawn, (value, gradient) = self.points(i), gradient_of(self.f, state.x)
            tensors |= {f"{i}/path": drawn[:, 1:], f"{i}/values": drawn[:, 0]}
            tensors |= {f"{i}/value": value.numpy(), f"{i}/gradient": gradient.numpy()}
            if len(state.x) == 1:
                tensors[f"{i}/curvature"] = hessian_of(self.f, state.x)[0, 0].detach().numpy()
            elif self.rules[i].name == "newton-minimum":
                tensors[f"{i}/hessian"] = hessian_of(self.f, state.x).numpy()
        if isinstance(self.f, LineData):
            tensors |= {"data/u": self.f.u.numpy(), "data/v": self.f.v.numpy()}
        facts = {
            "f": self.scenario.told,
            "names": self.scenario.names,
            "methods": [each.name for each in self.sections],
            "rules": [each.name for each in self.rules],
            "titles": [each.title for each in self.rules],
            "equations": [each.rule for each in self.rules],
            "steps": [state.t for state in self.states],
            "settings": [self.settings(i) for i in range(len(self.rules))],
            "rests": list(self.trouble),
        }
        return Frame(self.step_count, tensors, facts=facts)

    def points(self, i: int) -> np.ndarray:
        """(n, 1 + dimensions): f and x along the path of method i; only new points are computed."""
        new = self.paths[i][len(self.drawn[i]) :]
        if new:
            x = torch.stack(new, 1)
            self.drawn[i] = np.concatenate([self.drawn[i], torch.cat([self.f(x)[None], x]).T.numpy()])
        return self.drawn[i]

    def explain(self, i: int, question: str, result: float, asked: str = "f(x)", what: str = "") -> Explanation:
        """The last step of method i, or that it has made none."""
        taken, section = self.last[i], self.sections[i]
        if taken is None:
            taken = Step(self.states[i].x, result, gradient_of(self.f, self.states[i].x)[1], self.states[i])
            taken = replace(taken, trouble="it has made no step yet")
        told_f, names = self.scenario.told, self.scenario.names
        return explain_step(
            *(self.rules[i], told_f, taken, section.settings()),
            question=question, result=result, asked=asked, what=what, names=names, noisy=section.noise > 0,
        )  # fmt: skip

    def facts(self) -> Mapping[str, Any]:
        return {
            "unit": "steps",
            "units_per_step": len(self.rules),
            "headline": [f"value/{each.name}" for each in self.sections],
            "open_end": True,
            "compute": {"device": "cpu", "dtype": "float64"},
        }

    def samples(self) -> list[Sample]:
        """Where each method is, and what keeps it there."""
        samples = []
        for section, state, trouble in zip(self.sections, self.states, self.trouble, strict=True):
            where = f" is at {format_point(state.x)} after {several(state.t, 'step')}"
            samples.append(Sample(section.name, f"{where}{f'; {trouble}' if trouble else ''}"))
        return samples

    # Parameters that can be changed during the run.

    def settings(self, i: int) -> dict[str, float]:
        """The parameters in the rule of a method, and the noise."""
        return {name: getattr(self.sections[i], name) for name in (*self.rules[i].uses, "noise")}

    def adjustable(self) -> Mapping[str, Adjustable]:
        """LABEL.rate, LABEL.noise and so on."""
        ranges = {
            f"{section.name}.{name}": (value, HIGHEST[name])
            for i, section in enumerate(self.sections)
            for name, value in self.settings(i).items()
        }
        return {name: Adjustable(name, value, 0.0, high) for name, (value, high) in ranges.items()}

    def change(self, name: str, value: float) -> None:
        label, _, setting = name.rpartition(".")
        i = next(i for i, each in enumerate(self.sections) if each.name == label)
        self.sections[i] = self.sections[i].model_copy(update={setting: value})

    # Checkpoints

    def state_dict(self) -> Checkpoint:
        return {
            "step": self.step_count,
            "states": [{"x": each.x, "m": each.m, "v": each.v, "t": each.t} for each in self.states],
            "trouble": list(self.trouble),
            "paths": [torch.stack(path) for path in self.paths],
            "adjusted": {name: each.value for name, each in self.adjustable().items()},
        }

    def load_state_dict(self, state: Checkpoint) -> None:
        if len(state["states"]) != len(self.states):
            raise LabError(f"the checkpoint is of {len(state['states'])} methods, not {len(self.states)}")
        self.step_count = int(state["step"])
        self.states = [State(each["x"], each["m"], each["v"], int(each["t"])) for each in state["states"]]
        self.trouble = list(state["trouble"])
        self.paths = [list(path) for path in state["paths"]]
        self.drawn = [np.empty((0, 1 + len(each.x))) for each in self.states]
        self.last = [None] * len(self.rules)
        for name, value in state.get("adjusted", {}).items():
            self.adjust(name, value)


def function_of(scenario: DescentScenario) -> Expression | LineData:
    """The objective: the function typed, or the error of a line."""
    data = scenario.data
    if not data.points:
        return expression(scenario.function.f)
    draws = generator(scenario.seed, "data", 0)
    return line_data(data.points, data.slope, data.intercept, data.noise, draws)
