"""A formula's number is a link: in an answer to w, in the Lab, in the help, and on the Formulas screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from picture import text_of
from recorded import app_on, explained, settle
from rich.text import Text
from textual.content import Content
from textual.pilot import Pilot
from textual.widget import Widget

from txlab.experiments.formulas.content import content
from txlab.experiments.formulas.example import example_of
from txlab.runs.scenario import catalogue
from txlab.tui.app import TxlabApp
from txlab.tui.formula_links import find_citations, link_citations, link_line
from txlab.tui.screens.formulas.screen import FormulasScreen
from txlab.tui.screens.lab.screen import LabScreen
from txlab.tui.widgets.why import ask_why


async def opened(pilot: Pilot[None], number: str) -> None:
    await settle(pilot, lambda: isinstance(pilot.app.screen, FormulasScreen))
    assert isinstance(pilot.app, TxlabApp)
    assert pilot.app.current_formula == number
    assert content()[0][number].title[:20] in text_of(pilot.app)


async def click_on(pilot: Pilot[None], word: str, within: Widget | None = None) -> None:
    """Click on the first cell of a word."""
    for y, line in enumerate(text_of(pilot.app).split("\n")):
        x = line.find(word)
        if x >= 0 and (within is None or within.region.contains(x, y)):
            await pilot.click(offset=(x, y))
            return
    raise AssertionError(f"{word!r} is not on the screen")


def test_the_numbers_that_a_text_cites_are_found_and_no_others() -> None:
    text = "the loss (MATH R1, T9; see (M8)): MATH T8–T11, and T4, MATH F99, MATHT1"
    assert [number for _, number in find_citations(text)] == ["R1", "T9", "M8", "T8", "T11"]
    assert all(text[start:].startswith(number) for start, number in find_citations(text))


def test_data_stays_data_in_a_text_with_links() -> None:
    said = link_citations(Content("[/x][bold] MATH T4 [@click=app.exit]x[/]"))
    assert said.plain == "[/x][bold] MATH T4 [@click=app.exit]x[/]"
    assert len(said.spans) == 1
    assert said.plain[said.spans[0].start : said.spans[0].end] == "T4"
    line = link_line(Text("MATH T1 · Vaswani"))
    assert [line.plain[span.start : span.end] for span in line.spans] == ["T1"]


@pytest.mark.parametrize("by", ["m", "M", "click"])
async def test_an_explanation_leads_to_its_formula(tmp_path: Path, by: str) -> None:
    app, example = app_on(tmp_path), example_of("M6")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        ask_why(app, lambda: example.explain(**example.values()))
        number = (await explained(pilot)).math
        assert f"m {number}" in text_of(app)
        if by == "click":
            await click_on(pilot, f"MATH {number}")  # on the word: no link
            assert not isinstance(app.screen, FormulasScreen)
            await click_on(pilot, f"{number} · ")
        else:
            await pilot.press(by)
        await opened(pilot, number)
        assert len(app.screen_stack) == 1


async def test_the_lab_leads_to_the_formulas_of_a_scenario(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = app.screen
        assert isinstance(screen, LabScreen)
        await settle(pilot, lambda: screen.loaded)
        math = next(entry.scenario.about.math for entry in catalogue() if entry.name == "gpt-copy")
        screen.catalogue.rows.select("gpt-copy")
        await pilot.pause()
        assert f"M opens {math[0]}" in text_of(app)
        await pilot.press("M")
        await opened(pilot, math[0])
        await pilot.press("1")
        await pilot.pause()
        await click_on(pilot, math[-1], screen.details)
        await opened(pilot, math[-1])


async def test_the_help_leads_to_the_formulas_at_work_on_a_screen(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("8", "question_mark")
        await pilot.pause()
        numbers = [each.number for each in content()[0].values() if each.place.screen == "descent"]
        assert len(numbers) > 1
        assert f"MATH {', '.join(numbers)}" in text_of(app)
        await click_on(pilot, numbers[1] + ",")
        await opened(pilot, numbers[1])
        await pilot.press("8", "question_mark", "M")
        await opened(pilot, numbers[0])


async def test_what_a_formula_uses_is_a_link_too(tmp_path: Path) -> None:
    app = app_on(tmp_path, screen="formulas")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        app.current_formula = "T4"
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, FormulasScreen)
        await click_on(pilot, "T3", screen.about)
        await opened(pilot, "T3")
        assert screen.contents.chosen == "T3"
