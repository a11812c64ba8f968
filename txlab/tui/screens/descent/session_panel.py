"""The line above the map, and the keys that run the methods: run and pause, a step, a step back, begin again."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding

from txlab.drawing.formatting import STATES, count
from txlab.drawing.text import fit, formula, width
from txlab.tui.panel import Panel
from txlab.tui.screens.arena.words import Parts, spread
from txlab.tui.screens.words import Words
from txlab.tui.theme import glyphs

if TYPE_CHECKING:
    from txlab.tui.screens.descent.interface import Descent

PACES = (2.0, 5.0, 15.0, 60.0, 250.0)
"""Steps a second to choose from. Without a limit it would be some 400, and keys would wait three times as long."""
BARS, ASCII_BARS = "▁▃▅▆█", ".-=+#"


class SessionPanel(Panel):
    """Steps the screen's session; `show` redraws the line."""

    KEYS: ClassVar = (
        Binding("space", "pause", "run", id="run.pause", key_display="space"),
        Binding("full_stop", "step", "step", id="run.step", key_display="."),
        Binding("comma,backspace", "back", "step back", id="descent.back", key_display=","),
        Binding("n", "again", "begin again", id="descent.new"),
    )
    DEFAULT_CSS = "SessionPanel { height: 1; }"

    def __init__(self, descent: Descent) -> None:
        super().__init__()
        self.descent, self.session = descent, descent.session

    def compose(self) -> ComposeResult:
        yield Words(id="header")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A recorded run that goes on is paused and stepped by its own panel."""
        return not (self.descent.replaying and action in ("pause", "step"))

    def word_for(self, binding: Binding) -> str:
        if self.descent.replaying:
            return ""
        return "pause" if binding.id == "run.pause" and self.session.running else binding.description

    def action_pause(self) -> None:
        if self.descent.live():
            self.session.run(not self.session.running)

    def action_step(self) -> None:
        if self.descent.live():
            self.session.step()

    def action_back(self) -> None:
        if self.descent.live():
            self.session.pause()
            self.session.order(lambda methods: methods.back())

    def action_again(self) -> None:
        """All methods at the start, with what was turned; it runs on if it does."""
        if self.descent.live():
            self.descent.begin(lambda old: old.again(), self.descent.home, run=False)

    def turn(self, by: int) -> None:
        """Go slower or faster."""
        self.session.pace = PACES[max(0, min(PACES.index(self.session.pace) + by, len(PACES) - 1))]
        if self.session.running:
            self.session.run()
        self.show()

    def show(self) -> None:
        screen, ascii = self.descent, self.descent.ascii
        shown, cells = screen.shown, screen.size.width - 2
        if shown is None:
            self.query_one("#header", Words).say("loading the engine…", layout=False)
            return
        groups = self.run_groups(ascii) if screen.replaying else self.live_groups(ascii)
        names = shown.names[:1] if shown.one else ", ".join(shown.names)
        room = cells - sum(width(text) for text, _ in groups[-1]) - 1
        told = fit(formula(f"f({names}) = {shown.f}", ascii), max(0, room), ellipsis="~" if ascii else "…").rstrip()
        self.query_one("#header", Words).say(spread([(told, "bold")], groups, cells), layout=False)

    def live_groups(self, ascii: bool) -> list[Parts]:
        """The pace, which − and + turn unless a parameter is chosen; the step, and whether it runs."""
        signs, bars, at = glyphs(ascii), ASCII_BARS if ascii else BARS, PACES.index(self.session.pace)
        shown, pace = self.descent.shown, self.session.pace
        turned = self.descent.turned == ""
        words = f"{count(pace)} steps/s"
        running = self.session.running
        step = count(shown.frame.step) if shown is not None else "0"
        now = f"   {signs.live} running" if running else f"   {signs.paused} paused"
        return [
            [(f"  {words}", "$quiet")],
            [
                (f"  {signs.left if turned else ' '}speed ", "bold $accent" if turned else "$quiet"),
                *((bars[: at + 1], "$accent"), (bars[at + 1 :], "$rule")),
                (signs.right if turned else " ", "bold $accent"),
            ],
            [(now, "bold $accent" if running else "$quiet"), (f"  step {step}", "")],
        ]

    def run_groups(self, ascii: bool) -> list[Parts]:
        """The run, its status, and the step that is shown."""
        reading, run, shown = self.descent.reading, self.descent.run_panel.path, self.descent.shown
        assert reading is not None
        name = run.name if run is not None else ""
        step = count(shown.frame.step) if shown is not None else ""
        return [
            [(f"  {name}", "$quiet")],
            [(f"   {STATES.get(reading.status, reading.status)}  step {step}", "bold $accent")],
        ]
