"""Baird's counterexample as an Experiment: a step is a sweep over all states, or one transition (MATH M4).

Notable: every true value is 0 and the features can represent that, yet off-policy bootstrapping makes the weights grow
for ever; the rules with a gradient correction stay bounded. Their value error does not have to fall to 0: they minimise
the projected Bellman error, and both are recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from txlab.engine.rl.off_policy import (
    RULES,
    TITLES,
    OffPolicy,
    Weights,
    off_policy,
    projected_error,
    sample_td,
    value_error,
)
from txlab.engine.rl.worlds import baird
from txlab.errors import LabError
from txlab.experiments.kinds.prediction.episodes import curve_side, seeds_of
from txlab.experiments.kinds.prediction.schema import PredictionScenario
from txlab.experiments.protocol import Adjustable, Frame, State
from txlab.experiments.randomness import generator
from txlab.experiments.tabular.frames import facts_of
from txlab.experiments.tabular.world import world_facts, world_of
from txlab.experiments.untimed import UntimedExperiment

SHOWN = (1, 7, 8)  # w₁ … w₆ are equal in the sweeps


def problem_of(scenario: PredictionScenario) -> OffPolicy:
    """Baird's world with its features, and how often the behaviour policy is in each state: equally often."""
    process = world_of(scenario.world).process
    S = process.size
    weighting = np.full(S, 1 / S)
    target, behaviour = np.tile(baird.TARGET, (S, 1)), np.tile(baird.BEHAVIOUR, (S, 1))
    return off_policy(process, baird.features(), target, behaviour, weighting, process.discount)


class CounterexampleExperiment(UntimedExperiment):
    """See protocol.Experiment; `at`: weights of each curve; `stands`: the states of those learning step by step."""

    def __init__(self, scenario: PredictionScenario) -> None:
        self.scenario = scenario
        self.world = world_of(scenario.world)
        self.problem = problem_of(scenario)
        self.curves = scenario.curves_to_draw()
        self.true = np.zeros(self.problem.process.size)
        D = self.problem.features.shape[1]
        self.at = [Weights(baird.WEIGHTS.copy(), np.zeros(D)) for _ in self.curves]
        self.alpha = [curve.alpha for curve in self.curves]
        self.beta = scenario.predict.beta
        self.seed = int(seeds_of(scenario.seed, 1)[0])
        first = int(generator(scenario.seed, "baird", 0).integers(self.problem.process.size))
        self.stands = [first] * len(self.curves)
        self.step_count = 0

    @property
    def steps(self) -> int:
        return self.scenario.predict.episodes

    def step(self) -> Mapping[str, float]:
        """Make one sweep or one step: rms/… the value error √ Σ d V², projected/… the root of the projected Bellman
        error, w1/…, w7/…, w8/… the weights."""
        metrics = {}
        with np.errstate(over="ignore", invalid="ignore"):
            for i, curve in enumerate(self.curves):
                if curve.method == "semi-gradient-td":
                    w, self.stands[i] = sample_td(
                        self.problem, self.at[i].w, self.stands[i], self.seed, self.step_count, 1, self.alpha[i]
                    )
                    self.at[i] = Weights(w, self.at[i].v)
                else:
                    self.at[i] = RULES[curve.method](self.problem, self.at[i], self.alpha[i], self.beta)
                w = self.at[i].w
                metrics[f"rms/{curve.name}"] = value_error(self.problem, w, self.true)
                metrics[f"projected/{curve.name}"] = projected_error(self.problem, w)
                metrics |= {f"w{k}/{curve.name}": float(w[k - 1]) for k in SHOWN}
        self.step_count += 1
        return metrics

    def frame(self) -> Frame:
        """true/v (S) = 0; for each side i/v (S) and i/weights (D)."""
        tensors: dict[str, np.ndarray] = {"true/v": self.true.astype(np.float32)}
        with np.errstate(over="ignore", invalid="ignore"):
            for i, at in enumerate(self.at):
                tensors[f"{i}/v"] = (self.problem.features @ at.w).astype(np.float32)
                tensors[f"{i}/weights"] = at.w.astype(np.float32)
        sides = [
            curve_side(curve, self.problem.gamma, TITLES[curve.method], alpha=alpha, beta=self.beta)
            for curve, alpha in zip(self.curves, self.alpha, strict=True)
        ]
        lives = [curve.method == "semi-gradient-td" for curve in self.curves]
        states = [state if alive else -1 for state, alive in zip(self.stands, lives, strict=True)]
        facts = facts_of(self.scenario.world.model_dump(), sides, states=states, updates=[self.step_count] * len(sides))
        return Frame(self.step_count, tensors, facts=facts | {"values": "w · x(s)"})

    def facts(self) -> Mapping[str, Any]:
        return world_facts(self.world, "sweeps", [f"rms/{curve.name}" for curve in self.curves])

    # Adjustable parameters

    def adjustable(self) -> Mapping[str, Adjustable]:
        adjustable = {
            f"alpha/{curve.name}": Adjustable(f"alpha/{curve.name}", alpha, 0.0, 1.0)
            for curve, alpha in zip(self.curves, self.alpha, strict=True)
        }
        return adjustable | {"beta": Adjustable("beta", self.beta, 0.0, 1.0)}

    def change(self, name: str, value: float) -> None:
        if name == "beta":
            self.beta = value
        else:
            self.alpha[list(self.adjustable()).index(name)] = value

    # Checkpoints

    def state_dict(self) -> State:
        return {
            "step": self.step_count,
            "w": np.stack([at.w for at in self.at]),
            "v": np.stack([at.v for at in self.at]),
            "stands": list(self.stands),
            "alpha": list(self.alpha),
            "beta": self.beta,
        }

    def load_state_dict(self, state: State) -> None:
        w, v = (np.array(state[name], dtype=np.float64) for name in ("w", "v"))
        if w.shape != (len(self.at), len(self.at[0].w)):
            raise LabError(f"the checkpoint does not fit this scenario: it has {len(w)} curves, not {len(self.at)}")
        self.at = [Weights(one.copy(), other.copy()) for one, other in zip(w, v, strict=True)]
        self.stands = [int(each) for each in state["stands"]]
        self.alpha, self.beta = [float(each) for each in state["alpha"]], float(state["beta"])
        self.step_count = state["step"]
