"""Reduce a curve before drawing: thin it to the resolution of the picture, or smooth it.

Notable: thinning keeps the minimum and maximum of every column, so that no spike is ever lost (random thinning distorts
the curve and can hide the one step that mattered). Smoothing is over steps, not points, so a curve logged every tenth
step is smoothed as much as one logged at every step.
"""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from txlab.drawing.axis import Floats, between


def decimate(
    steps: npt.NDArray[Any],
    values: npt.NDArray[Any],
    columns: int,
    left: float | None = None,
    right: float | None = None,
    log_x: bool = False,
) -> tuple[Floats, Floats]:
    """Return at most 2 · `columns` points: the smallest and largest finite value of each column, in their order.

    A column of only gaps (NaN, ±∞) becomes one NaN, so the gap stays. `left` … `right` is the range to divide into
    columns, by default all; points outside it are left out. O(n); steps must be ascending.
    """
    steps, values = np.asarray(steps), np.asarray(values, np.float64)
    if left is not None or right is not None:
        begin = 0 if left is None else int(np.searchsorted(steps, left, "left"))
        end = len(steps) if right is None else int(np.searchsorted(steps, right, "right"))
        steps, values = steps[begin:end], values[begin:end]
    if len(steps) <= 2 * columns:
        return steps.astype(np.float64), np.where(np.isfinite(values), values, np.nan)
    left, right = float(steps[0]) if left is None else left, float(steps[-1]) if right is None else right
    edges = [between(place, left, right, log_x) for place in np.linspace(0, 1, columns + 1)[1:-1]]
    bounds = [0, *np.searchsorted(steps, edges, "left").tolist(), len(steps)]
    finite = np.isfinite(values)
    low = high = values
    if not finite.all():
        low, high = np.where(finite, values, np.inf), np.where(finite, values, -np.inf)
    kept: list[int] = []
    for begin, end in pairwise(bounds):
        if begin < end:
            first, second = begin + int(low[begin:end].argmin()), begin + int(high[begin:end].argmax())
            kept += sorted({first, second})
    chosen = np.array(kept)
    return steps[chosen].astype(np.float64), np.where(finite[chosen], values[chosen], np.nan)


def smooth(steps: npt.NDArray[Any], values: npt.NDArray[Any], span: float) -> Floats:
    """Exponential moving average, y_i = Σ_{j≤i} e^{−(t_i − t_j)/span} x_j / Σ_{j≤i} e^{−(t_i − t_j)/span}.

    `span` is in steps, so the same span means the same whether every step was logged or every tenth. The division
    makes it unbiased from the first point on; for t = 0, 1, 2 … it is the corrected average of weight e^{−1/span}
    (Kingma & Ba 2015, §3). Gaps stay gaps and have no weight. span ≤ 0 leaves the values unchanged.
    """
    values = np.asarray(values, np.float64)
    if span <= 0 or len(values) == 0:
        return values
    finite = np.isfinite(values)
    weights = finite.astype(np.float64)
    clean = np.where(finite, values, 0.0)
    # Sums of numbers near the largest double would overflow; scaling by a power of two is exact.
    scale = 2.0 ** max(0, math.frexp(float(np.abs(clean).max()))[1] - 400)
    clean = clean / scale
    ages = (np.asarray(steps, np.float64) - float(steps[0])) / span
    smoothed = np.empty_like(clean)
    begin, total, weight, reached = 0, 0.0, 0.0, 0.0
    while begin < len(ages):  # in blocks over which e^age stays finite: prefix sums instead of a loop over points
        end = max(int(np.searchsorted(ages, ages[begin] + 300.0, "right")), begin + 1)
        fade = math.exp(-min(float(ages[begin]) - reached, 700.0))
        growth = np.exp(ages[begin:end] - ages[begin])
        sums = total * fade + np.cumsum(clean[begin:end] * growth)
        sizes = weight * fade + np.cumsum(weights[begin:end] * growth)
        with np.errstate(invalid="ignore", divide="ignore"):
            smoothed[begin:end] = sums / sizes
        total, weight, reached = float(sums[-1] / growth[-1]), float(sizes[-1] / growth[-1]), float(ages[end - 1])
        begin = end
    return np.where(finite, smoothed, np.nan) * scale
