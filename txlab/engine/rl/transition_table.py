"""What a loop reads of a process: plain Python lists, for a list is read in 10 ns and an array in 100 (MATH M1).

Notable: the actions of a state are numbered among those that are allowed there, k = 0, 1, …; a pair with one outcome
has it ready, and any other is drawn. Both are the same semantics: an outcome is the first whose cumulated
probability is above the step's draw 2, and of one outcome that is always the first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from txlab.engine.rl.draws import Draws
from txlab.engine.rl.environment import Environment
from txlab.engine.rl.process import Process
from txlab.errors import LabError

GOES_ON, ENDED, CUT_OFF = 0, 1, 2
"""How an outcome leaves the episode. Ended: nothing follows, so no bootstrap. Cut off: the bootstrap stays."""

Transition = tuple[float, int, int]
"""(reward, next state, GOES_ON | ENDED | CUT_OFF)"""

Sampler = Callable[[int, int, int], Transition]
"""(state, k, place of the step in the draws) → what happens"""


class TransitionTable:
    """A Process as lists.

    actions  [s][k] the action's number     moves  [s][k] its only outcome, or None where one has to be drawn
    """

    def __init__(self, process: Process) -> None:
        self.process = process
        self.size, self.choices = process.size, process.choices
        self.limit = process.limit
        self.discount = process.discount
        self.actions = [np.flatnonzero(row).tolist() for row in process.allowed]
        first = process.first.tolist()
        ends = [ENDED if done else GOES_ON for done in process.done.tolist()]
        # No bootstrap after a state in which nothing can be done, whatever its outcome says.
        ends = [ENDED if over else end for end, over in zip(ends, process.terminal[process.next].tolist(), strict=True)]
        self.outcomes: list[Transition] = list(zip(process.reward.tolist(), process.next.tolist(), ends, strict=True))
        self.first = [[first[s * self.choices + a] for a in row] for s, row in enumerate(self.actions)]
        self.last = [[first[s * self.choices + a + 1] for a in row] for s, row in enumerate(self.actions)]
        self.cumulative: list[float] = process.cumulative.tolist()
        noise = getattr(process, "noise", None)
        self.noise: list[float] | None = None if noise is None else noise.tolist()
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
        """What it is in the midst of, beside where the learner stands: nothing."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        return

    def aside(self) -> AbstractContextManager[None]:
        """For a walk that shall leave no trace."""
        return nullcontext()

    def begin(self, u: float) -> int:
        """Where an episode begins: the first state whose cumulated probability is above u."""
        return bisect_right(self.starts, u)

    def sampler(self, draws: Draws) -> Sampler:
        """Draws outcomes with draw 2 of the block's steps; noisy rewards with a normal number from draws 2 and 3."""
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


MOST_PAIRS = 2_000_000  # lists of so many numbers and records: 200 MB


def process_shell(environment: Environment) -> Process:
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


class SteppedTransitions(TransitionTable):
    """Every action is possible in every state, and what it leads to is found out."""

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
            found = step(k)
            end = ENDED if found.terminated else CUT_OFF if found.truncated else GOES_ON
            return found.reward, found.next, end

        return draw_transition

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
