"""Cached dialogs open as if they were new; nothing painted needs the search for ANSI colours."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from picture import strips_of, text_of
from recorded import HOSTILE, app_on, make_run, settle
from rich.style import Style
from textual import events
from textual.containers import VerticalScroll
from textual.filter import ANSIToTruecolor
from textual.widgets import Input
from waiting import LONGEST

from txlab.engine.explain import Explanation, Operand, Step
from txlab.tui.app import TxlabApp
from txlab.tui.screen_registry import SCREENS
from txlab.tui.screens.dialogs import Choose
from txlab.tui.screens.help import HelpScreen
from txlab.tui.theme import DARK, LIGHT
from txlab.tui.widgets.why import WhyScreen, ask_why


@pytest.fixture
def app(tmp_path: Path) -> TxlabApp:
    root = tmp_path / "runs"
    made = app_on(root, make_run(root, "alive", status="open", text=HOSTILE))
    assert isinstance(made, TxlabApp)
    return made


async def test_the_help_is_one_screen_that_begins_at_the_top_with_the_keys_of_now(app: TxlabApp) -> None:
    async with app.run_test(size=(100, 20)) as pilot:
        await pilot.press("1", "question_mark", "end")
        first = app.screen
        assert isinstance(first, HelpScreen)
        box = first.query_one(VerticalScroll)
        await settle(pilot, lambda: box.scroll_y > 0)
        before = {row[1] for rows in first.rows().values() for row in rows}
        await pilot.press("escape", "3", "question_mark")
        other = app.screen
        assert isinstance(other, HelpScreen)
        assert other is not first  # each screen's help is its own
        await pilot.press("escape", "1", "tab")  # the focus on the runs: other keys
        await pilot.press("question_mark")
        assert app.screen is first
        assert box.scroll_y == 0
        now = {row[1] for rows in first.rows().values() for row in rows}
        assert now != before
        missing = sorted(now - before)[0]
        await pilot.resize_terminal(100, 70)
        await settle(pilot, lambda: missing in text_of(app))


async def test_what_is_behind_it_is_what_is_there_now(app: TxlabApp) -> None:
    async with app.run_test(size=(100, 30)) as pilot:
        seen = []
        for key in ("1", "3", "1", "tab"):
            await pilot.press(key)
            await pilot.pause()
            last = text_of(app).splitlines()[-1]
            await pilot.press("colon")
            await pilot.pause()
            assert isinstance(app.screen, Choose)
            assert text_of(app).splitlines()[-1] == last
            await pilot.press("escape")
            seen.append(last)
        assert seen[0] == seen[2] != seen[1]
        assert seen[3] != seen[2]


async def test_the_palette_forgets_what_was_typed_and_offers_what_this_screen_can(app: TxlabApp) -> None:
    async with app.run_test(size=(100, 40)) as pilot:
        await pilot.press("colon", *"leave")
        palette = app.screen
        assert isinstance(palette, Choose)
        assert palette.found[0][0] == "quit txlab; runs keep running"
        await pilot.press("escape", "3", "colon")
        assert app.screen is palette
        assert palette.query_one(Input).value == ""
        assert palette.query_one(Input).has_focus
        await settle(pilot, lambda: len(palette.found) > 1)
        assert {"smooth the curve", "Lab"} <= {value for value, _, _ in palette.found}
        await pilot.press(*"lab", "enter")
        await settle(pilot, lambda: app.current_mode == "lab" and len(app.screen_stack) == 1)


async def test_another_theme_has_dialogs_in_its_own_colours(app: TxlabApp) -> None:
    async with app.run_test(size=(100, 30)) as pilot:
        grounds = []
        for theme in (DARK, LIGHT, DARK):
            app.theme = theme.name
            await pilot.pause()
            await pilot.press("question_mark")
            await pilot.pause()
            grounds.append(app.screen.query_one(VerticalScroll).styles.background.hex)
            await pilot.press("escape")
        assert grounds[0] == grounds[2] != grounds[1]


async def test_why_never_shows_the_answer_of_a_question_before(app: TxlabApp) -> None:
    gate = threading.Event()

    def answer(question: str) -> Explanation:
        return Explanation(question, "α = s", "T1", "here", [Operand("s", [1.0], "s")], [Step("α", "s", 1.0)])

    def slow() -> Explanation:
        gate.wait(LONGEST)
        return answer("the first question")

    async with app.run_test(size=(100, 30)) as pilot:
        ask_why(app, slow)
        await settle(pilot, lambda: "loading" in text_of(app))
        first = app.screen
        assert isinstance(first, WhyScreen)
        await pilot.press("w")
        ask_why(app, lambda: answer("the second question"))
        assert app.screen is first
        await settle(pilot, lambda: "the second question" in text_of(app))
        gate.set()
        await pilot.pause(0.1)
        assert "the second question" in text_of(app)
        await pilot.press("w")
        ask_why(app, lambda: gate.clear() or gate.wait(0.2) or answer("the third question"))
        await pilot.pause()
        assert "the second question" not in text_of(app)
        await settle(pilot, lambda: "the third question" in text_of(app))


async def test_an_explanation_closed_and_reopened_immediately_is_answered(app: TxlabApp) -> None:
    """Textual tells a screen by a message that it was removed; the message may arrive after it has returned."""
    gate = threading.Event()

    def slow() -> str:
        gate.wait(LONGEST)
        return "the answer"

    async with app.run_test(size=(100, 30)) as pilot:
        ask_why(app, slow)
        await settle(pilot, lambda: "loading" in text_of(app))
        app.screen.post_message(events.ScreenSuspend())
        await pilot.pause()
        gate.set()
        await settle(pilot, lambda: "the answer" in text_of(app))


@pytest.mark.evidence
@pytest.mark.parametrize("theme", [DARK.name, LIGHT.name, "nord"])
async def test_nothing_is_painted_in_ansi_colours_or_dim(app: TxlabApp, theme: str) -> None:
    """So the app leaves out the filter that would look for them."""

    def unfit(style: Style | None) -> bool:
        colours = [] if style is None else [each for each in (style.color, style.bgcolor) if each is not None]
        return style is not None and (bool(style.dim) or any(each.triplet is None for each in colours))

    async with app.run_test(size=(120, 40)) as pilot:
        app.theme = theme
        assert not any(isinstance(each, ANSIToTruecolor) for each in app.get_line_filters())
        app.notify("a word", severity="warning", timeout=60)
        for room in [room for room in SCREENS if room.key]:
            for keys in ((room.key,), ("tab",), ("question_mark",), ("escape",), ("colon",), ("escape",), ("w",)):
                await pilot.press(*keys)
                await pilot.pause()
                found = [segment for strip in strips_of(app) for segment in strip if unfit(segment.style)]
                assert not found, (room.name, keys, found[:3])
            await pilot.press("escape")
