"""Everything that the console uses of Textual's private API: each private name, its reason, and the effect of its
absence. Nothing else in txlab uses any (tests/tui/test_textual_internals.py).

Each is looked up before use; where a later Textual lacks it the console is slower, and otherwise the same.
Gains are processor time at 120 × 40 on two cores with Textual 8.2.8: medians of twelve keys.

| what                 | without it                                        | private names                                    |
|----------------------|---------------------------------------------------|--------------------------------------------------|
| SteadyScreen         | a switch of screens takes 66 ms instead of 27     | Screen._refresh_layout, ._screen_resized         |
| picture_behind       | a dialog opens in 51 ms instead of 36             | Screen._compositor                               |
| forget_painted       | 5 000 objects are kept for each dialog            | Widget._styles_cache, ._get_virtual_dom          |
| keep_parsed          | the first paint takes 60 ms more, a widget of a new class 40 ms | Stylesheet._parse_cache |
| make_ready           | the first switch to a screen waits 0.2 s          | App._screen_stacks, ._get_screen, ._load_screen_css, Screen._css_update_count |
| QuietApp             | a bug fills the terminal with local variables     | App._shutdown, ._handle_exception, ._fatal_error |
|                      | a key's action that is read during an import may end the program | App._parse_action |
| quick_driver         | Esc is known after 100 to 200 ms instead of 25    | XTermParser._timeout_time, LinuxDriver._file, ._sigcont_application, ._debug |
"""  # noqa: E501

from __future__ import annotations

import os
import re
import select
import time
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from textual import constants, events
from textual.app import App, ScreenStackError
from textual.css.query import NoMatches
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Offset, Size
from textual.message import Message
from textual.reactive import Reactive
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from txlab.tui.bindings import parse_action

try:
    from textual._xterm_parser import XTermParser
except ImportError:  # then Textual's own driver reads the keys
    XTermParser = object  # type: ignore[misc, assignment]

if TYPE_CHECKING:
    from pathlib import Path

Answer = TypeVar("Answer")
MOST_SHEETS = 4096  # one for each class of widgets and each file


class SteadyScreen(Screen[Answer]):
    """A screen that lays itself out once for each size, and repaints as a whole only when it has to.

    Textual lays a new screen out when it comes to the front, again on the event of its own new size (with every screen
    behind it), and again when it comes back; it repaints everything each time, and at every move of the focus too. At
    120 × 40 each of these takes 3 to 15 ms.
    """

    # The widgets that lose and get the focus repaint themselves; the rest of the screen stays as it is.
    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
    laid_out: Size | None = None

    def _refresh_layout(self, size: Size | None = None, scroll: bool = False) -> None:
        self.laid_out = size or self.laid_out
        super()._refresh_layout(size, scroll)

    def _screen_resized(self, size: Size) -> None:
        """React only to a size that differs; anything else that needs a layout requests it itself."""
        if size != self.laid_out:
            super()._screen_resized(size)

    def _on_screen_resume(self, event: events.ScreenResume) -> None:
        """Come (back) to the front without matching every style again: nothing that a style depends on changes while a
        screen is away (the app and the layout handle a new theme or size)."""
        event.refresh_styles = False

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """Return what a press or drag of the mouse selects from; nothing if the widget was removed since the last
        layout.

        Textual 8.2.8 assumes that the widget found here has a parent (Screen._forward_event), so a press on a widget
        that had just been removed ended the program. Where a later version does not call this, it has no effect.
        """
        widget, offset = super().get_widget_and_offset_at(x, y)
        return (widget, offset) if widget is None or widget is self or widget.is_attached else (None, None)


def picture_behind(screen: Screen[Any]) -> list[Strip] | None:
    """Return the lines of a screen as they are painted now; None if they are not available."""
    compositor = getattr(screen, "_compositor", None)
    render: Callable[[], list[Strip]] | None = getattr(compositor, "render_strips", None)
    return None if render is None else render()


def forget_painted(screen: Screen[Any]) -> None:
    """Release the painted lines of a screen that will not come back: Textual keeps the style caches of up to a thousand
    removed widgets (it caches a method's results, and with them the widgets)."""
    for widget in screen.walk_children(Widget, with_self=True):
        bars = widget._get_virtual_dom() if hasattr(widget, "_get_virtual_dom") else ()
        for each in (widget, *bars):
            if hasattr(each, "_styles_cache"):
                each._styles_cache.clear()


# Screens that are built before they are needed.


def keep_parsed(app: App[Any]) -> None:
    """Let Textual keep all style sheets as it has parsed them. It keeps 64 and walks through all of them in turn when a
    widget of a new class appears, so that with more than 64 it parses every one again."""
    cache = getattr(app.stylesheet, "_parse_cache", None)
    if cache is not None:
        cache.grow(MOST_SHEETS)


def read_style_sheets(app: App[Any], sheets: Iterable[Path]) -> None:
    """Read all sheets in one batch, and match the styles of the existing screens: Textual matches every style whenever
    one is added (20 ms each)."""
    for path in sheets:
        if not app.stylesheet.has_source(str(path), ""):
            app.stylesheet.read(path)
    app.stylesheet.parse()
    for stack in list(getattr(app, "_screen_stacks", {}).values()):
        for screen in stack:
            match_styles(app, screen)


def match_styles(app: App[Any], screen: Screen[Any]) -> None:
    """Match the styles unless they are up to date; otherwise the next switch to the screen would match all screens'
    styles."""
    count = getattr(app, "_css_update_count", None)
    if count is not None and getattr(screen, "_css_update_count", count) != count:
        app.stylesheet.update(screen, animate=False)
        screen._css_update_count = count


def make_ready(app: App[Any], mode: str, make: Callable[[], Screen[Any]]) -> None:
    """Put a screen that has not been opened yet behind the others: built as in `App.switch_mode`, but without showing
    it and without matching the styles of all others again."""
    names = ("_screen_stacks", "_get_screen", "_load_screen_css")
    if not all(hasattr(app, name) for name in names) or mode in app._screen_stacks:
        return
    made, _ = app._get_screen(make())
    app._screen_stacks[mode] = [made]
    app._load_screen_css(made)
    match_styles(app, made)
    made.post_message(events.ScreenResume())
    made.post_message(events.ScreenSuspend())


# Leaving, and bugs.


class QuietApp(App[None]):
    """An app that reports a bug in one line, and exits without complaints about half-removed screens."""

    leaving = False

    def describe_bug(self, error: BaseException | None) -> Any:
        """Return the terminal output when a bug has ended the program."""
        raise NotImplementedError

    def exit(self, *args: Any, **how: Any) -> None:
        self.leaving = True
        super().exit(*args, **how)

    async def _shutdown(self) -> None:
        self.leaving = True
        await super()._shutdown()

    def _handle_exception(self, error: Exception) -> None:
        """During exit an error does not change the status: timers still run while screens are removed, and fail to find
        their widgets. Any other is written to the log."""
        if not self.leaving:
            super()._handle_exception(error)
        elif not isinstance(error, (NoMatches, ScreenStackError)):
            self.describe_bug(error)

    def _parse_action(self, action: Any, *given: Any, **named: Any) -> Any:
        """An action that CPython failed to read once ended the program; see `parse_action`."""
        return super()._parse_action(parse_action(action) if isinstance(action, str) else action, *given, **named)

    def _fatal_error(self) -> None:
        """Write Textual's own page of local variables to the log instead."""
        self.panic(self.describe_bug(getattr(self, "_exception", None)))


# Keys as they come from the terminal.

ESCAPE = "\x1b"
QUICK = 0.025  # seconds; fish waits 30 ms, tmux 10
TORN = 1.0  # seconds after an Esc in which the rest of a key sequence may still come
POLL = 0.1  # seconds between two checks whether the program is exiting
REST = re.compile(r"\[[0-9;:?<]*[A-Za-z~^$]|O[A-Za-z]")  # of an arrow, a function key, a mouse report


class Keys(XTermParser):
    """Textual's parser of terminal input, with a shorter wait after a lone escape.

    Esc is the first byte of every arrow key too, so it counts as an Esc only when nothing follows. Textual waits 100 ms
    for that, and notices at a poll that may come 100 ms later still; a local terminal or an SSH client sends an arrow
    key in one piece, so here the wait is exactly 25 ms. A connection that splits key sequences is recognised when the
    rest of a key arrives after its escape: the two are joined again, never taken for letters, and from then on
    Textual's longer wait applies. ESCDELAY (milliseconds) is obeyed if set.
    """

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self.patience = constants.ESCAPE_DELAY if "ESCDELAY" in os.environ else min(QUICK, constants.ESCAPE_DELAY)
        self.alone = False  # whether the input so far ends with an escape
        self.said = float("-inf")  # when an escape was last reported as an Esc

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
        """Return the seconds until `tick` is worth calling, at most `POLL`."""
        due = self._timeout_time
        return POLL if due is None else max(0.0, min(POLL, due - get_time()))


class Output:
    """The terminal as Textual's writing thread sees it; once it is gone, output is discarded.

    That thread ends at the first OSError, its queue holds thirty pieces, and then the event loop waits forever for a
    place in it: a console whose window was closed would stay, and continue training, until it is killed.
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
        with suppress(OSError):
            if not self.gone:
                self.terminal.flush()

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
        """Start again only after a ctrl+z. A closed window sends this signal too, after its SIGHUP, and the threads of
        a second start would wait for a terminal that is gone, after everything else has ended."""
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
                if not data:  # the other end is closed; its signal will follow
                    self.exit_event.wait(POLL)
                for event in keys.feed(text) if (text := decode(data)) else ():
                    self.process_message(event)
            for event in keys.tick():
                self.process_message(event)


def get_time() -> float:
    """Return the time of the clock that Textual's parser uses."""
    return time.monotonic()


def quick_driver(chosen: type[Driver]) -> type[Driver]:
    """Return `KeyDriver` instead of Textual's driver for Unix terminals, if that one is built as expected."""
    alike = hasattr(XTermParser, "tick") and hasattr(LinuxDriver, "_sigcont_application")
    return KeyDriver if chosen is LinuxDriver and alike else chosen
