"""The chart of the Train screen: its metric, smoothing, log axes, zoom, and other runs to compare with."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from textual.app import ComposeResult
from textual.binding import Binding
from textual.message import Message

from txlab.drawing.formatting import count
from txlab.drawing.run_names import name_runs
from txlab.drawing.text import visible
from txlab.runs.folder import is_run
from txlab.runs.summary import GOING
from txlab.tui.bindings import MOVING, bind
from txlab.tui.key_order import run_in_thread
from txlab.tui.panel import Panel
from txlab.tui.screens.plain_text import Words
from txlab.tui.screens.train.text import brief
from txlab.tui.train_snapshot import Snapshot
from txlab.tui.widgets.chart import Chart, ChartSeries

if TYPE_CHECKING:
    from collections.abc import Sequence

OVERLAYS = 5  # runs to compare with: the palette has eight colours, and more curves are unreadable
# A chart of 120 × 40 whose axis grows changes in every cell, 12 kB: at four draws a second the terminal got 48 kB/s, at
# one 22, and a slow line takes 20 (benchmarks/tui_latency.py).
CHART_EVERY = 1.5  # seconds
UPWARDS = ("dead", "other", "train", "val")  # what is drawn over what


class CurvePanel(Panel):
    """The curves of one metric: `metric` is the one selected ("" = the run's first), `overlays` are other runs."""

    KEYS: ClassVar[Sequence[Binding]] = (
        bind("tab", "metric(1)", "draw the next metric", "metric", id="train.metric-next"),
        bind("shift+tab", "metric(-1)", "draw the metric before", id="train.metric-previous"),
        bind("l", "log_x", "logarithmic steps", "log x", id="train.log-x", synonyms="axis scale"),
        bind("L", "log_y", "logarithmic values", "log y", id="train.log-y", synonyms="axis scale"),
        bind("m", "smooth", "smooth the curve", "smooth", id="train.smooth"),
        bind("z", "zoom(0.5)", "zoom in on the cursor or the last steps", "zoom", id="train.zoom-in"),
        bind("Z,backspace", "zoom(2.0)", "zoom out", id="train.zoom-out"),
        bind("o", "overlay", "overlay another run", "overlay", id="train.overlay", synonyms="compare runs"),
        bind("t", "choose_metric", "choose the metric that is drawn", id="train.metric", synonyms="loss accuracy"),
        bind("left", "across(-1)", "move the cursor left, or pan", id="train.left", heading=MOVING),
        bind("right", "across(1)", "move the cursor right, or pan", id="train.right", heading=MOVING),
        bind("escape", "whole", "show the whole curve again", id="train.whole"),
    )

    class Changed(Message):
        """Another metric or other runs were selected and must be read first."""

    def __init__(self) -> None:
        super().__init__(id="chart-panel")
        self.chart = Chart(id="chart")
        self.chart.can_focus = False  # its keys belong to the panel
        self.brief = Words(id="brief")
        self.forget()
        self.smooths_itself = True  # until the user chooses

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.app.current_run is not None  # type: ignore[attr-defined]

    def compose(self) -> ComposeResult:
        yield self.brief
        yield self.chart

    def forget(self) -> None:
        """Forget the old run."""
        self.snap: Snapshot | None = None
        self.metric = ""
        self.overlays: tuple[Path, ...] = ()
        self.shown: tuple[object, ...] = ()
        self.shown_at = 0.0
        self.chart.forget()
        self.brief.say("")

    def show(self, snap: Snapshot) -> None:
        """Draw a different chart immediately; the same one, slightly longer, at most every CHART_EVERY seconds."""
        self.snap, self.metric = snap, self.metric or snap.metric  # a key may have chosen another metric meanwhile
        shown = (snap.metric, len(snap.lines), self.overlays, snap.state.status, snap.complete)
        now = time.monotonic()
        if shown != self.shown or now - self.shown_at >= CHART_EVERY:
            self.shown, self.shown_at = shown, now
            self.draw(snap)

    def show_brief(self, snap: Snapshot, cells: int) -> None:
        """Show the numbers in one line if their column does not fit."""
        self.brief.say(brief(snap, cells))

    def draw(self, snap: Snapshot) -> None:
        """Draw the current run in the first colour, over all others; validation as points where it was measured, on
        top; dead branches dim. Unless the user chooses otherwise, long noisy curves are smoothed over a fiftieth of the
        run, with the raw one faint behind."""
        others = iter(range(2, 100))
        series = [
            ChartSeries(
                line.label,
                line.steps,
                line.values,
                {"train": 0, "val": 1}.get(line.role) if line.role != "other" else next(others),
                "points" if line.role == "val" else "line",
                dim=line.role == "dead",
                smoothed=line.role != "val",
            )
            for line in sorted(snap.lines, key=lambda line: UPWARDS.index(line.role))
        ]
        chart = self.chart
        if self.smooths_itself:
            chart.set_reactive(Chart.smoothing, round_number(snap.step / 50) if snap.step >= 200 else 0.0)
        span = f", smoothed over {count(chart.smoothing)} steps" if chart.smoothing else ""
        chart.events = snap.events
        chart.set_series(series, f"{snap.unit or visible(snap.metric)}{span}", waits_for(snap))

    def action_metric(self, by: int) -> None:
        if self.snap is not None and self.snap.metrics:
            names = self.snap.metrics
            at = names.index(self.snap.metric) if self.snap.metric in names else 0
            self.set_metric(names[(at + by) % len(names)])

    def follow(self, key: str) -> None:
        """Draw the metric that is selected among the numbers; a validation is drawn with what it validates."""
        name = key if self.snap is not None and key in self.snap.metrics else key.removeprefix("val_")
        if self.snap is not None and name in self.snap.metrics and name != self.snap.metric:
            self.set_metric(name)

    def set_metric(self, name: str | None) -> None:
        if name:
            self.metric = name
            self.post_message(self.Changed())

    def action_choose_metric(self) -> None:
        from txlab.tui.screens.dialogs import Choose

        if self.snap is not None:
            rows = [(name, "", name == self.snap.metric) for name in self.snap.metrics]
            self.app.push_screen(Choose("Which metric?", rows), self.set_metric)

    def action_smooth(self) -> None:
        """Cycle the smoothing: none, a fiftieth, a tenth of the run, in round numbers of steps."""
        if self.snap is None:
            return
        self.smooths_itself = False
        length = max(10, self.snap.step)
        spans = [0.0, *sorted({round_number(length / 50), round_number(length / 10)})]
        self.chart.smoothing = next((span for span in spans if span > self.chart.smoothing), 0.0)
        self.draw(self.snap)

    def action_log_x(self) -> None:
        self.chart.log_x = not self.chart.log_x

    def action_log_y(self) -> None:
        self.chart.log_y = not self.chart.log_y

    def action_zoom(self, factor: float) -> None:
        self.chart.action_zoom(factor)

    def action_across(self, by: int) -> None:
        """Move left or right through the values of the curve; pan if it is zoomed."""
        if self.chart.zoomed is None:
            self.chart.action_cursor(by)
        else:
            self.chart.action_pan(by / 4)

    def action_whole(self) -> None:
        self.chart.action_reset()

    def action_overlay(self) -> None:
        """Choose other runs to compare with; choosing one again removes it."""
        from txlab.runs.external_logs.finding import find_logs, with_logs
        from txlab.tui.screens.dialogs import Choose

        root: Path = self.app.root  # type: ignore[attr-defined]
        here: Path | None = self.app.current_run  # type: ignore[attr-defined]

        def find() -> None:
            every = with_logs(root, find_logs(root))
            paths = {path.name: path.absolute() for path in every if path.absolute() != here and is_run(path)}
            called = name_runs(paths.values())
            rows = [(name, "", path in self.overlays) for name, path in paths.items()]

            def ask() -> None:
                question = Choose("Overlay which run?", rows)
                question.called = called
                self.app.push_screen(question, lambda name: self.toggle_overlay(paths.get(name or "")))

            self.app.call_later(ask)

        run_in_thread(self, find, "overlay")

    def toggle_overlay(self, path: Path | None) -> None:
        if path is not None:
            now = self.overlays
            self.overlays = tuple(p for p in now if p != path) if path in now else (*now, path)[-OVERLAYS:]
            self.post_message(self.Changed())


def waits_for(snap: Snapshot) -> str:
    """Return what a run without numbers is doing: what it said last, as when it tries the compiler."""
    if snap.state.status not in GOING:
        return "no numbers were recorded"
    said = snap.entries[-1].text if snap.entries else ""
    return said or {"created": "starting… the first step comes soon"}.get(snap.state.status, "waits for the first step")


def round_number(value: float) -> float:
    """Return the largest of 1, 2, 5, 10, 20 … that is not greater than the value, at least 1.

    >>> round_number(24.8), round_number(0.3)
    (20.0, 1.0)
    """
    scale = 10.0 ** max(0, int(np.floor(np.log10(max(value, 1)))))
    return float(max((m * scale for m in (1, 2, 5) if m * scale <= value), default=1.0))
