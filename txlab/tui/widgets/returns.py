"""Curves of returns, whose first episodes may earn a thousand times less than all later ones.

Notable: they would press the others into one line; so the axis ends where most are, and what is below runs off it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from txlab.drawing import curve
from txlab.drawing.axis import Window
from txlab.tui.widgets.chart import Chart, ChartSeries

MOST = 0.93  # of the points are inside
BAND_POINTS = 50  # across a chart
OUTLYING = 2.5  # times the height of the rest; less than that is not cut off


class ReturnsChart(Chart, inherit_css=True):
    """A Chart whose y axis leaves out what lies far below the rest."""

    def window(self, curves: Sequence[curve.Curve]) -> Window | None:
        found = super().window(curves)
        values = [each.values[np.isfinite(each.values)] for each in curves]
        everything = np.concatenate(values) if values else np.empty(0)
        if found is None or len(everything) < 8 or self.log_y:
            return found
        low, high = np.quantile(everything, [1 - MOST, 1.0])
        room = max(float(high - low), 1e-9)
        if found.low < low - OUTLYING * room:
            return replace(found, low=float(low - 0.25 * room))
        return found


def banded(
    title: str, colour: int, steps: np.ndarray, mean: np.ndarray, edges: Sequence[np.ndarray]
) -> list[ChartSeries]:
    """A curve, and as points the edges of its band, all as means over blocks of at most BAND_POINTS."""
    block = max(1, -(-len(mean) // BAND_POINTS))
    whole = len(mean) // block * block
    if not whole:
        return []

    def thinned(values: np.ndarray) -> np.ndarray:
        found: np.ndarray = np.asarray(values, np.float64)[:whole].reshape(-1, block).mean(axis=1)
        return found

    ends = np.asarray(steps)[block - 1 : whole : block]
    found = [ChartSeries(title, ends, thinned(mean), colour=colour)]
    return found + [ChartSeries("", ends, thinned(edge), colour=colour, style="points") for edge in edges]
