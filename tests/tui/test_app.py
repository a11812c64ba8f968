"""The shell of the console: screens, help, palette, pictures, errors; at every size and without colours."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from picture import text_of
from recorded import HOSTILE, app_on, make_run, settle
from textual.dom import DOMNode
from textual.screen import ModalScreen

from txlab.errors import LabError
from txlab.tui.bindings import MOVING, Listing
from txlab.tui.palette import commands_of
from txlab.tui.screen_registry import SCREENS
from txlab.tui.screens.dialogs import AskValue, Choose
from txlab.tui.screens.help import HelpScreen
from txlab.tui.settings import load_settings, log_file, settings_file


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    make_run(folder)
    return folder


@pytest.mark.parametrize("size", [(80, 24), (200, 60), (20, 5)])
async def test_every_screen_opens_by_its_digit_and_its_function_key(root: Path, size: tuple[int, int]) -> None:
    app = app_on(root)
    async with app.run_test(size=size) as pilot:
        for room in [room for room in SCREENS if room.key]:
            function = {"0": ["f10"], "M": []}.get(room.key, [f"f{room.key}"])  # a letter is that key alone
            for key in (room.key, *(function if size == (20, 5) else ())):  # a key is the same at every size
                await pilot.press("1", key)
                await pilot.pause()
                assert app.current_mode == room.name


async def test_help_says_what_each_key_does_and_with_i_its_id(root: Path) -> None:
    app = app_on(root)
    async with app.run_test(size=(120, 80)) as pilot:
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen)
        shown = text_of(app)
        for phrase in ("This screen", "Moving", "Everywhere", "change its settings before it starts", "quit txlab"):
            assert phrase in shown
        idents = ("lab.start", "screen.why", "room.train", "config.toml")
        assert not any(ident in shown for ident in idents)
        await pilot.press("i")
        await settle(pilot, lambda: all(ident in text_of(app) for ident in idents))
        await pilot.press("escape")
        assert len(app.screen_stack) == 1


async def test_q_goes_back_to_the_lab_and_leaves_from_there(root: Path) -> None:
    app = app_on(root)
    async with app.run_test() as pilot:
        await pilot.press("3", "q")
        assert app.current_mode == "lab"
        await pilot.press("q")
        await pilot.pause()
        assert not app.is_running or app._exit


async def test_the_palette_offers_the_actions_of_the_screen_and_does_them(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    app = app_on(root)
    async with app.run_test(size=(100, 40)) as pilot:
        await pilot.press("3")
        titles = [command.title for command in commands_of(app, app.entries, app.report)]
        assert {"save a picture of this screen (SVG)", "Lab"} <= set(titles)
        await pilot.press("colon", *"lab", "enter")
        await settle(pilot, lambda: app.current_mode == "lab" and len(app.screen_stack) == 1)
        await pilot.press("ctrl+p", *"theme", "enter")
        await settle(pilot, lambda: "Which theme?" in text_of(app))
        await pilot.press(*"txlab-light", "enter")
        await settle(pilot, lambda: app.theme == "txlab-light" and settings_file().exists())
        assert load_settings().theme == "txlab-light"


@pytest.mark.parametrize(
    ("typed", "title"),
    [
        ("rewind", "go back and forth through what was recorded"),
        ("compare runs", "overlay another run"),
        ("exit", "quit txlab; runs keep running"),
        ("screenshot", "save a picture of this screen (SVG)"),
    ],
)
async def test_the_palette_knows_synonyms_and_puts_the_best_match_first(root: Path, typed: str, title: str) -> None:
    app = app_on(root, make_run(root))
    async with app.run_test(size=(100, 40)) as pilot:
        await pilot.press("3")
        await settle(pilot, lambda: "loss" in text_of(app))
        await pilot.press("colon", *("space" if letter == " " else letter for letter in typed))
        await settle(
            pilot, lambda: isinstance(app.screen, Choose) and app.screen.found and app.screen.found[0][0] == title
        )


def classes_below(cls: type[DOMNode]) -> Iterator[type[DOMNode]]:
    for each in cls.__subclasses__():
        yield each
        yield from classes_below(each)


def test_every_key_that_the_help_lists_has_a_sentence() -> None:
    for entry in SCREENS:
        entry.load()
    ours = [each for each in classes_below(DOMNode) if each.__module__.startswith("txlab.")]
    bindings = [key for each in ours if not issubclass(each, ModalScreen) for key in each.__dict__.get("BINDINGS", ())]
    assert len(bindings) > 200
    for binding in bindings:
        of_one_word = binding.group == Listing(MOVING) or binding.id.startswith("room.")
        assert len(binding.tooltip.split()) > (0 if of_one_word else 1), binding


async def test_train_and_attention_open_the_newest_run_they_can_show(root: Path) -> None:
    run = make_run(root)
    app = app_on(root)
    async with app.run_test(size=(100, 40)) as pilot:
        await pilot.press("3")
        await settle(pilot, lambda: app.current_run == run)


async def test_an_answer_that_comes_late_leaves_the_screen_in_front_alone(root: Path) -> None:
    app = app_on(root)
    answers: list[str | None] = []
    async with app.run_test() as pilot:
        question = AskValue("What?")
        await app.push_screen(question, answers.append)
        await app.push_screen(HelpScreen(app.screen))
        question.dismiss("late")
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen)
        await pilot.press("escape")
        assert app.screen is question
        await pilot.press("escape")
        assert len(app.screen_stack) == 1
        assert answers == [None]


async def test_a_picture_is_saved_in_the_current_folder(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = app_on(root)
    async with app.run_test() as pilot:
        await pilot.press("s")
        await settle(pilot, lambda: list(tmp_path.glob("txlab-lab-*.svg")))
    assert "<svg" in next(tmp_path.glob("txlab-lab-*.svg")).read_text()


async def test_a_picture_that_cannot_be_written_is_a_readable_error(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "cwd", lambda: Path("/proc/nowhere"))
    app = app_on(root)
    async with app.run_test() as pilot:
        await pilot.press("s")
        await settle(pilot, lambda: any("picture cannot be written" in str(n.message) for n in app._notifications))


async def test_a_user_error_is_one_line_and_a_bug_is_logged(root: Path) -> None:
    app = app_on(root)
    async with app.run_test() as pilot:
        app.report(LabError(f"{HOSTILE} is wrong"))
        app.report(ZeroDivisionError("a bug"))
        await pilot.pause()
        notices = [str(notice.message) for notice in app._notifications]
        assert any("is wrong" in text for text in notices)
        assert not any("\x1b" in text for text in notices)
    assert "ZeroDivisionError: a bug" in log_file().read_text()


async def test_a_worker_that_fails_does_not_end_the_console(root: Path) -> None:
    app = app_on(root)
    async with app.run_test() as pilot:
        await pilot.pause()

        def fail() -> None:
            raise RuntimeError("in a thread")

        app.screen.run_worker(fail, thread=True, group="test", exit_on_error=False)
        await settle(pilot, lambda: any("in a thread" in str(n.message) for n in app._notifications))
        assert app.is_running


def test_the_console_imports_no_torch() -> None:
    code = (
        "import sys, txlab.tui.app, txlab.tui.screens.lab.screen, txlab.tui.screens.train.screen\n"
        "from txlab.tui.app import TxlabApp; TxlabApp()\n"
        "assert 'torch' not in sys.modules and 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("columns", "begins"),
    [
        (80, " txlab   1 Lab 2 Tokens 3 Train 4 Attention 5 Words │ 6 Arena 7 8 9 0 │ M"),
        (120, " txlab   1 Lab 2 Tokens 3 Train 4 Attention 5 Words │ 6 Arena 7 Feedback "),
        (140, " txlab   1 Lab  2 Tokens  3 Train  4 Attention  5 Words  │ 6 Arena  7 Feedback "),
        (200, " txlab   Language models  1 Lab  2 Tokens  3 Train  4 Attention  5 Words  │ Learning  6 Arena "),
    ],
)
async def test_the_tabs_are_grouped_as_far_as_there_is_room(root: Path, columns: int, begins: str) -> None:
    app = app_on(root)
    async with app.run_test(size=(columns, 24)) as pilot:
        await settle(pilot)
        line = text_of(app).splitlines()[0]
        assert line.startswith(begins)
        await pilot.click("NavigationLine", offset=(line.index("6"), 0))
        await settle(pilot, lambda: app.current_mode == "arena")


@pytest.mark.parametrize("screen", ["lab", "feedback"])
async def test_at_80_columns_the_first_line_names_screens_before_the_machine(
    tmp_path: Path, screen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txlab.tui.screens.base_screens.machine_line", lambda: "2 x EPYC 7763, 24 GB")
    app = app_on(tmp_path, screen=screen)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: app.current_mode == screen)
        first = text_of(app).splitlines()[0]
        assert len(first) <= 80
        for name in ("1 Lab", "2 Tokens", "3 Train", "4 Attention"):
            assert name in first
        assert next(entry.label for entry in app.entries if entry.name == screen) in first
        assert all(entry.key in first.split() for entry in app.entries if not entry.within)
