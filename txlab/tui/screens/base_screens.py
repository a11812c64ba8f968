"""What every screen has in common: the navigation line, the keys at the bottom, help and pictures.

A screen with time has a `Playback` (playback.py) among its panels.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, on
from textual.actions import parse
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.worker import Worker, WorkerState

from txlab.drawing.text import visible
from txlab.errors import LabError
from txlab.files import atomic_write
from txlab.tui.dialog_cache import put_in_front
from txlab.tui.machine import machine_line
from txlab.tui.panel import ROUTED, Panel, with_keys_of
from txlab.tui.screen_registry import SCREENS
from txlab.tui.screens.keyline import KeyLine
from txlab.tui.textual_internals import SteadyScreen
from txlab.tui.theme import glyphs

if TYPE_CHECKING:
    from txlab.runs.far.state import FarState


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
        shown = [entry for entry in entries if not entry.within]
        labels = {entry.name: entry.label for entry in shown}
        room = self.size.width - column
        gap = 2 if sum(map(len, labels.values())) + 2 * len(labels) <= room else 1
        if gap == 1 and sum(map(len, labels.values())) + len(labels) > room:
            labels |= {name: label.partition(" ")[0] for name, label in labels.items() if name != here}
        for entry in shown:
            label = labels[entry.name]
            self.places.append((column, column + len(label), entry.name))
            style = "bold underline $accent" if entry.name == here else "$quiet"
            parts += [Content.styled(label, style), Content(" " * gap)]
            column += len(label) + gap
        far = getattr(self.app, "far", None)
        trouble = far is not None and not far.connected
        machine = machine_line() if far is None else corner(far)
        if getattr(self.app, "ascii", False):
            machine = machine.replace(" · ", " - ").replace("×", "x")
        gap = self.size.width - column - len(machine)
        if gap > 2:
            parts += [Content(" " * gap), Content.styled(machine, "bold $error" if trouble else "$quiet")]
        return Content.assemble(*parts)

    def on_mount(self) -> None:
        self.watch(self.app, "far", self.other_machine, init=False)

    def other_machine(self) -> None:
        self.refresh()

    async def on_click(self, event: events.Click) -> None:
        column = event.get_content_offset_capture(self).x
        for first, end, name in self.places:
            if first <= column < end:
                await self.run_action(f"app.open_screen('{name}')")


def corner(far: FarState) -> str:
    """Return what the corner says of another machine: `on box`, or that the line to it is lost."""
    word = {"connecting": "connecting", "lost": "line lost"}.get(far.line, "not connected")
    return visible(f"on {far.host}" if far.connected else f"{far.host}: {word}")


class BenchScreen(SteadyScreen[None]):
    """A screen of txlab. Subclasses yield the part between the first and the last line from `compose_body`."""

    HELP_ABOUT: ClassVar[str] = ""
    """A paragraph for the help overlay: what this screen is for."""

    PANELS: ClassVar[tuple[type[Panel], ...]] = ()
    """The panels whose keys work on this screen; `compose_body` yields one of each."""

    KEY_ORDER: ClassVar[tuple[str, ...]] = ()
    """Binding ids in the order of the bottom line; all others follow."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "why", "why", id="screen.why"),
        Binding("s", "picture", "picture", id="screen.picture", show=False),
        Binding("colon", "palette", "commands", id="screen.palette", key_display=":", show=False),
        Binding("q", "back", "back", id="screen.back", show=False),
        Binding("question_mark", "help", "help", id="screen.help", key_display="?"),
    ]

    def __init_subclass__(cls, **options: Any) -> None:
        if "PANELS" in cls.__dict__:
            cls.BINDINGS = with_keys_of(cls.PANELS, cls.__dict__.get("BINDINGS", []), cls.KEY_ORDER)
        super().__init_subclass__(**options)

    def __init__(self) -> None:
        super().__init__()
        self.panels: dict[str, Panel] = {}  # by class name, looked up on first use

    def panel_named(self, name: str) -> Panel | None:
        if name not in self.panels and self.is_attached:
            self.panels = {type(panel).__name__: panel for panel in self.query(Panel)}
        return self.panels.get(name)

    async def action_panel(self, panel: str, action: str) -> None:
        """Route an action to the panel of that class."""
        found = self.panel_named(panel)
        if found is not None:
            await found.run_action(action)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is possible now; overrides fall back to this method."""
        if action != ROUTED:
            return True
        panel = self.panel_named(str(parameters[0]))
        _, method, own = parse(str(parameters[1]))
        return panel is not None and panel.check_action(method, own)

    def compose(self) -> ComposeResult:
        yield NavigationLine()
        yield Rule()
        yield from self.compose_body()
        yield KeyLine()

    def compose_body(self) -> ComposeResult:
        """Yield what lies between the navigation line and the keys."""
        yield from ()

    @on(events.ScreenResume)
    def tell_panels_they_are_seen(self) -> None:
        if self in self.app.screen_stack:  # otherwise it is only being prepared
            self.query_one(NavigationLine).refresh()  # other packages may have added screens meanwhile
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
        """Return the current label of a key on the bottom line; "" hides the key."""
        _, action, parameters = parse(binding.action)
        panel = self.panel_named(str(parameters[0])) if action == ROUTED else None
        return binding.description if panel is None else panel.word_for(binding)

    def tell(self, sentence: str, severity: str = "information") -> None:
        """One line on the screen; `sentence` is data, never markup."""
        self.app.notify(visible(sentence), severity=severity, markup=False)  # type: ignore[arg-type]

    @on(Worker.StateChanged)
    def report_failed_worker(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            self.app.report(event.worker.error)  # type: ignore[attr-defined]

    def action_why(self) -> None:
        """Explain the selected number; screens that have numbers override this."""
        self.tell("No number here to explain; press w on Train or Attention.")

    def action_help(self) -> None:
        from txlab.tui.screens.help import HelpScreen

        put_in_front(self.app, f"help of {type(self).__name__}", lambda: HelpScreen(self), HelpScreen.begin)

    async def action_palette(self) -> None:
        await self.run_action("app.command_palette")

    def action_back(self) -> None:
        """Go back to the Lab, or leave if it is the Lab."""
        if self.app.current_mode not in ("lab", "_default"):
            self.app.switch_mode("lab")
        else:
            self.app.exit()

    def picture_path(self, suffix: str = ".svg") -> Path:
        """Return a new path in the current folder: txlab-train-2026-11-20_143012.svg"""
        name = type(self).__name__.removesuffix("Screen").lower()
        return Path.cwd() / f"txlab-{name}-{datetime.now():%Y-%m-%d_%H%M%S}{suffix}"

    def action_picture(self) -> None:
        """Save the screen as SVG in the current folder."""
        path = self.picture_path()
        svg = self.app.export_screenshot(title="txlab")
        self.run_worker(lambda: self._save_picture(path, svg), thread=True, group="picture", exit_on_error=False)

    def _save_picture(self, path: Path, svg: str) -> None:
        try:
            atomic_write(path, svg.encode())
        except OSError as error:
            raise LabError(f"the picture cannot be written to {path.parent} ({error.strerror})") from error
        self.app.call_from_thread(self.tell, f"picture saved: {path}")
