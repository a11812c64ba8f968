"""A curve in one row, shown next to a number."""

from __future__ import annotations

import numpy as np
from rich.segment import Segment
from textual.strip import Strip

from txlab.drawing.spark import spark
from txlab.tui.widgets.painted import Painted


class Sparkline(Painted, can_focus=False):
    """Shows the shape of a series; its numbers are shown elsewhere."""

    DEFAULT_CSS = "Sparkline { height: 1; width: 1fr; color: $secondary; }"

    def __init__(self, values: np.ndarray | None = None, low: float | None = None, id: str | None = None) -> None:
        super().__init__(id=id)
        self.values = np.empty(0) if values is None else values
        self.low = low
        self.drawn = ""

    def set_values(self, values: np.ndarray) -> None:
        self.values = values
        if self.line() != self.drawn:
            self.refresh()

    def line(self) -> str:
        return spark(self.values, self.size.width, self.ascii, self.low)

    def render_line(self, y: int) -> Strip:
        self.drawn = self.line()
        return Strip([Segment(self.drawn, self.surface)]).adjust_cell_length(self.size.width, self.surface)
