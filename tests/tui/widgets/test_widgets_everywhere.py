"""Every widget in every terminal: no size, depth or content makes it raise, and ASCII mode sends ASCII."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from picture import save_png, text_of
from textual.widget import Widget

from txlab.drawing.palette import Colours
from txlab.tui.widgets.bars import Bars
from txlab.tui.widgets.chart import Chart, ChartSeries
from txlab.tui.widgets.facts import Fact, FactTable
from txlab.tui.widgets.heatmap import Heatmap
from txlab.tui.widgets.sparkline import Sparkline
from txlab.tui.widgets.thumbnails import Thumbnails
from txlab.tui.widgets.timeline import TimeLine

TOKENS = ["the", " cat", "[/x][bold]", "\x1b[31m", "日本語", "e\u0301", "", "\n", "\u202eabc", "\ud800"]
STEPS = np.arange(0, 500, 10)


def full(widget: Widget) -> None:
    """Give a widget something to show, hostile text included."""
    count = len(TOKENS)
    weights = np.tril(np.random.default_rng(0).dirichlet(np.ones(count), size=count))
    if isinstance(widget, Heatmap):
        widget.set_values(weights, TOKENS, TOKENS, np.triu(np.ones((count, count), bool), 1), weights.sum(axis=1))
    elif isinstance(widget, Thumbnails):
        widget.set_patterns(np.broadcast_to(weights, (3, 5, count, count)), [["i.91"] * 5] * 3)
    elif isinstance(widget, TimeLine):
        widget.set_frames(STEPS, 5000, 700, STEPS[::10])
    elif isinstance(widget, Sparkline):
        widget.set_values(np.array([1, np.nan, 3, np.inf, 2.0]))
    elif isinstance(widget, FactTable):
        widget.set_facts([Fact(name, "2.113", name, curve=(1.0, 2.0)) for name in TOKENS])
    elif isinstance(widget, Bars):
        widget.set_bars("next", [(token, 1 / (place + 1)) for place, token in enumerate(TOKENS)])
    elif isinstance(widget, Chart):
        values = np.where(STEPS % 70 == 0, np.nan, 5 - STEPS / 200.0)
        dead = ChartSeries("dead", STEPS, values + 1, dim=True)
        widget.set_series([ChartSeries(TOKENS[3], STEPS, values), ChartSeries(TOKENS[2], STEPS, -values), dead], "nats")
        widget.smoothing, widget.cursor, widget.marker = 20, 100, 200


KINDS: list[Callable[[], Widget]] = [Heatmap, Thumbnails, TimeLine, Sparkline, FactTable, Bars, Chart]
TERMINALS: list[tuple[Colours, bool, bool]] = [
    ("truecolor", False, True),
    ("256", False, False),
    ("16", False, True),
    ("none", False, True),
    ("none", True, True),
    ("truecolor", True, False),
]


@pytest.mark.parametrize(("colours", "ascii", "dark"), TERMINALS)
@pytest.mark.parametrize("kind", KINDS)
async def test_no_size_and_no_depth_makes_a_widget_raise(
    host: Callable, kind: Callable[[], Widget], colours: Colours, ascii: bool, dark: bool
) -> None:
    widget = kind()
    app = host(widget, colours=colours, ascii=ascii, dark=dark)
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.pause()
        text_of(app)  # empty
        full(widget)
        for size in ((60, 20), (1, 1), (2, 1), (3, 2), (7, 3), (12, 5), (30, 8), (120, 30)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            text = text_of(app)
            assert "\x1b" not in text
            assert "\u202e" not in text
            if ascii:
                assert text.isascii(), [c for c in text if not c.isascii()]
        if widget.can_focus:
            widget.focus()
            await pilot.press("up", "down", "left", "right", "home", "end", "pageup", "pagedown", "z", "Z", "escape")
        await pilot.pause()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_screen_can_be_looked_at_as_a_picture(host: Callable, kind: Callable[[], Widget], tmp_path) -> None:  # type: ignore[no-untyped-def]
    widget = kind()
    app = host(widget)
    async with app.run_test(size=(40, 12)) as pilot:
        full(widget)
        await pilot.pause()
        for colours in ("truecolor", "256", "16", "none"):
            path = save_png(app, tmp_path / f"{colours}.png", colours)
            assert path.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("theme", ["txlab-dark", "txlab-light", "textual-dark", "ansi-dark", "nord"])
async def test_a_theme_may_be_changed_while_a_widget_is_seen(host: Callable, theme: str) -> None:
    widgets = [kind() for kind in KINDS]
    app = host(*widgets)
    async with app.run_test(size=(80, 60)) as pilot:
        for widget in widgets:
            full(widget)
        await pilot.pause()
        app.theme = theme
        await pilot.pause()
        background = app.screen.styles.background
        for widget in widgets:
            if hasattr(widget, "surface") and background.ansi is None:
                assert widget.surface == widget.rich_style  # the cached style is the one that Textual would give now
        text_of(app)
