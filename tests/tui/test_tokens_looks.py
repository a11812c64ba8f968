"""Tokens in every terminal: distinguishable without colour, in every colour depth, at every size, in ASCII."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from picture import strips_of, text_of
from recorded import settle
from tokens_screen import app_on, opened, quiet, show

from txlab.tui.screens.tokens.encoded_text import TokenizerChoice


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A separate folder for saved files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TXLAB_TOKENIZERS", str(tmp_path / "shelf"))


async def test_tokens_are_distinguished_without_colour(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    app.colours = "none"  # type: ignore[attr-defined]
    async with app.run_test(size=(80, 24)) as pilot:
        screen, view = await opened(pilot)
        await show(pilot, b"the cat that")
        ends = [view.lanes[0].start(token) for token in range(len(view.lanes[0]))]
        line = next(line for line in text_of(app).splitlines() if "│the" in line)
        assert line.count("│") == len(ends)
        await pilot.press("b")
        await pilot.pause()
        row = next(strip for strip in strips_of(app) if "the·c" in strip.text)
        lined = [
            bool(style and style.underline) for text, style, _ in row if text.strip() and not text.strip().isdigit()
        ]
        assert lined == [bool(token % 2) and token != view.cursor for token in range(len(ends))]
        assert screen.looked_at == "text"


@pytest.mark.parametrize("columns", [60, 70, 80])
async def test_the_header_says_whole_words(tmp_path: Path, columns: int) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(columns, 24)) as pilot:
        await opened(pilot)
        header = text_of(app).splitlines()[2]
        assert "44 words" in header
        assert "…" not in header


async def test_neighbours_have_different_colours(tmp_path: Path) -> None:
    for colours in ("truecolor", "256", "16"):
        app = app_on(tmp_path)
        app.colours = colours  # type: ignore[attr-defined]
        async with app.run_test(size=(80, 24)) as pilot:
            _, view = await opened(pilot)
            await show(pilot, b"the cat that chased the mice")
            row = next(strip for strip in strips_of(app) if "│·that│" in strip.text)
            looks = [(style.color, style.bgcolor) for text, style, _ in row if style and text.strip(" 0│▐")]
            assert len(looks) == len(view.lanes[0])
            assert all(a != b for a, b in itertools.pairwise(looks))


@pytest.mark.parametrize("ascii", [False, True])
async def test_no_size_breaks_any_view(tmp_path: Path, ascii: bool) -> None:
    app = app_on(tmp_path, ascii=ascii)
    async with app.run_test(size=(120, 40)) as pilot:
        screen, _ = await opened(pilot)
        screen.text.choices = [TokenizerChoice("trained"), TokenizerChoice("bytes")]
        screen.text.wish()
        await settle(pilot, lambda: quiet(screen))
        for keys in (["right", "i"], ["t"], ["m"], ["t", "l"], ["l", "v", "e"]):
            await pilot.press(*keys)
            for size in ((20, 5), (59, 19), (80, 24), (200, 60), (1, 1), (120, 40)):
                await pilot.resize_terminal(*size)
                await pilot.pause()
                text = text_of(app)
                assert not ascii or text.isascii(), [c for c in text if not c.isascii()]
        assert app._exception is None


@pytest.mark.parametrize("columns", [60, 80, 100])
async def test_the_headers_of_training_and_languages_say_whole_words(tmp_path: Path, columns: int) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(columns, 24)) as pilot:
        await opened(pilot)
        for key, said in (("t", "vocabulary"), ("l", "tokens of the same sentences")):
            await pilot.press(key)
            await settle(pilot, lambda said=said: said in text_of(app).splitlines()[2])
            assert "…" not in text_of(app).splitlines()[2]
