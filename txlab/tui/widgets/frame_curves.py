"""The curves of a frame: each tensor `curve/NAME` (n) over its index, from facts["curve"]["from"] on."""

from __future__ import annotations

import numpy as np

from txlab.drawing.text import formula, visible
from txlab.experiments.protocol import Frame
from txlab.tui.widgets.chart import Chart, ChartSeries

CURVE = "curve/"


def has_curves(frame: Frame) -> bool:
    return any(name.startswith(CURVE) for name in frame.tensors)


def show_curves(chart: Chart, frame: Frame) -> None:
    """Draw them; facts["curve"] names the axes."""
    axes = frame.facts.get("curve")
    about = axes if isinstance(axes, dict) else {}
    first = about.get("from", 0)
    series = []
    for name, values in frame.tensors.items():
        if name.startswith(CURVE) and np.ndim(values) == 1:
            y = np.asarray(values, np.float64)
            x = np.arange(len(y)) + (first if isinstance(first, int) else 0)
            series.append(ChartSeries(visible(name.removeprefix(CURVE)), x, y))
    chart.across = formula(visible(str(about.get("x", ""))), chart.ascii)
    chart.set_series(series, formula(visible(str(about.get("y", ""))), chart.ascii))
