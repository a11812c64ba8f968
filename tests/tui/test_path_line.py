"""Tab completes paths wherever a path is typed, and the settings form starts without a function key."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from picture import text_of
from recorded import app_on, settle
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input
from waiting import LONGEST

from txlab.tui.app import TxlabApp
from txlab.tui.screens.dialogs import AskValue
from txlab.tui.screens.lab.overrides import OverridesDialog
from txlab.tui.widgets import path_line
from txlab.tui.widgets.path_line import complete_path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("notes.txt", "notes.md", "novel.txt", ".hidden"):
        (tmp_path / name).write_text("x")
    (tmp_path / "texts" / "german").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "completed", "names"),
    [
        ("no", "no", ["notes.md", "notes.txt", "novel.txt"]),
        ("not", "notes.", ["notes.md", "notes.txt"]),
        ("nov", "novel.txt", ["novel.txt"]),
        ("te", "texts/", ["texts/"]),
        ("texts/", "texts/german/", ["german/"]),
        ("~/nov", "~/novel.txt", ["novel.txt"]),
        (".h", ".hidden", [".hidden"]),
        ("absent", "absent", []),
        ("nowhere/x", "nowhere/x", []),
    ],
)
def test_a_path_is_completed_as_far_as_it_is_certain(here: Path, typed: str, completed: str, names: list[str]) -> None:
    assert complete_path(typed) == (completed, names)


async def form(pilot: Pilot[None], app: TxlabApp) -> OverridesDialog:
    await settle(pilot, lambda: len(app.screen.query("#catalogue")) and app.screen.catalogue.entries)
    app.screen.catalogue.rows.select("gpt-tiny")
    await pilot.press("e")
    await settle(pilot, lambda: isinstance(app.screen, OverridesDialog) and app.screen.settings)
    screen = app.screen
    assert isinstance(screen, OverridesDialog)
    return screen


@pytest.mark.parametrize("keys", [("ctrl+s",), ("end_of_list", "enter"), ("f5",)])
async def test_the_form_starts_by_three_keys(
    here: Path, keys: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(
        "txlab.runs.process.start_scenario", lambda name, overrides, root, prepared: started.append((name, overrides))
    )
    app = app_on(here / "runs")
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await form(pilot, app)
        await pilot.press(*"train.steps=5", "enter")
        await settle(pilot, lambda: "train.steps = 5" in text_of(app))
        for key in keys:
            if key == "end_of_list":
                screen.rows.action_edge(-1)
                await settle(pilot, lambda: "▸ start with these settings" in text_of(app))
            else:
                await pilot.press(key)
        await settle(pilot, lambda: started)
        assert started == [("gpt-tiny", ["train.steps=5"])]


async def test_tab_completes_the_value_of_a_setting_and_a_dialogs_path(here: Path) -> None:
    app = app_on(here / "runs")
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await form(pilot, app)
        line = screen.query_one(Input)
        line.value = "data.text = nov"
        await pilot.press("tab")
        await settle(pilot, lambda: line.value == "data.text = novel.txt")
        line.value = "nov"  # a filter, not a path
        await pilot.press("tab")
        assert line.value == "nov"
        line.value = "data.text = no"
        await pilot.press("tab")
        await settle(pilot, lambda: "notes.md   notes.txt   novel.txt" in text_of(app))
        await pilot.press("escape", "escape")
        app.push_screen(AskValue("Open which file?", path=True))
        await settle(pilot, lambda: isinstance(app.screen, AskValue))
        dialog = app.screen
        await pilot.press("t", "tab")
        await settle(pilot, lambda: dialog.query_one(Input).value == "texts/")


def test_a_folder_of_any_size_is_read_to_a_bound_and_nothing_is_certain_then(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "many").mkdir()
    for number in range(30):
        (here / "many" / f"part-{number:02}").write_text("")
    assert complete_path("many/p") == ("many/part-", [f"part-{number:02}" for number in range(30)])
    monkeypatch.setattr(path_line, "MOST_READ", 20)
    path, names = complete_path("many/p")
    assert path == "many/p", "the eleventh and the rest may be called otherwise"
    assert len(names) == 21
    assert names[-1] == "only 20 names of this folder were read"
    assert len(complete_path("many/absent")[1]) == 1


async def test_a_slow_folder_stops_neither_the_screen_nor_what_is_typed_meanwhile(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, asked = threading.Event(), threading.Event()

    def slow(typed: str) -> tuple[str, list[str]]:
        asked.set()
        answer.wait(LONGEST)
        return "texts/", ["texts/"]

    monkeypatch.setattr(path_line, "complete_path", slow)
    app = app_on(here / "runs")
    async with app.run_test(size=(100, 30)) as pilot:
        app.push_screen(AskValue("Open which file?", path=True))
        await settle(pilot, lambda: isinstance(app.screen, AskValue))
        line = app.screen.query_one(Input)
        line.value = "te"
        line.on_key(events.Key("tab", None))
        await settle(pilot, asked.is_set)
        line.value = "texas"
        answer.set()
        await settle(pilot, lambda: all(worker.is_finished for worker in app.workers))
        assert line.value == "texas"


async def test_escape_leads_from_the_board_games_to_the_arena(here: Path) -> None:
    app = app_on(here / "runs", screen="play")
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot, lambda: app.current_mode == "play" and app.screen.is_attached)
        await pilot.press("escape")
        await settle(pilot, lambda: app.current_mode == "arena")
        await pilot.press("escape")
        await pilot.pause()
        assert app.current_mode == "arena"
