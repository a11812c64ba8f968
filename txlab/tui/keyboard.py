"""Keys as they come from the terminal, and when a lone escape is one.

Esc is the first byte of every arrow key too, so it is known for an Esc only when nothing follows. Textual waits 100 ms
for that, and notices at a poll that may come 100 ms later still; what a local terminal or an SSH client sends for an
arrow arrives in one piece, so here it is 25 ms, to the moment. Notable: a line that tears keys apart is noticed by the
rest of the key that comes after its escape. That rest is put together with it again, never taken for letters, and from
then on Textual's patience holds. ESCDELAY (milliseconds), where it is set, is obeyed. A terminal may also be gone.
"""

from __future__ import annotations

import os
import re
import select
from codecs import getincrementaldecoder
from collections.abc import Iterable
from typing import Any, TextIO

from textual import constants
from textual._time import get_time
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

ESCAPE = "\x1b"
QUICK = 0.025  # seconds; fish waits 30 ms, tmux 10
TORN = 1.0  # seconds after an Esc in which the rest of a key may still come
POLL = 0.1  # seconds between two looks whether the program leaves
REST = re.compile(r"\[[0-9;:?<]*[A-Za-z~^$]|O[A-Za-z]")  # of an arrow, a function key, a mouse report


class Keys(XTermParser):
    """Textual's parser of what the terminal sends, with less patience after a lone escape."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self.patience = constants.ESCAPE_DELAY if "ESCDELAY" in os.environ else min(QUICK, constants.ESCAPE_DELAY)
        self.alone = False  # whether what has come so far ends with an escape
        self.said = float("-inf")  # when an escape was last said to be an Esc

    def feed(self, data: str) -> Iterable[Message]:
        if REST.match(data) and get_time() - self.said < TORN:
            self.patience = max(self.patience, constants.ESCAPE_DELAY)
            data = ESCAPE + data
        yield from super().feed(data)
        self.alone = data.endswith(ESCAPE) and self._timeout_time is not None
        if self.alone:
            self._timeout_time = get_time() + self.patience

    def tick(self) -> Iterable[Message]:
        waited = self._timeout_time is not None
        yield from super().tick()
        if self.alone and waited and self._timeout_time is None:
            self.alone, self.said = False, get_time()

    def left(self) -> float:
        """Seconds until `tick` is worth calling, at most `POLL`."""
        due = self._timeout_time
        return POLL if due is None else max(0.0, min(POLL, due - get_time()))


class Output:
    """The terminal as Textual's writing thread sees it; when it is gone, what is written goes nowhere.

    Notable: that thread ends at the first OSError, its queue holds thirty pieces, and then the event loop waits for a
    place in it for ever: a console whose window was closed would stay, and learn on, until somebody kills it.
    """

    def __init__(self, terminal: TextIO) -> None:
        self.terminal = terminal
        self.gone = False

    def write(self, text: str) -> int:
        try:
            return 0 if self.gone else self.terminal.write(text)
        except OSError:
            self.gone = True
            return 0

    def flush(self) -> None:
        try:
            if not self.gone:
                self.terminal.flush()
        except OSError:
            self.gone = True

    def fileno(self) -> int:
        return self.terminal.fileno()

    def isatty(self) -> bool:
        return self.terminal.isatty()


class KeyDriver(LinuxDriver):
    """Textual's driver, reading its input with `Keys` and writing to `Output`."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._file: Any = Output(self._file)

    def _sigcont_application(self, *_: object) -> None:
        """Begin again only after a ctrl+z. A closed window sends this signal too, behind its SIGHUP, and the threads
        of a second beginning would wait for a terminal that is gone, after everything else has ended."""
        if self._must_signal_resume:
            super()._sigcont_application()

    def run_input_thread(self) -> None:
        keys = Keys(self._debug)
        decode = getincrementaldecoder("utf-8")("replace").decode
        while not self.exit_event.is_set():
            if select.select([self.fileno], [], [], keys.left())[0]:
                try:
                    data = os.read(self.fileno, 4096)
                except OSError:
                    data = b""
                if not data:  # nobody is at the other end any more; the signal that says so is on its way
                    self.exit_event.wait(POLL)
                for event in keys.feed(text) if (text := decode(data)) else ():
                    self.process_message(event)
            for event in keys.tick():
                self.process_message(event)
