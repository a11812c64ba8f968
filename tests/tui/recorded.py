"""Small runs for the screens to look at, made by the recorder that everybody uses, and an app that looks at them."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import pilots  # noqa: F401 - how a pilot waits
from textual.pilot import Pilot
from waiting import LONGEST

import txlab
from txlab.engine.explain import Explanation
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.events import encode_row
from txlab.runs.recording import Recording
from txlab.tui.app import TxlabApp
from txlab.tui.settings import Settings
from txlab.tui.widgets.why import WhyPanel, WhyScreen

HOSTILE = "[/x][bold]\x1b[31m\x1b]0;owned\x07‮日本é́\x00\x9b2J$markup"
"""Markup, escape sequences, an OSC title, a bidi override, wide and combining characters, NUL, a C1 control."""


still_open: list[Recording] = []
"""Runs that a test leaves open; they are closed after it (conftest.py), or their heartbeats would beat to the end."""


def make_run(root: Path, name: str = "gpt-small", steps: int = 40, status: str = "done", text: str = "a cat") -> Path:
    """A run of `steps` steps with validation, samples, frames, notes; closed with `status`."""
    run = txlab.record(name, config={"lr": 1e-3}, root=root, title=f"about {name}", steps=steps)
    rng = np.random.default_rng(7)
    for step in range(1, steps + 1):
        loss = 2 + 3 * math.exp(-step / 12)
        run.log(step, loss=loss + 0.05 * rng.standard_normal(), lr=1e-3 / step, grad_norm=1 / step)
        if step % 10 == 0:
            run.log(step, val_loss=loss + 0.1)
            run.sample(step, "The ", f"{text} {step} sat on the mat\nand looked at it")
            pattern = np.tril(np.ones((2, 2, 4, 4), np.float16))
            run.frame(step, {"attention/pattern": pattern}, tokens={"probe": ["a", " cat", "s", "at"]})
    run.note(steps, "a note from the loop")
    if status == "open":
        still_open.append(run)
        return run.path
    run.close(status, "" if status == "done" else f"ended as {status}")
    return run.path


def as_ours(path: Path) -> Path:
    """The same run as if an experiment of ours had written it, whose metrics have a known meaning."""
    info = RunInfo.load(path)
    info.kind = "language-model"
    info.save(RunDirectory(path))
    return path


def append_rows(path: Path, *rows: dict[str, object]) -> None:
    """Rows that another process would have written."""
    with RunDirectory(path).events.open("ab") as file:
        for row in rows:
            file.write(encode_row({"time": time.time(), **row}))


def app_on(root: Path | None, run: Path | None = None, screen: str = "", **settings: object) -> TxlabApp:
    """The console; `screen` is that with which it opens, if it is not the run's or the Lab."""
    return TxlabApp(run=run, root=root, settings=Settings(**settings), screen=screen)  # type: ignore[arg-type]


async def settle(pilot: Pilot[None], until: object = None) -> None:
    """Let threads and messages finish; with `until`, a function, until it is true, however busy the machine is."""
    end = time.monotonic() + LONGEST
    await pilot.pause(0.03)
    while until is not None and not until():  # type: ignore[operator]
        assert time.monotonic() < end, "what was waited for did not happen"
        await pilot.pause(0.03)
    await pilot.pause()


async def explained(pilot: Pilot[None]) -> Explanation:
    """Wait for the answer of `w`, and return the explanation that its dialog shows."""

    def shown() -> Explanation | None:
        screen = pilot.app.screen
        return screen.query_one(WhyPanel).explanation if isinstance(screen, WhyScreen) else None

    await settle(pilot, shown)
    found = shown()
    assert found is not None
    return found


async def leave_dialogs(pilot: Pilot[None]) -> None:
    """Press escape until no dialog is open: what earlier keys asked for may still open another."""
    end = time.monotonic() + LONGEST
    await pilot.press("escape")
    while len(pilot.app.screen_stack) > 1:
        assert time.monotonic() < end, f"no escape from {pilot.app.screen!r}"
        await pilot.press("escape")
