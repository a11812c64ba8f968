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
from txlab.drawing.text import visible
from txlab.errors import LabError
from txlab.runs.directory import RunInfo
from txlab.runs.folder import is_run
from txlab.runs.label import read_label, told_changes
from txlab.tui.key_order import keys_wait
from txlab.tui.panel import Panel
from txlab.tui.screens.train.text import brief
from txlab.tui.screens.words import Words
from txlab.tui.train_snapshot import Snapshot
from txlab.tui.widgets.chart import Chart, ChartSeries

if TYPE_CHECKING:
    from collections.abc import Sequence

OVERLAYS = 5  # runs to compare with: the palette has eight colours, and more curves are unreadable
# A chart of 120 × 40 whose axis grows changes in every cell, 12 kB: at four draws a second the terminal got 48 kB/s, at
# one 22, and a slow line takes 20 (benchmarks/tui_latency.py).
CHART_EVERY = 1.5  # seconds


class CurvePanel(Panel):
    """The curves of one metric: `metric` is the one selected ("" = the run's first), `overlays` are other runs."""

    KEYS: ClassVar[Sequence[Binding]] = (
        Binding("tab", "metric(1)", "metric", id="train.metric-next", key_display="tab"),
        Binding("shift+tab", "metric(-1)", "metric before", id="train.metric-previous", show=False),
        Binding("l", "log_x", "log x", id="train.log-x", key_display="l"),
        Binding("L", "log_y", "log y", id="train.log-y", key_display="L"),
        Binding("m", "smooth", "smooth", id="train.smooth"),
        Binding("z", "zoom(0.5)", "zoom", id="train.zoom-in"),
        Binding("Z,backspace", "zoom(2.0)", "zoom out", id="train.zoom-out", show=False),
        Binding("o", "overlay", "overlay", id="train.overlay"),
        Binding("t", "choose_metric", "choose a metric", id="train.metric", show=False),
        Binding("left", "across(-1)", "cursor or pan left", id="train.left", show=False),
        Binding("right", "across(1)", "cursor or pan right", id="train.right", show=False),
        Binding("escape", "whole", "whole curve", id="train.whole", show=False),
    )

    class Changed(Message):
        """Another metric or other runs were selected and have to be read first."""

    def __init__(self) -> None:
        super().__init__(id="chart-panel")
        self.chart = Chart(id="chart")
        self.chart.can_focus = False  # its keys belong to the panel
        self.forget()
        self.smooths_itself = True  # until the user chooses

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.app.current_run is not None  # type: ignore[attr-defined]

    def compose(self) -> ComposeResult:
        yield Words(id="brief")
        yield self.chart

    def forget(self) -> None:
        """Forget the old run."""
        self.snap: Snapshot | None = None
        self.metric = ""
        self.overlays: tuple[Path, ...] = ()
        self.shown: tuple[object, ...] = ()
        self.shown_at = 0.0
        self.chart.forget()
        if self.is_mounted:
            self.query_one("#brief", Words).say("", layout=False)

    def show(self, snap: Snapshot) -> None:
        """Draw a different chart at once; the same one, slightly longer, at most every CHART_EVERY seconds."""
        self.snap, self.metric = snap, self.metric or snap.metric  # a key may have chosen another metric meanwhile
        shown = (snap.metric, len(snap.lines), self.overlays, snap.state.status, snap.complete)
        now = time.monotonic()
        if shown != self.shown or now - self.shown_at >= CHART_EVERY:
            self.shown, self.shown_at = shown, now
            self.draw(snap)

    def show_brief(self, snap: Snapshot, cells: int) -> None:
        """Show the numbers in one line, where there is no room for their column."""
        self.query_one("#brief", Words).say(brief(snap, cells), layout=False)

    def draw(self, snap: Snapshot) -> None:
        """Draw the current run in the first colour, validation dashed and on top, dead branches dim. Unless the user
        chooses otherwise, long noisy curves are smoothed over a fiftieth of the run, with the raw one faint behind."""
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
        chart = self.chart
        if self.smooths_itself:
            chart.set_reactive(Chart.smoothing, round_number(snap.step / 50) if snap.step >= 200 else 0.0)
        span = f", smoothed over {count(chart.smoothing)} steps" if chart.smoothing else ""
        chart.events = snap.events
        waiting = {"created": "starting… the first step comes soon", "running": "waits for the first step"}
        chart.set_series(
            series,
            f"{snap.unit or visible(snap.metric)}{span}",
            waiting.get(snap.state.status, "no numbers were recorded"),
        )

    def action_metric(self, by: int) -> None:
        if self.snap is not None and self.snap.metrics:
            names = self.snap.metrics
            at = names.index(self.snap.metric) if self.snap.metric in names else 0
            self.set_metric(names[(at + by) % len(names)])

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
        from txlab.runs.foreign.finding import found_logs, with_logs
        from txlab.tui.screens.dialogs import Choose

        root: Path = self.app.root  # type: ignore[attr-defined]
        here: Path | None = self.app.current_run  # type: ignore[attr-defined]

        def find() -> None:
            every = with_logs(root, found_logs(root))
            paths = {path.name: path.absolute() for path in every if path.absolute() != here and is_run(path)}
            rows = [(name, about_run(path), path in self.overlays) for name, path in paths.items()]

            def ask() -> None:
                question = Choose("Draw which run beside this one?", rows)
                self.app.push_screen(question, lambda name: self.toggle_overlay(paths.get(name or "")))

            self.app.call_later(ask)

        keys_wait(self, self.run_worker(find, thread=True, group="overlay", exit_on_error=False))

    def toggle_overlay(self, path: Path | None) -> None:
        if path is not None:
            now = self.overlays
            self.overlays = tuple(p for p in now if p != path) if path in now else (*now, path)[-OVERLAYS:]
            self.post_message(self.Changed())


def about_run(path: Path) -> str:
    """Return the name that a run was given and what was changed in it; "" if neither is known."""
    try:
        return "  ".join(word for word in (read_label(path).name, told_changes(RunInfo.load(path).changes)) if word)
    except LabError:
        return ""


def round_number(value: float) -> float:
    """Return the largest of 1, 2, 5, 10, 20 … that is not greater than the value, at least 1.

    >>> round_number(24.8), round_number(0.3)
    (20.0, 1.0)
    """
    scale = 10.0 ** max(0, int(np.floor(np.log10(max(value, 1)))))
    return float(max((m * scale for m in (1, 2, 5) if m * scale <= value), default=1.0))
