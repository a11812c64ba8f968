"""The app: screens as modes, the current run, cached readers, settings, and a clean exit.

Notable: nothing here imports torch. After the first paint it is imported in a thread, by the screens that compute by
themselves.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.filter import ANSIToTruecolor, LineFilter
from textual.reactive import reactive
from textual.screen import ModalScreen, Screen
from textual.scrollbar import ScrollBar, ScrollBarRender

from txlab.drawing.text import visible
from txlab.errors import LabError
from txlab.tui import idle_gc
from txlab.tui.bindings import EVERYWHERE, bind
from txlab.tui.console import Console
from txlab.tui.key_order import KeyOrder
from txlab.tui.lecture.keys import BACK, BETWEEN, FORWARD, LEAVE, NOTES
from txlab.tui.screen_registry import SCREENS, ScreenEntry, screen_of
from txlab.tui.screens.base_screens import BenchScreen
from txlab.tui.settings import Settings, load_settings, log_file
from txlab.tui.textual_internals import keep_parsed, quick_driver
from txlab.tui.theme import DARK, THEMES, SignsInAscii

if TYPE_CHECKING:
    from rich.text import Text
    from textual.driver import Driver

    from txlab.runs.reader import RunReader
    from txlab.runs.remote.state import RemoteState

FADED = ("quiet", "text-muted", "footer-description-foreground")  # colours of what is less important
READERS_KEPT = 8  # an open reader of a 10-million-value run holds some 100 MB of curves


LECTURE_KEYS = (
    (FORWARD, "forward", "forward", "go to the next step of the lecture"),
    (BACK, "back", "back", "go back a step of the lecture"),
    (NOTES, "toggle_notes", "notes", "show or hide the notes of the lecture"),
    (LEAVE, "leave", "leave", "leave the lecture"),
)


class WholeCells(ScrollBarRender):
    """A scrollbar without eighths of a cell, which terminals without block characters cannot draw."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "]
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "]


ScrollBar.renderer = WholeCells


class TxlabApp(Console):
    """The console. `root` is the folder of runs; `run`, if given, is the first current run. It opens with `screen`, by
    default the run's, or the Lab, and builds no other before that."""

    TITLE = "txlab"
    CSS_PATH = Path(__file__).with_name("app.tcss")
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {
        BETWEEN: Screen,
        **{entry.name: entry.open for entry in SCREENS},
    }
    DEFAULT_MODE = "lab"
    ENABLE_COMMAND_PALETTE = False  # replaced by a dialog that keeps up with fast typing
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (100, "-wide"), (160, "-huge")]
    HALL_BREAKPOINTS: ClassVar = [(0, "-tiny"), (160, "-narrow"), (240, "-wide")]  # in hall mode
    VERTICAL_BREAKPOINTS = [(0, "-low"), (20, "-medium"), (34, "-tall")]
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            bind(entry.keys, f"open_screen('{entry.name}')", entry.title, id=f"room.{entry.name}", heading=EVERYWHERE)
            for entry in SCREENS
            if entry.key
        ),
        bind("ctrl+p", "command_palette", "find a command by its name", id="app.palette", heading=EVERYWHERE),
        bind(
            "ctrl+q",
            "quit",
            "quit txlab; runs keep running",
            "quit",
            id="app.quit",
            heading=EVERYWHERE,
            synonyms="exit leave close end",
            priority=True,
        ),
        bind(
            "H",
            "toggle_hall",
            "hall mode, for readers in the back row: on, off",
            id="app.hall",
            heading=EVERYWHERE,
            synonyms="lecture projector large thick big presentation beamer legible",
        ),
        *(
            bind(keys, f"lecture('{verb}')", f"{sentence}", id=f"lecture.{name}", heading=EVERYWHERE, priority=True)
            for keys, verb, name, sentence in LECTURE_KEYS
        ),
    ]

    current_run: reactive[Path | None] = reactive(None)
    """The run shown by Train and Attention."""

    current_formula: reactive[str] = reactive("F1")
    """The number of the formula shown by Formulas."""

    hall: reactive[bool] = reactive(False, init=False)
    """Whether screens are drawn for readers in the back row of a lecture hall."""

    far: reactive[RemoteState | None] = reactive(None)
    """The machine of the run shown; None = this one."""

    def __init__(
        self,
        run: Path | None = None,
        root: Path | None = None,
        ascii: bool = False,
        settings: Settings | None = None,
        screen: str = "",
    ) -> None:
        self.first = screen or ("lab" if run is None else screen_of(run))
        # Textual reads it only now. A screen of another package opens once it is found.
        self.DEFAULT_MODE = self.first if self.first in self.MODES else "lab"  # type: ignore[misc]
        super().__init__()
        keep_parsed(self)
        if run is not None:
            self.set_reactive(TxlabApp.current_run, run.absolute())
        self.complaint = ""
        if settings is None:
            try:
                settings = load_settings()
            except LabError as error:
                settings, self.complaint = Settings(), str(error)
        self.settings = settings
        self.begins_in_hall = settings.hall
        self.set_reactive(TxlabApp.hall, settings.hall)
        self.ascii, self.signs_in_ascii = ascii or settings.ascii, SignsInAscii()
        self.refresh_rate = settings.refresh
        self.given_root = root
        self._readers: OrderedDict[Path, RunReader] = OrderedDict()
        self._readers_lock = threading.Lock()
        self.last_input = 0.0
        self.key_order = KeyOrder(self, super().on_event)
        self.key_order.hold(self)  # until the first screen can be typed into
        self.entries = [*SCREENS]
        self.begin: Callable[[TxlabApp], object] | None = None
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

    def get_css_variables(self) -> dict[str, str]:
        """In hall mode, what is usually quiet is nearly as bright as everything else."""
        variables = super().get_css_variables()
        if self.hall:
            ground, text = (Color.parse(variables[name]) for name in ("background", "foreground"))
            variables |= dict.fromkeys(FADED, ground.blend(text, 0.85).hex) | {"rule": ground.blend(text, 0.45).hex}
            self.theme_variables = variables
        return variables

    def get_key_display(self, binding: Binding) -> str:
        """Return the display text of a key: its name if its symbol is not ASCII and only ASCII can be drawn."""
        shown = super().get_key_display(binding)
        return shown if shown.isascii() or not self.ascii else binding.key

    @property
    def root(self) -> Path:
        """The folder of runs."""
        from txlab.runs.root import default_root

        return (self.given_root or default_root()).absolute()  # as the paths of runs that are started are

    def on_mount(self) -> None:
        self.set_class(self.ascii, "-ascii")
        self.set_class(self.hall, "-hall")
        self.animation_level = "none"
        loop = asyncio.get_running_loop()
        for name in ("SIGTERM", "SIGHUP"):
            # Without this the terminal stays in mouse mode. Not every platform or thread supports the signals.
            with suppress(AttributeError, NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(getattr(signal, name), self.exit)
        self.screen.call_after_refresh(self.key_order.release, self)
        self.call_after_refresh(self.warm_up)
        if self.begin is not None:
            self.call_after_refresh(self.begin, self)
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
            if self.lecture is not None and not event.is_forwarded and not self.lecture.admits(event):
                return
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
        if self.first in [entry.name for entry in entries] and self.current_mode == "lab":
            self.action_open_screen(self.first)

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

    def action_open_formula(self, number: str) -> None:
        """Show a formula on the Formulas screen; an answer or a help text in front is closed."""
        self.current_formula = number
        if isinstance(self.screen, ModalScreen):
            self.screen.dismiss()
        self.call_later(self.action_open_screen, "formulas")

    def delay_update(self, delay: float = 0.05) -> None:
        """Do nothing: against flicker Textual hides every change of screens for 50 ms and then repaints everything, but
        our screens are complete when they appear."""

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Skip the conversion of ANSI colours and dim text, unused here: it takes a sixth of all painting. In ASCII,
        add that of signs."""
        kept = [each for each in super().get_line_filters() if not isinstance(each, ANSIToTruecolor)]
        return [*kept, *([self.pointed] if self.pointed else []), *([self.signs_in_ascii] if self.ascii else [])]

    def pop_screen(self) -> AwaitComplete:
        """Pop the screen; fast typing may dismiss one of Textual's dialogs twice, with nothing left to pop."""
        return super().pop_screen() if len(self.screen_stack) > 1 else AwaitComplete()

    def reader_for(self, path: Path) -> RunReader:
        """Return the cached reader of a run, opening it if needed; a mirror is kept fresh from then on. Safe to call
        from any thread."""
        from txlab.runs.reader import RunReader
        from txlab.runs.remote.mirroring import follow

        follow(path)
        with self._readers_lock:
            reader = self._readers.pop(path, None) or RunReader(path)
            self._readers[path] = reader
            while len(self._readers) > READERS_KEPT:
                self._readers.popitem(last=False)
        return reader

    def report(self, error: BaseException) -> None:
        """Show an error in one line; anything that the user cannot fix is also logged."""
        message = str(error)
        if not isinstance(error, LabError):
            message = f"{type(error).__name__}: {message} (details in {write_traceback(error)})"
        self.notify(visible(message), severity="error", markup=False, timeout=8)

    def describe_bug(self, error: BaseException | None) -> Text:
        """Return one line about a bug and write its traceback to the log."""
        from rich.text import Text

        where = write_traceback(error) if error is not None else log_file()
        message = visible(f"txlab has met a bug: {type(error).__name__}: {error}")
        return Text(f"{message}\nThe traceback is in {where}")

    def action_toggle_hall(self) -> None:
        self.hall = not self.hall

    def watch_hall(self) -> None:
        self.set_class(self.hall, "-hall")
        self.refresh_css(animate=False)
        if isinstance(self.screen, BenchScreen):
            self.screen.draw_again()

    # Lectures.

    def play_lecture(
        self, name: str, folder: Path | None = None, number: int | None = None, notes: bool = False
    ) -> None:
        """Play a lecture by its name or file, with its runs in `folder`, from step `number` (from 0), by default from
        where it was left."""
        from txlab.runs.lecture import load_lecture
        from txlab.runs.lecture_progress import read_progress
        from txlab.runs.lecture_runs import runs_folder
        from txlab.tui.lecture.player import Player

        try:
            lecture = load_lecture(name, [entry.name for entry in self.entries])
        except LabError as error:
            self.report(error)
            return
        first = read_progress(lecture) if number is None else number
        player = self.lecture = Player(self, lecture, folder or runs_folder(lecture), notes)
        player.begin(min(first, len(lecture.steps) - 1), again=number is None)

    def record_lecture(self, file: Path) -> None:
        """Write what is done from now on as a lecture into a new file."""
        from txlab.tui.lecture.recorder import Recorder

        recorder = self.lecture = Recorder(self, file)
        recorder.begin()

    def action_lecture(self, verb: str) -> None:
        if self.lecture is not None:
            getattr(self.lecture, verb)()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.lecture is not None if action == "lecture" else super().check_action(action, parameters)

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
