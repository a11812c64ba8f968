"""Hall mode and captions on every screen: nothing is cut, everything comes back, and a lecture may ask for it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from feedback_runs import feedback_run
from made_once import made_once
from picture import text_of
from recorded import app_on, make_run, settle
from textual.pilot import Pilot

from txlab.drawing.captions.sentence import clauses_that_fit
from txlab.drawing.legibility import DESK, HALL
from txlab.drawing.text import width
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario
from txlab.tui.app import TxlabApp
from txlab.tui.screen_registry import SCREENS
from txlab.tui.screens.base_screens import BenchScreen, CaptionLine
from txlab.tui.settings import Settings
from txlab.tui.widgets.chart import Chart
from txlab.tui.widgets.terminal import legibility

SIZES = [(80, 24), (120, 40)]
ROOM = 74  # cells of a caption on 80 columns

RUNS: dict[str, tuple[str, ...]] = {
    "attention": ("gpt-copy", "train.steps=4", "record.frame_every=4", "model.width=16", "model.context=16"),
    "words": ("words-planted", "data.tokens=20000", "train.words=2300", "train.epochs=1", "record.frame_every=5"),
    "recurrent": ("vanishing-gradient", "train.steps=2", "data.length=20", "model.width=6", "train.batch=4"),
    "arena": ("gridworld",),
    "convolution": (
        "conv-shapes",
        "train.steps=2",
        "train.batch=8",
        "train.validation_batches=1",
        "record.frame_every=1",
    ),
    "descent": ("descent", "descent.steps=60", "record.frame_every=10"),
    "playground": ("playground-xor", "train.steps=60", "network.layers=[3]"),
}
"""screen → a shipped scenario that it shows, and its shortening"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("hall") / "runs"
    shutil.copytree(made_once("hall", train), root)
    made = {screen: root / scenario for screen, (scenario, *_) in RUNS.items()}
    return made | {"train": made["attention"]}


def train(root: Path) -> None:
    for scenario, *settings in RUNS.values():
        execute(prepare(load_scenario(scenario, settings), out=root / scenario))


SHOWN = sorted(entry.name for entry in SCREENS if entry.name not in ("figure", "machines"))


def console(screen: str, runs: dict[str, Path], folder: Path, **settings: object) -> TxlabApp:
    """The console on a screen with something to show."""
    run = runs.get(screen)
    if screen == "feedback":
        run = feedback_run(folder, step=60, questions=0, labeller="simulated")
    elif screen == "lab":
        make_run(folder, "gpt-small")
    root = folder if run is None or screen == "feedback" else run.parent
    return app_on(root, run, screen, **settings)


def shows(app: TxlabApp, screen: str) -> Callable[[], object]:
    def ready() -> bool:
        front = app.screen
        return isinstance(front, BenchScreen) and app.current_mode == screen and bool(front.caption.sentence)

    return ready


async def quiet(pilot: Pilot[None]) -> None:
    """Wait until nothing is computed or drawn any more."""
    app = pilot.app
    for _ in range(2):
        await settle(
            pilot,
            lambda: (
                not any(worker.group not in ("session", "preload") and not worker.is_finished for worker in app.workers)
                and not any(chart.postponed or chart.drawing or chart.again for chart in app.screen.query(Chart))
            ),
        )


def test_the_scenarios_of_these_runs_are_shown_on_their_screens() -> None:
    assert len(SHOWN) == 13
    assert {*RUNS} | {"train", "feedback", "lab", "tokens", "play", "formulas"} == {*SHOWN}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("screen", SHOWN)
async def test_a_screen_says_what_is_to_be_seen_and_hall_mode_cuts_nothing(
    screen: str, size: tuple[int, int], runs: dict[str, Path], tmp_path: Path
) -> None:
    app = console(screen, runs, tmp_path)
    async with app.run_test(size=size) as pilot:
        await settle(pilot, shows(app, screen))
        await quiet(pilot)
        front = app.screen
        assert isinstance(front, BenchScreen)
        sentence = front.caption.sentence
        assert re.search(r"\d", sentence[0]), "a caption has live numbers"
        assert width(sentence[0]) <= ROOM
        assert not re.search(r"nan|∞|None|\bFalse\b", " ".join(sentence))
        at_desk = text_of(app)
        assert sentence[0] in at_desk.splitlines()[1]
        assert legibility(front) is DESK

        await pilot.press("H")
        await settle(pilot, lambda: legibility(front) is HALL)
        await quiet(pilot)
        text = text_of(app)
        assert clauses_that_fit(front.caption.sentence, size[0] - 6) in text.splitlines()[1]
        assert len(text.splitlines()) == size[1]
        for chart in front.query(Chart):
            if chart.display and chart.region.area and chart.chart is not None and chart.right:
                for _, name, _ in chart.ends():
                    assert name in text, f"{name} at the end of a curve is cut"
        for widget in front.query("*"):
            inside = front.region.union(widget.region) == front.region
            assert not widget.region.area or inside, f"{widget!r} is cut"
        assert "?" in text.splitlines()[-1], "the keys are there"

        await pilot.press("H")
        await settle(pilot, lambda: legibility(front) is DESK)
        await quiet(pilot)
        assert text_of(app) == at_desk, "at the desk again, everything is as before"


async def test_another_screen_is_drawn_for_the_hall_when_it_comes_to_the_front(runs: dict[str, Path]) -> None:
    app = app_on(runs["descent"].parent, runs["descent"], "descent")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, shows(app, "descent"))
        await quiet(pilot)
        await pilot.press("3")
        await settle(pilot, lambda: app.current_mode == "train")
        await quiet(pilot)
        await pilot.press("H", "8")
        await settle(pilot, lambda: app.current_mode == "descent")
        await settle(pilot, lambda: " Newton for a minimum " in text_of(app))
        assert not app.screen.query_one("MethodsPanel").display or not app.screen.query_one("MethodsPanel").region.area
        quadrants = set("▘▝▀▖▌▞▛▗▚▐▜▄▙▟█")
        assert quadrants & set(text_of(app))


async def test_hall_mode_is_a_setting_and_found_in_the_palette(tmp_path: Path) -> None:
    app = app_on(tmp_path, None, hall=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: app.current_mode == "lab")
        assert legibility(app.screen) is HALL
        assert app.has_class("-hall")
        await pilot.press(":", *"projector")
        await settle(pilot, lambda: "hall mode, for readers in the back row" in text_of(app))
        await pilot.press("enter")
        await settle(pilot, lambda: not app.hall)
        assert legibility(app.screen) is DESK
        assert not app.has_class("-hall")


async def test_quiet_text_is_nearly_as_bright_as_the_rest_in_a_hall(tmp_path: Path) -> None:
    from textual.color import Color

    app = app_on(tmp_path, None)
    async with app.run_test(size=(80, 24)) as pilot:
        for theme in ("txlab-dark", "txlab-light"):
            app.theme = theme
            await pilot.pause()
            ground = Color.parse(app.theme_variables["background"])

            def contrast(name: str) -> float:
                return abs(Color.parse(app.theme_variables[name]).brightness - ground.brightness)  # noqa: B023

            desk = contrast("quiet")
            app.hall = True
            await pilot.pause()
            assert 1.2 * desk < contrast("quiet") < contrast("foreground")
            app.hall = False
            await pilot.pause()
            assert contrast("quiet") == desk


def test_a_caption_is_a_rule_without_a_sentence() -> None:
    line = CaptionLine()
    assert line.sentence == ()
    line.say(("one", "two"))
    assert line.sentence == ("one", "two")


LECTURE = """\
title = "For the back row"
hall = true
[[step]]
say = "A curve."
screen = "lab"
[[step]]
say = "A formula."
screen = "formulas"
"""


@pytest.mark.parametrize("setting", [False, True])
async def test_a_lecture_may_ask_for_hall_mode_and_leaves_it_as_it_was_set(tmp_path: Path, setting: bool) -> None:
    file = tmp_path / "talk.toml"
    file.write_text(LECTURE)
    app = app_on(tmp_path, None, hall=setting)
    async with app.run_test(size=(80, 24)) as pilot:
        app.play_lecture(str(file), tmp_path)
        await settle(pilot, lambda: "A curve." in text_of(app))
        assert app.hall
        await pilot.press("pagedown")
        await settle(pilot, lambda: app.current_mode == "formulas" and "A formula." in text_of(app))
        assert legibility(app.screen) is HALL
        await pilot.press("ctrl+l")
        await settle(pilot, lambda: app.lecture is None)
        assert app.hall is setting


async def test_without_colours_the_name_at_the_end_of_a_curve_has_its_mark(runs: dict[str, Path]) -> None:
    app = TxlabApp(run=runs["recurrent"], root=runs["recurrent"].parent, ascii=True, settings=Settings(hall=True))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, shows(app, "recurrent"))
        await settle(pilot, lambda: " o rnn" in text_of(app))
        text = text_of(app)
        assert text.isascii()
        assert sum(line.endswith((" * gru", " + lstm", " o rnn")) for line in text.splitlines()) == 3
