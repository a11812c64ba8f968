"""How a program that records comes to its end: a signal, `sys.exit`, an exception, a fork, or nothing at all.

Notable: all runs that are open in this process share one set of hooks, which are there only while one of them is open.
A handler that the program installed itself is called as before, and then decides what happens. Python calls a handler
between two of its own instructions, so a process that hangs in a library ends with SIGKILL only. At interpreter exit
Python no longer knows the status given to `sys.exit`, hence the exception class that is told when it is read.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from txlab.errors import one_line

if TYPE_CHECKING:
    from txlab.runs.recording import Recording

WATCHED = (signal.SIGTERM, signal.SIGHUP)


_open: list[Recording] = []
_handlers: dict[int, Handler] = {}
_late: list[tuple[Handler, FrameType | None]] = []  # signals that came while a run was being written
_exit_before: Callable[..., NoReturn] | None = None
_error_before: BaseException | None = None  # one that was shown at a prompt before the first run began
_statuses: list[Any] = []  # what the interpreter read from the SystemExit that ends it


def watch(run: Recording) -> None:
    """From now on the end of the program is the end of `run`."""
    global _exit_before, _error_before
    if not _open:
        _error_before = getattr(sys, "last_value", None)
        _exit_before, sys.exit = sys.exit, _exit
        atexit.register(_at_exit)
    if not _handlers and threading.current_thread() is threading.main_thread():  # elsewhere Python allows none
        _take_signals()
    _open.append(run)


def forget(run: Recording) -> None:
    """The run has ended by itself; with the last one the hooks go."""
    if run in _open:
        _open.remove(run)
        if not _open:
            _unhook()


def _unhook() -> None:
    atexit.unregister(_at_exit)
    if sys.exit is _exit and _exit_before is not None:
        sys.exit = _exit_before
    if threading.current_thread() is threading.main_thread():
        for number, ours in _handlers.items():
            before = ours.before
            if signal.getsignal(number) is ours:
                signal.signal(number, before)
        _handlers.clear()


# Signals


class Handler:
    """Of one signal; `before` is what stood there: the default, or a handler of the program's own."""

    def __init__(self, number: int, before: Any) -> None:
        self.number, self.before = number, before

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if any(run.busy for run in _open):
            _late.append((self, frame))
            return
        name = signal.Signals(self.number).name
        if callable(self.before):
            for run in list(_open):
                run.signalled(name)
            self.before(self.number, frame)
            return
        for run in list(_open):
            run.end("interrupted", name)
        signal.signal(self.number, signal.SIG_DFL)
        os.kill(os.getpid(), self.number)  # the program dies of it, as it would have without us


def _take_signals() -> None:
    for number in WATCHED:
        before = signal.getsignal(number)
        if before is signal.SIG_DFL or callable(before):  # what is ignored (nohup) stays ignored
            with contextlib.suppress(ValueError):  # not in the main interpreter
                _handlers[number] = Handler(number, before)
                signal.signal(number, _handlers[number])


def deliver() -> None:
    """Handle the signals that came while a run was being written; cheap where there are none."""
    while _late and threading.current_thread() is threading.main_thread() and not any(run.busy for run in _open):
        handler, frame = _late.pop(0)
        handler(handler.number, frame)


# The interpreter's end


_CODE: Any = SystemExit.code  # the descriptor


class _Leaving(SystemExit):
    """What `sys.exit` raises while a run is open: it notes that the interpreter, and no `except`, reads its status."""

    @property
    def code(self) -> Any:  # type: ignore[override]
        status = _CODE.__get__(self)
        try:
            sys._getframe(1)
        except ValueError:  # no frame of Python's is left: nothing caught it
            _statuses.append(status)
        return status

    @code.setter
    def code(self, status: Any) -> None:
        _CODE.__set__(self, status)


_Leaving.__name__ = _Leaving.__qualname__ = "SystemExit"


def _exit(status: Any = None, /) -> NoReturn:
    try:
        (_exit_before or _plain_exit)(status)
    except SystemExit as error:
        raise _Leaving(*error.args) from None


_plain_exit = sys.exit


def _at_exit() -> None:
    error = getattr(sys, "last_value", None)
    if error is _error_before or hasattr(sys, "ps1"):  # at a prompt an error ends nothing
        error = None
    if error is None and _statuses:
        error = SystemExit(_statuses[-1])
    for run in list(_open):
        end_with(run, error)


def end_with(run: Recording, error: BaseException | None) -> None:
    """End a run as what the program ended with says; `error` None = nothing went wrong."""
    # What ends a task of asyncio from outside: ctrl-c, to which a task is cancelled, or the program.
    cancelled = getattr(sys.modules.get("asyncio"), "CancelledError", KeyboardInterrupt)
    if run.signal and (error is None or not isinstance(error, Exception)):  # whichever way the handler chose to end
        run.end("interrupted", run.signal)
    elif error is None:
        run.end("done")
    elif isinstance(error, (KeyboardInterrupt, GeneratorExit, cancelled)):
        run.end("interrupted", type(error).__name__)
    elif isinstance(error, SystemExit):
        run.end(*_meaning(error.code))
    else:
        run.end("failed", f"{type(error).__name__}: {one_line(error)}", error)


def _meaning(status: object) -> tuple[str, str]:
    """What a status given to `sys.exit` says of a run.

    >>> _meaning(None), _meaning("no data")
    (('done', ''), ('failed', 'the program ended with exit status 1: no data'))
    """
    if status is None or status == 0:
        return "done", ""
    said = "" if isinstance(status, int) else f": {' '.join(str(status).split())[:200]}"
    return "failed", f"the program ended with exit status {int(status) if isinstance(status, int) else 1}{said}"


def _in_a_fork() -> None:
    for run in _open:
        run.disown()
    if _open:
        _open.clear()
        _late.clear()
        _unhook()


os.register_at_fork(after_in_child=_in_a_fork)
