"""Keys are handled one at a time, each after all effects of the key before it.

Notable: Textual sends a key to the widget that has the focus when the key is read. Of a burst (a fast hand, a slow
line, a console that is still starting) all keys are read before the first has moved the focus or opened a dialog: the
letters of "/cliff" would be commands to the list, and enter would start the current selection. Nor is a key done when
its handlers are: it may have started a check, a search or an import in a thread, and the meaning of the next key may
depend on the result. Such work holds the keys of its screen (`keys_wait`).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from textual import events
from textual.app import App
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widgets import Input
from textual.worker import Worker, WorkerError

if TYPE_CHECKING:
    from textual.message_pump import MessagePump

Result = TypeVar("Result")

PATIENCE = 2.0  # seconds of waiting after which escape and ctrl+q are handled immediately, and waiting keys are dropped
WAYS_OUT = ("escape", "ctrl+q")
WRITING = ("backspace", "delete", "left", "right", "home", "end")
ROUNDS = 20  # through the queues, at most: timers and pictures fill them as well


@runtime_checkable
class HearsKeys(Protocol):
    """An app whose keys wait. last_input   when the last one came, by the monotonic clock"""

    key_order: KeyOrder
    last_input: float


class KeyOrder:
    """The waiting keys. A key is done when a callback posted after it has passed through the queues of the focused
    widget, of its ancestors, and of the app, until they are empty; and when nothing holds the keys."""

    def __init__(self, app: App[Any], handle: Callable[[events.Event], Awaitable[None]]) -> None:
        self.app, self.handle = app, handle
        self.waiting: deque[events.Event] = deque()
        self.current: events.Event | None = None
        self.holds: dict[object, Screen[Any] | None] = {}  # what holds keys, and on which screen; None = on all
        self.ends: set[asyncio.Task[None]] = set()  # of the work that holds keys
        self.done = True  # the queues are empty: only `holds` keep the next key waiting
        self.since = 0.0

    @property
    def idle(self) -> bool:
        return self.done and not self.waiting and not self.held

    @property
    def held(self) -> bool:
        """Whether anything holds the keys on the screens in front; others may still be loading."""
        return any(screen is None or screen in self.app.screen_stack for screen in self.holds.values())

    async def take(self, event: events.Event) -> None:
        """Handle a key now, or after the keys before it."""
        late = not self.idle and time.monotonic() - self.since > PATIENCE
        if late and isinstance(event, events.Key) and event.key in WAYS_OUT:
            self.waiting.clear()
            self.holds.clear()
            await self.begin(event)
        elif self.done and not self.waiting and self.may_begin(event):
            await self.begin(event)
        else:
            self.waiting.append(event)

    def may_begin(self, event: events.Event) -> bool:
        """Whether nothing holds this key: keys that type into a line or leave a dialog do not depend on pending
        results."""
        if not self.held:
            return True
        if not isinstance(event, events.Key):
            return False
        if isinstance(self.app.focused, Input) and (event.is_printable or event.key in WRITING):
            return True
        active = self.app.screen.active_bindings.get(event.key) if self.app.screen.is_modal else None
        return active is not None and (active.binding.id or "").endswith((".leave", ".close"))

    async def begin(self, event: events.Event) -> None:
        self.current, self.done, self.since = event, False, time.monotonic()
        around = self.around()
        await self.handle(event)
        await self.follow(event, around)

    def around(self) -> list[MessagePump]:
        return list((self.app.focused or self.app.screen).ancestors_with_self)

    async def follow(self, event: events.Event | None, pumps: Sequence[MessagePump], rounds: int = 0) -> None:
        """Post to the first of these queues that is still open, then to the next ones, until all are empty."""
        for place, pump in enumerate(pumps):
            if pump.call_later(self.follow, event, pumps[place + 1 :], rounds):
                return
        if self.current is not event or self.done or not self.app.is_running:
            return
        around = self.around()  # a new screen in front must first find its focus
        if rounds == 0 or (rounds < ROUNDS and any(pump.message_queue_size for pump in around)):
            await self.follow(event, around, rounds + 1)
            return
        self.done = True
        await self.go_on()

    async def go_on(self) -> None:
        if self.done and self.waiting and self.may_begin(self.waiting[0]):
            await self.begin(self.waiting.popleft())

    def hold(self, what: object, screen: Screen[Any] | None = None) -> None:
        """Keep the next key of a screen waiting until `what` is released; on the event loop."""
        if not self.held:
            self.since = time.monotonic()
        self.holds[what] = screen

    def release(self, what: object) -> None:
        """Release the keys, after everything posted so far; on the event loop."""
        if what not in self.holds:
            return
        del self.holds[what]
        if self.done and self.app.is_running:
            self.done = False
            self.app.call_later(self.follow, self.current, [self.app])

    def release_after(self, worker: Worker[Any], what: object) -> None:
        """Release `what` when a worker has finished or was cancelled."""

        async def wait() -> None:
            with suppress(WorkerError):
                await worker.wait()

        def release(end: asyncio.Task[None]) -> None:
            self.ends.discard(end)
            self.release(what)

        end = asyncio.create_task(wait())
        self.ends.add(end)
        end.add_done_callback(release)


def keys_wait(node: DOMNode, worker: Worker[Result]) -> Worker[Result]:
    """Keep the next key waiting until a worker has finished, and its messages have been handled."""
    hold_keys(node, worker)
    release_after(node, worker, worker)
    return worker


def run_in_thread(
    node: DOMNode, work: Callable[[], Result], group: str, *, keys: bool = True, exclusive: bool = False
) -> Worker[Result]:
    """Run `work` in a thread of the node's screen, which reports a failure; the next keys wait for it unless `keys` is
    False."""
    worker = node.run_worker(work, thread=True, group=group, exclusive=exclusive, exit_on_error=False)
    return keys_wait(node, worker) if keys else worker


def hold_keys(node: DOMNode, what: object) -> None:
    """Keep the next key of the node's screen waiting until `what` is released; on the event loop."""
    if isinstance(app := node.app, HearsKeys):
        app.key_order.hold(what, node.screen if node.is_attached else None)


def release_keys(node: DOMNode, what: object) -> None:
    if isinstance(app := node.app, HearsKeys):
        app.key_order.release(what)


def release_after(node: DOMNode, worker: Worker[Any], what: object) -> None:
    """Release `what` when the worker has finished, or was cancelled."""
    if isinstance(app := node.app, HearsKeys):
        app.key_order.release_after(worker, what)
