"""The methods next to the map: the chosen one, those that take part, and the parameter that − and + change."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding

from txlab.drawing.palette import lines
from txlab.drawing.text import formula
from txlab.tui.bindings import bind
from txlab.tui.panel import Panel
from txlab.tui.screens.arena.parameters import RATES, Parameter
from txlab.tui.screens.descent.text import side_rows, style_rows
from txlab.tui.screens.descent.view import PlaneView
from txlab.tui.screens.plain_text import Words
from txlab.tui.widgets.terminal import colours, is_dark

if TYPE_CHECKING:
    from txlab.tui.screens.descent.interface import Descent
    from txlab.tui.screens.descent.live import LiveDescent
    from txlab.tui.screens.descent.map import MapPanel

LEAST, MOST = 7, 20  # lines of the small drawing below the methods
SHARES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
NOISES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
PARAMETERS = {
    "rate": Parameter("γ", "gamma", "rate", "", (1e-6, 1e-5, 2e-5, 5e-5, *RATES, 1.2, 1.5, 2.0, 5.0, 10.0)),
    "momentum": Parameter("μ", "mu", "momentum", "", SHARES),
    "beta1": Parameter("β₁", "beta_1", "beta1", "", SHARES),
    "beta2": Parameter("β₂", "beta_2", "beta2", "", SHARES),
    "noise": Parameter("noise", "noise", "noise", "", NOISES),
    "anywhere": Parameter("anywhere", "anywhere", "anywhere", "", (0.0, 1.0)),
}


class MethodsPanel(Panel):
    """`next_stop` is the parameter of the chosen method that − and + turn; "" = the pace."""

    KEYS: ClassVar = (
        bind("tab", "next(1)", "go to the next method, or the one before", "method", id="descent.next"),
        bind("shift+tab", "next(-1)", "go to the method before", id="descent.previous"),
        bind("m", "take_part", "let the chosen method take part, or no more", "in or out", id="descent.toggle"),
        bind(
            "p",
            "choose",
            "choose what - and + turn: speed or a parameter",
            "parameter",
            id="descent.turn",
            synonyms="learning rate gamma momentum noise",
        ),
        bind("minus", "turn(-1)", "turn the parameter down and up", "turn", id="descent.less", key_display="- +"),
        bind(
            "plus,equals_sign", "turn(1)", "turn the parameter up", id="descent.more", synonyms="more", key_display="+"
        ),
        bind("n", "again", "begin again from the start, with what was turned", "begin again", id="descent.new"),
    )

    def __init__(self, descent: Descent, map: MapPanel) -> None:
        super().__init__()
        self.descent, self.map = descent, map
        self.small, self.small_height = PlaneView(id="small"), 0

    def compose(self) -> ComposeResult:
        yield Words(id="methods")
        yield Words(id="small-title")
        yield self.small

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "turn" or bool(self.descent.turned)  # otherwise these keys change the pace

    def word_for(self, binding: Binding) -> str:
        return binding.description if self.descent.playback.can_edit or binding.id == "descent.next" else ""

    def show(self) -> None:
        shown = self.descent.shown
        if shown is None:
            return
        walker = shown.walkers[self.descent.chosen]
        if self.descent.turned and self.descent.turned not in walker.settings:
            self.descent.turned = ""
            self.descent.refresh_bindings()
        inks = lines(colours(self), is_dark(self))

        def colour(number: int) -> str:
            ink = inks[number % len(inks)]
            return "" if ink is None else "#{:02x}{:02x}{:02x}".format(*ink)

        size, ascii, chosen = self.size, self.descent.ascii, self.descent.chosen
        rows = side_rows(shown, chosen, self.descent.turned, colour, max(10, size.width), size.height, ascii)
        self.query_one("#methods", Words).say(style_rows(rows, ascii))
        self.show_small(size.height - len(rows) - 2)

    def show_small(self, lines: int) -> None:
        """Below the methods, if there are lines left: the small view."""
        height = min(lines, MOST) if lines >= LEAST else 0
        self.set_class(height > 0, "-roomy")
        if height and height != self.small_height:
            self.small_height = self.small.styles.height = height  # type: ignore[assignment]
        if height and self.small.size.height:
            title, sheet = self.map.other(self.small.room)
            self.query_one("#small-title", Words).say(formula(title, self.descent.ascii))
            self.small.show(sheet)

    @on(PlaneView.Resized)
    def fit_plane(self, event: PlaneView.Resized) -> None:
        """Draw the small picture now that its size is known."""
        event.stop()
        self.show()

    def action_next(self, by: int) -> None:
        shown = self.descent.shown
        if shown is not None:
            self.descent.chosen = (self.descent.chosen + by) % len(shown.walkers)
            self.descent.show_all()

    def action_again(self) -> None:
        """Move all methods to the start, with their changed parameters; a running experiment keeps running."""
        if self.descent.playback.ready():
            self.descent.look_from(self.descent.home)
            self.descent.begin(lambda old: old.again(), run=False)

    def action_take_part(self) -> None:
        """Switch the chosen method on, from the start, or off."""
        if self.descent.playback.ready():
            chosen = self.descent.chosen
            self.descent.session.edit(lambda methods: methods.toggle(chosen))

    def action_choose(self) -> None:
        """Cycle the target of − and +: the pace, then each parameter of the chosen method."""
        shown = self.descent.shown
        if shown is None or not self.descent.playback.ready():
            return
        known = ["", *shown.walkers[self.descent.chosen].settings]
        self.descent.turned = (
            known[(known.index(self.descent.turned) + 1) % len(known)] if self.descent.turned in known else ""
        )
        self.descent.show_all()
        self.descent.refresh_bindings()

    def action_turn(self, by: int) -> None:
        shown = self.descent.shown
        if shown is None or not self.descent.playback.ready():
            return
        walker = shown.walkers[self.descent.chosen]
        if self.descent.turned not in walker.settings:
            return
        number, setting = walker.number, self.descent.turned

        def work(methods: LiveDescent) -> None:
            now = methods.settings(number)[setting]
            methods.adjust(f"{methods.sections[number].name}.{setting}", PARAMETERS[setting].next_stop(now, by))

        self.descent.session.edit(work)
