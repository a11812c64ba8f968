"""Which settings a scenario learns, where each lies in the grid, and what the linear unit sees (MATH M4).

Notable: a method is computed once with all its settings, those of the grid and those of the curves together; to a
method without λ or n the grid has one row, which is repeated when the grid is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from txlab.engine.rl import features as kinds
from txlab.engine.rl.features import Features
from txlab.engine.rl.prediction_sweep import PredictionSettings
from txlab.errors import LabError
from txlab.experiments.kinds.prediction.schema import Method, Predict, PredictionScenario, depth_of

MOST_BYTES = 4_000_000_000  # of weights, all methods together


@dataclass(frozen=True, eq=False)
class Learnt:
    """pairs (K) of (λ or n, α); grid (Λ, A) int64: which of them stands at each place, None for one of curves alone."""

    pairs: list[tuple[float, float]]
    grid: np.ndarray | None

    def settings(self, gamma: float) -> PredictionSettings:
        depths, alphas = np.array(self.pairs).T
        return PredictionSettings(alphas, depths, gamma)


def learnt(scenario: PredictionScenario) -> dict[Method, Learnt]:
    """method → its settings, those of the grid first."""
    predict = scenario.predict
    found: dict[Method, Learnt] = {}
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
        for curve in scenario.drawn():
            if curve.method == method:
                pairs[curve.depth, curve.alpha] = None
        found[method] = Learnt(list(pairs), grid)
    return found


def features_of(predict: Predict, states: int) -> Features:
    """The features of a world of so many states. LabError where they do not fit it, or one another."""
    size = predict.size or max(1, round(states / 3))
    if predict.features != "tabular" and size > states:
        raise LabError(f"predict.size = {size} is more than the {states} states of the world")
    match predict.features:
        case "aggregated":
            found = kinds.aggregated(states, size)
        case "radial":
            found = kinds.radial(states, size)
        case "tiled":
            found = kinds.tiled(states, size, predict.tilings)
        case _:
            found = kinds.tabular(states)
    if "replacing" in predict.methods and predict.features == "radial":
        raise LabError("replacing traces are for features of zeros and ones; radial ones are not")
    return found


def check_size(scenario: PredictionScenario, width: int) -> None:
    """LabError where the weights would not fit into memory."""
    settings = sum(len(each.pairs) for each in learnt(scenario).values())
    wanted = 8 * scenario.predict.runs * settings * width
    if wanted > MOST_BYTES:
        raise LabError(
            f"{scenario.predict.runs} runs of {settings} settings with {width} weights take {wanted / 1e9:.1f} GB; "
            f"allowed: {MOST_BYTES / 1e9:.0f} GB, so fewer runs, λ or α"
        )
