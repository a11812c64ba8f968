"""Five thousand random keys and clicks over every screen at changing sizes: nothing may raise or get stuck.

Side effects are contained: starting processes does nothing, deleting stays inside a temporary folder, pictures are
written into it. A failure names its seed; the events are the same every time. Twenty thousand events with the mouse
(moves, drags, releases, the wheel), on a live run and at sizes from 8 × 3 to 300 × 100, take ten minutes:

    TXLAB_MONKEY=20000 python -m pytest tests/tui/test_monkey.py -k mouse
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from play_screen import opened
from recorded import HOSTILE, app_on, append_rows, leave_dialogs, make_run, settle
from test_attention_bench import tasks_of
from textual import events
from textual.drivers.headless_driver import HeadlessDriver
from textual.geometry import Size

from txlab.tui.app import TxlabApp
from txlab.tui.screens.attention.bench import Task
from txlab.tui.screens.attention.screen import AttentionScreen
from txlab.tui.screens.play.lesson_dialog import Lesson

pytestmark = pytest.mark.evidence

EVENTS = 5000
BATCH = 50  # events between two pauses, so that they queue up as with fast typing
SIZES = [(120, 40), (80, 24), (99, 30), (59, 19), (40, 12), (20, 5), (200, 60), (30, 50), (160, 10)]
NAMED = [
    "up", "down", "left", "right", "pageup", "pagedown", "home",
    "end", "tab", "shift+tab", "enter", "escape", "space", "backspace",
    "delete", "f1", "f3", "f4", "f5", "left_square_bracket", "right_square_bracket",
    "left_curly_bracket", "right_curly_bracket", "full_stop", "comma", "colon", "slash", "question_mark",
    "plus", "minus", "equals_sign", "less_than_sign", "greater_than_sign", "shift+left", "shift+right",
    "ctrl+p", "f2", "shift+up", "shift+down", "ctrl+z",
]  # fmt: skip
PRINTED = {
    "left_square_bracket": "[", "right_square_bracket": "]", "left_curly_bracket": "{", "right_curly_bracket": "}",
    "full_stop": ".", "comma": ",", "colon": ":", "slash": "/", "question_mark": "?", "plus": "+", "minus": "-",
    "equals_sign": "=", "less_than_sign": "<", "greater_than_sign": ">", "space": " ",
}  # fmt: skip
MOUSE_EVENTS = int(os.environ.get("TXLAB_MONKEY", "400"))
MOUSE_SEEDS = (11, 12)
BENCH_EVENTS = 1500
BENCH_KEYS = [
    *"hjklhjklxxmmbpeEtcvvaifnog0w", "plus", "minus", "delete", "up", "down", "left", "right", "home", "end", "enter",
    "escape", "escape", "tab", "left_square_bracket", "right_square_bracket", "left_curly_bracket",
]  # fmt: skip
LETTERS = "abcdefghijklmnoprstuvwxyzLZFHMX01234568"


class Caged(TxlabApp):
    """The app, except that it never exits."""

    def exit(self, *arguments: object, **named: object) -> None:
        pass

    async def action_quit(self) -> None:
        pass


def key_event(choice: random.Random) -> events.Key:
    if choice.random() < 0.45:
        name = choice.choice(NAMED)
        return events.Key(name, PRINTED.get(name))
    letter = choice.choice(LETTERS)
    return events.Key(letter, letter)


@pytest.mark.parametrize("seed", [1, 2])
async def test_random_keys_and_clicks_break_nothing(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("txlab.runs.process.start_detached", lambda *_, **__: 1)
    root = tmp_path / "runs"
    for name in ("one", "two", "three"):
        make_run(root, name, steps=30)
    make_run(root, "failed", status="failed", text=HOSTILE)
    alive = make_run(root, "alive", status="open", text=HOSTILE)
    template = app_on(root)
    choice = random.Random(seed)
    app = Caged(run=alive, root=root, settings=template.settings)
    step = 40
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        for done in range(0, EVENTS // 2, BATCH):
            for _ in range(BATCH):
                if choice.random() < 0.12:
                    width, height = app.size
                    x, y = choice.randrange(width), choice.randrange(height)
                    for kind in (events.MouseDown, events.MouseUp, events.Click):
                        app.screen.post_message(kind(None, x, y, 0, 0, 1, False, False, False, x, y))  # type: ignore
                else:
                    app.post_message(key_event(choice))
            await pilot.pause()
            if done % (5 * BATCH) == 0:
                await pilot.resize_terminal(*choice.choice(SIZES))
            if done % (10 * BATCH) == 0:
                step += 1
                append_rows(alive, {"event": "metrics", "step": step, "values": {"loss": choice.choice([1.0, 1e300])}})
            if done % (20 * BATCH) == 0:  # out of whatever dialog it is lost in
                await pilot.press("escape", "escape", choice.choice("123468"))
            assert app._exception is None, f"seed {seed}, event {done}: {app._exception!r}"
        assert app.is_running
        for _ in range(100):  # what the last keys asked for may still come, and open another dialog or screen
            await pilot.press("escape")
            if len(app.screen_stack) == 1:
                await pilot.press("f3")
                await pilot.pause()
                if app.current_mode == "train":
                    break
        assert (len(app.screen_stack), app.current_mode) == (1, "train"), f"seed {seed}: stuck on {app.screen!r}"


class Mouse:
    """A mouse: it moves, drags, clicks, turns its wheel, and releases buttons that were never pressed."""

    def __init__(self, choice: random.Random, app: TxlabApp) -> None:
        self.choice, self.app = choice, app
        self.x = self.y = self.button = 0

    def event(self) -> events.MouseEvent:
        choice, (width, height) = self.choice, self.app.size
        kind = choice.choices(
            [events.MouseMove, events.MouseDown, events.MouseUp, events.MouseScrollDown, events.MouseScrollUp],
            [8, 3, 3, 1, 1],
        )[0]
        if choice.random() < (0.2 if kind is events.MouseUp else 0.7):  # a release is often a click
            far = choice.random() < 0.5  # and what comes may be of the size that the terminal had before
            self.x = choice.randrange(320 if far and choice.random() < 0.1 else max(1, width))
            self.y = choice.randrange(110 if far and choice.random() < 0.1 else max(1, height))
        if kind is events.MouseDown:
            self.button = choice.choice([1, 1, 1, 2, 3])
        button = 0 if issubclass(kind, (events.MouseScrollDown, events.MouseScrollUp)) else self.button
        if kind is events.MouseUp:
            self.button = 0
        held = [choice.random() < 0.1 for _ in range(3)]
        return kind(None, self.x, self.y, 0, 0, button, *held, self.x, self.y)


@pytest.mark.parametrize("seed", MOUSE_SEEDS)
async def test_random_mouse_and_keys_at_any_size_on_a_live_run_break_nothing(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events go through the driver, as a terminal's do; resizes come between a press and its release."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("txlab.runs.process.start_detached", lambda *_, **__: 1)
    root = tmp_path / "runs"
    make_run(root, "one", steps=30)
    alive = make_run(root, "alive", status="open", text=HOSTILE)
    choice = random.Random(seed)
    app = Caged(run=alive, root=root, settings=app_on(root, refresh=5.0).settings)
    step = 40
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        driver = app._driver
        assert isinstance(driver, HeadlessDriver)
        mouse = Mouse(choice, app)
        for done in range(MOUSE_EVENTS // len(MOUSE_SEEDS)):
            chance = choice.random()
            if chance < 0.6:
                driver.process_message(mouse.event())
            elif chance < 0.97:
                driver.process_message(key_event(choice))
            else:
                size = Size(choice.randint(8, 300), choice.randint(3, 100))
                driver._size = size
                driver.process_message(events.Resize(size, size))
            if choice.random() < 0.1:  # otherwise they pile up as they do under a user's hands
                await pilot.pause()
            if done % 20 == 0:
                step += 1
                append_rows(alive, {"event": "metrics", "step": step, "values": {"loss": choice.random()}})
            if done % 150 == 0:  # out of whatever dialog it is lost in
                await pilot.press("escape", "escape", choice.choice("1234678"))
            assert app._exception is None, f"seed {seed}, event {done}: {app._exception!r}"
        await pilot.pause()
        assert app.is_running
        assert app._exception is None
        await leave_dialogs(pilot)


@pytest.mark.parametrize("seed", [3])
async def test_random_keys_on_a_model_break_nothing(
    seed: int, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attention screen with a model open: texts, switches, comparisons and dialogs in any order."""
    monkeypatch.chdir(tmp_path)
    choice = random.Random(seed)
    app = Caged(run=tiny_run, root=tiny_run.parent, settings=app_on(tiny_run.parent).settings)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.press("4")
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, AttentionScreen)
        for done in range(0, BENCH_EVENTS, BATCH):
            if screen.model.wanted is None:
                screen.model.do(Task(str(tiny_run), None, choice.choice(["the cat", "[/x]日本", "a mouse eats th"])))
            for _ in range(BATCH):
                if choice.random() < 0.1:
                    x, y = (choice.randrange(edge) for edge in app.size)
                    for kind in (events.MouseDown, events.MouseUp, events.Click):
                        app.screen.post_message(kind(None, x, y, 0, 0, 1, False, False, False, x, y))  # type: ignore
                else:
                    key = choice.choice(BENCH_KEYS)
                    app.post_message(events.Key(key, PRINTED.get(key, key if len(key) == 1 else None)))
            await pilot.pause()
            if done % (4 * BATCH) == 0:
                await pilot.resize_terminal(*choice.choice(SIZES))
            if done % (6 * BATCH) == 0:
                await pilot.press("escape", "escape", "4")
            assert app._exception is None, f"seed {seed}, event {done}: {app._exception!r}"
        await leave_dialogs(pilot)
        lanes = tasks_of(screen)
        await settle(pilot, lambda: all(lane.idle for lane in lanes))
        assert all(lane.idle for lane in lanes), "a wish was never answered"
        assert app._exception is None


PLAY_EVENTS = 800
PLAY_KEYS = [
    *"uuhnncoolmmvwwaxx0159.", "enter", "enter", "enter", "space", "full_stop", "plus", "minus", "up", "down", "left",
    "right", "tab", "shift+tab", "shift+down", "shift+up", "escape", "escape", "backspace",
]  # fmt: skip


@pytest.mark.parametrize("seed", [4])
async def test_random_keys_at_the_board_break_nothing(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Games, lessons, tournaments and dialogs in any order: every task finishes in the end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("txlab.runs.process.start_detached", lambda *_, **__: 1)
    monkeypatch.setattr("txlab.tui.screens.play.game.ANSWER", 0.01)
    monkeypatch.setattr("txlab.tui.screens.play.ratings.GAMES", 10)
    choice = random.Random(seed)
    app = Caged(root=tmp_path, settings=app_on(tmp_path).settings)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        for done in range(0, PLAY_EVENTS, BATCH):
            screen.lessons.lesson = Lesson(games=300, seed=done)
            for _ in range(BATCH):
                if choice.random() < 0.15:
                    x, y = (choice.randrange(edge) for edge in app.size)
                    for kind in (events.MouseDown, events.MouseUp, events.Click):
                        app.screen.post_message(kind(None, x, y, 0, 0, 1, False, False, False, x, y))  # type: ignore
                else:
                    key = choice.choice(PLAY_KEYS)
                    app.post_message(events.Key(key, PRINTED.get(key, key if len(key) == 1 else None)))
            await pilot.pause(0.05)
            if done % (4 * BATCH) == 0:
                await pilot.resize_terminal(*choice.choice(SIZES))
            if len(app.screen_stack) == 1 and app.screen is not screen:  # a click went elsewhere
                await app.switch_mode("play")
            assert app._exception is None, f"seed {seed}, event {done}: {app._exception!r}"
            position = screen.game.position  # the moves are always those of a game
            assert sum(map(abs, position)) == len(screen.game.playing.moves) <= 9
        await leave_dialogs(pilot)
        lanes = (screen.games.preparing, screen.seats.finding, screen.lessons.session, screen.ratings.rating)
        for _ in range(600):
            if all(lane.idle for lane in lanes):
                break
            screen.action_cancel()
            await pilot.pause(0.05)
        assert all(lane.idle for lane in lanes), "a wish was never answered"
        assert app._exception is None
