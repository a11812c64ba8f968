"""Screen M, Formulas: each numbered formula large, with its letters, and an example whose inputs can be changed."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical

from txlab.errors import LabError
from txlab.experiments.formulas.content import Formula, content
from txlab.experiments.formulas.content import Place as FormulaPlace
from txlab.runs.lecture import Place
from txlab.tui.bindings import MOVING, WHY, bind
from txlab.tui.console import Console
from txlab.tui.lecture.go_to import go_to
from txlab.tui.panel import Panel
from txlab.tui.screens.base_screens import BenchScreen
from txlab.tui.screens.formulas.contents import ContentsPanel
from txlab.tui.screens.formulas.example import ExamplePanel
from txlab.tui.screens.formulas.map import FormulaMapPanel, MapView
from txlab.tui.screens.formulas.text import about_content, equation_content
from txlab.tui.screens.plain_text import Words
from txlab.tui.widgets.page import Page
from txlab.tui.widgets.why import ask_why

SIDES = ("contents", "example", "about")
"""What tab goes through; below 100 columns the last two share a place, below SLIM all three do."""

SLIM = 76


class AboutPage(Page, can_focus=True):
    """The letters and the meaning; the arrows scroll it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("up", "scroll_by(-1)", "scroll up", id="formulas.scroll-up", heading=MOVING),
        bind("down", "scroll_by(1)", "scroll down", id="formulas.scroll-down", heading=MOVING),
    ]

    def action_scroll_by(self, lines: int) -> None:
        self.scroll_lines(lines)


class FormulasScreen(BenchScreen):
    """Shows the app's `current_formula`."""

    FOLDS_IN_HALL = False
    CSS_PATH = "formulas.tcss"
    AUTO_FOCUS = "#contents"
    HELP_ABOUT = (
        "The formulas of the five lecture texts, by chapter or in the order of a text (v). Tab goes to the example: "
        "arrows choose a number, - and + change it, enter or a digit types another one, and every step of the "
        "computation follows. p hides the result until you have guessed it; e puts a misprinted form next to the right "
        "one. Enter goes to where the formula is at work."
    )
    PANELS: ClassVar[tuple[type[Panel], ...]] = (ExamplePanel, ContentsPanel, FormulaMapPanel)
    KEY_ORDER: ClassVar[tuple[str, ...]] = (
        "formulas.next", "formulas.type", "formulas.go", "formulas.less", "formulas.show", "formulas.predict",
        "formulas.misprint", "formulas.map", "formulas.view", "screen.why", "formulas.restore", "formulas.filter",
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("tab", "next(1)", "go to the example, the meaning, the list", "example", id="formulas.next"),
        bind("shift+tab", "next(-1)", "the same the other way round", id="formulas.before"),
        bind("enter", "go", "go to where the formula is at work", "at work", id="formulas.go", key_display="enter"),
        bind(
            "J,shift+down", "scroll(1)", "scroll the steps down and up", id="formulas.scroll", heading=MOVING,
            key_display="J K",
        ),
        bind("K,shift+up", "scroll(-1)", "scroll the steps up", id="formulas.scroll-back", heading=MOVING),
        WHY,
    ]  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.contents, self.example, self.map = ContentsPanel(), ExamplePanel(), FormulaMapPanel()
        self.equation, self.about = Words(id="equation"), AboutPage(id="about")
        self.side = "contents"

    def compose_body(self) -> ComposeResult:
        yield self.map
        with Horizontal(id="panels"):
            yield self.contents
            with Vertical(id="formula"):
                yield self.equation
                with Horizontal(id="below"):
                    yield self.about
                    yield self.example

    def on_mount(self) -> None:
        self.set_side("contents")
        self.watch(self.app, "current_formula", self.other_formula, init=False)

    @property
    def console(self) -> Console:
        assert isinstance(self.app, Console)
        return self.app

    @property
    def formula(self) -> Formula:
        return content()[0][self.console.current_formula]

    @on(events.ScreenResume)
    def begin(self) -> None:
        if self in self.app.screen_stack:  # otherwise it is only being prepared
            self.other_formula()

    def other_formula(self) -> None:
        if self in self.app.screen_stack:
            self.contents.select(self.formula.number)
            self.example.show_formula(self.formula.number)
            self.draw(home=True)

    @on(ContentsPanel.Chosen)
    def other_row(self) -> None:
        if self.contents.chosen and self in self.app.screen_stack:
            self.console.current_formula = self.contents.chosen

    @on(MapView.Moved)
    def other_place(self, event: MapView.Moved) -> None:
        self.console.current_formula = event.number

    @on(FormulaMapPanel.Shown)
    def map_shown(self) -> None:
        """The map takes the place of everything else, and gives it back."""
        self.query_one("#panels").display = not self.map.display
        if self.map.display:
            self.map.view.focus()
        else:
            self.contents.rows.focus()
        self.call_after_refresh(self.draw)

    def draw(self, home: bool = False) -> None:
        """Draw the formula for the present size."""
        if self.map.display:
            self.map.draw(self.formula.number)
            return
        size = self.query_one("#formula").size
        if not size:
            return
        lines = size.height // (5 if self.side == "example" and size.height < 30 else 3)
        equation = equation_content(self.formula, size.width - 1, lines, self.ascii)
        self.equation.styles.height = equation.plain.count("\n") + 2  # and a blank line
        self.equation.say(equation)
        self.about.say(about_content(self.formula, self.about.cells, self.ascii), home)
        self.example.draw()
        self.refresh_bindings()

    @on(Page.Widened)
    def fold_again(self) -> None:
        self.draw()

    @on(events.Resize)
    def other_size(self) -> None:
        self.set_class(self.size.width < SLIM, "-slim")
        self.call_after_refresh(self.draw)

    @on(ExamplePanel.Drawn)
    def say_caption(self) -> None:
        self.caption.say(self.example.sentence(self.formula.title))

    # The side that has the keys.

    def set_side(self, side: str) -> None:
        self.side = side
        for each in SIDES:
            self.set_class(each == side, f"-{each}")
        self.call_after_refresh(self.draw)

    @on(events.DescendantFocus)
    def other_focus(self, event: events.DescendantFocus) -> None:
        inside = event.widget.ancestors_with_self
        for side, widget in zip(SIDES, (self.contents, self.example, self.about), strict=True):
            if widget in inside and side != self.side:
                self.set_side(side)
        self.contents.say_heading()
        self.example.say_heading()

    def action_next(self, by: int) -> None:
        side = SIDES[(SIDES.index(self.side) + by) % len(SIDES)]
        self.set_side(side)
        {"contents": self.contents.rows, "example": self.example.cells, "about": self.about}[side].focus()

    def action_scroll(self, by: int) -> None:
        page = self.example.steps if self.side == "example" or not self.about.overflows else self.about
        page.scroll_lines(by * max(1, page.size.height // 2))

    def word_for(self, binding: Binding) -> str:
        if binding.id == "formulas.next":
            return {"contents": "example", "example": "meaning", "about": "list"}[self.side]
        return super().word_for(binding)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if self.map.display and (
            action in ("next", "go", "scroll", "why") or parameters[:1] in (("ExamplePanel",), ("ContentsPanel",))
        ):
            return False
        if action == "go":
            return any(vars(self.formula.place).values())
        if action == "why":
            return self.example.shown is not None and self.example.shown.right is not None and not self.example.hidden
        return super().check_action(action, parameters)

    def action_go(self) -> None:
        """Go to where the formula is at work: its screen, the newest run of its scenario, its text, its keys."""
        self.app.run_worker(
            go_or_say(self.console, console_place(self.formula.place)),
            group="lecture",
            exclusive=True,
            exit_on_error=False,
        )

    def action_why(self) -> None:
        """Show the whole computation, in the misprinted form too if that is switched on."""
        shown = self.example.shown
        if shown is not None and shown.right is not None:
            answers = [each for each in (shown.right, shown.wrong) if each is not None]
            ask_why(self.app, lambda: answers)


def console_place(place: FormulaPlace) -> Place:
    """The place of a formula as the console reaches it. In the Lab a scenario is selected, no run of it is shown."""
    if place.screen == "lab":
        return Place("lab", keys=("slash", f"type {place.scenario}", "enter", *place.keys))
    return Place(place.screen, place.scenario, text=place.text, keys=place.keys)


async def go_or_say(console: Console, place: Place) -> None:
    try:
        await go_to(console, place)
    except LabError as error:
        console.report(error)
