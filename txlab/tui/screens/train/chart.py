"""What the keys of the Train screen do to its chart: another metric, smoothing, logarithms, zoom, other runs.

Notable: a mixin, because the keys are the screen's; the bindings that name these actions stand in train.py.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from txlab.drawing.formatting import count
from txlab.drawing.text import visible
from txlab.tui.screens.base_screens import RunScreen
from txlab.tui.train_snapshot import Look, Snapshot
from txlab.tui.widgets.chart import Chart, ChartSeries

OVERLAYS = 5  # runs beside this one: the palette has eight colours, and nobody reads more curves


class ChartScreen(RunScreen):
    """A RunScreen with one Chart; `snap` is what was read last, `look` what is looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.snap: Snapshot | None = None
        self.look = Look()
        self.smooths_itself = True  # until the person chooses

    def show_chart(self, snap: Snapshot) -> None:
        """The run looked at has the first colour; validation is dashed and on top, dead branches are dim. Long noisy
        curves are smoothed over a fiftieth of the run, the raw one faint behind, until the person wants otherwise."""
        others = iter(range(2, 100))
        series = [
            ChartSeries(
                line.label,
                line.steps,
                line.values,
                {"train": 0, "val": 1}.get(line.role) if line.role != "other" else next(others),
                "dashed" if line.role == "val" else "line",
                dim=line.role == "dead",
                smoothed=line.role != "val",
            )
            for line in snap.lines
        ]
        chart = self.query_one(Chart)
        if self.smooths_itself:
            chart.set_reactive(Chart.smoothing, round_number(snap.step / 50) if snap.step >= 200 else 0.0)
        span = f", smoothed over {count(chart.smoothing)} steps" if chart.smoothing else ""
        waiting = {"created": "starting… the first step comes soon", "running": "waits for the first step"}
        chart.set_series(
            series,
            f"{snap.unit or visible(snap.metric)}{span}",
            waiting.get(snap.state.status, "no numbers were recorded"),
        )

    def action_metric(self, by: int) -> None:
        if self.snap is None or not self.snap.metrics:
            return
        names = self.snap.metrics
        at = names.index(self.snap.metric) if self.snap.metric in names else 0
        self.set_metric(names[(at + by) % len(names)])

    def set_metric(self, name: str | None) -> None:
        if name:
            self.look = Look(name, self.at, self.look.overlays)
            self.wants_read()

    def action_choose_metric(self) -> None:
        from txlab.tui.screens.dialogs import Choose

        if self.snap is not None:
            rows = [(name, "", name == self.snap.metric) for name in self.snap.metrics]
            self.app.push_screen(Choose("Which metric?", rows), self.set_metric)

    def action_smooth(self) -> None:
        """None, then a fiftieth, then a tenth of the run, in round numbers of steps."""
        if self.snap is None:
            return
        chart = self.query_one(Chart)
        self.smooths_itself = False
        length = max(10, self.snap.step)
        spans = [0.0, *sorted({round_number(length / 50), round_number(length / 10)})]
        chart.smoothing = next((span for span in spans if span > chart.smoothing), 0.0)
        self.show_chart(self.snap)

    def action_log_x(self) -> None:
        chart = self.query_one(Chart)
        chart.log_x = not chart.log_x

    def action_log_y(self) -> None:
        chart = self.query_one(Chart)
        chart.log_y = not chart.log_y

    def action_zoom(self, factor: float) -> None:
        self.query_one(Chart).action_zoom(factor)

    def action_across(self, by: int) -> None:
        """Left and right: through the values of the curve; where it is zoomed, along it."""
        chart = self.query_one(Chart)
        if chart.zoomed is None:
            chart.action_cursor(by)
        else:
            chart.action_pan(by / 4)

    def action_whole(self) -> None:
        self.query_one(Chart).action_reset()

    def action_overlay(self) -> None:
        """Choose other runs to be drawn beside this one; choosing one again takes it away."""
        from txlab.runs.finding import list_runs
        from txlab.tui.screens.dialogs import Choose

        root: Path = self.app.root  # type: ignore[attr-defined]

        def find() -> None:
            paths = {path.name: path.absolute() for path in list_runs(root) if path.absolute() != self.run_path}
            rows = [(name, "", path in self.look.overlays) for name, path in paths.items()]

            def ask() -> None:
                question = Choose("Draw which run beside this one?", rows)
                self.app.push_screen(question, lambda name: self.toggle_overlay(paths.get(name or "")))

            self.app.call_later(ask)

        self.run_worker(find, thread=True, group="overlay", exit_on_error=False)

    def toggle_overlay(self, path: Path | None) -> None:
        if path is not None:
            now = self.look.overlays
            kept = tuple(p for p in now if p != path) if path in now else (*now, path)[-OVERLAYS:]
            self.look = Look(self.look.metric, self.at, kept)
            self.wants_read()


def round_number(value: float) -> float:
    """The nearest of 1, 2, 5, 10, 20 … that is not greater, at least 1.

    >>> round_number(24.8), round_number(0.3)
    (20.0, 1.0)
    """
    scale = 10.0 ** max(0, int(np.floor(np.log10(max(value, 1)))))
    return float(max((m * scale for m in (1, 2, 5) if m * scale <= value), default=1.0))
