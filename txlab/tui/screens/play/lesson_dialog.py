"""The dialog before an agent learns: the rule, its parameters, the number of games.

One small table is changed with the arrows or by typing, so that usual values are one key away and any other can be
entered; the engine validates them, and its sentence is shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content

from txlab.drawing.formatting import count
from txlab.drawing.text import formula, visible
from txlab.engine.games.learner import OF_POSITIONS, RULES, TITLES, SelfPlaySettings
from txlab.errors import LabError
from txlab.tui.screens.dialogs import Dialog, key_hints
from txlab.tui.screens.plain_text import Words
from txlab.tui.widgets.terminal import is_ascii

SHARES = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0)
GAMES = (100, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
MOST_GAMES = 10_000_000
SEEDS = tuple(range(10))
LONGEST = 12  # characters of a typed number


@dataclass(frozen=True)
class Lesson:
    """The lesson: the settings of the rule, the number of games, the random seed."""

    settings: SelfPlaySettings = field(default_factory=SelfPlaySettings)
    games: int = 100_000
    seed: int = 0

    def with_value(self, name: str, value: Any) -> Lesson:
        """Return the lesson with another rule or number; raises LabError if it is not allowed."""
        if name in ("games", "seed"):
            return replace(self, **{name: value})
        return replace(self, settings=replace(self.settings, **{name: value}))


@dataclass(frozen=True)
class Knob:
    """A line of the table: `name` is the setting's, `steps` are the values of the arrows."""

    name: str
    title: str
    about: str
    steps: tuple[object, ...]


KNOBS = (
    Knob("rule", "rule", "which update is made", RULES),
    Knob("alpha", "α", "step size", SHARES[1:]),
    Knob("epsilon", "ε", "share of random moves", SHARES),
    Knob("lam", "λ", "how far errors reach back", SHARES),
    Knob("exploring", "random moves", "do they change V too?", (False, True)),
    Knob("games", "games", "against itself", GAMES),
    Knob("seed", "seed", "same seed, same games", SEEDS),
)


def value_of(lesson: Lesson, name: str) -> object:
    return getattr(lesson, name) if name in ("games", "seed") else getattr(lesson.settings, name)


def format_value(value: object) -> str:
    """Return a value as shown."""
    if isinstance(value, bool):
        return "learnt too" if value else "left out"
    if isinstance(value, int):
        return count(value)
    if isinstance(value, float):
        return f"{value:g}"
    return TITLES.get(value, str(value))  # type: ignore[call-overload, no-any-return]


def parse_value(name: str, text: str) -> object:
    """Parse a typed number. LabError if it is not allowed."""
    whole = name in ("games", "seed")
    try:
        value: object = int(text) if whole else float(text)
    except ValueError:
        raise LabError(f"{name} is {'a whole number' if whole else 'a number'}; {text!r} is none") from None
    if whole and not (1 if name == "games" else 0) <= value <= MOST_GAMES:  # type: ignore[operator]
        least = 1 if name == "games" else 0
        raise LabError(f"{name} must be from {least} to {count(MOST_GAMES)}; it is {count(value)}")  # type: ignore[arg-type]
    return value


class LearnDialog(Dialog[Lesson]):
    """Answers with the lesson, or None."""

    CSS_PATH = "../dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "leave it", id="learn.leave"),
        Binding("enter", "begin", "begin", id="learn.begin"),
        Binding("up", "choose(-1)", "up", id="learn.up"),
        Binding("down,tab", "choose(1)", "down", id="learn.down"),
        Binding("left", "turn(-1)", "less", id="learn.less"),
        Binding("right", "turn(1)", "more", id="learn.more"),
        Binding("backspace", "rub", "take a digit back", id="learn.rub"),
        # Bindings, not a key handler: there keys take another path, and would overtake an arrow typed before them.
        *(Binding(digit, f"type('{digit}')", digit, id=f"learn.{digit}", show=False) for digit in "0123456789"),
        Binding("full_stop,comma", "type('.')", "point", id="learn.point", show=False),
    ]

    def __init__(self, lesson: Lesson) -> None:
        super().__init__()
        self.lesson, self.row, self.typed, self.complaint = lesson, 0, "", ""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Words("Learn by playing against itself", classes="dialog-title")
            yield Words(id="knobs", classes="dialog-body")
            yield Words(id="verdict")
            hints = (("↑ ↓", "which"), ("← →", "turn, or type"), ("enter", "begin"), ("esc", "leave it"))
            yield Words(key_hints(*hints), classes="dialog-keys")

    def on_mount(self) -> None:
        self.draw()

    def knobs(self) -> list[Knob]:
        """Return the settings that apply to the rule."""
        settings = self.lesson.settings
        left_out = set() if settings.rule == "td-lambda" else {"lam"}
        left_out |= set() if settings.rule in OF_POSITIONS else {"exploring"}
        return [knob for knob in KNOBS if knob.name not in left_out]

    def draw(self) -> None:
        knobs, ascii = self.knobs(), is_ascii(self)
        titles = [formula(knob.title, ascii) for knob in knobs]
        wide = max(map(len, titles))
        parts: list[Content] = []
        for place, knob in enumerate(knobs):
            here = place == self.row
            value = (
                self.typed + "_"
                if here and self.typed
                else formula(format_value(value_of(self.lesson, knob.name)), ascii)
            )
            arrows = ("‹", "›") if here else (" ", " ")
            parts += [
                Content.styled(f"{'>' if here else ' '} {titles[place]:<{wide}}  ", "bold $accent" if here else ""),
                Content.styled(f"{arrows[0]} {value:^10} {arrows[1]}", "bold $accent" if here else "bold"),
                Content.styled(f"  {knob.about}\n", "$quiet"),
            ]
        self.query_one("#knobs", Words).say(Content.assemble(*parts))
        style = "$error" if self.complaint else "$quiet"
        self.query_one("#verdict", Words).say(Content.styled(visible(self.complaint) or " ", style))

    def settle(self) -> bool:
        """Accept the typed text; if that is impossible, show why and return False."""
        if not self.typed:
            return True
        name = self.knobs()[self.row].name
        try:
            self.lesson = self.lesson.with_value(name, parse_value(name, self.typed))
        except LabError as error:
            self.complaint = str(error)
            self.draw()
            return False
        self.typed, self.complaint = "", ""
        return True

    def action_type(self, sign: str) -> None:
        """Type a digit or a point of a number."""
        if self.knobs()[self.row].name not in ("rule", "exploring"):
            self.typed, self.complaint = (self.typed + sign)[:LONGEST], ""
            self.draw()

    def action_rub(self) -> None:
        self.typed, self.complaint = self.typed[:-1], ""
        self.draw()

    def action_choose(self, by: int) -> None:
        if self.settle():
            self.row = (self.row + by) % len(self.knobs())
            self.draw()

    def action_turn(self, by: int) -> None:
        """Go to the next usual value in that direction; rules and yes/no answers wrap around."""
        self.typed, self.complaint = "", ""
        knob = self.knobs()[self.row]
        now = value_of(self.lesson, knob.name)
        if now in knob.steps:
            place = knob.steps.index(now) + by
            many = len(knob.steps)
            place = place % many if isinstance(now, str | bool) else max(0, min(place, many - 1))
            value = knob.steps[place]
        else:
            beyond = [step for step in knob.steps if (step > now) == (by > 0)]  # type: ignore[operator]
            value = (beyond[0] if by > 0 else beyond[-1]) if beyond else now
        self.lesson = self.lesson.with_value(knob.name, value)
        self.draw()

    def action_begin(self) -> None:
        if self.settle():
            self.dismiss(self.lesson)

    def action_leave(self) -> None:
        self.dismiss(None)
