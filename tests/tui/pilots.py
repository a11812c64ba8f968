"""How a pilot waits in tests: for what the console does, not for a time. Importing this replaces Textual's waiting."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import textual.app
import textual.notifications
import textual.pilot
from textual._context import active_app
from waiting import LONGEST

LOOK, QUIET = 0.02, 0.001  # seconds between two looks; processor time in that time that is nothing
LOOKS, OTHERS, HELD = 50, 3, 10  # looks at most; for threads that are no workers; until a worker is taken to be held
TURNS = 10  # of the loop, for timers that came due together with the look because the machine had stalled
LIVE_ON = {"session", "preload"}  # groups of workers that end with their screen


async def wait_for_idle(min_sleep: float = LOOK, max_sleep: float = 1.0) -> None:
    """Replace Textual's, which waits until the whole process computes nothing, a second at most.

    Here the event loop has to be idle, and the workers have to be finished except those that live on with their screen
    or that the test holds. The bound counts looks: on a busy machine each takes as much longer as everything else.
    """
    held = 0
    for look in range(1, LOOKS + 1):
        process, loop = time.process_time(), time.thread_time()
        await asyncio.sleep(LOOK)
        if time.thread_time() - loop >= QUIET:
            continue
        quiet = time.process_time() - process < QUIET
        app = active_app.get(None)
        if any(not (each.is_finished or each.group in LIVE_ON) for each in (app.workers if app else ())):
            held += quiet
            if held < HELD:
                continue
        if quiet or look >= OTHERS:
            for _ in range(TURNS):
                await asyncio.sleep(0)
            if time.thread_time() - loop < QUIET:
                return


textual.app.wait_for_idle = wait_for_idle
textual.pilot.wait_for_idle = wait_for_idle
press_keys = textual.pilot.Pilot.press


async def press(pilot: textual.pilot.Pilot[Any], *keys: str) -> None:
    """Press keys, and wait until the last has been handled: on a busy machine a check or an import may hold it."""
    await press_keys(pilot, *keys)
    order = getattr(pilot.app, "key_order", None)
    until = time.monotonic() + LONGEST
    while order is not None and pilot.app.is_running and not (order.done and not order.waiting):
        assert time.monotonic() < until, f"{order.waiting} still wait for {order.holds}"
        await asyncio.sleep(LOOK)


textual.pilot.Pilot.press = press  # type: ignore[method-assign]
textual.pilot.Pilot.press_at_once = press_keys  # type: ignore[attr-defined]  # for keys that are to wait
textual.pilot.Pilot._wait_for_screen.__defaults__ = (LONGEST,)  # thirty seconds are not enough at a load of twenty
# A message that a test waits for is there when it looks, however long its turn took to come.
textual.notifications.Notification.has_expired = property(lambda message: False)  # type: ignore[assignment]
