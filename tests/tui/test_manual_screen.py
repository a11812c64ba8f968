"""The manual in the console: the page about a screen, a search over all pages, links, and the way back."""

from __future__ import annotations

from pathlib import Path

import pytest
from picture import text_of
from recorded import app_on, settle
from textual.widgets import Markdown

from txlab.manual import page_of_screen
from txlab.tui.app import TxlabApp
from txlab.tui.screens.manual import ManualScreen


def shown(app: TxlabApp) -> str:
    """The title of the page in front, once it is drawn; "" before."""
    screen = app.screen
    title = screen.page.title if isinstance(screen, ManualScreen) else ""
    return title if title and title in text_of(app) else ""


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@pytest.mark.parametrize("screen", ["lab", "attention", "arena"])
async def test_enter_in_the_help_opens_the_page_about_the_screen_and_esc_returns(
    tmp_path: Path, screen: str, size: tuple[int, int]
) -> None:
    app = app_on(tmp_path, screen=screen)
    async with app.run_test(size=size) as pilot:
        await pilot.press("question_mark", "enter")
        await settle(pilot, lambda: shown(app) == page_of_screen(screen).title)
        await pilot.press("escape")
        await settle(pilot, lambda: len(app.screen_stack) == 1)
        assert app.current_mode == screen


async def test_the_palette_opens_it_too(tmp_path: Path) -> None:
    app = app_on(tmp_path, screen="tokens")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("ctrl+p", *"documentation", "enter")
        await settle(pilot, lambda: shown(app) == "Tokenizers")


async def test_a_section_is_found_by_words_of_its_text_and_backspace_goes_back(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("question_mark", "enter")
        await settle(pilot, lambda: shown(app) == "The console")
        await pilot.press("slash", *"scontrol", "enter")
        await settle(pilot, lambda: "With a signal two minutes before" in text_of(app))
        assert "Guarantees" in text_of(app)  # the page is scrolled to the section
        assert "One run computed by several processes" not in text_of(app)
        await pilot.press("backspace")
        await settle(pilot, lambda: shown(app) == "The console")


async def test_a_link_opens_its_page_at_the_heading_and_a_file_outside_the_manual_stays_closed(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("question_mark", "enter")
        await settle(pilot, lambda: shown(app) == "The console")
        text = app.screen.query_one(Markdown)
        text.post_message(Markdown.LinkClicked(text, "../README.md"))
        text.post_message(Markdown.LinkClicked(text, "runs.md#alerts"))
        await settle(pilot, lambda: "Every run, ours or recorded, is watched" in text_of(app))
        assert "Starting, steering, resuming" not in text_of(app)


async def test_in_ascii_the_manual_is_ascii(tmp_path: Path) -> None:
    app = app_on(tmp_path, ascii=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("question_mark", "enter")
        await settle(pilot, lambda: shown(app) == "The console")
        for _ in range(3):
            assert {sign for sign in text_of(app) if not sign.isascii()} == set()
            await pilot.press("pagedown")
            await pilot.pause()
