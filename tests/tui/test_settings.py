"""The configuration file: what it changes, and that a wrong one is one sentence and no obstacle."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded import app_on
from textual.binding import Binding

from txlab.errors import LabError
from txlab.tui.app import TxlabApp
from txlab.tui.rooms import ROOMS
from txlab.tui.settings import Settings, load_settings, settings_file


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return path


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    assert load_settings(tmp_path / "absent.toml") == Settings()


def test_the_file_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, 'theme = "nord"\nascii = true\nrefresh = 2.0\n[keys]\n"run.step" = "n"\n')
    assert load_settings(path) == Settings(theme="nord", ascii=True, refresh=2.0, keys={"run.step": "n"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("theme = ", "not valid TOML"),
        ("thme = 'x'", "nearest: theme"),
        ("ascii = 'yes'", "ascii = 'yes'"),
        ("refresh = 100.0", "less than or equal to 5"),
        ("[keys]\n'run.step' = 3", "keys.run.step = 3"),
    ],
)
def test_what_is_wrong_is_one_sentence_that_names_file_and_key(tmp_path: Path, text: str, words: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(LabError) as error:
        load_settings(path)
    assert str(path) in str(error.value)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


async def test_a_wrong_file_is_told_on_the_screen_and_the_console_starts(tmp_path: Path) -> None:
    file = settings_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("nonsense = [/x]")
    try:
        app = TxlabApp(root=tmp_path)
        async with app.run_test() as pilot:
            await pilot.pause()
            assert app.settings == Settings()
            assert any(str(file) in str(notice.message) for notice in app._notifications)
    finally:
        file.unlink()


async def test_an_unknown_theme_is_told_and_replaced(tmp_path: Path) -> None:
    app = app_on(tmp_path, theme="no-such-theme")
    async with app.run_test():
        assert app.theme == "txlab-dark"
        assert "no-such-theme" in app.complaint


async def test_a_key_can_be_given_to_another_action(tmp_path: Path) -> None:
    app = app_on(tmp_path, keys={"screen.help": "f9"})
    async with app.run_test() as pilot:
        await pilot.press("question_mark")
        assert len(app.screen_stack) == 1
        await pilot.press("f9")
        assert len(app.screen_stack) == 2


def every_binding() -> list[Binding]:
    found = [binding for binding in TxlabApp.BINDINGS if isinstance(binding, Binding)]
    for room in ROOMS:
        for cls in type(room.open()).__mro__:
            found += [b for b in cls.__dict__.get("BINDINGS", []) if cls.__module__.startswith("txlab")]
    return found


def test_every_binding_has_an_id_made_of_area_and_action() -> None:
    for binding in every_binding():
        assert isinstance(binding, Binding)
        assert binding.id, binding
        area, _, action = binding.id.partition(".")
        assert area.replace("-", "").isalpha(), binding.id
        assert action.replace("-", "").isalpha(), binding.id


def test_no_action_is_reached_only_by_a_key_that_tmux_or_screen_eat() -> None:
    for binding in every_binding():
        keys = [key.strip() for key in binding.key.split(",")]
        assert binding.id in ("app.quit", "app.palette") or any(not key.startswith("ctrl+") for key in keys), binding
