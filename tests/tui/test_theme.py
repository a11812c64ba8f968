"""The themes: colours that differ in truecolor also differ in 256 and in 16 colours, and text is legible."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
from pathlib import Path

import pytest
from picture import XTERM
from recorded import app_on, settle
from rich.color import Color, ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.theme import Theme
from textual.widget import Widget
from textual.widgets import Input

import txlab.tui
from txlab.tui.theme import IN_ASCII, THEMES, Signs, SignsInAscii


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.1)."""
    parts = [value / 255 for value in Color.parse(colour).get_truecolor()]
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
@pytest.mark.parametrize("system", [ColorSystem.EIGHT_BIT, ColorSystem.STANDARD], ids=["256", "16"])
def test_accent_quiet_text_and_error_stay_different_colours(theme: Theme, system: ColorSystem) -> None:
    named = [theme.accent, theme.variables["quiet"], theme.foreground, theme.error, theme.background]
    numbers = [Color.parse(str(colour)).downgrade(system).number for colour in named]
    for a, b in itertools.combinations(numbers, 2):
        assert a != b, numbers


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_everything_can_be_read_on_the_background(theme: Theme) -> None:
    ground = luminance(str(theme.background))
    for colour in (theme.foreground, theme.accent, theme.variables["quiet"], theme.error, theme.success):
        light, dark = sorted([luminance(str(colour)), ground], reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.4, colour


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_keys_and_the_active_tab_can_be_read_in_16_colours_too(theme: Theme) -> None:
    """Against the sixteen of a plain terminal, where yellow on white cannot."""

    def shown(colour: object) -> float:
        number = Color.parse(str(colour)).downgrade(ColorSystem.STANDARD).number
        assert number is not None
        return luminance("#" + "".join(f"{part:02x}" for part in XTERM.ansi_colors[number]))

    ground = shown(theme.background)
    for colour in (theme.accent, theme.foreground, theme.error, theme.warning, theme.variables["quiet"]):
        light, dark = sorted([shown(colour), ground], reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3, colour


async def test_every_theme_that_is_offered_can_be_had(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        for name in sorted(app.available_themes):
            app.theme = name
            await pilot.pause()
            assert app._exception is None, name
            colours = app.get_css_variables()
            if not name.startswith("ansi"):  # which have the terminal's own colours, two of them
                assert len({colours[each].lower() for each in ("background", "foreground", "quiet", "rule")}) == 4, name


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
async def test_what_an_empty_line_asks_for_is_as_legible_as_quiet_text(tmp_path: Path, theme: Theme) -> None:
    app = app_on(tmp_path, theme=theme.name)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: len(app.screen.query(Input)))
        line = app.screen.query(Input).first()
        for part in ("input--placeholder", "input--suggestion"):
            colour = line.get_component_rich_style(part).color
            assert colour is not None
            assert colour.name == theme.variables["quiet"]


def test_ascii_mode_has_no_other_signs() -> None:
    signs = [sign for name, sign in vars(Signs).items() if not name.startswith("_")]
    assert len(signs) > 15
    assert all(sign.translate(IN_ASCII).isascii() for sign in signs)
    line = [Segment("a… → ", Style(bold=True)), Segment("b"), Segment(" · é −1")]
    assert SignsInAscii().apply(line, Color(0, 0, 0)) == [
        Segment("a~ > ", Style(bold=True)),
        *line[1:2],
        Segment(" - é -1"),
    ]


def test_no_two_widgets_share_a_name() -> None:
    """A style sheet names classes without their modules: the rules of one would be those of the other as well."""
    modules: dict[str, list[str]] = {}
    for found in pkgutil.walk_packages(txlab.tui.__path__, "txlab.tui."):
        for name, each in vars(importlib.import_module(found.name)).items():
            if isinstance(each, type) and issubclass(each, Widget) and each.__module__ == found.name:
                modules.setdefault(name, []).append(found.name)
    assert {name: where for name, where in modules.items() if len(where) > 1} == {}
