"""Which screen a run is looked at on."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from picture import text_of
from recorded import settle

from txlab.errors import LabError
from txlab.runs.process import prepare
from txlab.runs.scenario import load_scenario
from txlab.tui.app import TxlabApp
from txlab.tui.palette import commands_of
from txlab.tui.screen_registry import installed_screens, screen_of


@pytest.mark.parametrize(
    ("scenario", "room"), [("cliff", "arena"), ("gambler", "arena"), ("descent", "descent"), ("gpt-tiny", "train")]
)
def test_a_run_is_looked_at_where_its_kind_is_shown(scenario: str, room: str, tmp_path: Path) -> None:
    assert screen_of(prepare(load_scenario(scenario), root=tmp_path)) == room


def test_what_cannot_be_read_is_looked_at_on_train(tmp_path: Path) -> None:
    assert screen_of(tmp_path / "nothing") == "train"


TOY = """
from textual.app import ComposeResult

from txlab.tui.palette import commands_of
from txlab.tui.screen_registry import ScreenEntry
from txlab.tui.screens.base_screens import BenchScreen
from txlab.tui.screens.plain_text import Words


class ToyScreen(BenchScreen):
    def compose_body(self) -> ComposeResult:
        yield Words("a toy on the bench")


SCREEN = ScreenEntry("11", "toy", "Toy", "toy_screen:ToyScreen", "something to play with")
"""


def package(folder: Path, source: str = TOY) -> str:
    """What pip would have put there."""
    (folder / "toy_screen.py").write_text(source)
    info = folder / "toy-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[txlab.screens]\ntoy = toy_screen:SCREEN\n")
    return str(folder)


@pytest.fixture
def no_toy() -> Iterator[None]:
    yield
    sys.modules.pop("toy_screen", None)


async def test_a_screen_of_another_package_has_its_key_and_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_toy: None
) -> None:
    monkeypatch.syspath_prepend(package(tmp_path))
    app = TxlabApp(root=tmp_path)
    async with app.run_test(size=(120, 24)) as pilot:
        await settle(pilot, lambda: "F11" in text_of(app).splitlines()[0])  # with its name where that fits
        await pilot.press("f11")
        await settle(pilot, lambda: "a toy on the bench" in text_of(app))
        assert any(command.title == "Toy" for command in commands_of(app, app.entries, app.report))
        await pilot.press("q")
        await settle(pilot, lambda: app.current_mode == "lab")


async def test_a_key_that_is_taken_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_toy: None) -> None:
    monkeypatch.syspath_prepend(package(tmp_path, TOY.replace('"11"', '"3"')))
    with pytest.raises(LabError, match="has a key or a name that is taken; free keys: 11, 12"):
        list(installed_screens())
