"""The base class of all screens of the console."""

from __future__ import annotations

import pytest
from recorded import settle
from textual import events
from textual.app import App, ComposeResult
from textual.widget import Widget
from textual.widgets import Static

from txlab.tui.textual_internals import SteadyScreen
from txlab.tui.widgets.terminal import refresh_layout


class TwoLines(SteadyScreen[None]):
    def compose(self) -> ComposeResult:
        yield Static("a first line", id="first")
        yield Static("a second line", id="second")


class Host(App[None]):
    def get_default_screen(self) -> TwoLines:
        return TwoLines()


def mouse(kind: type[events.MouseEvent], x: int, y: int) -> events.MouseEvent:
    return kind(None, x, y, 0, 0, 1, False, False, False, x, y)


@pytest.mark.parametrize("start", [0, 1], ids=["on the one that goes", "on the one that stays"])
async def test_the_mouse_over_a_widget_that_has_just_gone_ends_nothing(start: int) -> None:
    """Between its removal and the next layout, a widget is still found under the mouse."""
    app = Host()
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.pause()
        screen, first = app.screen, app.screen.query_one("#first")
        screen._forward_event(mouse(events.MouseDown, 2, start))
        screen._forward_event(mouse(events.MouseMove, 3, 1 - start))
        await first.remove()
        assert screen.get_widget_at(2, 0)[0] is first
        assert first.parent is None
        for kind in (events.MouseMove, events.MouseUp, events.MouseDown, events.MouseMove, events.MouseUp):
            screen._forward_event(mouse(kind, 2, 0))
        await pilot.pause()
        assert app.is_running
        assert app._exception is None


async def test_the_mouse_still_selects_text() -> None:
    app = Host()
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.pause()
        app.screen._forward_event(mouse(events.MouseDown, 2, 0))
        app.screen._forward_event(mouse(events.MouseMove, 6, 0))
        await pilot.pause()
        assert app.screen.get_selected_text() == "first"[:5]


class Grown(Widget):
    DEFAULT_CSS = "Grown { height: auto; }"
    lines = 1

    def render(self) -> str:
        return "\n".join("a line" for _ in range(self.lines))


async def test_a_widget_that_changes_before_it_is_mounted_gets_its_room() -> None:
    app: App[None] = App()
    async with app.run_test() as pilot:
        grown = Grown()
        await app.screen.mount(grown)
        await settle(pilot, lambda: grown.size.height == 1)
        grown._is_mounted = False  # as it is when it has been measured for the first time
        grown.lines = 3
        refresh_layout(grown)
        grown._is_mounted = True
        await pilot.pause()
        assert grown.size.height == 3
