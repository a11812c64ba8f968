"""The live example of a formula: its inputs, which the keys change, and the computation from them step by step.

Notable: an example computes with the engine, which may need torch: in a thread, the newest numbers only.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isinf
from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import Input as Line

from txlab.drawing.captions import functions as captions
from txlab.drawing.captions.sentence import Sentence
from txlab.drawing.explanation import comparison_lines, computation_lines, wrap_text
from txlab.drawing.formatting import number
from txlab.drawing.text import formula
from txlab.engine.explain import Explanation
from txlab.errors import LabError
from txlab.experiments.formulas.example import Example, Given, Input, examples, format_value
from txlab.tui.bindings import bind
from txlab.tui.latest_task import LatestTask
from txlab.tui.panel import Panel
from txlab.tui.screens.dialogs import key_hints
from txlab.tui.screens.formulas.cells import Cell, Cells, entry_of, replaced, short
from txlab.tui.screens.plain_text import Words
from txlab.tui.widgets.page import Page
from txlab.tui.widgets.terminal import is_ascii

STYLES = {
    "question": "bold",
    "equation": "bold $accent",
    "quiet": "$quiet",
    "heading": "$quiet underline",
    "name": "$secondary",
    "value": "$foreground",
    "asked": "bold $accent",
    "wrong": "$error",
}


@dataclass(frozen=True)
class Shown:
    """An example with its numbers: the computation, in the misprinted form too if that is switched on; or the sentence
    that says why these inputs have none."""

    number: str
    example: Example | None
    values: Given
    right: Explanation | None = None
    wrong: Explanation | None = None
    sentence: str = ""


def compute(number: str, values: Given | None, misprint: str) -> Shown:
    """Compute the example of a formula; without values, from its inputs as they are declared."""
    example = examples(number[0]).get(number)
    if example is None:
        return Shown(number, None, {}, sentence="There is no example of this formula yet.")
    given = example.values() if values is None else values
    try:
        right = example.explain(**given)
        wrong = example.misprint(misprint).explain(**given) if misprint else None
    except LabError as error:
        return Shown(number, example, given, sentence=str(error))
    return Shown(number, example, given, right, wrong)


def torch_is_loaded() -> bool:
    return "torch" in sys.modules


def content_of(lines: Sequence[Text]) -> Content:
    """Lines whose styles are those of `STYLES`."""
    parts: list[Content] = []
    for line in lines:
        content = Content(line.plain)
        for start, end, style in [(0, len(line.plain), line.style), *line.spans]:
            content = content.stylize(str(style), start, end) if style else content
        parts += [content, Content("\n")]
    return Content.assemble(*parts[:-1])


class EntryLine(Line):
    """The line that a value or a guess is typed into."""

    BINDINGS: ClassVar[list[BindingType]] = [bind("escape", "leave", "leave it as it is", id="entry.leave")]

    class Left(Message):
        """Esc was pressed, or another widget has the focus."""

    def action_leave(self) -> None:
        self.post_message(self.Left())

    def on_blur(self) -> None:
        self.post_message(self.Left())


class ExamplePanel(Panel):
    """Shows the example of `number`. The inputs of each formula keep their values until n restores them."""

    KEYS: ClassVar[Sequence[Binding]] = (
        bind("minus", "turn(-1)", "less of the chosen number", "turn", id="formulas.less", key_display="- +"),
        bind("plus,equals_sign", "turn(1)", "more of the chosen number", id="formulas.more", key_display="+"),
        bind(
            "p",
            "predict",
            "predict first: hide the result until you have guessed",
            "predict",
            id="formulas.predict",
            synonyms="guess hide question quiz",
        ),
        bind(
            "e",
            "misprint",
            "compare with the form that is misprinted",
            "erratum",
            id="formulas.misprint",
            synonyms="erratum misprint wrong mistake compare",
        ),
        bind("n", "restore", "the inputs as they were", "restore", id="formulas.restore", synonyms="reset"),
        bind("escape", "leave", "show the result without a guess", "show it", id="formulas.show"),
    )

    class Drawn(Message):
        """The example, or what is shown of it, has changed."""

    def __init__(self) -> None:
        super().__init__(id="example-panel")
        self.number = ""
        self.values: dict[str, Given] = {}  # of the formulas whose inputs were changed
        self.misprint = ""
        self.predicting = False
        self.guessing = False  # the line takes a guess; otherwise a value
        self.guess: tuple[Shown, float] | None = None  # what was guessed last, and for which numbers
        self.shown: Shown | None = None
        self.computing = LatestTask(self, "example", lambda sentence: self.tell(sentence, "error"))
        self.heading = Words(id="example-title", classes="panel-title")
        self.cells = Cells(id="cells")
        self.hint = Words(id="hint")
        self.line = EntryLine(id="entry", select_on_focus=False)
        self.steps = Page(id="steps")
        self.steps.MOST = 160

    def compose(self) -> ComposeResult:
        yield from (self.heading, self.cells, self.hint, self.line, self.steps)

    def on_mount(self) -> None:
        self.line.display = False

    @property
    def example(self) -> Example | None:
        return self.shown.example if self.shown is not None and self.shown.number == self.number else None

    @property
    def hidden(self) -> bool:
        """Whether the result waits for a guess."""
        return self.predicting and (self.guess is None or self.guess[0] is not self.shown)

    def show_formula(self, number: str) -> None:
        if number == self.number:
            return
        self.number, self.misprint = number, ""
        self.shown = None
        self.leave_line()
        self.cells.set_values((), {})
        self.compute()
        self.draw(home=True)

    def compute(self) -> None:
        number, values, misprint = self.number, self.values.get(self.number), self.misprint
        self.computing.want(lambda _: compute(number, values, misprint), self.show)

    def show(self, shown: Shown) -> None:
        home = self.shown is None
        self.shown = shown
        if shown.example is not None:
            self.cells.set_values(shown.example.inputs, shown.values)
        self.draw(home)
        self.screen.refresh_bindings()

    # Drawing.

    def draw(self, home: bool = False) -> None:
        if not self.is_attached:
            return
        self.say_heading()
        self.say_hint()
        self.steps.say(self.steps_content(), home)
        self.post_message(self.Drawn())

    def say_heading(self) -> None:
        parts = [Content.styled("live example", "bold underline $accent" if self.cells.has_focus else "bold")]
        if self.misprint:
            sign = "!" if is_ascii(self) else "≠"
            parts.append(Content.styled(f"   {sign} {self.misprint}", "bold $error"))
        if self.predicting:
            parts.append(Content.styled("   predict first", "bold $accent"))
        self.heading.say(Content.assemble(*parts))

    def say_hint(self) -> None:
        """The question, while it is answered; otherwise what the chosen number is, and its bounds."""
        given, at = self.cells.input, self.cells.at
        if self.line.display and self.guessing and self.example is not None:
            self.hint.say(Content.styled(formula(self.example.predict, is_ascii(self)), "bold"))
        elif given is None:
            self.hint.say("")
        else:
            place = {1: " number {}", 2: " row {}, column {}"}.get(len(at.at), "").format(*(each + 1 for each in at.at))
            bounds = describe_bounds(given)
            said = (
                f"{given.name}{place}" + (f", {bounds}" if bounds else "") + (f": {given.note}" if given.note else "")
            )
            self.hint.say(Content.styled(formula(said, is_ascii(self)), "$quiet"))

    def sentence(self, title: str) -> Sentence:
        """The caption of the formula `title`: the example's result, unless it is to be guessed."""
        shown = self.shown
        if shown is None or shown.number != self.number or shown.right is None or self.hidden:
            return ()
        wrong = shown.wrong.result if shown.wrong is not None else None
        return captions.example(self.number, title, shown.right.question, shown.right.result, wrong)

    def steps_content(self) -> Content:
        shown, ascii, cells = self.shown, is_ascii(self), self.steps.cells
        if shown is None:
            return Content.styled("computing…" if torch_is_loaded() else "loading torch…", "$quiet")
        if shown.right is None or shown.example is None:
            return Content.styled(formula(shown.sentence, ascii), "$error" if shown.example else "$quiet")
        if self.hidden:
            if self.line.display:
                return key_hints(("enter", "see whether it is right"), ("esc", "leave it"))
            question = Content.styled(formula(shown.example.predict, ascii), "bold")
            return Content.assemble(question, "\n\n", key_hints(("p", "type your guess"), ("esc", "show the result")))
        lines = []
        if self.predicting and self.guess is not None:
            lines = [Text(formula(verdict(self.guess[1], shown.right), ascii), STYLES["asked"]), Text()]
        if shown.wrong is not None:
            said = shown.example.misprint(self.misprint).says
            lines += [Text(line, STYLES["quiet"]) for line in wrap_text(formula(said, ascii), cells)]
            lines += comparison_lines(shown.right, shown.wrong, cells, STYLES, ascii)
        else:
            lines += computation_lines(without_inputs(shown.right, shown.values), cells, STYLES, ascii)
        return content_of(lines)

    # Values.

    @on(Cells.Moved)
    def other_cell(self) -> None:
        self.say_hint()

    def put(self, value: Any) -> None:
        """Give the chosen input another value."""
        assert self.shown is not None
        values = self.values.get(self.number, self.shown.values)
        self.values[self.number] = {**values, self.cells.at.name: value}
        self.cells.set_values(self.cells.inputs, self.values[self.number])
        self.compute()
        self.say_hint()

    def action_turn(self, by: int) -> None:
        given, at = self.cells.input, self.cells.at
        if given is None:
            return
        before = self.cells.values[given.name]
        after = turned(given, before, at, by)
        if after != before:
            self.put(after)
        elif isinstance(given.value, str) and not given.allowed:
            self.tell("enter types another text")

    def action_restore(self) -> None:
        self.values.pop(self.number, None)
        self.compute()

    # The line.

    def ask(self, about: str, first: str, guess: bool) -> None:
        self.line.placeholder = about
        self.line.value = first
        self.line.display = True
        self.guessing = guess
        self.line.focus()
        self.line.cursor_position = len(first)
        self.draw()

    @on(Cells.Typed)
    def type_value(self, event: Cells.Typed) -> None:
        given, at = self.cells.input, self.cells.at
        if given is None:
            return
        present = self.cells.values[given.name]
        first = event.first or format_value(entry_of(present, at.at))
        self.ask("a number, or all of them: 1,0; 0,1" if at.at else "a value", first, guess=False)
        if not event.first:
            self.line.select_all()

    @on(Line.Changed, "#entry")
    def judge(self, event: Line.Changed) -> None:
        if not self.line.display:
            return
        try:
            self.read_line(event.value)
            self.say_hint()
        except LabError as error:
            if event.value.strip(" -−."):
                self.hint.say(Content.styled(formula(str(error), is_ascii(self)), "$error"))

    def read_line(self, text: str) -> Any:
        """The value that the line denotes. LabError if it is not allowed."""
        if self.guessing:
            return read_guess(text)
        given, at = self.cells.input, self.cells.at
        assert given is not None
        return read_entry(given, self.cells.values[given.name], at, text)

    @on(Line.Submitted, "#entry")
    def take_line(self, event: Line.Submitted) -> None:
        try:
            value = self.read_line(event.value)
        except LabError as error:
            self.tell(str(error), "error")
            return
        if self.guessing and self.shown is not None:
            self.guess = self.shown, value
        self.leave_line()
        if not self.guessing:
            self.put(value)

    @on(EntryLine.Left)
    def leave_line(self) -> None:
        if self.line.display:
            focused = self.line.has_focus
            self.line.display = False
            if focused:
                self.cells.focus()
            self.draw()

    # Prediction and misprints.

    def action_predict(self) -> None:
        """Hide the result and ask for a guess."""
        self.predicting = True
        if not self.hidden:
            self.guess = None
        self.draw(home=True)
        self.screen.refresh_bindings()
        if self.example is not None:
            self.ask("your guess, a number", "", guess=True)

    def action_leave(self) -> None:
        self.predicting = False
        self.draw(home=True)
        self.screen.refresh_bindings()

    def action_misprint(self) -> None:
        """Switch on the first misprinted form, the next one, or none."""
        assert self.example is not None
        names = [*self.example.misprints, ""]
        self.misprint = names[0] if not self.misprint else names[names.index(self.misprint) + 1]
        self.compute()
        self.say_heading()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "leave":
            return self.predicting
        if action == "misprint":
            return self.example is not None and bool(self.example.misprints)
        return action not in ("turn", "predict", "restore") or self.example is not None

    def word_for(self, binding: Binding) -> str:
        if binding.id == "formulas.predict" and self.predicting:
            return "guess"
        if binding.id == "formulas.show" and not self.hidden:
            return "no more guesses"
        return super().word_for(binding)


def describe_bounds(given: Input) -> str:
    """The bounds of an input in a few words; "" = none.

    >>> describe_bounds(Input("rate", 0.5, low=0, high=2)), describe_bounds(Input("n", 3, low=1))
    ('0 to 2', '1 or more')
    """
    if isinstance(given.value, str):
        return ", ".join(given.allowed)
    low, high = short(given.low, False), short(given.high, False)
    if isinf(given.high):
        return "" if isinf(given.low) else f"{low} or more"
    return f"{high} or less" if isinf(given.low) else f"{low} to {high}"


def turned(given: Input, value: Any, at: Cell, by: int) -> Any:
    """The value with the number at a cell moved by a step, within its bounds; a text that is one of several moves to
    the next."""
    if isinstance(value, str):
        names = given.allowed or (value,)
        return names[(names.index(value) + by) % len(names)]
    moved = round(entry_of(value, at.at) + by * given.step, 10)
    return given.cast(replaced(value, at.at, min(max(moved, given.low), given.high)))


def read_entry(given: Input, value: Any, at: Cell, text: str) -> Any:
    """The value of an input of which one number was typed, or the whole. LabError if it is not allowed."""
    text = text.replace("−", "-")
    if not at.at or "," in text or ";" in text or " " in text.strip():
        return given.read(text)
    return given.checked(replaced(value, at.at, given.read_number(text.strip())))


def read_guess(text: str) -> float:
    try:
        return float(text.strip().replace("−", "-").replace(",", "."))
    except ValueError:
        raise LabError("a guess is a number") from None


def verdict(guess: float, right: Explanation) -> str:
    """ "you said 0.6, it is 0.723: 0.123 too low" """
    result = right.result
    far = guess - result
    close = abs(far) <= 0.005 * abs(result)
    words = "right" if close else f"{number(abs(far))} too {'high' if far > 0 else 'low'}"
    return f"you said {number(guess)}, it is {number(result)}: {words}"


def without_inputs(explanation: Explanation, values: Mapping[str, Any]) -> Explanation:
    """The explanation without the operands that the cells above show, as a whole or as one of their rows."""
    shown = list(values.values())
    shown += [row for value in shown if isinstance(value, list) for row in value]
    return replace(explanation, operands=[each for each in explanation.operands if each.value not in shown])
