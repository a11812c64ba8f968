"""The Formulas screen: each formula with its letters, and an example whose numbers follow what is typed."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import recorded
from picture import text_of
from recorded import explained, settle
from textual.pilot import Pilot
from waiting import LONGEST

from txlab.drawing.explanation import computation_lines, format_lines
from txlab.experiments.formulas.content import content, lecture_texts, used_by
from txlab.experiments.formulas.example import example_of
from txlab.tui.app import TxlabApp
from txlab.tui.screens.formulas.contents import BY_CHAPTER
from txlab.tui.screens.formulas.example import STYLES
from txlab.tui.screens.formulas.screen import FormulasScreen

SIZES = [(80, 24), (120, 40), (60, 20), (200, 60)]
app_on = partial(recorded.app_on, screen="formulas")


async def shown(pilot: Pilot[None], number: str = "T1") -> FormulasScreen:
    """The screen with this formula, computed."""
    await pilot.pause()
    screen = pilot.app.screen
    assert isinstance(screen, FormulasScreen)
    screen.app.current_formula = number  # type: ignore[attr-defined]
    await settle(pilot, lambda: computed(screen, number))
    return screen


def computed(screen: FormulasScreen, number: str) -> bool:
    return screen.example.computing.idle and screen.example.shown is not None and screen.example.shown.number == number


async def press(pilot: Pilot[None], screen: FormulasScreen, *keys: str) -> None:
    await pilot.press(*keys)
    await settle(pilot, lambda: screen.example.computing.idle)


def expected(screen: FormulasScreen, number: str, **changed: Any) -> list[str]:
    """The lines of an example's steps for these inputs, computed apart from the screen."""
    example = example_of(number)
    explanation = example.explain(**{**example.values(), **changed})
    lines = computation_lines(explanation, screen.example.steps.cells, STYLES, screen.ascii)
    begin = [line.plain for line in lines].index(next(line.plain for line in lines if "q·k" in line.plain))
    return [line.plain.rstrip() for line in lines[begin:]]


def steps_of(screen: FormulasScreen) -> list[str]:
    return [line.rstrip() for line in screen.example.steps.text.plain.split("\n")]


@pytest.mark.parametrize("size", SIZES)
async def test_a_formula_has_its_equation_and_an_example_with_its_steps(tmp_path: Path, size: tuple[int, int]) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=size) as pilot:
        screen = await shown(pilot)
        await press(pilot, screen, "tab")
        text = text_of(app)
        for said in ("Scaled dot-product attention", "A = softmax(Q Kᵀ / √dₖ)", "Y = A V", "live example", "[ 2 0 ]"):
            assert said in text, said
        assert steps_of(screen)[-len(expected(screen, "T1")) :] == expected(screen, "T1")
        if size[1] == 40:
            for said in ("queries, one row a position", "uses     F5", "at work  Attention", "≠ Becker-Kahn"):
                assert said in text, said


@pytest.mark.parametrize("size", SIZES[:2])
async def test_a_key_changes_a_number_and_every_step_follows(tmp_path: Path, size: tuple[int, int]) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=size) as pilot:
        screen = await shown(pilot)
        await press(pilot, screen, "tab", "right", "down", "plus", "plus", "minus")
        q = [[2.0, 0.0], [0.0, 1.1], [1.0, 1.0]]
        assert screen.example.values["T1"]["q"] == q
        assert "[   0 1.1 ]" in text_of(app)
        await press(pilot, screen, "end", "plus")
        assert screen.example.values["T1"]["row"] == 2
        lines = expected(screen, "T1", q=q, row=2)
        assert steps_of(screen)[-len(lines) :] == lines
        await press(pilot, screen, "plus", "plus", "plus")
        assert screen.example.values["T1"]["row"] == 3, "three is the most that is allowed"
        await press(pilot, screen, "n")
        assert steps_of(screen)[-len(expected(screen, "T1")) :] == expected(screen, "T1")


async def test_a_value_is_typed_and_one_that_is_not_allowed_is_refused_with_what_is(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await shown(pilot)
        await press(pilot, screen, "tab", *"12", "enter")
        assert screen.example.hint.text.plain == "q=12 is not allowed; allowed: numbers from -10 to 10"
        await press(pilot, screen, "backspace", "full_stop", "5", "enter")
        assert screen.example.values["T1"]["q"][0] == [1.5, 0.0]
        await press(pilot, screen, "enter", *"1,2; 3,4; 5,6".replace(" ", ""), "enter")
        assert screen.example.values["T1"]["q"] == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
        lines = expected(screen, "T1", q=[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        assert steps_of(screen)[-len(lines) :] == lines
        await press(pilot, screen, "4", "escape")
        assert screen.example.values["T1"]["q"][0] == [1.0, 2.0]
        assert app.current_mode == "formulas"
        assert screen.example.cells.has_focus


@pytest.mark.parametrize("size", SIZES[:2])
async def test_the_erratum_shows_both_forms_and_marks_where_they_part(tmp_path: Path, size: tuple[int, int]) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=size) as pilot:
        screen = await shown(pilot)
        await press(pilot, screen, "tab")
        example = example_of("T1")
        for name, misprint in example.misprints.items():
            await press(pilot, screen, "e")
            right, wrong = (form(**example.values()) for form in (example.explain, misprint.explain))
            one, other = (next(step for step in each.steps if step.name == misprint.parts) for each in (right, wrong))
            text = screen.example.steps.text.plain
            if isinstance(one.result, float) and isinstance(other.result, float):
                assert (
                    f"they part at Σ: {format_lines(one.result, 20)[0]} against {format_lines(other.result, 20)[0]}"
                    in text
                )
            assert f"they part at {misprint.parts}: " in text
            assert misprint.says[:40] in text
            marked = [line for line in text.split("\n") if line.startswith("≠")]
            assert [line.split()[1] for line in marked] == [misprint.parts]
            assert format_lines(wrong.result, 20)[0] in text
            assert f"≠ {name}" in text_of(app)
        await press(pilot, screen, "e")
        assert "they part" not in screen.example.steps.text.plain


async def test_the_two_forms_are_next_to_each_other_where_there_is_room(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(200, 60)) as pilot:
        screen = await shown(pilot)
        await press(pilot, screen, "e")
        line = next(line for line in screen.example.steps.text.plain.split("\n") if line.startswith("≠"))
        assert [part for part in line.split() if part in ("Σ", "5.356", "15.47")] == ["Σ", "5.356", "Σ", "15.47"]


async def test_a_prediction_hides_the_result_until_it_is_made(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await shown(pilot)
        await press(pilot, screen, "p")
        question = "Which position does row i look at most"
        assert question in text_of(app)
        assert "0.723" not in text_of(app)
        assert "exp(s)" not in text_of(app)
        await press(pilot, screen, *"0.7", "enter")
        assert "you said 0.700, it is 0.723: 0.0225 too low" in text_of(app)
        assert "exp(s)" in text_of(app)
        await press(pilot, screen, "plus")
        assert question in text_of(app), "other numbers are another question"
        assert "exp(s)" not in text_of(app)
        await press(pilot, screen, "escape")
        assert "exp(s)" in text_of(app)
        assert question not in text_of(app)


async def test_why_shows_the_whole_computation_of_the_example(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await shown(pilot)
        await press(pilot, screen, "tab", "plus", "w")
        answer = await explained(pilot)
        example = example_of("T1")
        assert answer == example.explain(**{**example.values(), "q": [[2.1, 0.0], [0.0, 1.0], [1.0, 1.0]]})


async def test_the_list_is_by_chapter_or_by_the_sections_of_a_text_and_has_a_filter(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 60)) as pilot:
        screen = await shown(pilot, "F2")
        contents = screen.contents
        assert [each.number for each in contents.formulas.values()] == list(content()[0])
        for text in lecture_texts().values():
            await press(pilot, screen, "v")
            listed = [each.number for each in contents.formulas.values()]
            assert listed == [each for _, numbers in text.sections for each in numbers]
            assert text.title[:20] in text_of(app)
        await press(pilot, screen, "v")
        assert contents.view == BY_CHAPTER
        await press(pilot, screen, "slash", *"softm", "down")
        assert [each.number for each in contents.formulas.values()] == ["F5", "K4"]
        await settle(pilot, lambda: computed(screen, "F5"))
        assert "pᵢ = exp(zᵢ / τ) / Σⱼ exp(zⱼ / τ)" in text_of(app)
        await press(pilot, screen, "escape")
        assert len(contents.formulas) == len(content()[0])


async def test_a_text_without_the_formula_is_listed_from_its_beginning(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await shown(pilot, "G3")
        name, text = next(iter(lecture_texts().items()))
        numbers = [each for _, numbers in text.sections for each in numbers]
        assert "G3" not in numbers
        await press(pilot, screen, "v")
        assert screen.contents.view == name
        await settle(pilot, lambda: computed(screen, numbers[0]))
        await press(pilot, screen, "slash", *"zzz", "escape")
        assert screen.contents.view == name


async def test_a_formula_that_the_filter_hides_brings_the_whole_list_back(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await shown(pilot, "F2")
        await press(pilot, screen, "slash", *"softm", "down")
        await shown(pilot, "H6")
        assert screen.contents.chosen == "H6"
        assert screen.contents.filter.value == ""


async def test_every_formula_can_be_looked_at_in_ascii(tmp_path: Path) -> None:
    app = app_on(tmp_path, ascii=True)
    async with app.run_test(size=(120, 40)) as pilot:
        for number in content()[0]:
            screen = await shown(pilot, number)
            text = text_of(app)
            assert text.isascii(), (number, {each for each in text if not each.isascii()})
            if screen.check_action("panel", ("ExamplePanel", "misprint")):
                await press(pilot, screen, "e")
                assert "they part at" in screen.example.steps.text.plain, number
                assert screen.example.steps.text.plain.isascii(), number


async def test_keys_are_answered_while_torch_is_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    import txlab.tui.screens.formulas.example as module

    begun, may_end, before = threading.Event(), threading.Event(), module.compute

    def slowly(*given: Any) -> Any:
        begun.set()
        assert may_end.wait(LONGEST)
        return before(*given)

    monkeypatch.setattr(module, "compute", slowly)
    monkeypatch.setattr(module, "torch_is_loaded", lambda: False)
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, FormulasScreen)
        await pilot.press("down", "down")
        assert begun.wait(LONGEST)
        assert "loading torch…" in text_of(app)
        assert screen.contents.chosen == "F3"
        assert "Adam:" in text_of(app)
        may_end.set()
        await settle(pilot, lambda: computed(screen, "F3"))


def test_the_screen_is_reached_by_one_key_from_everywhere() -> None:
    from txlab.tui.screen_registry import SCREENS

    entry = next(each for each in SCREENS if each.name == "formulas")
    keys = {binding.key for binding in TxlabApp.BINDINGS if binding.action == "open_screen('formulas')"}  # type: ignore[union-attr]
    assert keys == {"M"} == {entry.key}
    for other in SCREENS:
        bound = {key for each in other.load().BINDINGS for key in each.key.split(",")}  # type: ignore[union-attr]
        assert "M" not in bound or other.name == "lab", other.name


@pytest.mark.parametrize("size", SIZES)
async def test_the_map_marks_the_neighbours_of_a_formula_and_arrows_go_through_it(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=size) as pilot:
        screen = await shown(pilot, "T3")
        await press(pilot, screen, "g")
        view = screen.map.view
        assert set(view.drawn.places) == set(content()[0])
        roles = {text.strip(): role for line in view.drawn.lines for text, role in line if role in ("near", "here")}
        near = {*content()[0]["T3"].uses, *used_by("T3")}
        assert {text.split(" ")[0] for text, role in roles.items() if role == "near"} == near
        assert "uses T1   used by T4, T8" in text_of(app)
        await press(pilot, screen, "down", "right", "up")
        assert app.current_formula == "T10"
        await settle(pilot, lambda: computed(screen, "T10"))
        line, first, _ = view.drawn.places["M2"]
        await pilot.click(view, offset=(first, line))
        await settle(pilot, lambda: computed(screen, "M2"))
        await press(pilot, screen, "enter")
        assert "Value iteration" in text_of(app)
        assert screen.contents.chosen == "M2"
        assert screen.contents.rows.has_focus


@pytest.mark.evidence
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_random_keys_break_nothing(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("txlab.tui.screens.formulas.screen.FormulasScreen.action_go", lambda _: None)
    choice = random.Random(seed)
    keys = [
        *"0123456789,;epvgnw/JK",
        *["up", "down", "left", "right", "home", "end", "tab", "shift+tab", "enter", "escape", "plus", "minus"],
    ]
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await shown(pilot)
        for done in range(400):
            await pilot.press(choice.choice(keys))
            if done % 40 == 0:
                await pilot.resize_terminal(*choice.choice([*SIZES, (20, 5), (40, 12)]))
            assert app._exception is None, f"seed {seed}, key {done}"
            if app.current_mode != "formulas":
                await pilot.press("escape", "M")
        for _ in range(5):
            await pilot.press("escape")
        if app.current_mode != "formulas":
            await pilot.press("M")
        await shown(pilot, "T1" if app.current_formula != "T1" else "T2")
        assert screen.example.shown is not None


async def test_the_meaning_is_folded_for_the_width_that_its_page_has(tmp_path: Path) -> None:
    async with app_on(tmp_path).run_test(size=(200, 50)) as pilot:
        about = (await shown(pilot, "F1")).about
        about.styles.width = 40  # as when something next to it is folded away
        await settle(pilot, lambda: about.size.width == 40)
        folded = [line.rstrip() for line in about.text.plain.splitlines()]
        assert [strip.text.rstrip() for strip in about.lines()] == folded  # folded twice, it would have stubs of lines
