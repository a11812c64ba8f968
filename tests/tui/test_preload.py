"""After the first paint everything that the next keys may need is prepared, invisibly."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import parsed_once
import pytest
from picture import text_of
from recorded import app_on, make_run, settle
from textual._styles_cache import StylesCache
from textual.css import parse as parse_module
from textual.css.stylesheet import Stylesheet
from textual.screen import Screen

from txlab.runs.scenario import catalogue
from txlab.tui import idle_gc as garbage
from txlab.tui.invitation import Invitation
from txlab.tui.playback import Playback
from txlab.tui.screen_registry import SCREENS
from txlab.tui.screens.lab.describe import place_of
from txlab.tui.textual_internals import make_ready

pytestmark = pytest.mark.prepared


async def test_the_first_switch_and_the_first_dialog_match_no_style_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        before = text_of(app)
        await settle(pilot, lambda: {room.name for room in SCREENS} <= set(app._screen_stacks))
        await settle(pilot)
        assert app.current_mode == "lab"
        assert before.splitlines()[0] == text_of(app).splitlines()[0]
        parsed: list[object] = []
        plainly = Stylesheet.reparse
        monkeypatch.setattr(Stylesheet, "reparse", lambda self: (parsed.append(self), plainly(self))[1])
        for key in ("question_mark", "escape", "colon", "escape", "3", "4", "1"):
            await pilot.press(key)
            await pilot.pause()
        assert parsed == []


async def test_no_style_sheet_is_parsed_for_each_screen_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual keeps the last 64 that it parsed, and the console has more."""
    parsed: list[tuple[str, object]] = []
    plainly = parse_module.parse
    monkeypatch.setattr(Stylesheet, "_parse_rules", parsed_once.parse)
    monkeypatch.setattr(
        "textual.css.stylesheet.parse",
        lambda scope, css, where, **how: (parsed.append((css, where)), plainly(scope, css, where, **how))[1],
    )
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: {room.name for room in SCREENS} <= set(app._screen_stacks))
        await settle(pilot)
    assert len(set(parsed)) > 64
    assert len(parsed) < 3 * len(set(parsed))  # more than once only because the theme sets its colours at the start


async def test_a_screen_that_is_only_prepared_looks_for_nothing_to_offer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    plainly = Invitation.look
    monkeypatch.setattr(
        Invitation, "look", lambda self, opens: (looked.append(type(self.screen).__name__), plainly(self, opens))[1]
    )
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: {room.name for room in SCREENS} <= set(app._screen_stacks))
        await settle(pilot)
        assert looked == []
        await pilot.press("3")
        await settle(pilot, lambda: looked == ["TrainScreen"])


async def test_the_cursor_is_seen_to_move_after_all_was_made_ready(tmp_path: Path) -> None:
    """Preparing matches styles again, which clears the cached lines of lists without painting any."""
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: {room.name for room in SCREENS} <= set(app._screen_stacks))
        await settle(pilot)
        for name in ["Start here", *(entry.name for entry in sorted(catalogue(), key=place_of))][:3]:
            (marked,) = [line for line in text_of(app).splitlines() if "▸" in line]
            assert name in marked
            await pilot.press("down")
            await pilot.pause()


async def test_a_screen_made_ready_is_not_the_one_that_is_seen(tmp_path: Path) -> None:
    app = app_on(tmp_path, make_run(tmp_path, "one"))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: "attention" in app._screen_stacks)
        await settle(pilot)
        for name, seen in {"attention": False, "train": True}.items():
            assert app._screen_stacks[name][0].query_one(Playback).watch_run.visible == seen
        await pilot.press("4")
        await settle(pilot, lambda: app.screen.query_one(Playback).watch_run.visible)


@pytest.mark.parametrize("moment", [0, 4, 16, 36])
async def test_leaving_while_screens_are_prepared_is_not_a_bug(tmp_path: Path, moment: int) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        for room in SCREENS:
            make_ready(app, room.name, room.open)
        for _ in range(moment):
            await asyncio.sleep(0)


async def test_a_switch_paints_the_screen_once_and_lays_it_out_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        for key in ("4", "1", "4"):
            await pilot.press(key)
            await pilot.pause(0.1)
        laid: list[object] = []
        plainly = Screen._refresh_layout
        monkeypatch.setattr(
            Screen, "_refresh_layout", lambda self, *r, **k: (laid.append(self), plainly(self, *r, **k))
        )
        await pilot.press("1")
        await pilot.pause()
        assert app.screen not in laid
        assert "Runs" in text_of(app)
        monkeypatch.undo()
        await pilot.resize_terminal(100, 30)
        await pilot.press("4")
        await pilot.pause()
        assert max(len(line) for line in text_of(app).splitlines()) <= 100
        assert len(text_of(app).splitlines()) == 30


async def test_dialogs_leave_no_painted_lines_behind(tmp_path: Path) -> None:
    app = app_on(tmp_path)

    def lines() -> int:
        gc.collect()
        return sum(len(each._cache) for each in gc.get_objects() if type(each) is StylesCache)

    async with app.run_test(size=(120, 40)) as pilot:
        counts = []
        for _ in range(3):
            for key in ("question_mark", "escape", "colon", "escape"):
                await pilot.press(key)
                await pilot.pause()
            await settle(pilot)
            counts.append(lines())
        assert counts[2] - counts[1] < 20


@pytest.fixture
def collector() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.enable()
    gc.unfreeze()
    gc.set_threshold(*before)


def test_a_full_search_waits_until_it_is_worth_it_and_finds_rings(collector: None) -> None:
    gc.disable()  # as at the start of the console
    garbage.take_over()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    assert gc.get_threshold()[2] == garbage.AT_LAST
    assert not garbage.search()

    class Ring:
        pass

    ring = Ring()
    ring.itself = ring  # type: ignore[attr-defined]
    garbage.search(due=0)  # it is among what was set aside
    address = id(ring)
    del ring
    assert garbage.search(due=0)
    assert not any(id(each) == address and type(each).__name__ == "Ring" for each in gc.get_objects())


def test_making_ready_imports_no_torch() -> None:
    code = "import sys; from txlab.tui.preload import import_all; import_all(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
