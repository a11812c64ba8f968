"""The configuration file: what it changes, and that mistakes in it give one sentence and prevent nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from recorded import app_on
from textual.binding import Binding

from txlab.errors import LabError
from txlab.tui.app import TxlabApp
from txlab.tui.screen_registry import SCREENS
from txlab.tui.settings import Settings, load_settings, save_theme, settings_file


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
        ("theme = [", "not valid TOML"),
        ("refresh = 0x" + "f" * 5000, "refresh = a number of 20000 bits"),
        ("refresh = " + "9" * 5000, "not valid TOML"),
        ("refresh = nan", "less than or equal to 5"),
        ("theme = '" + "x" * 5000 + "'\nascii = 1", "ascii = 1"),
        ("ascii = '" + "x" * 5000 + "'", "ascii = 'xxx"),
        ("k" * 5000 + " = 1", "is not a setting"),
        ("keys = " + "[" * 5000, "nested too deeply"),
        ("#" * 70_000, "larger than 64 KiB"),
    ],
)
def test_a_mistake_is_an_error_that_names_file_and_key(tmp_path: Path, text: str, words: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(LabError) as error:
        load_settings(path)
    assert str(path) in str(error.value)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 << 30)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (os.mkfifo, "it is a FIFO"),
        (Path.mkdir, "it is a folder"),
        (lambda path: path.symlink_to("/dev/zero"), "it is a device"),
        (lambda path: path.symlink_to(path.name), "Too many levels"),
        (lambda path: path.write_bytes(bytes(range(256))), "byte 128 is not UTF-8"),
        (sparse, "larger than 64 KiB"),
    ],
)
def test_a_non_regular_settings_file_is_immediately_a_readable_error(tmp_path: Path, make: Any, words: str) -> None:
    make(tmp_path / "config.toml")
    with pytest.raises(LabError, match=words):
        load_settings(tmp_path / "config.toml")


async def test_the_console_opens_with_any_keys(tmp_path: Path) -> None:
    odd = ["", ",", " , ,", "a,,b", "no_such_key", "x" * 5000, "\0", "\x1b[2J", "[/x]", "日本", "f1"]
    names = ["screen.help", "app.palette", "app.quit", "no.such.binding", *(f"room.{room.name}" for room in SCREENS)]
    app = app_on(tmp_path, keys=dict(zip([*names, "run.step", "run.pause"], odd, strict=False)))
    async with app.run_test() as pilot:
        await pilot.press("f1", "escape", "3", "ctrl+p", "escape")
        assert app.is_running


async def test_a_wrong_file_is_reported_on_the_screen_and_the_console_starts(tmp_path: Path) -> None:
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


async def test_an_unknown_theme_is_reported_and_replaced(tmp_path: Path) -> None:
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
    for room in SCREENS:
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


def test_the_theme_is_kept_and_the_rest_of_the_settings_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    assert load_settings(save_theme("nord", path)).theme == "nord"
    path.write_text('# mine\nascii = true\ntheme = "nord"  # blue\n[keys]\n"run.step" = "n"\n')
    save_theme("txlab-light", path)
    assert path.read_text() == '# mine\nascii = true\ntheme = "txlab-light"\n[keys]\n"run.step" = "n"\n'
    path.write_text("ascii = true\n")
    save_theme("nord", path)
    assert load_settings(path) == Settings(theme="nord", ascii=True)
    for text in ("ascii = 3", 'keys = {x = """\ntheme = 1\n"""}'):
        path.write_text(text)
        with pytest.raises(LabError):
            save_theme("nord", path)
        assert path.read_text() == text
