"""A process as the loops read it: plain Python lists, since a list is read in 10 ns and an array in 100 (MATH M1).

The actions of a state are numbered among those allowed there, k = 0, 1, …; the outcome of a pair with only
one is stored ready-made, and any other is drawn. The semantics are the same: the outcome is the first whose cumulative
probability is above the step's draw 2, which for a single outcome is always that one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from txlab.engine.rl.draws import Draws
from txlab.engine.rl.environment import Environment
from txlab.engine.rl.process import Process
from txlab.errors import LabError

GOES_ON, ENDED, CUT_OFF = 0, 1, 2
"""The effect of an outcome on the episode. Ended: nothing follows, so no bootstrap. Cut off: the bootstrap stays."""

Transition = tuple[float, int, int]
"""(reward, next state, GOES_ON | ENDED | CUT_OFF)"""

Sampler = Callable[[int, int, int], Transition]
"""(state, k, index of the step in the draws) → transition"""


class TransitionTable:
    """A Process as lists.

    actions  [s][k] the action's number     moves  [s][k] its only outcome, or None if one has to be drawn
    """

    def __init__(self, process: Process) -> None:
        self.process = process
        self.size, self.choices = process.size, process.choices
        self.limit = process.limit
        self.discount = process.discount
        self.actions = [np.flatnonzero(row).tolist() for row in process.allowed]
        first = process.first.tolist()
        ends = [ENDED if done else GOES_ON for done in process.done.tolist()]
        # No bootstrap from a terminal state, whatever the outcome says.
        ends = [ENDED if over else end for end, over in zip(ends, process.terminal[process.next].tolist(), strict=True)]
        self.outcomes: list[Transition] = list(zip(process.reward.tolist(), process.next.tolist(), ends, strict=True))
        self.first = [[first[s * self.choices + a] for a in row] for s, row in enumerate(self.actions)]
        self.last = [[first[s * self.choices + a + 1] for a in row] for s, row in enumerate(self.actions)]
        self.cumulative: list[float] = process.cumulative.tolist()
        self.noise: list[float] | None = None if process.noise is None else process.noise.tolist()
        self.moves: list[list[Transition | None]] = [
            [self.outcomes[o] if self.sure(o, end) else None for o, end in zip(*each, strict=True)]
            for each in zip(self.first, self.last, strict=True)
        ]
        running = np.cumsum(process.start)
        running[int(np.flatnonzero(process.start)[-1]) :] = 1.0
        self.starts: list[float] = running.tolist()

    def sure(self, first: int, last: int) -> bool:
        return last == first + 1 and not (self.noise and self.noise[first])

    def state(self) -> dict[str, Any]:
        """The state to be saved with the learner's: nothing."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        return

    @contextmanager
    def aside(self) -> Iterator[None]:
        """A context for a walk that leaves no trace."""
        before = self.state()
        try:
            yield
        finally:
            self.load(before)

    def begin(self, u: float) -> int:
        """The start state: the first whose cumulative probability is above u."""
        return bisect_right(self.starts, u)

    def sampler(self, draws: Draws) -> Sampler:
        """A sampler that uses draw 2 of the block's steps; noisy rewards take a normal number from draws 2 and 3."""
        cumulative, first, last, outcomes, noise = self.cumulative, self.first, self.last, self.outcomes, self.noise
        actions, choices, u2 = self.actions, self.choices, draws.u2
        normal = draws.normal() if noise is not None else None

        def draw_transition(s: int, k: int, place: int) -> Transition:
            pair = s * choices + actions[s][k]
            o = bisect_right(cumulative, pair + u2[place], first[s][k], last[s][k] - 1)
            if noise is None or normal is None or not noise[o]:
                return outcomes[o]
            reward, then, end = outcomes[o]
            return reward + noise[o] * normal[place], then, end

        return draw_transition


MOST_PAIRS = 2_000_000  # lists of this many numbers and records: 200 MB


def process_shell(environment: Environment) -> Process:
    """The names and the discount of an environment as a Process, in which every action is allowed everywhere. It says
    nothing about the outcomes. LabError if it is too large."""
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


class SteppedTransitions(TransitionTable):
    """Every action is allowed in every state, and its outcome is found by stepping the environment."""

    def __init__(self, environment: Environment, process: Process) -> None:
        self.environment, self.process, self.noise = environment, process, None
        self.size, self.choices, self.limit = process.size, process.choices, process.limit
        self.discount = process.discount
        self.actions = [list(range(self.choices)) for _ in range(self.size)]
        self.moves: list[list[Transition | None]] = [[None] * self.choices for _ in range(self.size)]

    def begin(self, u: float) -> int:
        return self.environment.reset(u)

    def sampler(self, draws: Draws) -> Sampler:
        step = self.environment.step

        def draw_transition(s: int, k: int, place: int) -> Transition:
            outcome = step(k)
            end = ENDED if outcome.terminated else CUT_OFF if outcome.truncated else GOES_ON
            return outcome.reward, outcome.next, end

        return draw_transition

    def state(self) -> dict[str, Any]:
        return self.environment.state()

    def load(self, state: dict[str, Any]) -> None:
        self.environment.load(state)
