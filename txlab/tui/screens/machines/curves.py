"""The shares of a machine over the last minutes: processors, memory, disk and cards, and each card by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from textual.app import ComposeResult
from textual.containers import Horizontal

from txlab.drawing import curve
from txlab.drawing.axis import Window
from txlab.drawing.text import visible
from txlab.runs.remote.machine import Shares
from txlab.tui.widgets.chart import Chart, ChartSeries

MINUTES = 180.0  # seconds from which on time is counted in minutes
BOTH = 110  # cells from which there is a chart of each card too
WAITING = "waiting for the first reading of this machine"
ONE = "the first reading is above; curves begin with the second one, in a few seconds"


class SharesChart(Chart, inherit_css=True):
    """Curves of shares in percent, from 0 to 100."""

    def window(self, curves: Sequence[curve.Curve]) -> Window | None:
        window = super().window(curves)
        return None if window is None else replace(window, low=0.0, high=100.0)


class MachineCurves(Horizontal):
    """`show` draws the shares of a machine; those of each card where there is room next to them."""

    DEFAULT_CSS = """
    MachineCurves { height: 9; width: 1fr; padding-top: 1; }
    MachineCurves #card-shares { margin-left: 2; }
    """

    def __init__(self) -> None:
        super().__init__(id="machine-curves")
        self.whole, self.cards = SharesChart(WAITING, id="shares"), SharesChart(WAITING, id="card-shares")
        for chart in (self.whole, self.cards):
            chart.can_focus = False

    def compose(self) -> ComposeResult:
        yield self.whole
        yield self.cards

    def show(self, name: str, past: Sequence[Shares]) -> None:
        """Draw the shares of the machine of this name, the newest last."""
        number = len(past[-1].cards) if past else 0
        self.cards.display = number > 1 and self.size.width >= BOTH
        seconds = np.array([each.time for each in past])
        seconds = seconds - (seconds[-1] if len(seconds) else 0.0)
        waiting = ONE if past else f"waiting for the first reading of {visible(name)}"
        minutes = len(seconds) > 0 and -seconds[0] >= MINUTES
        times, unit = (seconds / 60, "minutes") if minutes else (seconds, "seconds")

        def series(label: str, values: Sequence[float | None]) -> list[ChartSeries]:
            shares = 100 * np.array([np.nan if value is None else value for value in values])
            return [ChartSeries(label, times, shares)] if np.isfinite(shares).sum() > 1 else []  # one dot is no curve

        drawn = series("cpu", [each.cpu for each in past]) + series("memory", [each.memory for each in past])
        drawn += series("disk busy", [each.disk for each in past])
        drawn += series("cards" if number > 1 else "card", [mean(each.cards) for each in past])
        each_card = [
            one
            for card in range(number)
            for one in series(f"card {card}", [each.cards[card] if card < len(each.cards) else None for each in past])
        ]
        self.whole.across = self.cards.across = unit
        self.whole.set_series(drawn, f"% of {visible(name)}", waiting)
        if self.cards.display:
            self.cards.set_series(each_card, "% of each card", waiting)


def mean(shares: Sequence[float | None]) -> float | None:
    known = [share for share in shares if share is not None]
    return sum(known) / len(known) if known else None
