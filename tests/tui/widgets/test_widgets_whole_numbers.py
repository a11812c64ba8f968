"""Never a cut digit: at no width does a widget show a part of a number, or a number that is not there."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from picture import text_of
from textual.widget import Widget

from txlab.tui.widgets.bars import Bars
from txlab.tui.widgets.chart import Chart, ChartSeries
from txlab.tui.widgets.facts import Fact, FactTable
from txlab.tui.widgets.table import Column, Table
from txlab.tui.widgets.timeline import TimeLine

SEEN = re.compile(r"[+\-−]?(?:\d{1,3}(?:[ \u2009]\d{3}(?!\d))+|\d+)?(?:\.\d+|(?<=\d))(?:e-?\d+)?[kMG%]?")


def full(widget: Widget) -> None:
    """Give a widget numbers of every kind to show."""
    if isinstance(widget, Table):
        rows = [["loss of 12 345 steps", "−1 234.5", "2.9e-4", "33 %"], ["31", "12 345 678", "0.620", "7"]]
        columns = [Column("name 2", right=False), *(Column(title) for title in ("value", "step 10", "of 100"))]
        widget.set_table(columns, rows)
    elif isinstance(widget, FactTable):
        fact = Fact("loss", "2.113", "val 2.241", "", (1.0, 2.0))
        widget.set_facts([fact, Fact("tokens/s", "12 345 678", "of 1 000")])
    elif isinstance(widget, Bars):
        widget.set_bars("next of 4 096", [("12345", 0.62), (" 1 000", 0.05), ("x", 1.0)], [0.31, 0.12, 0.5])
    elif isinstance(widget, TimeLine):
        widget.set_frames(np.arange(0, 13_000, 100), 20_000, 13_000)
        widget.at = 1_200
    elif isinstance(widget, Chart):
        steps = np.arange(0, 1_240_000, 1000)
        widget.set_series([ChartSeries("loss", steps, -1e7 * np.sin(steps / 1e5))], "nats")


@pytest.mark.parametrize("make", [Table, FactTable, Bars, TimeLine, Chart])
async def test_no_width_cuts_a_number(host: Callable, make: Callable[[], Widget]) -> None:
    widget = make()
    app = host(widget)
    async with app.run_test(size=(200, 20)) as pilot:

        def seen() -> set[str]:
            return {each for line in text_of(app).splitlines() for each in SEEN.findall(line) if re.search(r"\d", each)}

        await pilot.pause()
        full(widget)
        await pilot.pause()
        known = seen()
        assert known
        for columns in range(1, 90):
            await pilot.resize_terminal(columns, 20)
            await pilot.pause()
            if isinstance(widget, Chart) and widget.chart is not None:  # its ticks depend on its size
                ticks = (*widget.chart.x_ticks, *widget.chart.y_ticks)
                known = {each for tick in ticks for each in SEEN.findall(tick.label)}
            assert seen() <= known, (columns, text_of(app))
