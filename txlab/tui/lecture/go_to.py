"""Reaching a place of the console from nothing: a new screen, the run, its frame, the text, the parameters, the keys.

Each part begins when everything that the one before it caused is done, so a place gives the same screen each time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from textual import events

from txlab.errors import LabError, choices
from txlab.runs.lecture import Place, pressed_keys
from txlab.tui.console import Console
from txlab.tui.lecture.keys import BETWEEN
from txlab.tui.playback import Playback

LOOK = 0.02  # seconds between two looks whether the console is idle
LOOKS = 2  # in a row: what a thread has read is shown a moment later
PATIENCE = 60.0  # seconds for one key at most; the first one that needs the engine imports torch
IN_BACKGROUND = ("preload", "lecture")  # groups of workers that nothing waits for
TEXTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "tokens": ((), ()),
    "attention": (("t",), ("enter",)),
}
"""The keys before and after a text that is pasted, by screen."""


async def go_to(app: Console, place: Place, run: Path | None = None) -> None:
    """Set the console to a place; `run` is the path of its run, by default the newest one of the scenario.

    To be awaited in a worker of the group "lecture": keys are pressed, each after the one before it. Raises LabError
    if there is no such screen or run.
    """
    if place.run and run is None:
        run = await asyncio.to_thread(newest_run, place.run, app.root)
    app.current_run = run
    await open_new(app, place.screen)
    await settle(app)
    if place.at is not None and (playback := playback_of(app)) is not None and len(steps := playback.timeline.steps):
        playback.timeline.show_frame(max(0, int(np.searchsorted(steps, place.at, "right")) - 1))
        await settle(app)
    await add(app, place)


async def add(app: Console, place: Place) -> None:
    """Add the text, the parameters and the keys of a place to the screen in front."""
    if place.text:
        before, after = TEXTS.get(app.current_mode or "", ((), ()))
        await press(app, before)
        await app.key_order.take(events.Paste(place.text))
        await settle(app)
        await press(app, after)
    await adjust(app, place.set)
    await press(app, place.keys)


def newest_run(scenario: str, root: Path) -> Path:
    """Return the newest run of a scenario, or the run of that name. LabError if there is none."""
    from txlab.runs.folder import find_in

    found = find_in(root, scenario)
    if found is None:
        raise LabError(f"there is no run of {scenario} yet: 1 opens the Lab, where enter starts one")
    return found


async def open_new(app: Console, name: str) -> None:
    """Open a screen as if for the first time, whatever it showed before."""
    entries = {entry.name: entry for entry in app.entries}
    if name not in entries:
        raise LabError(f"no screen is called {name!r}{choices(name, entries)}")
    await close_dialogs(app)
    with app.batch_update():
        if app.current_mode == name:
            await app.switch_mode(BETWEEN)
        await app.remove_mode(name)
        app.add_mode(name, entries[name].open)
        await app.switch_mode(name)


async def close_dialogs(app: Console) -> None:
    while len(app.screen_stack) > 1:
        await app.pop_screen()


def playback_of(app: Console) -> Playback | None:
    return next(iter(app.screen.query(Playback)), None)


async def adjust(app: Console, parameters: Mapping[str, float]) -> None:
    """Set parameters of the experiment that is computed on this screen."""
    playback = playback_of(app)
    if parameters and playback is not None and playback.live is not None:
        for name, value in parameters.items():
            playback.live.adjust(name, value)
        await settle(app)


async def press(app: Console, keys: tuple[str, ...], live: bool = False) -> None:
    """Press keys as a lecture's file writes them; `live`: what is computed meanwhile is not waited for."""
    for name, character in pressed_keys(keys):
        event = events.Key(name, character)
        event.set_sender(app)
        await app.key_order.take(event)
        await settle(app, live)


async def settle(app: Console, live: bool = False) -> None:
    """Wait until no key waits, and no thread of the screens in front works; `live`: except the one that computes."""
    ignored = (*IN_BACKGROUND, "session") if live else IN_BACKGROUND
    until, idle = time.monotonic() + PATIENCE, 0
    while idle < LOOKS and app.is_running and time.monotonic() < until:
        await asyncio.sleep(LOOK)
        working = any(
            not worker.is_finished and worker.group not in ignored and worker.node.screen in app.screen_stack
            for worker in list(app.workers)
            if worker.node.is_attached
        )
        idle = 0 if working or not app.key_order.idle else idle + 1
