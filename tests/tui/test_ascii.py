"""With --ascii every screen, dialog and formula is written in ASCII, and signs replace colours that carry meaning."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from picture import text_of
from recorded import app_on, make_run, settle

from txlab.drawing import curve
from txlab.drawing.diverging import Scale, ramp_for
from txlab.drawing.pixels import pixel_lines
from txlab.runs.scenario import catalogue
from txlab.tui.screens.lab.describe import describe_scenario
from txlab.tui.screens.train.text import one_sample, solid
from txlab.tui.theme import IN_ASCII, Signs


def test_the_description_of_a_scenario_is_ascii() -> None:
    entries = catalogue()
    assert any("ₜ" in describe_scenario(entry, 84).plain for entry in entries)
    for entry in entries:
        for cells in (84, 30):
            text = describe_scenario(entry, cells, ascii=True).plain.translate(IN_ASCII)  # as it is painted
            assert text.isascii(), (entry.name, {c for c in text if not c.isascii()})
            assert "\\x" not in text
            assert "\\u" not in text
    tiny = next(entry for entry in entries if entry.name == "gpt-tiny")
    assert "loss = -(1/T) sum_t log p(x_{t+1} | x_1...x_t)" in describe_scenario(tiny, 84, ascii=True).plain


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_every_screen_and_dialog_is_ascii(tmp_path: Path, size: tuple[int, int]) -> None:
    app = app_on(tmp_path, make_run(tmp_path, "one"), ascii=True)
    async with app.run_test(size=size) as pilot:
        await settle(pilot, lambda: "done at step 40" in text_of(app))
        arena = ("6", "6?", "6v", "6m", "6o")
        for keys in ("1", "1?", "1e", "1w", "1:", "3", "3?", "3w", "3v", "3Z", "4", "4?", "4w", *arena):
            await pilot.press(*keys)
            await settle(pilot, lambda: "…" not in text_of(app))
            text = text_of(app)
            assert text.isascii(), (keys, {c for c in text if not c.isascii()}, text)
            for _ in range(len(app.screen_stack) - 1):
                await pilot.press("escape")
            await pilot.pause()


def test_a_sign_marks_the_end_of_the_prompt() -> None:
    assert one_sample([("The ", "cat\nsat")], 40).plain.translate(IN_ASCII) == "The >cat\nsat"
    assert one_sample([("The ", "cat")], 40).plain == "The ›cat"
    assert one_sample([("", "cat")], 40).plain == "cat"
    folded = one_sample([("one two three four ", "five")], 10)
    assert folded.plain == "one two\nthree four\n›five"
    assert {folded.plain[span.start : span.end] for span in folded.spans} == {"one two\nthree four\n", "›"}


@given(st.text(max_size=40), st.text(max_size=20), st.integers(4, 30))
def test_the_sign_is_between_prompt_and_text_however_it_folds(prompt: str, text: str, cells: int) -> None:
    shown = one_sample([(prompt, text)], cells)
    if prompt:
        (sign,) = (span for span in shown.spans if span.style == "$accent")
        assert shown.plain[sign.start : sign.end] == Signs.prompt
        assert solid(shown.plain[: sign.start]) == solid(prompt)
    else:
        assert Signs.prompt not in shown.plain or Signs.prompt in text


def test_a_sample_is_escaped_and_its_prompt_still_ends_where_it_ends() -> None:
    prompt, text = "naïve ", "ν\x00�b"
    shown = one_sample([(prompt, text)], 60, ascii=True)
    assert shown.plain.isascii()
    (sign,) = (span for span in shown.spans if span.style == "$accent")
    assert shown.plain[: sign.start].strip() == "na\\xefve"
    assert shown.plain[sign.start : sign.end] == ">"


@pytest.mark.parametrize("zoom", [0, 1, 2])
def test_pixels_of_different_levels_differ_without_their_colours(zoom: int) -> None:
    scale = Scale(-1, 1)
    ramp = ramp_for(scale, "truecolor", True, ascii=True)
    lines = pixel_lines(np.array([[-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0]]), scale, ramp, (0, 0, 0), zoom=zoom)
    texts = [piece.text for piece in lines[0]]
    assert len(set(texts)) == 3
    assert all(text.isascii() for text in texts)


@pytest.mark.parametrize("marks", [curve.ASCII_MARKS, curve.MARKS])
def test_three_learners_with_points_and_bands_have_twelve_different_marks(marks: str) -> None:
    assert len(set(marks)) == len(marks) >= 12
