"""The app: screens as modes, the current run, cached readers, settings, and a clean exit.

Notable: nothing here imports torch. It is imported in a thread by the first `w` that needs the engine; an idle console
would only pay 300 MB and a second of start-up for it.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.filter import ANSIToTruecolor, LineFilter
from textual.reactive import reactive
from textual.scrollbar import ScrollBar, ScrollBarRender

from txlab.drawing.text import visible
from txlab.errors import LabError
from txlab.tui import idle_gc
from txlab.tui.key_order import KeyOrder
from txlab.tui.screen_registry import SCREENS, ScreenEntry, screen_of
from txlab.tui.settings import Settings, load_settings, log_file
from txlab.tui.textual_internals import QuietApp, quick_driver
from txlab.tui.theme import DARK, THEMES

if TYPE_CHECKING:
    from rich.text import Text
    from textual.driver import Driver

    from txlab.runs.far.state import FarState
    from txlab.runs.reader import RunReader

TAKE_TURNS = 0.001  # seconds for which a thread keeps the interpreter while another wants it
READERS_KEPT = 8  # an open reader of a 10-million-value run holds some 100 MB of curves


class WholeCells(ScrollBarRender):
    """A scrollbar without eighths of a cell, which terminals without block characters cannot draw."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "]
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "]


ScrollBar.renderer = WholeCells


class TxlabApp(QuietApp):
    """The console. `root` is the folder of runs; `run`, if given, is the first current run."""

    TITLE = "txlab"
    CSS_PATH = Path(__file__).with_name("app.tcss")
    MODES: ClassVar = {entry.name: entry.open for entry in SCREENS}
    DEFAULT_MODE = "lab"
    ENABLE_COMMAND_PALETTE = False  # replaced by a dialog like the others, which keeps up with fast typing
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (100, "-wide"), (160, "-huge")]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (20, "-medium"), (34, "-tall")]
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(
                entry.keys,
                f"open_screen('{entry.name}')",
                entry.title,
                id=f"room.{entry.name}",
                show=False,
            )
            for entry in SCREENS
            if entry.key
        ),
        Binding("ctrl+p", "command_palette", "commands", id="app.palette", show=False),
        Binding("ctrl+q", "quit", "quit", id="app.quit", key_display="^q", priority=True),
    ]

    current_run: reactive[Path | None] = reactive(None)
    """The run that Train and Attention show."""

    far: reactive[FarState | None] = reactive(None)
    """The machine that the run shown is on, None for this one."""

    def __init__(
        self,
        run: Path | None = None,
        root: Path | None = None,
        ascii: bool = False,
        settings: Settings | None = None,
    ) -> None:
        super().__init__()
        self.complaint = ""
        if settings is None:
            try:
                settings = load_settings()
            except LabError as error:
                settings, self.complaint = Settings(), str(error)
        self.settings = settings
        self.ascii = ascii or settings.ascii
        self.refresh_rate = settings.refresh
        self.given_root, self.first_run = root, run
        self._readers: OrderedDict[Path, RunReader] = OrderedDict()
        self._readers_lock = threading.Lock()
        self.last_input = 0.0
        self.key_order = KeyOrder(self, super().on_event)
        self.key_order.hold(self)  # until the first screen can be typed into
        self.entries = [*SCREENS]
        for theme in THEMES:
            self.register_theme(theme)
        if settings.theme in self.available_themes:
            self.theme = settings.theme
        else:
            self.theme = DARK.name
            self.complaint = f"theme = {settings.theme!r} is not a theme; the palette (:) lists them"
        self.set_keymap(settings.keys)

    def get_driver_class(self) -> type[Driver]:
        """Return Textual's driver, except on Unix, where Textual's waits too long after an Esc."""
        return quick_driver(super().get_driver_class())

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Provide `quiet` and `rule` for themes other than our own."""
        colours = self.current_theme.to_color_system().generate()
        ground, text = Color.parse(colours["background"]), Color.parse(colours["foreground"])
        return {"quiet": ground.blend(text, 0.6).hex, "rule": ground.blend(text, 0.25).hex}

    def get_key_display(self, binding: Binding) -> str:
        """Return how a key is written: by its name if its symbol is not ASCII and only ASCII can be drawn."""
        shown = super().get_key_display(binding)
        return shown if shown.isascii() or not self.ascii else binding.key

    @property
    def root(self) -> Path:
        """The folder of runs."""
        from txlab.runs.root import default_root

        return self.given_root or default_root()

    def on_mount(self) -> None:
        self.set_class(self.ascii, "-ascii")
        self.animation_level = "none"
        loop = asyncio.get_running_loop()
        for name in ("SIGTERM", "SIGHUP"):
            # Without this the terminal stays in mouse mode. Not every platform or thread supports the signals.
            with suppress(AttributeError, NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(getattr(signal, name), self.exit)
        if self.first_run is not None:
            self.look_at(self.first_run)
        self.screen.call_after_refresh(self.key_order.release, self)
        self.call_after_refresh(self.warm_up)
        if self.complaint:
            self.notify(visible(self.complaint), severity="warning", markup=False, timeout=10)

    def warm_up(self) -> None:
        from txlab.tui.preload import prepare_screens

        self.run_worker(prepare_screens(self, self.add_screens, self.report), group="preload", exit_on_error=False)
        if not self.is_headless:
            self.set_timer(2.0, idle_gc.take_over)
            self.set_interval(idle_gc.LOOK, self.tidy_up)

    def tidy_up(self) -> None:
        if time.monotonic() - self.last_input > idle_gc.PAUSE:
            idle_gc.search()

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.InputEvent):
            self.last_input = time.monotonic()
            if isinstance(event, (events.Key, events.Paste)) and not event.is_forwarded:
                await self.key_order.take(event)
                return
        await super().on_event(event)

    def add_screens(self, entries: Sequence[ScreenEntry]) -> None:
        """Add screens of other packages and bind their keys."""
        for entry in entries:
            self.add_mode(entry.name, entry.open)
            if entry.key:
                self.bind(entry.keys, f"open_screen('{entry.name}')", show=False)
            self.entries.append(entry)
        if entries:
            self.screen.query("NavigationLine").refresh()

    def look_at(self, run: Path, screen: str = "") -> None:
        """Make `run` the current run, and open `screen`, or the one that suits its kind best."""
        self.current_run = Path(run).absolute()
        self.action_open_screen(screen or screen_of(self.current_run))

    def action_open_screen(self, name: str) -> None:
        """Switch to a screen; does nothing while a dialog is open."""
        if len(self.screen_stack) > 1 or name == self.current_mode:
            return
        try:
            self.switch_mode(name)
        except LabError as error:
            self.report(error)

    def delay_update(self, delay: float = 0.05) -> None:
        """Do nothing: Textual hides every change of screens for 50 ms against flicker and then repaints it all, but our
        screens are complete when they appear."""

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Leave out the conversion of ANSI colours and dim text, unused here: it takes a sixth of all painting."""
        return [each for each in super().get_line_filters() if not isinstance(each, ANSIToTruecolor)]

    def pop_screen(self) -> AwaitComplete:
        """Pop the screen; fast typing may dismiss one of Textual's dialogs twice, when nothing is left to pop."""
        return super().pop_screen() if len(self.screen_stack) > 1 else AwaitComplete()

    def reader_for(self, path: Path) -> RunReader:
        """Return the cached reader of a run, opening it if needed; a mirror is kept fresh from then on. Safe to call
        from any thread."""
        from txlab.runs.far.mirroring import follow
        from txlab.runs.reader import RunReader

        follow(path)
        with self._readers_lock:
            reader = self._readers.pop(path, None) or RunReader(path)
            self._readers[path] = reader
            while len(self._readers) > READERS_KEPT:
                self._readers.popitem(last=False)
        return reader

    def report(self, error: BaseException) -> None:
        """Show an error in one line; anything that the user cannot fix is also logged."""
        said = str(error)
        if not isinstance(error, LabError):
            said = f"{type(error).__name__}: {said} (details in {write_traceback(error)})"
        self.notify(visible(said), severity="error", markup=False, timeout=8)

    def said_of_bug(self, error: BaseException | None) -> Text:
        """Return one line about a bug and write its traceback to the log."""
        from rich.text import Text

        where = write_traceback(error) if error is not None else log_file()
        said = visible(f"txlab has met a bug: {type(error).__name__}: {error}")
        return Text(f"{said}\nThe traceback is in {where}")

    def action_command_palette(self) -> None:
        """List every action by its name."""
        from txlab.tui.palette import open_palette

        open_palette(self, self.entries, self.report)


def write_traceback(error: BaseException) -> Path:
    """Append the traceback to the log and return the path of the log."""
    path = log_file()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"--- {time.strftime('%Y-%m-%d %H:%M:%S')}\n")
            file.write("".join(traceback.format_exception(error)))
    return path


def launch(run: Path | None = None, root: Path | None = None, ascii: bool = False) -> int:
    """Run the console until the user leaves, and return the exit status."""
    app = TxlabApp(run=run, root=root, ascii=ascii)
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, TAKE_TURNS))
    try:
        app.run()
    finally:
        sys.setswitchinterval(before)
    return app.return_code or 0
