"""How far long work is, for the command or screen that waits for it; a listener ends the work by raising an exception.

Notable: a context variable, since the work is often many calls below its listener, and each thread has its own.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

Listener = Callable[[str, int, int], None]


def ignore(what: str, done: int, total: int) -> None:
    """Called with the work, and its bytes done and in all; the last call has done = total."""


listener: ContextVar[Listener] = ContextVar("listener", default=ignore)
