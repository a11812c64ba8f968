"""How a program that records ends: by a signal, `sys.exit`, an exception, a fork, or normally.

All open runs of this process share one set of hooks. They are installed only while at least one run is open, call the
hooks they replace, and are removed with the last run; nothing else in the process is changed.

atexit           the program ends. If an exception ended it, `sys.last_value` is the argument of `sys.excepthook`; that
                 hook itself is left to the program.
signals          SIGTERM and SIGHUP, which no other hook reports. A handler installed by the program is called, and
                 decides what happens. Python runs handlers between bytecode instructions, so a process that hangs in a
                 library only ends with SIGKILL.
threading's      an exception that ends the thread that recorded last: the program may continue without it
excepthook       and end with status 0, but the loop has failed.
sys.exit         which status the program ends with. Python tells it to no hook: `sys.excepthook` is not called for
                 SystemExit, atexit has no argument, and the exception is gone by then. So while a run is open,
                 `sys.exit` calls the one before and raises what that raised as a class that notices when the
                 interpreter reads its status. `raise SystemExit(3)` outside a `with` block is not noticed.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn, Protocol

from txlab.errors import one_line

WATCHED = (signal.SIGTERM, signal.SIGHUP)


class Ends(Protocol):
    """A run that ends when its program does.

    signal  the name of a signal that the program's own handler received, "" = none
    busy    whether the calling thread is writing the run
    failure  the exception that ended the thread which logged last
    """

    signal: str
    failure: Exception | None

    @property
    def busy(self) -> bool: ...

    def note_signal(self, name: str) -> None: ...

    def end(self, status: str, reason: str = "", error: BaseException | None = None) -> None: ...

    def disown(self) -> None: ...

    def thread_ended(self, thread: int, error: Exception) -> None: ...


_open: list[Ends] = []
_handlers: dict[int, Handler] = {}
_late: list[tuple[Handler, FrameType | None]] = []  # signals that arrived while a run was being written
_exit_before: Callable[..., NoReturn] | None = None
_thread_hook_before: Callable[[threading.ExceptHookArgs], Any] = threading.__excepthook__
_error_before: BaseException | None = None  # an error shown at a prompt before the first run began
_statuses: list[Any] = []  # what the interpreter read from the SystemExit that ends it


def watch(run: Ends) -> None:
    """End `run` when the program ends."""
    global _exit_before, _error_before, _thread_hook_before
    if not _open:
        _error_before = getattr(sys, "last_value", None)
        _exit_before, sys.exit = sys.exit, _exit
        _thread_hook_before, threading.excepthook = threading.excepthook, _thread_ended
        atexit.register(_at_exit)
    if not _handlers and threading.current_thread() is threading.main_thread():  # other threads cannot set handlers
        _take_signals()
    _open.append(run)


def forget(run: Ends) -> None:
    """Stop watching a run that has ended; the hooks are removed with the last one."""
    if run in _open:
        _open.remove(run)
        if not _open:
            _unhook()


def _unhook() -> None:
    atexit.unregister(_at_exit)
    if sys.exit is _exit and _exit_before is not None:
        sys.exit = _exit_before
    if threading.excepthook is _thread_ended:
        threading.excepthook = _thread_hook_before
    if threading.current_thread() is threading.main_thread():
        for number, ours in _handlers.items():
            before = ours.before
            if signal.getsignal(number) is ours:
                signal.signal(number, before)
        _handlers.clear()


# Signals


class Handler:
    """The handler of one signal; `before` is the previous one: the default, or the program's own."""

    def __init__(self, number: int, before: Any) -> None:
        self.number, self.before = number, before

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if any(run.busy for run in _open):
            _late.append((self, frame))
            return
        name = signal.Signals(self.number).name
        if callable(self.before):
            for run in list(_open):
                run.note_signal(name)
            self.before(self.number, frame)
            return
        _end_all(lambda run: run.end("interrupted", name))
        signal.signal(self.number, signal.SIG_DFL)
        os.kill(os.getpid(), self.number)  # the program is killed by it, as it would have been without us


def _take_signals() -> None:
    for number in WATCHED:
        before = signal.getsignal(number)
        if before is signal.SIG_DFL or callable(before):  # an ignored signal (nohup) stays ignored
            with contextlib.suppress(ValueError):  # not in the main interpreter
                _handlers[number] = Handler(number, before)
                signal.signal(number, _handlers[number])


def deliver() -> None:
    """Handle the signals that arrived while a run was being written; cheap if there are none."""
    while _late and threading.current_thread() is threading.main_thread() and not any(run.busy for run in _open):
        handler, frame = _late.pop(0)
        handler(handler.number, frame)


# The ends of threads


def _thread_ended(what: threading.ExceptHookArgs) -> None:
    _thread_hook_before(what)
    if what.thread is not None and what.thread.ident is not None and isinstance(what.exc_value, Exception):
        for run in list(_open):
            run.thread_ended(what.thread.ident, what.exc_value)


# The interpreter's end


_CODE: Any = SystemExit.code  # the descriptor


class _Leaving(SystemExit):
    """What `sys.exit` raises while a run is open: it detects that the interpreter, no `except`, reads its status."""

    @property
    def code(self) -> Any:  # type: ignore[override]
        status = _CODE.__get__(self)
        try:
            sys._getframe(1)
        except ValueError:  # no Python frame is left: nothing caught it
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
    if error is _error_before or hasattr(sys, "ps1"):  # at a prompt an error does not end the program
        error = None
    if error is None and _statuses:
        error = SystemExit(_statuses[-1])
    _end_all(lambda run: end_with(run, error))


def _end_all(end: Callable[[Ends], None]) -> None:
    """End all runs. A bug in one is shown; the others are still ended, and the program ends as it would have."""
    for run in list(_open):
        try:
            end(run)
        except Exception:
            traceback.print_exc()


def end_with(run: Ends, error: BaseException | None) -> None:
    """End a run with the status that the program's end implies; `error` None = nothing went wrong."""
    error = run.failure if error is None else error
    # A CancelledError ends an asyncio task from outside: on ctrl-c, or because the program cancels it.
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
    """The status and reason of a run for a status given to `sys.exit`.

    >>> _meaning(None), _meaning("no data")
    (('done', ''), ('failed', 'the program ended with exit status 1: no data'))
    """
    if status is None or status == 0:
        return "done", ""
    status_text = "" if isinstance(status, int) else f": {' '.join(str(status).split())[:200]}"
    return "failed", f"the program ended with exit status {int(status) if isinstance(status, int) else 1}{status_text}"


def _in_a_fork() -> None:
    for run in _open:
        run.disown()
    if _open:
        _open.clear()
        _late.clear()
        _unhook()


os.register_at_fork(after_in_child=_in_a_fork)
