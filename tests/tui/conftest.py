"""Clean-up after every test of the console: nothing may keep running. And how a pilot waits between two keys."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import textual.app
import textual.pilot
from recorded import still_open

from txlab.errors import LabError
from txlab.tui.screen_registry import ScreenEntry, installed_screens

LOOK, QUIET = 0.02, 0.001  # seconds between two looks; processor time in that time that is nothing
PATIENCE = 60.0
BESIDE = 0.3  # seconds after which only the loop has to be idle


async def wait_for_idle(min_sleep: float = LOOK, max_sleep: float = 1.0) -> None:
    """As Textual's, which waits until the process computes nothing, at most a second, two or three times a key. An
    experiment that learns in a thread of its own computes always; then it is enough that the event loop is idle."""
    began = time.monotonic()
    while True:
        process, loop = time.process_time(), time.thread_time()
        await asyncio.sleep(LOOK)
        elapsed = time.monotonic() - began
        idle = time.process_time() - process < QUIET
        loop_idle = time.thread_time() - loop < QUIET
        if elapsed >= max_sleep or (elapsed > min_sleep and (idle or (loop_idle and elapsed > BESIDE))):
            return


textual.app.wait_for_idle = wait_for_idle
textual.pilot.wait_for_idle = wait_for_idle
press_keys = textual.pilot.Pilot.press


async def press(pilot: textual.pilot.Pilot[Any], *keys: str) -> None:
    """Press keys, and wait until the last has been handled: on a busy machine a check or an import may hold it."""
    await press_keys(pilot, *keys)
    order = getattr(pilot.app, "key_order", None)
    until = time.monotonic() + PATIENCE
    while order is not None and pilot.app.is_running and not (order.done and not order.waiting):
        assert time.monotonic() < until, f"{order.waiting} still wait for {order.holds}"
        await asyncio.sleep(LOOK)


textual.pilot.Pilot.press = press  # type: ignore[method-assign]
textual.pilot.Pilot.press_at_once = press_keys  # type: ignore[attr-defined]  # for keys that are to wait


@pytest.fixture(autouse=True)
def screens_are_prepared_only_where_that_is_tested(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Preparing all screens in idle moments takes most of the processor time of a test that looks at one."""
    if request.node.get_closest_marker("prepared") is None:
        monkeypatch.setattr("txlab.tui.preload.prepare_screens", add_installed_screens)


async def add_installed_screens(app: Any, add: Callable[[Sequence[ScreenEntry]], None], report: Any) -> None:
    try:
        add(list(installed_screens()))
    except LabError as error:
        report(error)


@pytest.fixture(autouse=True)
def nothing_is_recorded_on() -> Iterator[None]:
    """A run that a test left open would keep its heartbeat thread until the end of all tests."""
    yield
    while still_open:
        still_open.pop().close("stopped")
