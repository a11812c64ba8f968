"""Keys are handed on one at a time, each after everything that the one before it did.

Notable: Textual sends a key to the widget that has the focus when the key is read. Of a burst (a fast hand, a slow
line, a console that is still starting) all keys are read before the first has moved the focus or opened a dialog: the
letters of "/cliff" would be commands to the list, and enter would start what happens to be selected.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from textual import events

if TYPE_CHECKING:
    from textual.app import App
    from textual.message_pump import MessagePump

LONGEST = 2.0  # seconds that a key waits for the one before it; only a handler that hangs takes this long


class KeyOrder:
    """The keys that wait. A key is done when a callback that follows it has gone the same way: through the queues of
    the focused widget, of those around it, and of the app; then through those of the screen that is now in front, which
    may be new and must find its focus."""

    def __init__(self, app: App[Any], handle: Callable[[events.Event], Awaitable[None]]) -> None:
        self.app, self.handle = app, handle
        self.waiting: deque[events.Event] = deque()
        self.current: events.Event | None = None
        self.since = 0.0

    async def take(self, event: events.Event) -> None:
        """Handle a key now, or after those before it."""
        if self.current is not None and time.monotonic() - self.since < LONGEST:
            self.waiting.append(event)
        else:
            await self.begin(event)

    async def begin(self, event: events.Event) -> None:
        self.current, self.since = event, time.monotonic()
        around = list((self.app.focused or self.app.screen).ancestors_with_self)
        await self.handle(event)
        await self.follow(event, around, again=True)

    async def follow(self, event: events.Event, pumps: Sequence[MessagePump], again: bool) -> None:
        """Go on to the first of these queues that is still open, and so to the last."""
        for place, pump in enumerate(pumps):
            if pump.call_later(self.follow, event, pumps[place + 1 :], again):
                return
        if self.current is not event or not self.app.is_running:
            return
        if again:
            await self.follow(event, [self.app.screen, self.app], again=False)
        elif self.waiting:
            await self.begin(self.waiting.popleft())
        else:
            self.current = None
