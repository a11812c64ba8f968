"""The Playground: a network that learns while one looks, and is changed by keys; recorded runs of it."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import recorded
from picture import text_of
from recorded import leave_dialogs, settle
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from txlab.engine.feedforward.graph import read
from txlab.engine.feedforward.plane import FEATURES
from txlab.errors import LabError
from txlab.experiments.kinds.playground.experiment import Playground
from txlab.experiments.protocol import Frame
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario
from txlab.tui.screens.playground.knobs import KNOBS
from txlab.tui.screens.playground.screen import PlaygroundScreen
from txlab.tui.screens.playground.shown import Shown, neighbour

EVENTS = int(os.environ.get("TXLAB_MONKEY", "100"))
SIZES = [(80, 24), (120, 40), (200, 60)]


app_on = partial(recorded.app_on, screen="playground")


async def opened(pilot: Pilot[None]) -> PlaygroundScreen:
    await pilot.pause()
    await pilot.press("9")
    screen = pilot.app.screen
    assert isinstance(screen, PlaygroundScreen)
    await settle(pilot, lambda: screen.shown is not None and screen.session.idle and screen.network.rows)
    return screen


async def press(pilot: Pilot[None], screen: PlaygroundScreen, *keys: str) -> Shown:
    """Press keys, and wait until what they order is on the screen."""
    await pilot.press(*keys)
    await settle(pilot, lambda: screen.session.idle)
    assert screen.shown is not None
    return screen.shown


async def turn(pilot: Pilot[None], screen: PlaygroundScreen, word: str, *keys: str) -> Shown:
    screen.knobs.at = [knob.word for knob in KNOBS].index(word)
    return await press(pilot, screen, *keys)


async def learn(pilot: Pilot[None], screen: PlaygroundScreen, steps: int) -> None:
    def run(experiment: Playground) -> None:
        for _ in range(steps):
            experiment.step()

    screen.session.edit(run)
    await settle(pilot, lambda: screen.session.idle)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ascii", [False, True])
async def test_every_neuron_is_a_picture_at_every_size(size: tuple[int, int], ascii: bool, tmp_path: Path) -> None:
    app = app_on(tmp_path, ascii=ascii)
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot)
        await learn(pilot, screen, 200)
        text = text_of(app)
        assert "spiral   step 200" in text
        assert "train" in text
        assert "8 tanh" in text or size[1] == 24
        assert set(screen.network.plan.places) == {*FEATURES, *(f"h{a}_{b}" for a in (1, 2) for b in range(1, 9))}
        assert not ascii or text.isascii(), {sign for sign in text if not sign.isascii()}
        pictures = [
            tuple(screen.network.rows[screen.network.heads + top]) for top, _ in screen.network.plan.places.values()
        ]
        assert len(set(pictures)) > 5


async def test_it_learns_while_it_is_shown_and_pauses(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await turn(pilot, screen, "speed", *"+++++++")
        await pilot.press("space")
        assert screen.session.experiment is not None
        await settle(pilot, lambda: screen.shown.facts["measured"]["val_accuracy"] >= 0.98)  # type: ignore
        await press(pilot, screen, "space")
        before = screen.session.updates
        shown = await press(pilot, screen, "full_stop")
        assert screen.session.updates == before + 1
        assert shown.frame.step == before + 1
        shown = await press(pilot, screen, "n")
        assert shown.frame.step == 0
        assert len(screen.session.series("loss")) == 1


async def test_a_knob_turned_twice_before_a_picture_moves_two_stops(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        for knob, by, expected in (("noise", 1, 0.1), ("layers", 1, 4), ("width", -1, 6), ("activation", 1, "sigmoid")):
            screen.knobs.at = next(at for at, each in enumerate(KNOBS) if each.word == knob)
            for _ in range(2):  # in one turn of the event loop, so that nothing new is shown between them
                screen.knobs.action_turn(by)
            await settle(pilot, lambda: screen.session.idle)
            shown = screen.shown
            assert shown is not None
            hidden = shown.columns[1:-1]
            found = {"noise": shown.facts["adjusted"]["noise"], "layers": len(hidden), "width": min(map(len, hidden))}
            found |= {"activation": shown.activations[hidden[0][0]]}
            assert found[knob] == expected


async def test_keys_change_the_network_and_the_picture_follows(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        shown = await turn(pilot, screen, "layers", "plus")
        assert [len(column) for column in shown.columns] == [7, 8, 8, 8, 1]
        await press(pilot, screen, "left", "left")  # the second hidden layer
        shown = await turn(pilot, screen, "width", "minus", "minus")
        assert [len(column) for column in shown.columns] == [7, 8, 6, 8, 1]
        shown = await turn(pilot, screen, "activation", "plus")
        assert set(shown.activations.values()) == {"relu", "linear"}
        shown = await turn(pilot, screen, "noise", "plus")
        assert shown.facts["adjusted"]["noise"] == 0.05
        shown = await turn(pilot, screen, "rate", "minus")
        assert shown.facts["adjusted"]["lr"] == 0.02
        shown = await press(pilot, screen, "x")
        assert screen.cursor in shown.off
        assert "switched off" in text_of(app)
        shown = await press(pilot, screen, "x")
        assert screen.cursor not in shown.off
        screen.cursor = "x2"
        shown = await press(pilot, screen, "x")
        assert "x2" in shown.facts["inputs"]
        shown = await press(pilot, screen, "v")
        assert shown.facts["view"] == "pre-activations"
        screen.cursor = "out"
        await press(pilot, screen, "x")
        assert any("cannot be switched off" in str(notice.message) for notice in app._notifications)


async def test_a_weight_is_chosen_with_tab_and_typed(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await press(pilot, screen, "left", "tab")
        name, (source, _) = screen.cursor, screen.shown.incoming(screen.cursor)[1]  # type: ignore[union-attr]
        await pilot.press("e")
        await settle(pilot, lambda: len(app.screen_stack) == 2)
        box = app.screen.query_one(Input)
        box.value = "much"
        await pilot.pause()
        assert "not a number" in text_of(app)
        box.value = "-2.5"
        shown = await press(pilot, screen, "enter")
        assert dict(shown.incoming(name))[source] == -2.5
        assert "−2.5" in text_of(app)


async def test_points_are_put_into_the_plane_by_hand(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        shown = await press(pilot, screen, "a", "up", "right", "enter", "m", "down", "down", "enter")
        added = np.asarray(shown.frame.tensors["train"])[200:]
        assert added[:, 2].tolist() == [1.0, -1.0]
        assert added[0, 1] > added[1, 1]
        shown = await press(pilot, screen, "d", "escape")
        assert np.asarray(shown.frame.tensors["train"])[200:, 2].tolist() == [1.0]
        assert not screen.adding
        before = screen.cursor
        await press(pilot, screen, "left")  # the arrows move among the neurons again
        assert screen.cursor != before


async def test_the_network_is_edited_as_text(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await pilot.press("t")
        await settle(pilot, lambda: len(app.screen_stack) == 2)
        area = app.screen.query_one(TextArea)
        assert len(read(area.text, list(FEATURES)).neurons) == 17
        area.text = "a = tanh(b)\nb = sin(a)"
        await settle(pilot, lambda: "a ← b ← a is a cycle" in text_of(app))
        await pilot.press("ctrl+s")
        assert len(app.screen_stack) == 2  # it stays until it can be taken
        area.text = "a = sin(2*x)\nb = relu(a - y)\nout = b + 3*a + _*xy"
        await pilot.pause()
        shown = await press(pilot, screen, "ctrl+s")
        assert shown.columns[1:] == (("a",), ("b",), ("out",))
        assert dict(shown.incoming("out")).keys() == {"b", "a", "xy"}
        await turn(pilot, screen, "width", "plus")
        assert any("changed by its description" in str(notice.message) for notice in app._notifications)


async def test_why_is_the_sum_of_the_neuron_with_its_values(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await press(pilot, screen, "left", "w")
        await settle(pilot, lambda: "pre-activation" in text_of(app))
        assert f"why does {screen.cursor} answer" in text_of(app)
        assert "h1_8" in text_of(app)
        await pilot.press("q")


async def test_another_set_of_points_is_chosen(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await pilot.press("o")
        await settle(pilot, lambda: "six cones" in text_of(app))
        await pilot.press(*"bumps")
        shown = await press(pilot, screen, "enter")
        assert shown.facts["data"] == "bumps"
        assert "right" not in text_of(app).splitlines()[2]  # numbers are not right or wrong


KEYS = [
    *"hjkhjkxxppPvzaamdwnt", "l", "up", "down", "left", "right", "tab", "shift+tab", "plus", "plus", "minus", "space",
    "full_stop", "escape", "escape", "enter", "left_square_bracket", "right_square_bracket", "e", "o", "ctrl+s",
]  # fmt: skip


@pytest.mark.evidence
@pytest.mark.parametrize("seed", [1, 2])
async def test_random_keys_and_clicks_at_any_size_break_nothing(seed: int, tmp_path: Path) -> None:
    choice, app = random.Random(seed), app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        for done in range(EVENTS):
            if choice.random() < 0.1:
                x, y = (choice.randrange(edge) for edge in app.size)
                app.screen.post_message(events.Click(None, x, y, 0, 0, 1, False, False, False, x, y))
            await pilot.press(choice.choice(KEYS))
            if done % 40 == 39:
                await pilot.resize_terminal(*choice.choice([*SIZES, (59, 19), (40, 12), (20, 5), (8, 3)]))
            if app.current_mode != "playground":
                await pilot.press("escape", "9")
            assert app._exception is None, f"seed {seed}, event {done}: {app._exception!r}"
        await leave_dialogs(pilot)
        await app.switch_mode("playground")
        screen.session.pause()
        await settle(pilot, lambda: screen.session.idle)
        assert app._exception is None


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = ["train.steps=30", "data.name=xor", "network.layers=[3]", "train.learning_rate=0.02"]
    path = prepare(load_scenario("playground-spiral", settings), root=tmp_path_factory.mktemp("runs"))
    execute(path)
    return path


async def test_a_recorded_run_is_looked_at_and_gone_on_with_by_hand(run: Path) -> None:
    app = app_on(run.parent, run)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.press("9")
        screen: Any = app.screen
        await settle(pilot, lambda: not screen.playback.can_edit and screen.shown.frame.step == 30)
        assert [len(column) for column in screen.shown.columns] == [7, 3, 1]
        await pilot.press("left_square_bracket")
        await settle(pilot, lambda: screen.shown.frame.step == 20)
        wanted = screen.shown.frame.texts["network"]
        await pilot.press("x")  # nothing is changed in a recording
        assert any("recorded run" in str(notice.message) for notice in app._notifications)
        await pilot.press("l")
        await settle(pilot, lambda: screen.playback.can_edit and screen.session.idle)
        frame = screen.shown.frame
        assert (frame.step, frame.texts["network"], frame.facts["data"]) == (20, wanted, "xor")
        assert frame.facts["adjusted"]["lr"] == 0.02
        shown = await press(pilot, screen, "full_stop")
        assert shown.frame.step == 21


@pytest.mark.parametrize(
    "spoil",
    [
        lambda frame: replace(frame, facts={}),
        lambda frame: replace(frame, facts={**frame.facts, "inputs": ["x"]}),
        lambda frame: replace(frame, facts={**frame.facts, "inputs": ["[/x]", "y", "sin_x", "sin_y"]}),
        lambda frame: replace(frame, facts={**frame.facts, "neurons": []}),
        lambda frame: replace(frame, facts={**frame.facts, "neurons": [["a", "tanh", 10**9]]}),
        lambda frame: replace(frame, facts={**frame.facts, "off": 3}),
        lambda frame: replace(frame, tensors={**frame.tensors, "plane": np.zeros((3, 4, 5))}),
        lambda frame: replace(frame, tensors={**frame.tensors, "train": np.zeros(7)}),
        lambda frame: replace(frame, tensors={}),
    ],
)
def test_a_frame_that_does_not_fit_together_is_refused(spoil: Any) -> None:
    good = Playground(load_scenario("playground-spiral", ["compute.dtype=float32"]).scenario).frame()  # type: ignore
    Shown.of(good)
    with pytest.raises(LabError):
        Shown.of(spoil(good))
    assert isinstance(good, Frame)


def test_the_cursor_goes_along_columns_and_across_them() -> None:
    columns = (("x", "y"), ("a", "b", "c", "d"), ("out",))
    assert neighbour(columns, "a", 1, 0) == "b"
    assert neighbour(columns, "d", 1, 0) == "d"
    assert neighbour(columns, "d", 0, -1) == "y"
    assert neighbour(columns, "out", 0, -1) == "c"
    assert neighbour(columns, "out", 0, 1) == "out"


async def test_the_chosen_parameter_is_whole_in_a_narrow_terminal(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(60, 20)) as pilot:
        screen = await opened(pilot)
        await settle(pilot, lambda: "layers 2" in text_of(app))
        assert "wi" not in text_of(app).partition("layers 2")[2].split("\n")[0]
        await pilot.press("P", "P")
        await settle(pilot, lambda: "width 8" in text_of(app))
        assert "speed" not in text_of(app).partition("width 8")[0].splitlines()[-1]
        assert "train" in text_of(app)
        assert "test" in str(screen.answer.render_line(0).text)
