"""One thread at a time for one kind of work, and a newer wish overtakes an older one.

Notable: a wish that comes while the thread is busy replaces the one that waits; what the thread brings is shown unless
something newer was forgotten in between. So keys may come as fast as they like, and the last one is answered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.worker import get_current_worker

from txlab.errors import LabError

Work = Callable[["LatestTask"], Any]


class LatestTask:
    """`want(work, show)`: run `work(lane)` in a thread, then `show(result)` on the event loop.

    `failed(sentence)` gets a LabError; what is no LabError is the screen's to report. `late` tells long work that it
    is not wanted any more; `say(step, *values)` calls on the event loop in between.
    """

    def __init__(self, screen: Any, name: str, failed: Callable[[str], None]) -> None:
        self.screen, self.name, self.failed = screen, name, failed
        self.busy = False
        self.waiting: tuple[Work, Callable[[Any], None]] | None = None
        self.generation = 0
        self.running = 0  # the generation that the thread works for

    @property
    def idle(self) -> bool:
        return not self.busy and self.waiting is None

    def want(self, work: Work, show: Callable[[Any], None]) -> None:
        self.generation += 1
        self.waiting = work, show
        self.begin()

    def forget(self) -> None:
        """Nothing of what was wanted is wanted any more."""
        self.generation += 1
        self.waiting = None

    @property
    def late(self) -> bool:
        """In the thread: whether something newer is wanted, or the screen has gone."""
        return self.running != self.generation or get_current_worker().is_cancelled or not self.screen.is_attached

    def say(self, show: Callable[..., None], *values: Any) -> None:
        """In the thread: call on the event loop, unless it is late by then."""
        generation = self.running
        self.screen.app.call_later(lambda: show(*values) if generation == self.generation else None)

    def begin(self) -> None:
        if self.busy or self.waiting is None or not self.screen.is_attached:
            return
        (work, show), self.waiting = self.waiting, None
        self.busy, self.running = True, self.generation
        self.screen.run_worker(lambda: self.run(work, show), thread=True, group=self.name, exit_on_error=False)

    def run(self, work: Work, show: Callable[[Any], None]) -> None:
        generation = self.running
        try:
            result, done = work(self), show
        except LabError as error:
            result, done = str(error), self.failed
        except BaseException:
            self.ended(None)
            raise
        self.ended(lambda: done(result) if generation == self.generation else None)

    def ended(self, after: Callable[[], None] | None) -> None:
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
