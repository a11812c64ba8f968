"""A live source of the console: its thread is a worker of a widget, and its pictures arrive on the event loop."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import cached_property
from typing import Any

from textual.app import App
from textual.dom import DOMNode
from textual.worker import NoActiveWorker, get_current_worker

from txlab.sources.live import E, Live, Picture
from txlab.tui.key_order import HearsKeys, hold_keys, release_keys


class Session(Live[E]):
    """Lives as long as its widget. Exceptions other than LabErrors reach it as from any worker."""

    def __init__(
        self,
        screen: DOMNode,
        show: Callable[[Picture[E]], object] = lambda picture: None,
        failed: Callable[[str], object] = lambda sentence: None,
        **how: Any,
    ) -> None:
        """`how` as for Live."""
        super().__init__(show, failed, **how)
        self.screen = screen

    @cached_property
    def app(self) -> App[Any]:
        """The app of the screen, also when the screen has gone: the thread may still be in the middle of a slice."""
        return self.screen.app

    @property
    def wanted(self) -> bool:
        return self.screen.is_attached

    @property
    def last_key(self) -> float:
        return self.app.last_input if isinstance(self.app, HearsKeys) else 0.0

    def say(self, show: Callable[..., object], *values: object) -> None:
        self.app.call_later(show, *values)

    def start(self) -> None:
        app = self.app

        def work() -> None:
            worker = get_current_worker()
            self.work(lambda: worker.is_cancelled or not app.is_running)

        self.screen.run_worker(work, thread=True, group="session", exit_on_error=False)

    def hold_keys(self, what: object) -> None:
        hold_keys(self.screen, what)

    def release_keys(self, what: object) -> None:
        release_keys(self.screen, what)

    def receive(self, picture: Picture[E]) -> None:
        """Show a picture; the next one is accepted when it is drawn."""
        if not self.screen.is_attached:
            self.taken = True
            return
        self.picture = picture
        self.screen.call_after_refresh(self.finish_drawing)
        self.show(picture)

    def finish_drawing(self) -> None:
        self.taken = True

    def is_abandoned(self) -> bool:
        worker = None
        with contextlib.suppress(NoActiveWorker):
            worker = get_current_worker()
        return super().is_abandoned() or (worker is not None and worker.is_cancelled)
