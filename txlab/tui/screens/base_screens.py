"""What every screen of the bench has: the navigation line, the keys at the bottom, and the habits of the house.

`BenchScreen` is for any screen; a screen that looks at a run has a `RunPanel` (run_panel.py) among its panels.
Notable: a RunScreen reads in a worker thread and shows on the event loop, at most `refresh` times a second and no more
often than is cheap (see `thrift`), only while it is the screen that one sees, and never two reads at once: what comes
meanwhile is read by the next one.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.worker import Worker, WorkerState, get_current_worker

from txlab.drawing.text import visible
from txlab.errors import LabError
from txlab.tui.cpu_budget import Thrift
from txlab.tui.dialog_cache import put_in_front
from txlab.tui.machine import machine_line
from txlab.tui.panel import ROUTED, Panel, Panels, with_keys_of
from txlab.tui.screen_registry import SCREENS
from txlab.tui.screens.keyline import KeyLine
from txlab.tui.textual_internals import SteadyScreen
from txlab.tui.theme import glyphs

if TYPE_CHECKING:
    from txlab.runs.reader import RunReader


CATCH_UP = 0.25  # seconds between two looks whether the person has gone elsewhere


class Rule(Widget, can_focus=False):
    """A horizontal rule across the screen."""

    DEFAULT_CSS = "Rule { height: 1; width: 1fr; color: $rule; }"

    def render(self) -> Content:
        return Content(glyphs(getattr(self.app, "ascii", False)).rule * self.size.width)


class NavigationLine(Widget, can_focus=False):
    """txlab   1 Lab  3 Train  4 Attention                        2 × EPYC · bf16 · 24 GB"""

    ALLOW_SELECT = False
    DEFAULT_CSS = "NavigationLine { height: 1; }"

    def __init__(self) -> None:
        super().__init__()
        self.places: list[tuple[int, int, str]] = []

    def render(self) -> Content:
        mode = getattr(self.app, "current_mode", None)
        entries = getattr(self.app, "entries", SCREENS)
        here = next((entry.within for entry in entries if entry.name == mode and entry.within), mode)
        parts = [Content.styled("txlab", "bold"), Content("   ")]
        column = 8
        self.places = []
        for entry in [entry for entry in entries if not entry.within]:
            label = f"{entry.key} {entry.title}"
            self.places.append((column, column + len(label), entry.name))
            style = "bold underline $accent" if entry.name == here else "$quiet"
            parts += [Content.styled(label, style), Content("  ")]
            column += len(label) + 2
        machine = machine_line()
        if getattr(self.app, "ascii", False):
            machine = machine.replace(" · ", " - ").replace("×", "x")
        gap = self.size.width - column - len(machine)
        if gap > 2:
            parts += [Content(" " * gap), Content.styled(machine, "$quiet")]
        return Content.assemble(*parts)

    async def on_click(self, event: events.Click) -> None:
        column = event.get_content_offset_capture(self).x
        for first, end, name in self.places:
            if first <= column < end:
                await self.run_action(f"app.open_screen('{name}')")


class BenchScreen(SteadyScreen[None]):
    """A screen of the bench. Subclasses yield what is between the first and the last line from `compose_body`."""

    HELP_ABOUT: ClassVar[str] = ""
    """A paragraph for the help overlay: what one does here."""

    PANELS: ClassVar[tuple[type[Panel], ...]] = ()
    """The panels whose keys work on this screen; `compose_body` yields one of each."""

    KEY_ORDER: ClassVar[tuple[str, ...]] = ()
    """Ids of bindings in the order of the bottom line; those not named follow."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "why", "why", id="screen.why"),
        Binding("s", "picture", "picture", id="screen.picture", show=False),
        Binding("colon", "palette", "everything", id="screen.palette", key_display=":", show=False),
        Binding("q", "back", "back", id="screen.back", show=False),
        Binding("question_mark", "help", "help", id="screen.help", key_display="?"),
    ]

    def __init_subclass__(cls, **options: Any) -> None:
        if "PANELS" in cls.__dict__:
            cls.BINDINGS = with_keys_of(cls.PANELS, cls.__dict__.get("BINDINGS", []), cls.KEY_ORDER)
        super().__init_subclass__(**options)

    def __init__(self) -> None:
        super().__init__()
        self.panels = Panels(self)

    async def action_panel(self, panel: str, action: str) -> None:
        """Hand an action to the panel of that class."""
        found = self.panels.named(panel)
        if found is not None:
            await found.run_action(action)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether it can be done now; a screen that overrides this asks here in the end."""
        return self.panels.allows(str(parameters[0]), str(parameters[1])) if action == ROUTED else True

    def compose(self) -> ComposeResult:
        yield NavigationLine()
        yield Rule()
        yield from self.compose_body()
        yield KeyLine()

    def compose_body(self) -> ComposeResult:
        """What is between the navigation and the keys."""
        yield from ()

    @on(events.ScreenResume)
    def tell_panels_they_are_seen(self) -> None:
        if self in self.app.screen_stack:  # else it is only made ready
            self.query_one(NavigationLine).refresh()  # other packages may have brought screens meanwhile
            for panel in self.query(Panel):
                panel.seen()

    @on(events.ScreenSuspend)
    def tell_panels_they_are_not_seen(self) -> None:
        for panel in self.query(Panel):
            panel.unseen()

    @property
    def ascii(self) -> bool:
        return bool(getattr(self.app, "ascii", False))

    def word_for(self, binding: Binding) -> str:
        """What the bottom line says that a key does, now; "" leaves the key out of it."""
        panel = self.panels.of_binding(binding)
        return binding.description if panel is None else panel.word_for(binding)

    def tell(self, sentence: str, severity: str = "information") -> None:
        """One line on the screen; `sentence` is data, never markup."""
        self.app.notify(visible(sentence), severity=severity, markup=False)  # type: ignore[arg-type]

    @on(Worker.StateChanged)
    def report_failed_worker(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            report = getattr(self.app, "report", None)
            if report is None:
                self.tell(str(event.worker.error), "error")
            else:
                report(event.worker.error)

    def action_why(self) -> None:
        """Screens that have numbers override this with the Explanation of the selected one."""
        self.tell("Nothing on this screen is computed; ask w on Train or Attention.")

    def action_help(self) -> None:
        from txlab.tui.screens.help import HelpScreen

        put_in_front(self.app, f"help of {type(self).__name__}", lambda: HelpScreen(self), HelpScreen.begin)

    async def action_palette(self) -> None:
        await self.run_action("app.command_palette")

    def action_back(self) -> None:
        """q goes back to the Lab, and leaves from there."""
        if self.app.current_mode not in ("lab", "_default"):
            self.app.switch_mode("lab")
        else:
            self.app.exit()

    def picture_path(self, suffix: str = ".svg") -> Path:
        """A new file in the current folder: txlab-train-2026-11-20_143012.svg"""
        name = type(self).__name__.removesuffix("Screen").lower()
        return Path.cwd() / f"txlab-{name}-{datetime.now():%Y-%m-%d_%H%M%S}{suffix}"

    def action_picture(self) -> None:
        """The screen as SVG in the current folder."""
        path = self.picture_path()
        svg = self.app.export_screenshot(title="txlab")
        self.run_worker(lambda: self._save_picture(path, svg), thread=True, group="picture", exit_on_error=False)

    def _save_picture(self, path: Path, svg: str) -> None:
        aside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            aside.write_text(svg, encoding="utf-8")
            aside.replace(path)
        except OSError as error:
            raise LabError(f"the picture cannot be written to {path.parent} ({error.strerror})") from error
        self.app.call_from_thread(self.tell, f"picture saved: {path}")


class RunScreen(BenchScreen):
    """A screen that looks at the app's current run.

    A subclass has `read(reader, changed)`, called in a thread, which returns whatever `show(snapshot)` needs (None =
    nothing to show anew); `wants_read()` asks for a reading now (a key changed what is shown).
    The step looked at is `self.at`: None follows the live edge. A TimeLine widget in the body is found by its type;
    its Moved message sets `self.at` and calls `moved()`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "pause", "pause", id="run.pause", key_display="space"),
        Binding("full_stop", "step", "step", id="run.step", key_display="."),
        Binding("x", "stop", "stop", id="run.stop", show=False),
        Binding("left_square_bracket", "timeline('earlier')", "earlier", id="time.earlier", key_display="["),
        Binding("right_square_bracket", "timeline('later')", "later", id="time.later", key_display="]"),
        Binding("left_curly_bracket", "timeline('first')", "first frame", id="time.first", key_display="{", show=False),
        Binding("right_curly_bracket", "timeline('last')", "live", id="time.last", key_display="}", show=False),
    ]

    class Asked(Message):
        """A request was left in the run's inbox."""

        def __init__(self, ident: str, request: Any) -> None:
            super().__init__()
            self.ident, self.request = ident, request

    def __init__(self) -> None:
        super().__init__()
        self.run_path: Path | None = None
        self.at: int | None = None
        self.visible_now = False
        self._reading = False
        self._again = False
        self._catching_up = False
        self._failure = ""

    def on_mount(self) -> None:
        self.watch(self.app, "current_run", self._run_changed)
        self.thrift = Thrift()
        self.set_interval(1 / float(getattr(self.app, "refresh_rate", 4.0)), self._look_again)

    def _look_again(self) -> None:
        if self.thrift.may_look():
            self._tick()

    @on(events.ScreenResume)
    def seen(self) -> None:
        if self in self.app.screen_stack:  # else it is only made ready
            self.query_one(NavigationLine).refresh()  # other packages may have brought screens meanwhile
            self.visible_now = True
            self.wants_read()

    @on(events.ScreenSuspend)
    def unseen(self) -> None:
        self.visible_now = False

    def _run_changed(self, path: Path | None) -> None:
        if path != self.run_path:
            self.run_path, self.at, self._failure = path, None, ""
            self.run_changed()
            self.wants_read()

    def run_changed(self) -> None:
        """The app looks at another run (self.run_path, possibly None): forget what belongs to the old one."""

    def read(self, reader: RunReader, changed: bool) -> Any:
        """In a worker thread: look at the run and return what `show` needs, or None if nothing is new."""
        raise NotImplementedError

    def show(self, snapshot: Any) -> None:
        """On the event loop: put the snapshot on the screen."""
        raise NotImplementedError

    def wants_read(self) -> None:
        """Read now, whether or not the run grew."""
        self._again = True
        self._tick()

    def _tick(self) -> None:
        if self._reading or self.run_path is None or not (self.visible_now and self.is_attached):
            return
        self._reading = True
        self.thrift.looked()
        forced, self._again = self._again, False
        path = self.run_path
        self.run_worker(lambda: self._read(path, forced), thread=True, group="read", exit_on_error=False)

    def _read(self, path: Path, forced: bool) -> None:
        worker = get_current_worker()
        snapshot = None
        try:
            reader = self.app.reader_for(path)  # type: ignore[attr-defined]
            changed = reader.poll() or forced
            if not worker.is_cancelled:
                snapshot = self.read(reader, changed)
        except LabError as error:  # the folder is gone, or no run (any more): said once, tried again
            if not worker.is_cancelled and self.is_attached:
                self.app.call_later(self.read_failed, path, str(error))
            return
        finally:
            self._reading = False
        if worker.is_cancelled or not self.is_attached:
            return
        self.app.call_later(self._shown, path, snapshot)
        if not reader.complete and not self._catching_up:
            self._catching_up = True
            self.app.call_later(self._catch_up, reader)

    def _catch_up(self, reader: RunReader) -> None:
        """Read the whole of a long log beside the polls, until it is known or another run is looked at."""

        def read_on() -> None:
            worker, path = get_current_worker(), self.run_path
            try:
                while not worker.is_cancelled and path == self.run_path and not reader.catch_up(CATCH_UP):
                    continue
            finally:
                self._catching_up = False
            self._again = True  # what is known now is more than what is shown

        self.run_worker(read_on, thread=True, group="catch up", exit_on_error=False)

    def read_failed(self, path: Path, sentence: str) -> None:
        """The run cannot be read; the sentence is shown once, however often it is tried."""
        if path == self.run_path and sentence != self._failure:
            self._failure = sentence
            self.tell(sentence, "error")

    def _shown(self, path: Path, snapshot: Any) -> None:
        if snapshot is not None and path == self.run_path and self.is_attached:
            self.show(snapshot)
        if self._again:
            self._tick()

    # What a person asks of the run.

    def ask(self, request: str, key: str | None = None, value: float | None = None, count: int = 1) -> None:
        """Leave a request in the inbox of the run; `Asked` comes back with its id."""
        if self.run_path is None:
            self.tell("no run is chosen: press enter on one in the Lab (1)")
            return
        path = self.run_path

        def leave() -> None:
            from txlab.runs.control import Request, send

            asked = Request(request, key=key, value=value, count=count)
            self.post_message(self.Asked(send(path, asked), asked))

        self.run_worker(leave, thread=True, group="ask", exit_on_error=False)

    def action_pause(self) -> None:
        """Pause a running run, resume a paused one."""
        self.ask("resume" if self.paused() else "pause")

    def paused(self) -> bool:
        """Whether the run is paused, as far as this screen knows."""
        return False

    def action_step(self) -> None:
        self.ask("step", count=1)

    def action_stop(self) -> None:
        from txlab.tui.screens.dialogs import Confirm

        name = self.run_path.name if self.run_path else "the run"
        self.app.push_screen(
            Confirm(f"Stop {name}?", "It saves a checkpoint first and can be resumed.", "stop"),
            lambda sure: self.ask("stop") if sure else None,
        )

    # The time line.

    def action_timeline(self, where: str) -> None:
        from txlab.tui.widgets.timeline import TimeLine

        line = self.query(TimeLine)
        if line:
            getattr(line.first(), where)()

    def moved(self) -> None:
        """The step looked at has changed (self.at; None = live)."""
        self.wants_read()
