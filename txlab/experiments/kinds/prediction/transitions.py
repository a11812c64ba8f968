"""Prediction as an Experiment to be watched: one run, a step is one transition, and the traces are in the frame (M4).

Several rules can be watched side by side; they learn from the same episodes. The update for a transition follows it, so
the state shown is the agent's present one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from txlab.engine.rl.prediction import Learned, OnlineTD, terms_of
from txlab.engine.rl.prediction_sweep import rms_error
from txlab.engine.rl.rollouts import Rollouts
from txlab.errors import LabError
from txlab.experiments.kinds.prediction.episodes import LearntPrediction, curve_side, seeds_of, title_of
from txlab.experiments.kinds.prediction.schema import KINDS, PredictionScenario
from txlab.experiments.protocol import Adjustable, Frame, State
from txlab.experiments.tabular.frames import facts_of, last_of
from txlab.experiments.tabular.world import world_facts

BOUNDS = {"alpha": (0.0, 100.0), "lam": (0.0, 1.0)}


class TransitionExperiment(LearntPrediction):
    """See protocol.Experiment.

    place     number of steps made in the episode      since   the state of `rollouts` before the episode
    """

    def __init__(self, scenario: PredictionScenario) -> None:
        super().__init__(scenario)
        self.curves = scenario.curves_to_draw()
        weights = self.features.weights(scenario.predict.initial)
        self.learners = [
            OnlineTD(
                self.features,
                weights,
                curve.alpha,
                0.0 if curve.method == "td-0" else curve.lam,
                self.gamma,
                KINDS[curve.method],
            )
            for curve in self.curves
        ]
        self.rollouts = Rollouts(self.process, seeds_of(scenario.seed, 1))
        self.step_count, self.number, self.place = 0, 0, 0
        self.last: list[Learned | None] = [None] * len(self.curves)
        self.since = self.rollouts.state()
        self.episode = self.rollouts.episodes().of(0)

    # Training
    def step(self) -> Mapping[str, float]:
        """Learn from one transition: rms/… the RMS error over the states, delta/… the error δ that was corrected."""
        if self.place == len(self.episode.rewards):
            self.next_episode()
        t = self.place
        state, following = int(self.episode.states[t]), int(self.episode.states[t + 1])
        ended = self.episode.ended and t == len(self.episode.rewards) - 1
        metrics = {}
        with np.errstate(over="ignore", invalid="ignore"):
            for i, (curve, learner) in enumerate(zip(self.curves, self.learners, strict=True)):
                learned = learner.learn(state, float(self.episode.rewards[t]), following, ended)
                self.last[i] = learned
                metrics[f"rms/{curve.name}"] = self.rms(i)
                metrics[f"delta/{curve.name}"] = learned.delta
        self.place += 1
        self.step_count += 1
        return metrics

    def next_episode(self) -> None:
        """Begin another episode, with traces cleared."""
        self.since = self.rollouts.state()
        self.episode = self.rollouts.episodes().of(0)
        self.place = 0
        self.number += 1
        for learner in self.learners:
            learner.begin()

    def values(self, side: int) -> np.ndarray:
        """(S)"""
        values: np.ndarray = np.where(
            self.process.terminal, 0.0, self.features.values(self.learners[side].weights[:, None])[:, 0]
        )
        return values

    def rms(self, side: int) -> float:
        return float(rms_error(self.values(side)[None, :, None], self.true, self.counted)[0, 0])

    # Frames and facts

    def frame(self) -> Frame:
        """true/v; for each side i/v and i/trace (S): the share of α δ by which a value moves, x(s) · e."""
        tensors: dict[str, np.ndarray] = {"true/v": self.true.astype(np.float32)}
        last: list[dict[str, Any] | None] = []
        with np.errstate(over="ignore", invalid="ignore"):
            for i, learner in enumerate(self.learners):
                tensors[f"{i}/v"] = self.values(i).astype(np.float32)
                tensors[f"{i}/trace"] = self.features.values(learner.trace[:, None])[:, 0].astype(np.float32)
                last.append(self.last_update(i))
        sides = [
            curve_side(curve, self.gamma, title_of(curve.method), alpha=learner.alpha, lam=learner.lam)
            for curve, learner in zip(self.curves, self.learners, strict=True)
        ]
        many = len(sides)
        facts = facts_of(
            self.scenario.world.model_dump(),
            sides,
            states=[int(self.episode.states[self.place])] * many,
            episodes=[self.number] * many,
            updates=[self.step_count] * many,
            last=last,
        )
        return Frame(self.step_count, tensors, facts=facts | {"values": "of one run"})

    def last_update(self, side: int) -> dict[str, Any] | None:
        """The last update of a side, as the facts of a frame."""
        update, learner = self.last[side], self.learners[side]
        if update is None:
            return None
        written = terms_of(update, learner.kind, learner.alpha, learner.gamma)
        return last_of(
            update.state,
            update.reward,
            update.following,
            update.ended,
            update.delta,
            written,
            learned=vars(update).copy(),
        )

    def facts(self) -> Mapping[str, Any]:
        return world_facts(self.world, "steps", [f"rms/{curve.name}" for curve in self.curves])

    # Adjustable parameters

    def adjustable(self) -> Mapping[str, Adjustable]:
        adjustable = {}
        for curve, learner in zip(self.curves, self.learners, strict=True):
            adjustable[f"alpha/{curve.name}"] = Adjustable(f"alpha/{curve.name}", learner.alpha, *BOUNDS["alpha"])
            if curve.method != "td-0":
                adjustable[f"lam/{curve.name}"] = Adjustable(f"lam/{curve.name}", learner.lam, *BOUNDS["lam"])
        return adjustable

    def change(self, name: str, value: float) -> None:
        what, _, label = name.partition("/")
        learner = self.learners[[curve.name for curve in self.curves].index(label)]
        if what == "alpha":
            learner.alpha = value
        else:
            learner.lam = value

    # Checkpoints

    def state_dict(self) -> State:
        return {
            "step": self.step_count,
            "number": self.number,
            "place": self.place,
            "since": self.since,
            "learners": [
                {
                    "weights": learner.weights.copy(),
                    "trace": learner.trace.copy(),
                    "before": learner.before,
                    "alpha": learner.alpha,
                    "lam": learner.lam,
                }
                for learner in self.learners
            ],
            "last": [None if update is None else vars(update).copy() for update in self.last],
        }

    def load_state_dict(self, state: State) -> None:
        shapes = [np.shape(each["weights"]) for each in state["learners"]]
        if shapes != [learner.weights.shape for learner in self.learners]:
            raise LabError("the checkpoint does not fit this scenario: it has other curves or other features")
        self.rollouts.load(state["since"])
        self.since = self.rollouts.state()
        self.episode = self.rollouts.episodes().of(0)
        self.step_count, self.number, self.place = state["step"], state["number"], state["place"]
        for learner, saved in zip(self.learners, state["learners"], strict=True):
            learner.weights = np.array(saved["weights"], dtype=np.float64)
            learner.trace = np.array(saved["trace"], dtype=np.float64)
            learner.before, learner.alpha, learner.lam = (float(saved[name]) for name in ("before", "alpha", "lam"))
        self.last = [None if saved is None else Learned(**saved) for saved in state["last"]]
