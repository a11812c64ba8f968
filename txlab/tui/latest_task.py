"""One thread at a time for one kind of work, where a newer request replaces an older one.

A request that comes while the thread is busy replaces the one that waits; a result is shown unless the task was
forgotten or replaced meanwhile. So keys may come at any speed, and the last one is answered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.worker import get_current_worker

from txlab.errors import LabError
from txlab.tui.key_order import hold_keys, release_after, release_keys, run_in_thread

Work = Callable[["LatestTask"], Any]


class LatestTask:
    """`want(work, show)`: run `work(task)` in a thread, then `show(result)` on the event loop.

    `failed(sentence)` receives a LabError; other exceptions are reported by the screen. `late` tells long work that its
    result is no longer wanted; `say(step, *values)` calls on the event loop in between.
    """

    def __init__(self, screen: Any, name: str, failed: Callable[[str], None]) -> None:
        self.screen, self.name, self.failed = screen, name, failed
        self.busy = False
        self.waiting: tuple[Work, Callable[[Any], None]] | None = None
        self.generation = 0
        self.running = 0  # the generation that the thread works for
        self.hold: object | None = None  # holds back keys until the newest result

    @property
    def idle(self) -> bool:
        return not self.busy and self.waiting is None

    def want(self, work: Work, show: Callable[[Any], None], holds_keys: bool = False) -> None:
        """`holds_keys`: the meaning of the next key depends on the result, so it waits."""
        self.generation += 1
        self.waiting = work, show
        self.let_keys_go_on()
        if holds_keys and self.screen.is_attached:
            self.hold = object()
            hold_keys(self.screen, self.hold)
        self.begin()

    def forget(self) -> None:
        """Drop all pending work and results."""
        self.generation += 1
        self.waiting = None
        self.let_keys_go_on()

    def let_keys_go_on(self) -> None:
        hold, self.hold = self.hold, None
        if hold is not None:
            release_keys(self.screen, hold)

    @property
    def late(self) -> bool:
        """Whether something newer is wanted, or the screen has gone. For the worker thread."""
        return self.running != self.generation or get_current_worker().is_cancelled or not self.screen.is_attached

    def say(self, show: Callable[..., None], *values: Any) -> None:
        """Call on the event loop, unless it is late by then. For the worker thread."""
        generation = self.running
        self.screen.app.call_later(lambda: show(*values) if generation == self.generation else None)

    def begin(self) -> None:
        if self.busy or self.waiting is None or not self.screen.is_attached:
            return
        (work, show), self.waiting = self.waiting, None
        self.busy, self.running = True, self.generation
        worker = run_in_thread(self.screen, lambda: self.run(work, show), self.name, keys=False)
        if self.hold is not None:
            release_after(self.screen, worker, self.hold)

    def run(self, work: Work, show: Callable[[Any], None]) -> None:
        generation = self.running
        try:
            result, done = work(self), show
        except LabError as error:
            result, done = str(error), self.failed
        except BaseException:
            self.finish(None)
            raise
        self.finish(lambda: done(result) if generation == self.generation else None)

    def finish(self, after: Callable[[], None] | None) -> None:
        app = self.screen.app
        if not app.is_running:
            self.busy = False
            return

        def settle() -> None:
            self.busy = False
            if after is not None and self.screen.is_attached:
                after()
            self.begin()

        app.call_later(settle)
