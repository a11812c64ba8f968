"""A limit in wall time for work that cannot be asked to stop, such as torch's compiler."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN = 0.25  # seconds: an exception raised while a weak reference is cleared, for example, is lost


class OutOfTime(BaseException):
    """Raised by `deadline`. Not an Exception: the compiler takes those for faults of its own and carries on."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise OutOfTime in the running Python code after the given number of seconds.

    It interrupts the main thread, by a signal; elsewhere, where Python allows no handlers, there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    open_still = True

    def ring(number: int, frame: FrameType | None) -> None:
        if open_still:
            raise OutOfTime

    handler = signal.signal(signal.SIGALRM, ring)
    timer = signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3), AGAIN)
    try:
        yield
    finally:
        open_still = False  # first of all: from here on nothing is raised
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler if handler is not None else signal.SIG_DFL)
