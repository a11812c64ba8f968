"""Frames with nothing in them to draw (constant, not finite, huge, empty) end no screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from picture import text_of
from recorded import app_on, settle

import txlab
from txlab.experiments.protocol import Frame
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.process import execute, prepare
from txlab.runs.reader import RunReader
from txlab.runs.scenario import load_scenario
from txlab.tui.playback import Playback
from txlab.tui.screens.train.screen import TrainScreen

pytestmark = pytest.mark.evidence

Values = Callable[[np.ndarray], np.ndarray]
SPOILT: dict[str, Values] = {
    "zero": np.zeros_like,
    "constant": np.ones_like,
    "NaN": lambda values: np.full_like(values, np.nan),
    "infinite": lambda values: np.where(np.arange(values.size).reshape(values.shape) % 2, np.inf, -np.inf),
    "huge": lambda values: values * 1e300,
    "tiny": lambda values: values * 1e-320,
    "empty": lambda values: np.atleast_1d(values)[:0],
}
FRAMES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "words": (
        "words",
        "word-vectors",
        {
            "tensors": {name: np.arange(24.0).reshape(6, 4) % 7 for name in ("words/v", "words/u")},
            "tokens": {"words": list("abcdef")},
        },
    ),
    "attention": (
        "attention",
        "language-model",
        {
            "tensors": {
                "attention/pattern": np.tril(np.ones((2, 2, 4, 4))),
                "attention/previous": np.ones((2, 2)),
                "next/probability": np.ones((4, 2)) / 2,
            },
            "tokens": {"probe": list("abcd"), "next": list("ab") * 4},
        },
    ),
    "recurrent": (
        "recurrent",
        "recurrent-language-model",
        {
            "tensors": {name: np.arange(24.0).reshape(2, 4, 3) / 24 for name in ("state/h", "state/c", "gate/f")},
            "tokens": {"probe": list("abcd")},
            "facts": {"state": ["h", "c"]},
        },
    ),
    "convolution": (
        "convolution",
        "convolution",
        {
            "tensors": {
                "picture": np.arange(64.0).reshape(8, 8) / 64,
                "filter/0": np.arange(18.0).reshape(2, 1, 3, 3) / 18,
                "bias/0": np.ones(2),
                "map/0": np.arange(72.0).reshape(2, 6, 6) / 72,
                "class/probability": np.ones(3) / 3,
            },
            "tokens": {"class": list("abc")},
        },
    ),
    "gradients": (
        "recurrent",
        "recurrent-memory",
        {"tensors": {"gradient/lstm": np.exp(-np.arange(20.0)), "gradient/rnn": np.exp(-np.arange(20.0))}},
    ),
}
KEYS = ("v", "down", "right", "tab", "t", "plus", "minus", "w", "escape", "left_curly_bracket", "v", "m", "f", "escape")


def record(root: Path, kind: str, frames: list[dict[str, Any]]) -> Path:
    run = txlab.record(kind, root=root, steps=len(frames))
    for step, frame in enumerate(frames):
        run.frame(step, **frame)
    run.close("done")
    info = RunInfo.load(RunDirectory(run.path))
    info.kind = kind
    info.save(RunDirectory(run.path))
    return run.path


async def look(run: Path, screen: str, keys: tuple[str, ...]) -> str:
    """The text of the screen after these keys, which have not ended it."""
    app = app_on(run.parent, run)
    async with app.run_test(size=(100, 30)) as pilot:
        app.action_open_screen(screen)
        await settle(pilot, lambda: app.screen.__class__.__name__.lower().startswith(screen))
        panel = app.screen.query_one(Playback)
        await settle(pilot, lambda: len(panel.timeline.steps) or not panel.watch_run.watching)
        for key in keys:
            await pilot.press(key)
            assert app._exception is None
        await settle(pilot, lambda: not panel.watch_run.reading)
        assert app._exception is None
        return text_of(app)


@pytest.mark.parametrize("how", SPOILT)
@pytest.mark.parametrize("what", FRAMES)
async def test_a_recorded_frame_of_spoilt_numbers_is_shown_or_refused(tmp_path: Path, what: str, how: str) -> None:
    screen, kind, frame = FRAMES[what]
    with np.errstate(all="ignore"):
        tensors = {name: np.asarray(SPOILT[how](values), np.float32) for name, values in frame["tensors"].items()}
    run = record(tmp_path, kind, [frame, {**frame, "tensors": tensors}])
    assert await look(run, screen, KEYS)


@pytest.mark.parametrize("scenario", ["gridworld", "descent", "playground-spiral"])
async def test_a_frame_of_a_run_whose_numbers_are_spoilt_is_shown_or_refused(tmp_path: Path, scenario: str) -> None:
    few = {"descent": ["descent.steps=20"], "playground-spiral": ["train.steps=10", "network.layers=[3]"]}
    made = prepare(load_scenario(scenario, few.get(scenario, [])), out=tmp_path / "made")
    execute(made)
    reader = RunReader(made)
    last: Frame = reader.frames.read(int(reader.frames.steps[-1]))
    run = txlab.record("spoilt", root=tmp_path, steps=len(SPOILT) + 1)
    for step, spoil in enumerate([lambda values: values, *SPOILT.values()]):
        with np.errstate(all="ignore"):
            tensors = {
                name: spoil(np.asarray(values, np.float64)) if np.asarray(values).dtype.kind == "f" else values
                for name, values in last.tensors.items()
            }
        run.frame(step, tensors, tokens=last.tokens, texts=last.texts, facts=last.facts)
    run.close("done")
    info, kind = RunInfo.load(RunDirectory(run.path)), RunInfo.load(RunDirectory(made)).kind
    info.kind = kind
    info.save(RunDirectory(run.path))
    (run.path / "scenario.toml").write_bytes((made / "scenario.toml").read_bytes())
    screen = {"gridworld": "arena", "descent": "descent"}.get(scenario, "playground")
    keys = ("v", "p", "down", "left_square_bracket") * (len(SPOILT) + 1)
    assert await look(run.path, screen, keys)


@pytest.mark.parametrize("how", [*SPOILT, "one point"])
async def test_metrics_of_spoilt_numbers_are_curves_or_say_that_there_are_none(tmp_path: Path, how: str) -> None:
    run = txlab.record("curves", root=tmp_path, steps=5)
    with np.errstate(all="ignore"):
        values = np.ones(1) if how == "one point" else SPOILT[how](np.arange(1.0, 6.0))
    for step, value in enumerate(values.tolist()):
        run.log(step, loss=value, lr=value, grad_norm=value)
    run.close("done")
    app = app_on(tmp_path, run.path)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("3")
        await settle(pilot, lambda: isinstance(app.screen, TrainScreen))
        await pilot.press("l", "left", "right", "plus", "minus", "w", "escape", "tab", "l", "z", "escape")
        await settle(pilot)
        assert app._exception is None
