"""Lectures in the console: forward, back and forward again; by hand; killed; recorded."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest
from made_once import made_once
from picture import text_of
from pilots import press
from recorded import app_on, make_run, settle
from textual.pilot import Pilot

from txlab.runs.lecture import Lecture, load_lecture, shipped_lectures
from txlab.runs.lecture_progress import read_progress
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario
from txlab.tui.app import TxlabApp
from txlab.tui.lecture.player import Player
from txlab.tui.lecture.recorder import Recorder
from txlab.tui.lecture.strip import LectureStrip
from txlab.tui.screen_registry import screen_names
from txlab.tui.screens.keyline import KeyLine
from txlab.tui.screens.lab.screen import LabScreen
from txlab.tui.widgets.rows import Rows

SIZES = [(80, 24), (120, 40)]
TALK = """\
title = "The root of two"
[[run]]
name = "newton"
scenario = "newton-root"
[[step]]
title = "The first step"
say = "The tangent at 1 meets the axis at 1.5."
notes = "Nobody knows who found this."
screen = "descent"
run = "newton"
at = 1
point = ["1.5"]
press = "]"
[[step]]
keep = true
title = "The second"
say = "Then 17/12."
keys = ["]"]
[[step]]
title = "The curve"
say = "And as a curve."
screen = "train"
run = "newton"
"""


@pytest.fixture(scope="session")
def newton(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs with one of newton-root."""
    root = tmp_path_factory.mktemp("newton")
    execute(prepare(load_scenario("newton-root"), root=root))
    return root


@pytest.fixture(autouse=True)
def no_lecture_was_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The place where another test left a lecture (a random walk may start the tour) is not the place to begin."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def talk(tmp_path: Path) -> str:
    path = tmp_path / "talk.toml"
    path.write_text(TALK)
    return str(path)


def player_of(app: TxlabApp) -> Player:
    assert isinstance(app.lecture, Player)
    return app.lecture


async def arrive(app: TxlabApp, pilot: Pilot[None], number: int) -> str:
    """Wait for the state of a step, from 0, and return the screen as text."""
    await settle(pilot, lambda: player_of(app).reached == number == player_of(app).number)
    app.clear_notifications()
    await settle(pilot)
    return text_of(app)


def run_of(app: TxlabApp) -> Path:
    assert app.current_run is not None
    return app.current_run


async def begin(app: TxlabApp, pilot: Pilot[None], talk: str, number: int | None = 0) -> str:
    await settle(pilot, lambda: app.screen.is_attached and app.key_order.idle)
    app.play_lecture(talk, number=number)
    return await arrive(app, pilot, number or 0)


async def go(app: TxlabApp, pilot: Pilot[None], key: str, number: int) -> str:
    await press(pilot, key)
    return await arrive(app, pilot, number)


@pytest.mark.parametrize("size", SIZES)
async def test_the_strip_has_position_title_sentence_and_the_key_to_press(
    newton: Path, talk: str, size: tuple[int, int]
) -> None:
    app = app_on(newton)
    async with app.run_test(size=size) as pilot:
        shown = await begin(app, pilot, talk)
        assert "1 of 3" in shown
        assert "The first step" in shown
        assert "The tangent at 1 meets the axis at 1.5." in shown
        assert app.screen.query_one(KeyLine).rows[0][0] == "right_square_bracket"
        assert "Nobody knows" not in shown
        await press(pilot, "ctrl+t")
        await settle(pilot, lambda: "Nobody knows who found this." in text_of(app))


async def test_the_words_pointed_at_are_painted_otherwise(newton: Path, talk: str) -> None:
    from picture import strips_of

    app = app_on(newton)
    async with app.run_test(size=(120, 40)) as pilot:
        await begin(app, pilot, talk)
        pointer = app.theme_variables["accent"].lower()
        painted = [
            segment.text
            for strip in strips_of(app)
            for segment in strip
            if segment.style and segment.style.bgcolor and segment.style.bgcolor.get_truecolor().hex == pointer
        ]
        assert painted.count("1.5") >= 2  # in the sentence, and on the screen
        await go(app, pilot, "pagedown", 1)
        assert app.pointed is None


async def test_the_key_pressed_by_hand_and_the_key_that_goes_forward_give_the_same_screen(
    newton: Path, talk: str
) -> None:
    app = app_on(newton)
    async with app.run_test(size=(120, 40)) as pilot:
        await begin(app, pilot, talk)
        by_hand = await go(app, pilot, "right_square_bracket", 1)
        await go(app, pilot, "pageup", 0)
        assert await go(app, pilot, "ctrl+n", 1) == by_hand
        assert "2 of 3" in by_hand


async def test_a_step_is_reached_again_whatever_was_pressed_in_between(newton: Path, talk: str) -> None:
    app = app_on(newton)
    async with app.run_test(size=(120, 40)) as pilot:
        await begin(app, pilot, talk)
        second = await go(app, pilot, "pagedown", 1)
        await go(app, pilot, "pageup", 0)
        for key in ("v", "right_curly_bracket", "question_mark"):
            await press(pilot, key)
        assert await go(app, pilot, "pagedown", 1) == second
        for key in ("w", "2"):
            await press(pilot, key)
        await go(app, pilot, "pagedown", 2)
        assert await go(app, pilot, "pageup", 1) == second


async def test_keys_that_come_while_a_step_is_being_set_are_handled_after_it(newton: Path, talk: str) -> None:
    app = app_on(newton)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: app.key_order.idle)
        app.play_lecture(talk, number=0)
        await press(pilot, "right_square_bracket")  # the step is not there yet
        await arrive(app, pilot, 1)


async def test_a_console_that_was_killed_goes_on_at_its_step(newton: Path, talk: str) -> None:
    app = app_on(newton)
    async with app.run_test(size=(120, 40)) as pilot:
        await begin(app, pilot, talk)
        second = await go(app, pilot, "pagedown", 1)
    app = app_on(newton)  # nothing was said to the first one: its state is on the disk after each step
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: app.key_order.idle)
        app.play_lecture(talk)
        await settle(pilot, lambda: "going on here" in text_of(app))
        assert body(await arrive(app, pilot, 1)) == body(second)
        await go(app, pilot, "pageup", 0)
        assert await go(app, pilot, "pagedown", 1) == second
        await go(app, pilot, "pagedown", 2)
    assert read_progress(load_lecture(talk, screen_names())) == 0  # at its end it begins anew


@pytest.mark.parametrize("size", SIZES)
async def test_leaving_a_lecture_gives_all_keys_and_lines_back(newton: Path, talk: str, size: tuple[int, int]) -> None:
    app = app_on(newton)
    async with app.run_test(size=size) as pilot:
        await begin(app, pilot, talk)
        await press(pilot, "ctrl+l")
        await settle(pilot, lambda: not app.screen.query(LectureStrip))
        assert app.lecture is None
        await press(pilot, "1")
        await settle(pilot, lambda: isinstance(app.screen, LabScreen) and app.screen.loaded)
        rows = app.screen.query_one("#catalogue", Rows)
        first = rows.key
        await press(pilot, "pagedown")
        assert rows.key != first
        assert "The tangent" not in text_of(app)


async def test_a_missing_run_is_said_with_the_command_and_the_lecture_goes_on(tmp_path: Path, talk: str) -> None:
    app = app_on(tmp_path / "runs")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: app.key_order.idle)
        app.play_lecture(talk, number=0)
        await settle(pilot, lambda: f"txlab lecture {talk} --prepare trains it" in " ".join(text_of(app).split()))
        await press(pilot, "pagedown")
        await settle(pilot, lambda: player_of(app).number == 1)


async def test_a_mistake_in_a_lecture_is_a_sentence_in_the_console(tmp_path: Path, talk: str) -> None:
    Path(talk).write_text(TALK.replace('screen = "train"', 'screen = "trian"'))
    app = app_on(tmp_path / "runs")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: app.key_order.idle)
        app.play_lecture(talk)
        await settle(pilot, lambda: any("nearest: train" in said.message for said in app._notifications))
        assert app.lecture is None


# What is done becomes a lecture.


async def test_what_is_done_becomes_a_lecture_that_gives_the_same_screens(newton: Path, tmp_path: Path) -> None:
    file = tmp_path / "done.toml"
    seen = []

    async def end_step(pilot: Pilot[None], sentence: str) -> None:
        seen.append(body(text_of(pilot.app)))
        await press(pilot, "pagedown")
        await press(pilot, *("space" if letter == " " else letter for letter in sentence), "enter")
        await settle(pilot, lambda: len(pilot.app.screen_stack) == 1)

    app = app_on(newton)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: app.key_order.idle)
        app.record_lecture(file)
        await press(pilot, "tab", "enter")  # the run, which opens its screen
        await settle(pilot, lambda: app.current_mode == "descent" and app.key_order.idle)
        await press(pilot, "left_curly_bracket", "right_square_bracket", "right_square_bracket")
        await settle(pilot)
        await end_step(pilot, "the second step")
        await press(pilot, "right_square_bracket")
        await settle(pilot)
        await end_step(pilot, "and the third")
        await press(pilot, "colon", *"train", "enter")  # by the palette
        await settle(pilot, lambda: app.current_mode == "train" and app.key_order.idle)
        await settle(pilot)
        await end_step(pilot, "its curve")
        await press(pilot, "ctrl+l")
        assert app.lecture is None

    lecture = load_lecture(str(file), screen_names())
    assert [(step.screen, step.keys) for step in lecture.steps] == [
        ("descent", ["{", "] 2"]),
        ("", ["]"]),
        ("train", []),
    ]
    assert [step.say for step in lecture.steps] == ["the second step", "and the third", "its curve"]
    assert lecture.runs["newton-root"].scenario == "newton-root"

    app = app_on(newton)
    async with app.run_test(size=(120, 40)) as pilot:
        shown = [await begin(app, pilot, str(file))]
        shown += [await go(app, pilot, "pagedown", number) for number in (1, 2)]
    assert [body(each) for each in shown] == seen


def body(text: str) -> str:
    """The screen without its last four lines, the lecture's and the keys, and without the corner."""
    return "\n".join(text.splitlines()[1:-4])


async def test_the_last_recorded_step_can_be_dropped(newton: Path, tmp_path: Path) -> None:
    app = app_on(newton)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: app.key_order.idle)
        app.record_lecture(tmp_path / "done.toml")
        recorder = app.lecture
        assert isinstance(recorder, Recorder)
        await press(pilot, "down", "pagedown", "a", "enter")
        await settle(pilot, lambda: len(recorder.steps) == 1)
        assert recorder.steps[0]["keys"] == ["down"]
        await press(pilot, "pageup")
        await settle(pilot, lambda: not recorder.steps)


# The tour.


async def test_the_first_start_offers_the_tour_and_enter_begins_it(tmp_path: Path) -> None:
    app = app_on(tmp_path / "runs")
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await settle(pilot, lambda: isinstance(app.screen, LabScreen) and app.screen.loaded)
        assert app.screen.query_one("#catalogue", Rows).key == "Start here"
        assert "A tour of ten minutes" in text_of(app)
        await press(pilot, "enter")
        await arrive(app, pilot, 0)
        assert player_of(app).lecture.name == "first-steps"
        app.notify("a message", timeout=1e6)
        await settle(pilot, lambda: app.screen.query("Toast") and app.screen.query_one("Toast").region.height)
        toast, strip = app.screen.query_one("Toast"), app.screen.query_one(LectureStrip)
        assert toast.region.bottom <= strip.region.y  # a message covers no sentence of the lecture
        assert app.screen.query_one("#catalogue", Rows).key == "gpt-copy"


async def test_after_the_first_run_of_the_readme_the_tour_is_still_offered_first(tmp_path: Path) -> None:
    make_run(tmp_path, "gpt-tiny", steps=2)
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: isinstance(app.screen, LabScreen) and app.screen.loaded)
        assert app.screen.query_one("#catalogue", Rows).key == "Start here"


async def test_later_the_catalogue_begins_with_a_language_model(tmp_path: Path) -> None:
    make_run(tmp_path, "one", steps=2)
    make_run(tmp_path, "two", steps=2)
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: isinstance(app.screen, LabScreen) and app.screen.loaded)
        rows = app.screen.query_one("#catalogue", Rows)
        assert rows.selectable()[0] == "Start here"
        assert rows.key == rows.selectable()[1] == "attention-graph"


@pytest.mark.evidence
@pytest.mark.parametrize("size", SIZES)
async def test_the_tour_is_gone_through_by_the_keys_that_it_asks_for(tmp_path: Path, size: tuple[int, int]) -> None:
    app = app_on(tmp_path / "runs")
    async with app.run_test(size=size) as pilot:
        await settle(pilot, lambda: isinstance(app.screen, LabScreen) and app.screen.loaded)
        await press(pilot, "enter")
        await arrive(app, pilot, 0)
        player = player_of(app)
        steps = player.lecture.steps
        player.lecture = replace(player.lecture, contents=lowered(player.lecture, "train.steps=400"))
        modes = []
        for number, step in enumerate(steps[:-1]):
            if step.title == "Watch it learn to copy":  # a frame and a checkpoint are there
                await settle(pilot, lambda: any((run_of(app) / "checkpoints").glob("*")))
            key = {"-": "minus"}.get(step.press, step.press)
            await go(app, pilot, key, number + 1)
            modes.append(app.current_mode)
        assert modes == ["train", "train", "attention", "attention", "train", "train"]
        assert len(app.screen_stack) == 2  # the answer to the last question
        run = run_of(app)
        rows = (run / "events.jsonl").read_text()
        assert re.search(r'"event":"control".*"lr"', rows)
        await press(pilot, "escape", "ctrl+l", "x", "y")
        # On a slow machine it may have come to its end before.
        await settle(pilot, lambda: re.search('"status": "(stopped|done)"', (run / "run.json").read_text()))


def lowered(lecture: Lecture, *settings: str) -> object:
    """The contents of a lecture whose runs have other settings, as far as their kinds have them."""
    return lecture.contents.model_copy(
        update={
            "run": [each.model_copy(update={"set": [*each.set, *allowed(each.scenario, each.set, settings)]})
                    for each in lecture.contents.run]
        }
    )  # fmt: skip


def allowed(scenario: str, own: list[str], settings: tuple[str, ...]) -> list[str]:
    from txlab.errors import LabError

    kept: list[str] = []
    for setting in settings:
        try:
            load_scenario(scenario, [*own, *kept, setting])
        except LabError:
            continue
        kept.append(setting)
    return kept


TINY = (
    *("train.steps=24", "train.epochs=1", "predict.episodes=40"),
    *("record.frame_every=8", "record.evaluate_every=8", "record.checkpoint_every=8"),
    *("train.batch=8", "train.validation_batches=1", "model.width=48", "descent.steps=60"),
    *("control.episodes=48", "demonstrations.batch=4", "rankings.answers=3", "rankings.batch=2"),
    *("demonstrations.steps=8", "demonstrations.count=64", "rankings.steps=4", "rankings.settling=4"),
    *("policy.steps=3", "policy.batch=8", "task.tokens=12", "probe.held_out=4", "probe.episodes=2"),
)
"""Settings that make the runs of lectures short, each where a kind has it."""


@pytest.fixture(scope="session")
def lecture_runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Lecture], Path]:
    """Prepares the runs of a lecture, each once, in one folder of runs."""
    root = tmp_path_factory.mktemp("lectures")
    done: set[tuple[str, ...]] = set()

    def prepare_runs(lecture: Lecture) -> Path:
        for run in lecture.contents.run:
            if (what := (run.scenario, *run.set)) not in done:
                done.add(what)
                name = f"lecture-{sha256(repr(what).encode()).hexdigest()}"
                (made,) = made_once(name, partial(compute, run.scenario, run.set)).iterdir()
                shutil.copytree(made, root / f"{made.name}-{len(done)}")  # others may have begun in the same second
        return root

    return prepare_runs


def compute(scenario: str, settings: list[str], root: Path) -> None:
    info = execute(prepare(load_scenario(scenario, settings), root=root))
    assert info.status == "done", (scenario, settings, info.reason)


@pytest.mark.evidence
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", [name for name in shipped_lectures() if name != "first-steps"])
async def test_a_lecture_forward_back_and_forward_again_gives_equal_screens(
    lecture_runs: Callable[[Lecture], Path], name: str, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = load_lecture(name, screen_names())
    short = replace(whole, contents=lowered(whole, *TINY))
    monkeypatch.setattr("txlab.runs.lecture.load_lecture", lambda name, screens: short)
    last = len(short.steps) - 1
    app = app_on(lecture_runs(short))
    async with app.run_test(size=size) as pilot:
        forward = [await begin(app, pilot, name)]
        forward += [await go(app, pilot, "pagedown", number) for number in range(1, last + 1)]
        back = [await go(app, pilot, "pageup", number) for number in range(last - 1, -1, -1)]
        again = [await go(app, pilot, "pagedown", number) for number in range(1, last + 1)]
        assert app.complaint == ""
    for number, (step, shown) in enumerate(zip(short.steps, forward, strict=True)):
        assert f"{number + 1} of {last + 1}" in shown
        assert step.say.split()[-1] in shown, f"step {number + 1} does not fit"
    for number in range(last):
        assert back[last - 1 - number] == forward[number], f"step {number + 1}, back"
        assert again[number] == forward[number + 1], f"step {number + 2}, again"
