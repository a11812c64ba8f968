"""A minimal app for widgets: txlab's themes, with the colour depth and ASCII mode that a test sets."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.filter import LineFilter
from textual.message import Message
from textual.widget import Widget

from txlab.drawing.palette import Colours
from txlab.tui.theme import DARK, LIGHT, SignsInAscii

sys.path.insert(0, str(Path(__file__).parent.parent))  # picture.py


class Host(App[None]):
    """Shows widgets and keeps the messages they post."""

    CSS = "Screen { overflow: hidden; }"

    def __init__(
        self, *widgets: Widget, colours: Colours = "truecolor", ascii: bool = False, dark: bool = True
    ) -> None:
        super().__init__()
        self.shown, self.colours, self.ascii = widgets, colours, ascii
        self.signs_in_ascii = SignsInAscii()
        self.heard: list[Message] = []
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        self.theme = (DARK if dark else LIGHT).name

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), *([self.signs_in_ascii] if self.ascii else [])]

    def compose(self) -> ComposeResult:
        yield from self.shown

    def on_time_line_moved(self, event: Message) -> None:
        self.heard.append(event)

    on_heatmap_cell_moved = on_heatmap_cell_asked = on_thumbnails_head_chosen = on_time_line_moved
    on_fact_table_chosen = on_chart_cursor_moved = on_time_line_moved


@pytest.fixture
def host() -> Callable[..., Host]:
    return Host
