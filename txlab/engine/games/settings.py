"""What a learner by self-play may be told: its rule and its numbers (MATH G1).

Notable: two numbers decide what comes out in the end (TD(0), α = ε = .1, 100 000 games of tic-tac-toe, judged exactly).
`exploring`: a move made at random says little about what best play leads to. Where such moves teach nothing (Sutton and
Barto 2018, section 1.5), the table goes to the value of best play, and of 32 learners 32 cannot be beaten. Where they
do, it goes to the value of play with slips, and the learner sets traps: against a random player it wins .990 as first
in place of .968, but only 2 of 8 cannot be beaten, and as second .05 of the games against a perfect player are lost.
`initial`: from 0, what a draw is worth, drawn positions stay exactly equal and the learner chooses evenly among them.
From .5, and even from .02, what was never tried looks good to the first player and bad to the second: 8 of 8 can be
beaten as first (.14 and .11 of the games against perfect play are lost), and from −.5 as second (.62).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from txlab.errors import LabError, nearest

Rule = Literal["td", "td-lambda", "q-learning", "sarsa"]
RULES: tuple[Rule, ...] = get_args(Rule)
OF_POSITIONS: tuple[Rule, ...] = ("td", "td-lambda")
"""Rules that learn V of positions; the others learn Q of moves."""

TITLES: dict[Rule, str] = {"td": "TD(0)", "td-lambda": "TD(λ)", "q-learning": "Q-learning", "sarsa": "SARSA"}

BOUNDS = {"alpha": (0.0, 1.0), "epsilon": (0.0, 1.0), "lam": (0.0, 1.0), "decay": (0.0, 1.0), "floor": (0.0, 1.0)}


@dataclass(frozen=True)
class Settings:
    """rule        which update is made
    alpha       α, the step size
    epsilon     ε, the share of moves made at random; of game n it is ε · decayⁿ, never below `floor`
    lam         λ of td-lambda: how far back along the game an error is shared
    initial     what the table holds before anything is learnt; how a game ended is known from the rules
    exploring   whether a move made at random teaches V of the position before it; SARSA and Q-learning always learn
    """

    rule: Rule = "td"
    alpha: float = 0.1
    epsilon: float = 0.1
    lam: float = 0.8
    decay: float = 1.0
    floor: float = 0.0
    initial: float = 0.0
    exploring: bool = False

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise LabError(f"rule = {self.rule!r} is not known{nearest(self.rule, RULES)}; allowed: {', '.join(RULES)}")
        for name, (low, high) in BOUNDS.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise LabError(f"{name} must be from {low:g} to {high:g}; it is {value}")
        if not -1 <= self.initial <= 1:
            raise LabError(f"initial must be from -1 to 1, as results are; it is {self.initial}")

    @property
    def title(self) -> str:
        """As a person says it: "TD(λ=0.8)"."""
        return f"TD(λ={self.lam:g})" if self.rule == "td-lambda" else TITLES[self.rule]

    def epsilon_of(self, game: int) -> float:
        """ε of game 0, 1, …"""
        return max(self.epsilon * self.decay**game, self.floor) if self.decay < 1 else max(self.epsilon, self.floor)


def changed(settings: Settings, **changes: Any) -> Settings:
    """The settings with other numbers. LabError for a name that is none, a number out of bounds, or another rule."""
    allowed = [each.name for each in fields(Settings) if each.name not in ("rule", "initial")]
    for name in changes:
        if name not in allowed:
            raise LabError(f"{name} cannot be changed{nearest(name, allowed)}; allowed: {', '.join(allowed)}")
    return replace(settings, **changes)
