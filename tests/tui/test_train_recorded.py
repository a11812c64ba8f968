"""Train with the loop of another program: its keys work if it polls, and its pictures and alerts are shown."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from picture import text_of
from recorded import app_on, settle, still_open

import txlab
from txlab.drawing.formatting import count
from txlab.runs.reader import RunReader
from txlab.runs.recording import Recording
from txlab.runs.summary import summary_of
from txlab.tui.run_pictures import pictures_of
from txlab.tui.screens.lab.runs import run_lines
from txlab.tui.screens.train.screen import TrainScreen


def train(app: Any) -> TrainScreen:
    screen = app.screen_stack[0]
    assert isinstance(screen, TrainScreen)
    return screen


def ready(app: Any) -> Any:
    return lambda: isinstance(app.screen_stack[0], TrainScreen) and train(app).snap is not None


def polled(root: Path, at: dict[str, float]) -> Recording:
    """A run whose loop polls, in a thread, until it is asked to stop."""
    run = txlab.record("mine", root=root)
    still_open.append(run)
    run.adjustable("lr", lambda: at["lr"], 1e-6, 1.0, apply=lambda value: at.update(lr=value))

    def go() -> None:
        step = 1
        while run.poll(step):
            run.log(step, loss=1 / step, lr=at["lr"])
            at["step"] = step
            step += 1
            time.sleep(0.005)
        run.close()

    threading.Thread(target=go, daemon=True).start()
    return run


async def test_the_keys_of_train_steer_a_loop_that_polls(tmp_path: Path) -> None:
    at = {"lr": 0.1, "step": 0}
    run = polled(tmp_path, at)
    app = app_on(tmp_path, run.path)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, ready(app))
        await settle(pilot, lambda: "- + lr" in text_of(app))
        assert "r resume" not in text_of(app)
        await pilot.press("space")
        await settle(pilot, lambda: "paused: space continues" in text_of(app))
        before = at["step"]
        await pilot.press("full_stop")
        await settle(pilot, lambda: at["step"] == before + 1)
        await pilot.press("minus")
        await settle(pilot, lambda: at["lr"] == 0.08)
        await pilot.press("space")
        await settle(pilot, lambda: at["step"] > before + 3)
        await pilot.press("x")
        await settle(pilot, lambda: "Its loop is asked to end." in text_of(app))
        await pilot.press("enter")
        await settle(pilot, lambda: not run.open)
        await settle(pilot, lambda: "stopped" in text_of(app).splitlines()[2])


def picturesque(root: Path) -> Recording:
    run = txlab.record("mine", root=root)
    rng = np.random.default_rng(0)
    for step in (10, 20, 30):
        run.log(step, loss=1.0)
        run.histogram(step, "weights", rng.standard_normal(1000) + step)
        run.image(step, "[b]picture", np.full((6, 8, 3), (250, step, 0), np.uint8))
        run.sample(step, "The ", "cat sat")
    run.alert("look at this", "it is odd", "error")
    run.close()
    return run


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_v_goes_through_images_and_histograms_and_back(tmp_path: Path, size: tuple[int, int]) -> None:
    run = picturesque(tmp_path)
    app = app_on(tmp_path, run.path)
    async with app.run_test(size=size) as pilot:
        await settle(pilot, ready(app))
        await settle(pilot, lambda: "! 1 alert" in text_of(app) and "! look at this: it is odd" in text_of(app))
        if size[0] == 80:
            await pilot.press("v")
        await settle(pilot, lambda: "sample at 30" in text_of(app))
        await pilot.press("v")
        await settle(pilot, lambda: f"weights  at 30, {count(1000)} values" in text_of(app))
        await settle(pilot, lambda: "█" in text_of(app))
        await pilot.press("v")
        await settle(pilot, lambda: "[b]picture  at 30, 8 × 6" in text_of(app))
        await settle(pilot, lambda: "▀▀▀▀" in text_of(app))
        await pilot.press("left_square_bracket")
        await settle(pilot, lambda: "[b]picture  at 20" in text_of(app))
        await pilot.press("right_curly_bracket", "v")
        await settle(pilot, lambda: ("sample at 30" in text_of(app)) == (size[0] == 120))


def test_a_list_of_runs_has_a_sign_for_alerts(tmp_path: Path) -> None:
    run = picturesque(tmp_path)
    reader = RunReader(run.path, light=True)
    reader.poll()
    first, _ = run_lines(run.path, summary_of(reader), 40, False, False, False)
    assert (" !1", "error") in first
    assert sum(len(text) for text, _ in first) <= 40


def test_pictures_that_do_not_fit_together_are_left_out(tmp_path: Path) -> None:
    with txlab.record("mine", root=tmp_path) as run:
        run.frame(
            1,
            {
                "image/a": np.zeros((2, 2), np.float32),
                "image/b": np.zeros((2, 2, 2), np.uint8),
                "histogram/c": np.ones(3),
            },
            facts={"image": 7, "histogram": {"c": [1, "x", None]}},
        )
        run.frame(2, {"histogram/d": np.array([np.nan, 1.0])}, facts={"histogram": {"d": [0, 1, 0]}})
    frames = RunReader(run.path).frames
    frames.refresh()
    for name in ("image/a", "image/b", "histogram/c"):
        found = pictures_of(frames, None, name)
        assert (found.image, found.histograms) == (None, ())
        assert len(found.names) == 4
    assert pictures_of(frames, None, "histogram/d").histograms[0].counts.tolist() == [0, 1]
    assert pictures_of(frames, 1, "histogram/d").name == ""
