"""The learners' rules and parameters, the values that the arrow keys step through, and those keys."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding

from txlab.drawing.update_lines import compact
from txlab.engine.rl.rules import rule_named, rule_names
from txlab.engine.rl.settings import Settings
from txlab.errors import LabError
from txlab.tui.bindings import MOVING, bind
from txlab.tui.panel import Panel
from txlab.tui.screens.arena.learners import LiveMatch, describe_side
from txlab.tui.screens.dialogs import AskValue, Choose

if TYPE_CHECKING:
    from txlab.tui.screens.arena.interface import Arena


@dataclass(frozen=True)
class Parameter:
    """`name` is that of Settings; `stops` are the values of the arrow keys; `ascii` is the letter in ASCII mode."""

    letter: str
    ascii: str
    name: str
    about: str
    stops: tuple[float, ...]

    def next_stop(self, value: float, by: int) -> float:
        """Return the next stop above or below a value."""
        at = bisect_right(self.stops, value) if by > 0 else bisect_left(self.stops, value) - 1
        return self.stops[max(0, min(at, len(self.stops) - 1))]


SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
RATES = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, 1.0)

ALPHA = Parameter("α", "alpha", "alpha", "step size: how much of an error is corrected", RATES)
BETA = Parameter("β", "beta", "beta", "step size of the baseline", RATES)
GAMMA = Parameter(
    "γ", "gamma", "gamma", "discount: what a reward is worth a step later", (0.0, 0.5, 0.8, 0.9, 0.95, 0.99, 1.0)
)
LAM = Parameter("λ", "lambda", "lam", "how long traces last: 0 one step, 1 the episode", SHARES)
EPSILON = Parameter("ε", "eps", "epsilon", "probability of a random action", (0.0, 0.01, 0.02, 0.05, *SHARES[1:]))
TEMPERATURE = Parameter(
    "τ", "temp", "temperature", "of softmax: high is even, low is greedy", (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
)

STEPS = Parameter("n", "n", "n", "rewards summed before bootstrapping", (1, 2, 4, 8, 16, 32, 64))
PLANNING = Parameter(
    "plan", "plan", "planning", "updates from memory after each step in the world", (0, 1, 2, 5, 10, 20, 50, 100)
)

BY_NAME = {each.name: each for each in (ALPHA, BETA, EPSILON, TEMPERATURE, LAM, STEPS, PLANNING)}
PLANNED = ("value-iteration", "policy-iteration", "evaluation")


def parameters(side: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """Return the parameters that apply to the rule and policy of a side, according to a frame, and have a value."""
    rule, policy = side.get("rule", ""), side.get("policy", "epsilon-greedy")
    if rule in PLANNED:
        meant: tuple[Parameter, ...] = (GAMMA,)
    elif rule in rule_names():
        meant = (*(BY_NAME[name] for name in rule_named(rule).numbers(policy)), GAMMA)
    elif "n" in side:  # n-step TD of a recorded prediction
        meant = (ALPHA, STEPS, GAMMA)
    else:  # a recorded prediction has its own rules; their names tell whether they have traces
        meant = (ALPHA, EPSILON, *([LAM] if "lambda" in rule else []), GAMMA)
    return tuple(each for each in meant if isinstance(side.get(each.name), (int, float))) or meant


def parse_number(text: str) -> float:
    """Parse a number or a fraction; LabError says what is allowed."""
    try:
        above, line, below = text.strip().replace("−", "-").partition("/")
        value = float(above) / float(below) if line else float(above)
    except (ValueError, ZeroDivisionError):
        raise LabError(f"{text.strip()[:40]!r} is not a number; write one such as 0.5 or 1/3") from None
    if not abs(value) < 1e12:
        raise LabError(f"{text.strip()[:40]!r} is not a number that can be used; write one such as 0.5 or 1/3")
    return value


class ParametersPanel(Panel):
    """Changes the parameters of the chosen side with the arrows (p) and its rule (u), and adds a second side (a)."""

    KEYS: ClassVar = (
        bind(
            "p",
            "turn_mode",
            "change parameters with the arrows",
            "turn",
            id="arena.turn",
            synonyms="alpha epsilon gamma lambda step size",
        ),
        bind(
            "u,r",
            "rule",
            "choose the learning rule of this side",
            "rule",
            id="arena.rule",
            key_display="u",
            synonyms="algorithm sarsa q-learning",
        ),
        bind("a", "second", "add a second learner, or show this one alone", "second side", id="arena.second"),
        bind("less_than_sign", "turn(-1)", "lower the parameter shown first", id="arena.turn-down", synonyms="turn"),
        bind("greater_than_sign", "turn(1)", "raise the parameter shown first", id="arena.turn-up", synonyms="turn"),
        bind("up", "choose(-1)", "cursor up", id="arena.up", heading=MOVING),
        bind("down", "choose(1)", "cursor down", id="arena.down", heading=MOVING),
        bind("left", "turn_chosen(-1)", "cursor left", id="arena.left", heading=MOVING),
        bind("right", "turn_chosen(1)", "cursor right", id="arena.right", heading=MOVING),
        bind("home", "extreme(0)", "set the parameter to its lowest value", id="arena.lowest"),
        bind("end", "extreme(-1)", "set the parameter to its highest value", id="arena.highest"),
    )
    DEFAULT_CSS = "ParametersPanel { display: none; }"

    def __init__(self, arena: Arena) -> None:
        super().__init__()
        self.arena = arena
        self.changed = False  # since the learners were begun, or last went on: nothing moves by that alone

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("choose", "turn_chosen", "extreme"):  # otherwise the arrows move the cursor
            return self.arena.turning is not None and not self.arena.editing
        return action not in ("turn_mode", "rule") or not self.arena.editing

    def word_for(self, binding: Binding) -> str:
        if binding.id == "arena.turn" and self.arena.turning is not None:
            return "done"
        if binding.id == "arena.second" and self.arena.sides > 1:
            return "all sides" if self.arena.alone else "this side alone"
        return binding.description

    # Parameters.

    @property
    def told(self) -> Mapping[str, Any]:
        """The frame's facts about the chosen side."""
        return describe_side(self.arena.facts, self.arena.side)

    @property
    def chosen(self) -> Parameter | None:
        """The parameter that the arrows change."""
        known, place = parameters(self.told), self.arena.turning
        return known[min(place, len(known) - 1)] if place is not None else None

    def action_turn_mode(self) -> None:
        """Let the arrows change the parameters of this side: up and down select, left and right change, enter types."""
        if self.arena.turning is not None:
            self.arena.turning = None
        elif self.arena.playback.ready():
            self.arena.turning = 0
        self.arena.refresh_bindings()
        self.arena.show_heads()
        self.arena.show_header()

    def action_choose(self, by: int) -> None:
        self.arena.turning = ((self.arena.turning or 0) + by) % len(parameters(self.told))
        self.arena.show_heads()

    def action_turn_chosen(self, by: int) -> None:
        self.action_turn(by)

    def action_turn(self, by: int) -> None:
        """Move the selected parameter one stop up or down."""
        if not self.arena.playback.ready():
            return
        if self.arena.turning is None:
            self.action_turn_mode()
        parameter = self.chosen
        if parameter is not None and isinstance(self.told.get(parameter.name), (int, float)):
            self.change(parameter, lambda value: parameter.next_stop(value, by))

    def action_extreme(self, stop: int) -> None:
        """Set the selected parameter to its lowest (0) or highest (-1) value."""
        if self.chosen is not None and self.arena.playback.ready():
            self.set(self.chosen, self.chosen.stops[stop])

    def set(self, parameter: Parameter, value: float) -> None:
        self.change(parameter, lambda _: value)

    def change(self, parameter: Parameter, to: Callable[[float], float]) -> None:
        """Change a parameter from its current value, which may not be shown yet."""
        side, session = self.arena.side, self.arena.session
        self.changed = True

        def work(live: LiveMatch) -> None:
            if side < len(live.settings):
                live.set(side, parameter.name, to(float(getattr(live.settings[side], parameter.name))))
                session.say(self.arena.settings_changed)

        session.edit(work)

    def type(self) -> None:
        """Type a value for the selected parameter."""
        parameter = self.chosen
        if parameter is None or not self.arena.playback.ready():
            return
        value = self.told.get(parameter.name)
        start = compact(float(value)).replace("−", "-").replace(" ", "") if isinstance(value, (int, float)) else ""
        self.app.push_screen(
            AskValue(
                f"{parameter.letter} ({parameter.name})", parameter.about, start, lambda t: f"= {parse_number(t):g}"
            ),
            lambda text: self.set(parameter, parse_number(text)) if text else None,
        )

    # Rules and sides.

    def action_rule(self) -> None:
        """Choose another rule for this side; its tables start empty, since rules cannot use each other's."""
        if not self.arena.playback.ready():
            return
        side, now, session = self.arena.side, self.told.get("rule"), self.arena.session
        names = {rule_named(rule).title: rule for rule in rule_names()}

        def choose(title: str | None) -> None:
            if title in names:
                session.edit(lambda live: live.change_rule(side, names[title]))
                self.app.call_later(self.arena.settings_changed)

        which = "" if self.arena.sides == 1 else f" in the place of {self.told.get('title', 'this one')}"
        rows = [(title, rule, rule == now) for title, rule in names.items()]
        self.app.push_screen(Choose(f"Which rule{which}?", rows), choose)

    def action_second(self) -> None:
        """Show the chosen side alone, or all again (all keep learning); if there is a single learner, add a second,
        untrained one."""
        if self.arena.sides > 1:
            self.arena.alone = not self.arena.alone
            self.arena.fit_size()
        elif self.arena.playback.ready():
            session = self.arena.session

            def add(live: LiveMatch) -> None:
                live.add(Settings("q-learning"))
                session.say(self.arena.settings_changed)

            session.edit(add)
