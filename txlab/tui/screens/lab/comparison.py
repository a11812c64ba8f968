"""Several runs compared: their curves in one chart, and below a table of what differs between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content

from txlab.drawing.formatting import count, duration, number
from txlab.drawing.run_names import name_apart
from txlab.drawing.text import visible
from txlab.errors import LabError
from txlab.experiments.kind import kind_of_run
from txlab.runs.loop_values import flatten
from txlab.runs.overview import settings_in
from txlab.runs.reader import RunReader
from txlab.runs.scenario_errors import format_value
from txlab.runs.summary import RunSummary
from txlab.tui.screens.dialogs import Dialog, key_hints
from txlab.tui.screens.plain_text import Words
from txlab.tui.widgets.chart import Chart, ChartSeries
from txlab.tui.widgets.table import Column, Table

MOST = 8  # runs: the palette has eight colours
NAME = 18  # cells of a name: two fit beside each other in a legend of 40


@dataclass(frozen=True)
class Comparison:
    """`defaults` has, for each run, the scenario's value of every setting, by its dotted key."""

    runs: tuple[RunSummary, ...]
    defaults: tuple[Mapping[str, Any], ...]

    @property
    def keys(self) -> list[str]:
        """The settings that differ."""
        return [key for key in settings_in(self.runs) if len({self.value(at, key) for at in range(len(self.runs))}) > 1]

    def value(self, at: int, key: str) -> str:
        """The value of a setting of run `at`, that of its scenario if it was not changed; "" if it has none."""
        run, missing = self.runs[at], object()
        value = run.settings.get(key, self.defaults[at].get(key, missing))
        return "" if value is missing else format_value(value).strip('"')

    @property
    def metric(self) -> str:
        """The metric that most of the runs are measured by, since a chart has one unit; "" = no numbers yet."""
        metrics = [run.metric for run in self.runs if run.metric and run.curve]
        return max(dict.fromkeys(metrics), key=metrics.count, default="")

    @property
    def not_drawn(self) -> list[str]:
        """The runs of another metric, each with what it is measured by."""
        return [
            f"{name} ({visible(run.metric) if run.metric else 'no numbers yet'})"
            for run, name in zip(self.runs, self.names, strict=True)
            if run.metric != self.metric or not run.curve
        ]

    @property
    def names(self) -> list[str]:
        return name_apart([visible(run.handle) for run in self.runs], NAME)


def read_defaults(path: Path) -> Mapping[str, Any]:
    """Return all settings of a run's scenario by dotted keys; {} if they cannot be read."""
    with suppress(LabError):
        return dict(flatten(RunReader(path, light=True).scenario))
    return {}


class ComparisonDialog(Dialog[Path]):
    """Answers with the run to open, or None."""

    CSS_PATH = "../dialogs.tcss"
    DEFAULT_CSS = """
    ComparisonDialog Chart { height: 1fr; }
    ComparisonDialog Table { height: auto; max-height: 10; margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "leave it", id="comparison.leave"),
        Binding("enter", "open", "open the run", id="comparison.open"),
    ]

    def __init__(self, comparison: Comparison) -> None:
        super().__init__()
        self.comparison = comparison
        self.chart, self.table = Chart(id="curves"), Table(id="differences")
        self.chart.can_focus = False

    def compose(self) -> ComposeResult:
        compared = self.comparison
        title = f"{count(len(compared.runs))} runs: {visible(compared.metric) or 'no numbers yet'}"
        with Vertical(classes="dialog whole"):
            yield Words(Content(title), classes="dialog-title")
            if compared.metric and compared.not_drawn:
                left_out = f"not drawn, as a chart has one metric: {', '.join(compared.not_drawn)}"
                yield Words(Content.styled(left_out, "$quiet"), id="not-drawn")
            yield self.chart
            yield self.table
            yield Words(key_hints(("↑ ↓", "run"), ("enter", "open it"), ("esc", "close")), classes="dialog-keys")

    def on_mount(self) -> None:
        compared = self.comparison
        series, unit = [], ""
        for at, (run, name) in enumerate(zip(compared.runs, compared.names, strict=True)):
            if run.metric == compared.metric and run.curve:
                steps = np.linspace(run.first, run.step, len(run.curve))
                series.append(ChartSeries(name, steps, np.array(run.curve), at))
                unit = kind_of_run(run.kind).metric(run.metric).unit or run.metric
        self.chart.set_series(series, unit, "no numbers yet")
        self.table.set_table(*self.rows())
        self.table.focus()

    def rows(self) -> tuple[list[Column], list[list[str]]]:
        """What differs first: the settings, then the result and the time."""
        compared = self.comparison
        keys = compared.keys
        titles = [key.rpartition(".")[2] for key in keys]
        titles = [key if titles.count(title) > 1 else title for key, title in zip(keys, titles, strict=True)]
        columns = [Column("run", right=False), *map(Column, titles), Column("result"), Column("step"), Column("time")]
        several = len({run.metric for run in compared.runs if run.metric}) > 1
        rows = [
            [
                name,
                *(visible(compared.value(at, key)) for key in keys),
                f"{f'{visible(run.metric)} ' * several}{number(run.value)}" if run.value is not None else "",
                count(run.step),
                duration(run.seconds) if run.seconds else "",
            ]
            for at, (run, name) in enumerate(zip(compared.runs, compared.names, strict=True))
        ]
        return columns, rows

    def action_open(self) -> None:
        self.dismiss(self.comparison.runs[self.table.cursor].path)

    def action_leave(self) -> None:
        self.dismiss(None)


def compare(runs: Sequence[RunSummary]) -> Comparison:
    """Read what is needed to compare runs; called in a thread."""
    return Comparison(tuple(runs), tuple(read_defaults(run.path) for run in runs))
