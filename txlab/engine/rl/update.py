"""One update of a learner, with the numbers that went into it (MATH M2, M4–M7).

`terms` is the rule as a formula with the number under each piece of it. The learning loops fill in the
record; a screen sets letters above numbers and computes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np

from txlab.engine.explain import Explanation, Step, compute_step, number
from txlab.engine.rl.draws import uniforms
from txlab.engine.rl.policies import exploring
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.transition_table import ENDED, TransitionTable


@dataclass(frozen=True)
class Term:
    """A piece of a formula and the number under it; None for an operator. ("Q(s,a)", −7.5), ("←", None)"""

    letters: str
    value: float | None = None


def terms(*pieces: str | tuple[str, float]) -> list[Term]:
    """Build the terms of a rule: a plain string is an operator, a pair is a symbol and its number.

    >>> terms(("V", 0.5), "←", ("V", 0.0))
    [Term(letters='V', value=0.5), Term(letters='←', value=None), Term(letters='V', value=0.0)]
    """
    return [Term(piece) if isinstance(piece, str) else Term(*piece) for piece in pieces]


def error_step(reward: float, gamma: float, value: float, known: float, note: str) -> Step:
    """The line of an explanation for δ = r + γ V(s′) − the value that it corrects."""
    return compute_step(
        "δ", "{} + {} · {} − {}", lambda r, γ, v, q: r + γ * v - q, reward, gamma, value, known, note=note
    )


def change_step(name: str, before: float, *factors: float, note: str = "") -> Step:
    """The line for a value after its change by α δ, or α δ e.

    >>> change_step("V", 1.0, 0.5, 4.0)
    Step(name='V', expression='1 + 0.5 · 4', result=3.0, note='', digits=4)
    """
    form = "{} + " + " · ".join(["{}"] * len(factors))
    return compute_step(name, form, lambda value, *each: value + prod(each), before, *factors, note=note)


@dataclass(frozen=True)
class Update:
    """number     which update of the learner this was, from 1
    state, action, reward, next   the transition; `action` is −1 for a rule without actions
    done       whether the episode ended there; `truncated`: whether it was cut off
    before, after   the number that the table shows for (state, action), or for the state
    delta      δ, the error that was corrected
    trace      {pair number or state: e}, the traces that took part; empty for rules without
    terms      the rule with its numbers
    explanation   the complete answer to "why this number?"
    """

    number: int
    state: int
    action: int
    reward: float
    next: int
    done: bool
    truncated: bool
    before: float
    after: float
    delta: float
    terms: Sequence[Term]
    explanation: Explanation
    trace: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class StepContext:
    """Step t of a learner."""

    t: int
    episode: int
    settings: Settings
    gamma: float
    seed: int
    world: TransitionTable

    @cached_property
    def draws(self) -> np.ndarray:
        draws: np.ndarray = uniforms(self.seed, self.t, 1)[0, 0]
        return draws

    @property
    def epsilon(self) -> float:
        """ε of that episode; 1 for a softmax policy, which always draws."""
        return exploring(self.settings, self.episode)[0]

    @property
    def temperature(self) -> float:
        return exploring(self.settings, self.episode)[1]

    def state(self, s: int) -> str:
        return self.world.process.states[s]

    def actions(self, s: int) -> list[str]:
        return [self.world.process.actions[a] for a in self.world.actions[s]]

    def action(self, s: int, k: int) -> str:
        return self.world.process.actions[self.world.actions[s][k]]

    def explain_choice(self, s: int, k: int) -> Step:
        """The line of an explanation that says which action this step took, and why that one."""
        return Step("chosen", "", self.action(s, k), self.how())

    def how(self) -> str:
        """A description of how the action was chosen."""
        if self.settings.policy == "softmax":
            return f"drawn by softmax at temperature {number(self.temperature)} (u₁ = {number(float(self.draws[1]))})"
        if self.settings.policy == "exploring-starts":
            return "any action at an episode's first step, the greedy choice after it"
        if self.settings.policy == "greedy":
            return "the greedy choice"
        u, epsilon = float(self.draws[0]), self.epsilon
        what, sign = ("explored: any allowed action", "<") if u < epsilon else ("the greedy choice", "≥")
        return f"{what} (u₀ = {number(u)} {sign} ε = {number(epsilon)})"

    def ending(self, end: int, s: int) -> str:
        """A description of whether anything follows."""
        if end == ENDED:
            return f"{self.state(s)} ends the episode: nothing follows it, so it counts as 0"
        return f"s′ = {self.state(s)}"
