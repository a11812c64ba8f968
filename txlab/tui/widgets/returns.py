"""Curves of returns, whose first episodes may earn a thousand times less than all later ones.

Notable: they would press the others into one line; so the axis ends where most are, and what is below runs off it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from txlab.drawing import curve
from txlab.drawing.axis import Window
from txlab.tui.widgets.chart import Chart

MOST = 0.93  # of the points are inside
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
