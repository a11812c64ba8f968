"""What held when an update was made: its numbers, its names, and whether it explored.

Notable: draws are a pure function of (seed, step), so whether a step explored is looked up, and never stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from txlab.engine.explain import Explanation, Operand, Step
from txlab.engine.rl.draws import uniforms
from txlab.engine.rl.numerals import said
from txlab.engine.rl.rules.choosing import exploring
from txlab.engine.rl.rules.transition_table import ENDED, Model
from txlab.engine.rl.settings import Settings


@dataclass(frozen=True)
class Moment:
    """Step t of a learner."""

    t: int
    episode: int
    settings: Settings
    gamma: float
    seed: int
    model: Model

    @cached_property
    def draws(self) -> np.ndarray:
        found: np.ndarray = uniforms(self.seed, self.t, 1)[0, 0]
        return found

    @property
    def epsilon(self) -> float:
        """ε of that episode; 1 for a softmax policy, which always draws."""
        return exploring(self.settings, self.episode)[0]

    @property
    def temperature(self) -> float:
        return exploring(self.settings, self.episode)[1]

    @property
    def explored(self) -> bool:
        """Whether the action of this step was drawn from all that are allowed."""
        return self.settings.policy == "epsilon-greedy" and float(self.draws[0]) < self.epsilon

    def state(self, s: int) -> str:
        return self.model.process.states[s]

    def actions(self, s: int) -> list[str]:
        return [self.model.process.actions[a] for a in self.model.actions[s]]

    def action(self, s: int, k: int) -> str:
        return self.actions(s)[k]

    def how(self) -> str:
        """In words, how the action was chosen."""
        if self.settings.policy == "softmax":
            return f"drawn by softmax at temperature {said(self.temperature)} (u₁ = {said(float(self.draws[1]))})"
        if self.settings.policy == "exploring-starts":
            return "any action at an episode's first step, the greedy choice after it"
        if self.settings.policy == "greedy":
            return "the greedy choice"
        sign = "<" if self.explored else "≥"
        what = "explored: any allowed action" if self.explored else "the greedy choice"
        return f"{what} (u₀ = {said(float(self.draws[0]))} {sign} ε = {said(self.epsilon)})"

    def ending(self, end: int, s: int) -> str:
        """In words, whether anything follows."""
        if end == ENDED:
            return f"{self.state(s)} ends the episode: nothing follows it, so it counts as 0"
        return f"s′ = {self.state(s)}"

    def explanation(
        self,
        question: str,
        equation: str,
        math: str,
        source: str,
        operands: list[Operand],
        steps: list[Step],
        result: float,
        labels: Sequence[str] = (),
        asked: int | None = None,
    ) -> Explanation:
        """An Explanation in which how the action was chosen comes first among the steps."""
        chosen = Step("chosen", self.settings.policy, 1.0 if self.explored else 0.0, self.how())
        return Explanation(question, equation, math, source, operands, [chosen, *steps], result, list(labels), asked)
