"""A frame of a run is one picture, however it was reached: by stepping, by a jump, live, or after opening it again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attention_runs import WORDS, attention_frame
from attention_runs import make_run as attention_run
from picture import cells, strips_of
from recorded import app_on, settle
from textual.pilot import Pilot

import txlab
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario
from txlab.tui.app import TxlabApp
from txlab.tui.playback import Playback
from txlab.tui.widgets.chart import Chart

Rows = list[list[tuple[str, str]]]
SIZES = (9.0, 1.0, 3.0, 1.2, 6.0, 2.0)  # of the numbers in the frames of a run: none is the scale of the one before


def recording(root: Path, kind: str, frames: list[dict[str, Any]]) -> Path:
    """A run of another program's, as if an experiment of ours had recorded these frames."""
    run = txlab.record(kind, root=root, steps=10 * len(frames))
    for place, frame in enumerate(frames):
        run.frame(10 * place, **frame)
    run.close("done")
    info = RunInfo.load(RunDirectory(run.path))
    info.kind = kind
    info.save(RunDirectory(run.path))
    return run.path


def words(root: Path) -> Path:
    """Vectors that turn as a whole between frames, and of which other directions differ most in every frame."""
    rng = np.random.default_rng(5)
    start = rng.standard_normal((40, 6))
    frames = []
    for place in range(6):
        moved = (start + 0.3 * place * rng.standard_normal(start.shape)) * np.roll([6, 5, 1, 1, 1, 1], place)
        v = (moved @ np.linalg.qr(rng.standard_normal((6, 6)))[0]).astype(np.float32)
        tokens = {"words": [f"word{number}" for number in range(40 if place != 2 else 30)]}
        frames.append({"tensors": {"words/v": v[: len(tokens["words"])]}, "tokens": tokens})
    return recording(root, "word-vectors", frames)


def recurrent(root: Path) -> Path:
    rng = np.random.default_rng(5)
    return recording(
        root,
        "recurrent-language-model",
        [
            {
                "tensors": {f"state/{state}": size * rng.uniform(-1, 1, (2, T, 3)) for state in "hc"},
                "tokens": {"probe": [f"t{number}" for number in range(T)]},
                "facts": {"state": ["h", "c"]},
            }
            for size, T in zip(SIZES, (12, 12, 5, 12, 12, 12), strict=True)
        ],
    )


def convolution(root: Path) -> Path:
    rng = np.random.default_rng(5)
    frames = []
    for size, filters in zip(SIZES, (4, 4, 2, 4, 4, 4), strict=True):
        shapes = {"picture": (8, 8), "filter/0": (filters, 1, 3, 3), "bias/0": (filters,), "map/0": (filters, 6, 6)}
        frames.append({"tensors": {name: size * rng.standard_normal(shape) for name, shape in shapes.items()}})
    return recording(root, "convolution", frames)


def attention(root: Path) -> Path:
    return attention_run(
        root, frames=[attention_frame(10 * place, WORDS[:7] if place == 2 else WORDS, seed=place) for place in range(6)]
    )


def performed(scenario: str, *settings: str) -> Callable[[Path], Path]:
    def perform(root: Path) -> Path:
        run = prepare(load_scenario(scenario, list(settings)), out=root / scenario)
        execute(run)
        return run

    return perform


RUNS: dict[str, tuple[str, Callable[[Path], Path], tuple[str, ...]]] = {
    "words": ("words", words, ("slash", *"word35", "enter")),
    "attention": ("attention", attention, ()),
    "recurrent": ("recurrent", recurrent, ("v", *["right"] * 9)),
    "convolution": ("convolution", convolution, ("tab", "tab", "tab")),
    "descent": ("descent", performed("descent", "descent.steps=60", "record.frame_every=10"), ()),
    "planning": ("arena", performed("gridworld"), ()),
    "playground": (
        "playground",
        performed("playground-spiral", "train.steps=60", "data.name=xor", "network.layers=[3]"),
        (),
    ),
}
"""what → screen, run, keys that are pressed first"""


async def quiet(pilot: Pilot[None], app: TxlabApp, panel: Playback, step: int | None) -> None:
    """Wait until the time line is at a step and nothing is read or computed any more."""

    def ready() -> bool:
        busy = any(worker.group != "session" and not worker.is_finished for worker in app.workers)
        drawn = not any(chart.postponed or chart.drawing or chart.again for chart in app.screen.query(Chart))
        read = not (busy or panel.watch_run.reading or panel.watch_run.again)
        return read and drawn and (step is None or panel.timeline.step == step)

    for _ in range(2):  # what has been read may ask for more
        await settle(pilot, ready)


async def opened(pilot: Pilot[None], app: TxlabApp, screen: str, run: Path, keys: tuple[str, ...]) -> Playback:
    app.action_open_screen(screen)
    await settle(pilot, lambda: app.screen.__class__.__name__.lower().startswith(screen))
    app.current_run = run
    panel = app.screen.query_one(Playback)
    await settle(pilot, lambda: len(panel.timeline.steps) > 2 and panel.watch_run.watching)
    await quiet(pilot, app, panel, None)
    await pilot.press(*keys)
    await quiet(pilot, app, panel, None)
    return panel


def picture(app: TxlabApp, panel: Playback) -> Rows:
    """The cells of the screen, but for the time line, which says how the frame was reached."""
    strips = strips_of(app)
    del strips[panel.timeline.region.y]
    return [[(cell.text, str(cell.style)) for cell in cells(strip)] for strip in strips]


def differing(one: Rows, other: Rows) -> list[tuple[int, list[tuple[object, object]]]]:
    """The rows that differ, each with the cells that do."""
    rows = enumerate(zip(one, other, strict=True))
    return [
        (y, [pair for pair in zip(*row, strict=False) if pair[0] != pair[1]]) for y, row in rows if row[0] != row[1]
    ]


@pytest.mark.parametrize("what", RUNS)
async def test_a_frame_is_one_picture_however_it_was_reached(tmp_path: Path, what: str) -> None:
    screen, make, keys = RUNS[what]
    run = make(tmp_path)
    first = app_on(tmp_path)
    async with first.run_test(size=(120, 40)) as pilot:
        panel = await opened(pilot, first, screen, run, keys)
        steps = panel.timeline.steps.tolist()[-6:]
        middle, last = steps[3], steps[-1]
        live = picture(first, panel)
        for step in (steps[4], middle):
            await pilot.press("left_square_bracket")
            await quiet(pilot, first, panel, step)
        backward = picture(first, panel)
        panel.timeline.go(steps[0])
        await quiet(pilot, first, panel, steps[0])
        for step in steps[1:4]:
            await pilot.press("right_square_bracket")
            await quiet(pilot, first, panel, step)
        assert not differing(backward, picture(first, panel)), "forward"
        await pilot.press("right_curly_bracket")
        await quiet(pilot, first, panel, last)
        assert not differing(live, picture(first, panel)), "live again"
    again = app_on(tmp_path)
    async with again.run_test(size=(120, 40)) as pilot:
        panel = await opened(pilot, again, screen, run, keys)
        assert not differing(live, picture(again, panel)), "opened again"
        panel.timeline.go(middle)
        await quiet(pilot, again, panel, middle)
        assert not differing(backward, picture(again, panel)), "a jump"
    assert backward != live
