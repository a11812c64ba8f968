"""Prediction as an Experiment: a step is one more episode of every run, for every method, λ and α (MATH M3, M4).

All settings learn from the same episodes, so they do not differ by luck. The episodes of a run are a function of its
seed and its position; a checkpoint has the weights, the errors summed up so far, and two numbers per run. A setting
whose values diverge is kept, with an infinite error. A method is computed once with all its settings, of the grid and
of the curves; for a method without λ or n the grid has one row, which is repeated when the grid is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from txlab.engine.rl import features as kinds
from txlab.engine.rl.dynamic_programming import even
from txlab.engine.rl.exact_values import solve_values
from txlab.engine.rl.features import Features
from txlab.engine.rl.prediction import METHODS
from txlab.engine.rl.prediction_sweep import PredictionSettings, PredictionSweep
from txlab.engine.rl.rollouts import Rollouts
from txlab.errors import LabError
from txlab.experiments.kinds.prediction.schema import CurveSection, Method, PredictionScenario, PredictSection, depth_of
from txlab.experiments.protocol import Frame, State
from txlab.experiments.randomness import derived_seed
from txlab.experiments.tabular.bands import mean_and_error
from txlab.experiments.tabular.frames import facts_of, side_of
from txlab.experiments.tabular.world import world_facts, world_of
from txlab.experiments.untimed import UntimedExperiment

if TYPE_CHECKING:
    from txlab.engine.rl.network import NetworkSweep


MOST_BYTES = 4_000_000_000  # of weights, all methods together


@dataclass(frozen=True, eq=False)
class Learnt:
    """pairs (K) of (λ or n, α); grid (Λ, A) int64: the index of the pair in each cell, None without a grid."""

    pairs: list[tuple[float, float]]
    grid: np.ndarray | None

    def settings(self, gamma: float) -> PredictionSettings:
        depths, alphas = np.array(self.pairs).T
        return PredictionSettings(alphas, depths, gamma)


def settings_by_method(scenario: PredictionScenario) -> dict[Method, Learnt]:
    """method → its settings, those of the grid first."""
    predict = scenario.predict
    settings: dict[Method, Learnt] = {}
    for method in scenario.methods:
        depths = getattr(predict, scenario.axis)
        free = not depth_of(method)
        pairs: dict[tuple[float, float], None] = {}
        grid = None
        if method in predict.methods:
            rows_of = [0.0] if free else depths
            pairs = dict.fromkeys((depth, alpha) for depth in rows_of for alpha in predict.alpha)
            rows = np.arange(len(pairs)).reshape(len(rows_of), len(predict.alpha))
            grid = np.repeat(rows, len(depths), axis=0) if free else rows
        for curve in scenario.curves_to_draw():
            if curve.method == method:
                pairs[curve.depth, curve.alpha] = None
        settings[method] = Learnt(list(pairs), grid)
    return settings


def features_of(predict: PredictSection, states: int) -> Features:
    """The features of a world of `states` states. LabError if they do not fit it, or each other."""
    size = predict.size or max(1, round(states / 3))
    if predict.features != "tabular" and size > states:
        raise LabError(f"predict.size = {size} is more than the {states} states of the world")
    match predict.features:
        case "aggregated":
            features = kinds.aggregate(states, size)
        case "radial":
            features = kinds.radial(states, size)
        case "tiled":
            features = kinds.tile(states, size, predict.tilings)
        case _:
            features = kinds.tabular(states)
    if "replacing" in predict.methods and predict.features == "radial":
        raise LabError("replacing traces are for features of zeros and ones; radial ones are not")
    return features


def check_size(scenario: PredictionScenario, width: int) -> None:
    """Raise LabError if the weights would not fit into memory."""
    settings = sum(len(each.pairs) for each in settings_by_method(scenario).values())
    wanted = 8 * scenario.predict.runs * settings * width
    if wanted > MOST_BYTES:
        raise LabError(
            f"{scenario.predict.runs} runs of {settings} settings with {width} weights take {wanted / 1e9:.1f} GB; "
            f"allowed: {MOST_BYTES / 1e9:.0f} GB, so fewer runs, λ or α"
        )


def seeds_of(seed: int, runs: int) -> np.ndarray:
    """(M): one seed per run; the first runs stay the same when there are more."""
    return np.array([derived_seed(seed, "prediction", run) for run in range(runs)], dtype=np.uint64)


def title_of(method: Method) -> str:
    return METHODS[method].title if method in METHODS else "TD(λ) with a network"


class LearntPrediction(UntimedExperiment):
    """Shared by both experiments that learn from episodes: the world, its true values, the features of its states.

    true (S)   the values of the uniform policy      counted   non-terminal states
    """

    def __init__(self, scenario: PredictionScenario) -> None:
        self.scenario = scenario
        self.world = world_of(scenario.world)
        self.process = self.world.process
        self.gamma = self.process.discount
        self.true = solve_values(self.process, even(self.process), self.gamma)
        self.counted = np.flatnonzero(~self.process.terminal)
        self.features = features_of(scenario.predict, self.process.size)

    @property
    def steps(self) -> int:
        return self.scenario.predict.episodes


class EpisodeExperiment(LearntPrediction):
    """See protocol.Experiment; in `scenario` nothing is "auto".

    error, total   method → (M, K): RMS error of the last episode, and summed over the episodes so far
    """

    fixed = "while settings are compared"

    def __init__(self, scenario: PredictionScenario) -> None:
        super().__init__(scenario)
        predict = scenario.predict
        check_size(scenario, self.features.size)
        self.learnt = settings_by_method(scenario)
        seeds = seeds_of(scenario.seed, predict.runs)
        self.rollouts = Rollouts(self.process, seeds)
        self.sweeps = {method: self.sweep_of(method, seeds) for method in self.learnt}
        self.error = {method: sweep.rms_error(self.true, self.counted) for method, sweep in self.sweeps.items()}
        self.total = {method: np.zeros_like(error) for method, error in self.error.items()}
        self.step_count = 0

    def sweep_of(self, method: Method, seeds: np.ndarray) -> PredictionSweep | NetworkSweep:
        predict, settings = self.scenario.predict, self.learnt[method].settings(self.gamma)
        if method == "network":
            import torch

            from txlab.engine.rl.network import NetworkSweep

            torch.set_num_threads(self.scenario.compute.threads or 1)
            return NetworkSweep(self.features, seeds, settings, predict.hidden)
        return PredictionSweep(method, self.features, predict.runs, settings, predict.initial)

    # Learning

    def step(self) -> Mapping[str, float]:
        """Learn from the next episode of every run.

        rms/…                the RMS error of the values over the states, after this episode; mean over the runs
        rms_low/…, rms_high/…   one standard error below and above
        score/METHOD         the grid's number at the method's best setting: the mean error over the episodes so far, or
                             the last error (predict.score)
        """
        episodes = self.rollouts.episodes()
        for method, sweep in self.sweeps.items():
            sweep.learn(episodes)
            self.error[method] = sweep.rms_error(self.true, self.counted)
            with np.errstate(over="ignore"):
                self.total[method] = self.total[method] + self.error[method]
        self.step_count += 1
        gridded = [method for method, each in self.learnt.items() if each.grid is not None]
        scores = {f"score/{method}": float(self.scores(method)[0].min()) for method in gridded}
        band: dict[str, float] = {}
        for curve in self.curves():
            mean, error = mean_and_error(self.error[curve.method][:, self.place(curve)])
            scores[f"rms/{curve.name}"] = float(mean)
            if np.isfinite(error):
                band[f"rms_low/{curve.name}"] = float(mean - error)
                band[f"rms_high/{curve.name}"] = float(mean + error)
        return scores | band  # in the order of the lists on the screens

    def scores(self, method: Method) -> tuple[np.ndarray, np.ndarray]:
        """(K), (K): the mean score of every setting over the runs, and its standard error."""
        whole = self.scenario.predict.score == "mean" and self.step_count > 0
        return mean_and_error(self.total[method] / self.step_count if whole else self.error[method])

    def curves(self) -> list[CurveSection]:
        """The curves to draw: the scenario's, else every method at its best setting so far, under the method's name."""
        given = self.scenario.curves_to_draw()
        if given:
            return given
        curves = []
        for method, each in self.learnt.items():
            depth, alpha = each.pairs[int(self.scores(method)[0].argmin())]
            best: dict[str, Any] = {depth_of(method) or "lam": depth, "alpha": alpha}
            curves.append(CurveSection(method=method, label=method, **best))
        return curves

    def place(self, curve: CurveSection) -> int:
        """The index of a curve among its method's settings."""
        return self.learnt[curve.method].pairs.index((curve.depth, curve.alpha))

    # Frames and facts

    def frame(self) -> Frame:
        """true/v; for each curve i/v, the mean over the runs, and i/spread, their deviation; the grid as a sweep."""
        curves = self.curves()
        tensors: dict[str, np.ndarray] = {"true/v": self.true.astype(np.float32)}
        with np.errstate(over="ignore", invalid="ignore"):
            for i, curve in enumerate(curves):
                values = self.sweeps[curve.method].values()[:, :, self.place(curve)]  # (M, S)
                values = np.where(self.process.terminal, 0.0, values)
                tensors[f"{i}/v"] = values.mean(axis=0).astype(np.float32)
                tensors[f"{i}/spread"] = values.std(axis=0).astype(np.float32)
        sides = [curve_side(curve, self.gamma, title_of(curve.method)) for curve in curves]
        lived, many = int(self.rollouts.begin.sum()), len(curves)
        world = self.scenario.world.model_dump()
        facts = facts_of(world, sides, episodes=[self.step_count] * many, updates=[lived] * many)
        facts["values"] = f"mean over {self.scenario.predict.runs} runs"
        gridded = [method for method, each in self.learnt.items() if each.grid is not None]
        if gridded:
            scores = {method: self.scores(method) for method in gridded}
            grids = {method: self.learnt[method].grid for method in gridded}
            tensors["sweep/score"] = np.stack([scores[method][0][grids[method]] for method in gridded])
            tensors["sweep/error"] = np.stack([scores[method][1][grids[method]] for method in gridded])
            predict, axis = self.scenario.predict, self.scenario.axis
            facts["sweep"] = {
                "axes": [
                    ["method", list(gridded)],
                    [axis, list(getattr(predict, axis))],
                    ["alpha", list(predict.alpha)],
                ],
                "score": "RMS error",
                "better": "low",
            }
        return Frame(self.step_count, tensors, facts=facts)

    def facts(self) -> Mapping[str, Any]:
        settings = sum(len(each.pairs) for each in self.learnt.values())
        runs, what = self.scenario.predict.runs, "rms" if self.scenario.curves_to_draw() else "score"
        headline = [f"{what}/{curve.name}" for curve in self.curves()]
        return world_facts(self.world, "episodes", headline, runs * settings) | {"settings": settings, "runs": runs}

    # Checkpoints

    def state_dict(self) -> State:
        return {
            "step": self.step_count,
            "lives": self.rollouts.state(),
            "weights": {method: sweep.state() for method, sweep in self.sweeps.items()},
            "error": {method: value.copy() for method, value in self.error.items()},
            "total": {method: value.copy() for method, value in self.total.items()},
        }

    def load_state_dict(self, state: State) -> None:
        shapes = {method: np.shape(state["total"].get(method)) for method in self.total}
        if any(shapes[method] != self.total[method].shape for method in self.total):
            raise LabError("the checkpoint does not fit this scenario: it has other methods, runs or settings")
        self.rollouts.load(state["lives"])
        for method, sweep in self.sweeps.items():
            sweep.load(state["weights"][method])
        self.error = {method: np.array(state["error"][method], dtype=np.float64) for method in self.error}
        self.total = {method: np.array(state["total"][method], dtype=np.float64) for method in self.total}
        self.step_count = state["step"]


def curve_side(curve: CurveSection, gamma: float, title: str, **now: Any) -> dict[str, Any]:
    """The facts of a curve in a frame; `now` are the settings that were changed since."""
    numbers: dict[str, Any] = {"alpha": curve.alpha, "lam": curve.lam, "label": curve.name}
    if depth_of(curve.method) == "n":
        numbers |= {"lam": None, "n": curve.n}
    return side_of(curve.method, title, gamma, **(numbers | now))
