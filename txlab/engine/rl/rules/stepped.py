"""An environment that can only be stepped, as the loops read a process: each outcome is found by stepping (MATH M1).

Notable: nothing is known ahead, so nothing is ready; and what it is in the midst of must be saved with the learner.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from txlab.engine.rl.environment import Environment
from txlab.engine.rl.process import Process
from txlab.engine.rl.rules.transition_table import CUT_OFF, ENDED, GOES_ON, Block, Happening, Model, Sampler
from txlab.errors import LabError

MOST_PAIRS = 2_000_000  # lists of so many numbers and records: 200 MB


def shell(environment: Environment) -> Process:
    """The names and the discount of an environment as a Process, for who asks only for those and for what can be done,
    which is everything everywhere; of what follows it says nothing true. LabError if it is too large."""
    size, choices = environment.size, len(environment.actions)
    pairs = size * choices
    if pairs > MOST_PAIRS:
        raise LabError(f"{environment.name} has {size} states of {choices} actions; {MOST_PAIRS} pairs are possible")
    return Process(
        actions=environment.actions,
        states=environment.states,
        first=np.arange(pairs + 1),
        next=np.repeat(np.arange(size), choices),
        probability=np.ones(pairs),
        reward=np.zeros(pairs),
        done=np.zeros(pairs, dtype=bool),
        start=np.full(size, 1.0 / size),
        discount=environment.discount,
        limit=environment.limit,
    )


class SteppedModel(Model):
    """Every action is possible in every state, and what it leads to is found out."""

    def __init__(self, environment: Environment, process: Process) -> None:
        self.environment, self.process, self.noise = environment, process, None
        self.size, self.choices, self.limit = process.size, process.choices, process.limit
        self.discount = process.discount
        self.actions = [list(range(self.choices)) for _ in range(self.size)]
        self.moves: list[list[Happening | None]] = [[None] * self.choices for _ in range(self.size)]

    def begin(self, u: float) -> int:
        return self.environment.reset(u)

    def sampler(self, block: Block) -> Sampler:
        step = self.environment.step

        def happens(s: int, k: int, place: int) -> Happening:
            found = step(k)
            end = ENDED if found.terminated else CUT_OFF if found.truncated else GOES_ON
            return found.reward, found.next, end

        return happens

    def state(self) -> dict[str, Any]:
        return self.environment.state()

    def load(self, state: dict[str, Any]) -> None:
        self.environment.load(state)

    @contextmanager
    def aside(self) -> Iterator[None]:
        before = self.environment.state()
        try:
            yield
        finally:
            self.environment.load(before)
