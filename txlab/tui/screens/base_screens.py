"""The base of all screens: the navigation line, the keys at the bottom, help and pictures.

A screen with time has a `Playback` (playback.py) among its panels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.worker import Worker, WorkerState

from txlab.drawing.captions.sentence import Sentence, clauses_that_fit
from txlab.drawing.legibility import Legibility
from txlab.drawing.text import formula, visible
from txlab.errors import LabError
from txlab.files import atomic_write
from txlab.tui.bindings import EVERYWHERE, PALETTE, PICTURE, WHY, bind, parse_action
from txlab.tui.dialog_cache import put_in_front
from txlab.tui.invitation import Invitation
from txlab.tui.key_order import run_in_thread
from txlab.tui.machine import machine_line
from txlab.tui.panel import ROUTED, Panel, with_keys_of
from txlab.tui.screen_registry import GROUPS, SCREENS
from txlab.tui.screens.keyline import KeyLine
from txlab.tui.textual_internals import SteadyScreen
from txlab.tui.widgets.terminal import is_ascii, legibility

if TYPE_CHECKING:
    from txlab.experiments.kind import Kind
    from txlab.runs.remote.state import RemoteState

ALWAYS = ("palette", "help", "back", "picture")  # actions of a screen that do not depend on what it shows


OUT = bind("escape", "out", "go back to the screen that this one belongs to", id="screen.out")


class Rule(Widget, can_focus=False):
    """A horizontal rule across the screen; a lit one is above the list that the keys act on."""

    DEFAULT_CSS = "Rule { height: 1; width: 1fr; color: $rule; }"
    lit = False

    def light(self, on: bool) -> None:
        if on != self.lit:
            self.lit = on
            self.refresh()

    def render(self) -> Content:
        line = "─" * self.size.width
        return Content.styled(line, "$accent") if self.lit else Content(line)


class CaptionLine(Rule):
    """A rule in which one sentence says what is to be seen; without one, only the rule.

    A sentence is a tuple of clauses, of which as many are shown as fit; the first is a sentence by itself.
    """

    DEFAULT_CSS = """
    CaptionLine { color: $rule; }
    .-hall CaptionLine { color: $accent; }
    """

    def __init__(self) -> None:
        super().__init__(id="caption")
        self.sentence: Sentence = ()

    def say(self, sentence: Sentence) -> None:
        """Show another sentence; () = nothing is known yet."""
        if sentence != self.sentence:
            self.sentence = sentence
            self.refresh()

    def render(self) -> Content:
        text = formula(clauses_that_fit(self.sentence, self.size.width - 6), is_ascii(self))
        if not text:
            return super().render()
        hall = legibility(self).thick
        words = Content.styled(f" {text} ", "bold $background on $accent" if hall else "bold $foreground")
        return Content("──") + words + Content("─" * max(0, self.size.width - 2 - words.cell_length))


class NavigationLine(Widget, can_focus=False):
    """txlab   1 Lab  3 Train  4 Attention                        2 × EPYC · bf16 · 24 GB"""

    ALLOW_SELECT = False
    DEFAULT_CSS = "NavigationLine { height: 1; }"

    def __init__(self) -> None:
        super().__init__()
        self.places: list[tuple[int, int, str]] = []

    def render(self) -> Content:
        mode = self.app.current_mode
        entries = getattr(self.app, "entries", SCREENS)
        here = next((entry.within for entry in entries if entry.name == mode and entry.within), mode)
        parts = [Content.styled("txlab", "bold"), Content("   ")]
        column = 8
        self.places = []
        shown = [entry for entry in entries if not entry.within]
        labels = {entry.name: entry.label for entry in shown}
        room = self.size.width - column
        gap = 2 if sum(map(len, labels.values())) + 2 * len(labels) <= room else 1
        if gap == 1 and sum(map(len, labels.values())) + len(labels) > room:  # this screen's name, then the first ones
            whole, labels = labels, {name: label.partition(" ")[0] for name, label in labels.items()}
            kept = room - 2 * (len(GROUPS) - 1)  # without the bars between the groups
            for name in sorted(whole, key=lambda name: name != here):
                longer = labels | {name: whole[name]}
                if sum(map(len, longer.values())) + len(longer) > kept and name != here:
                    break
                labels = longer
        far = getattr(self.app, "far", None)
        machine = machine_line() if far is None else corner(far)
        spare = room - sum(len(label) + gap for label in labels.values())
        headings = sum(len(heading) + 4 for heading in GROUPS.values()) + len(machine) <= spare
        for entry in shown:
            label = labels[entry.name]
            if entry.key in GROUPS and spare >= 2:
                heading = GROUPS[entry.key]
                before = f"{'│ ' if entry is not shown[0] else ''}{f'{heading}  ' if headings and heading else ''}"
                spare -= len(before)
                parts.append(Content.styled(before, "italic $quiet"))
                column += len(before)
            self.places.append((column, column + len(label), entry.name))
            style = "bold underline $accent" if entry.name == here else "$quiet"
            parts += [Content.styled(label, style), Content(" " * gap)]
            column += len(label) + gap
        trouble = far is not None and not far.connected
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


def corner(far: RemoteState) -> str:
    """Return the corner's text about another machine: `on box`, or that the connection is lost."""
    word = {"connecting": "connecting", "lost": "line lost"}.get(far.line, "not connected")
    return visible(f"on {far.host}" if far.connected else f"{far.host}: {word}")


def resize(widget: Widget) -> None:
    widget.post_message(events.Resize(widget.size, widget.virtual_size, widget.container_size))


class BenchScreen(SteadyScreen[None]):
    """A screen of txlab. Subclasses yield the part between the first and the last line from `compose_body`."""

    HELP_ABOUT: ClassVar[str] = ""
    """A paragraph for the help overlay: the purpose of this screen."""

    PANELS: ClassVar[tuple[type[Panel], ...]] = ()
    """The panels whose keys work on this screen; `compose_body` yields one of each."""

    KEY_ORDER: ClassVar[tuple[str, ...]] = ()
    """Binding ids in the order of the bottom line; all others follow."""

    KEYS_WHEN_EMPTY: ClassVar[tuple[str, ...]] = ()
    """The actions of the screen and its panels that are possible while it has nothing to show."""

    BINDINGS: ClassVar[list[BindingType]] = [
        WHY,
        PICTURE,
        replace(PALETTE, show=False),
        bind("q", "back", "go back to the Lab; from there, quit", id="screen.back", heading=EVERYWHERE),
        bind(
            "question_mark",
            "help",
            "show the keys of this screen",
            "help",
            id="screen.help",
            heading=EVERYWHERE,
            synonyms="keys shortcuts",
        ),
    ]

    FOLDS_IN_HALL: ClassVar[bool] = True
    """Whether hall mode gives the room of the side panels to the main one, as on a narrower terminal."""

    @property
    def HORIZONTAL_BREAKPOINTS(self) -> list[tuple[int, str]]:  # type: ignore[override]
        """The classes for the columns of the terminal: in hall mode, those of a narrower one."""
        hall = legibility(self).thick and self.FOLDS_IN_HALL
        known = getattr(self.app, "HALL_BREAKPOINTS", None) if hall else None
        return known or self.app.HORIZONTAL_BREAKPOINTS or []

    def __init_subclass__(cls, **options: Any) -> None:
        if "PANELS" in cls.__dict__:
            panels: tuple[type[Panel], ...] = (*cls.PANELS, Invitation)
            order = ("empty.enter", *cls.KEY_ORDER)
            cls.BINDINGS = [*with_keys_of(panels, cls.__dict__.get("BINDINGS", []), order), OUT]
        super().__init_subclass__(**options)

    def __init__(self) -> None:
        super().__init__()
        self.panels: dict[str, Panel] = {}  # by class name, looked up on first use
        self.caption = CaptionLine()
        self.drawn_for: Legibility | None = None
        self.focused_last: Widget | None = None  # before its panel was folded away

    def panel_named(self, name: str) -> Panel | None:
        if name not in self.panels and self.is_attached:
            self.panels = {type(panel).__name__: panel for panel in self.query(Panel)}
        return self.panels.get(name)

    async def action_panel(self, panel: str, action: str) -> None:
        """Route an action to the panel of that class."""
        widget = self.panel_named(panel)
        if widget is not None:
            await widget.run_action(action)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is possible now; overrides fall back to this method."""
        if action == "out":
            return bool(self.outer)
        if action != ROUTED:
            return not self.empty or action in (*ALWAYS, *self.KEYS_WHEN_EMPTY)
        panel = self.panel_named(str(parameters[0]))
        _, method, own = parse_action(str(parameters[1]))
        if self.empty and not isinstance(panel, Invitation) and method not in self.KEYS_WHEN_EMPTY:
            return False
        return panel is not None and panel.check_action(method, own)

    def compose(self) -> ComposeResult:
        yield NavigationLine()
        yield self.caption
        yield from self.compose_body()
        yield Invitation()
        yield KeyLine()

    def compose_body(self) -> ComposeResult:
        """Yield the widgets between the navigation line and the keys."""
        yield from ()

    # A screen without anything to show.

    @property
    def empty(self) -> bool:
        """Whether the reason why there is nothing to show is on the screen."""
        return self.has_class("-empty")

    def invite(self, reason: str, opens: Callable[[Kind], bool] | None = None) -> None:
        """Show a sentence, or several lines, in place of the body, and, with `opens`, a run of a kind that it accepts
        and the screen's scenario; enter opens or starts one of them."""
        self.add_class("-empty")
        self.caption.say(())
        self.query_one(Invitation).say(reason, opens)
        self.refresh_bindings()

    def occupy(self) -> None:
        """Show the body: there is something to see."""
        if self.empty:
            self.remove_class("-empty")
            self.query_one(Invitation).leave()
            if self.AUTO_FOCUS:
                self.query_one(self.AUTO_FOCUS).focus()
            else:
                self.set_focus(None)
            self.refresh_bindings()
            # Draw what was shown before the body had its size: a read in a thread may be quicker than the layout.
            self.call_after_refresh(resize, self)

    @on(events.ScreenResume)
    def tell_panels_they_are_seen(self) -> None:
        if self in self.app.screen_stack:  # otherwise it is only being prepared
            self.query_one(NavigationLine).refresh()  # other packages may have added screens meanwhile
            for panel in self.query(Panel):
                panel.come_to_front()

            if self.drawn_for not in (None, legibility(self)):
                self.draw_again()
            self.drawn_for = legibility(self)

    def draw_again(self) -> None:
        """Draw everything anew because it is to be larger or smaller, as at a change of the terminal's size: first the
        layout, then every widget."""
        self.drawn_for = legibility(self)
        self.focused_last = self.focused or self.focused_last
        self.update_node_styles(animate=False)
        resize(self)
        self.call_after_refresh(self.draw_widgets)

    def draw_widgets(self) -> None:
        for widget in (self, *self.query("*")):
            resize(widget)
        self.focus_again()

    def focus_again(self) -> None:
        """Give the focus back to the widget that lost it when it was folded away."""
        last = self.focused_last
        if self.focused is None and last is not None and last.is_attached and last.focusable:
            self.set_focus(last)

    @on(events.ScreenSuspend)
    def tell_panels_they_are_not_seen(self) -> None:
        for panel in self.query(Panel):
            panel.unseen()

    @property
    def lines_above_keys(self) -> int:
        """The lines that a lecture takes."""
        return sum(each.outer_size.height for each in self.query(".above-keys"))

    def room_changed(self) -> None:
        """Called when these lines have changed; most screens leave the layout to their style sheet."""

    @property
    def ascii(self) -> bool:
        return is_ascii(self)

    def word_for(self, binding: Binding) -> str:
        """Return the current label of a key on the bottom line; "" hides the key."""
        _, action, parameters = parse_action(binding.action)
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

    @property
    def outer(self) -> str:
        """The name of the screen that this one is within; "" = none."""
        return next((each.within for each in SCREENS if each.name == self.app.current_mode), "")

    def action_out(self) -> None:
        self.app.switch_mode(self.outer)

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
        run_in_thread(self, lambda: self._save_picture(path, svg), "picture", keys=False)

    def _save_picture(self, path: Path, svg: str) -> None:
        try:
            atomic_write(path, svg.encode())
        except OSError as error:
            raise LabError(f"the picture cannot be written to {path.parent} ({error.strerror})") from error
        self.app.call_from_thread(self.tell, f"picture saved: {path}")
