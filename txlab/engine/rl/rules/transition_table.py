"""What a loop reads of a process: plain Python lists, for a list is read in 10 ns and an array in 100 (MATH M1).

Notable: the actions of a state are numbered among those that are allowed there, k = 0, 1, …; a pair with one outcome
has it ready, and any other is drawn. Both are the same semantics: an outcome is the first whose cumulated
probability is above the step's draw 2, and of one outcome that is always the first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from txlab.engine.rl.draws import uniforms
from txlab.engine.rl.process import Process

GOES_ON, ENDED, CUT_OFF = 0, 1, 2
"""How an outcome leaves the episode. Ended: nothing follows, so no bootstrap. Cut off: the bootstrap stays."""

Happening = tuple[float, int, int]
"""(reward, next state, GOES_ON | ENDED | CUT_OFF)"""

Sampler = Callable[[int, int, int], Happening]
"""(state, k, place of the step in the block) → what happens"""


class Model:
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
        self.outcomes: list[Happening] = list(zip(process.reward.tolist(), process.next.tolist(), ends, strict=True))
        self.first = [[first[s * self.choices + a] for a in row] for s, row in enumerate(self.actions)]
        self.last = [[first[s * self.choices + a + 1] for a in row] for s, row in enumerate(self.actions)]
        self.cumulative: list[float] = process.cumulative.tolist()
        noise = getattr(process, "noise", None)
        self.noise: list[float] | None = None if noise is None else noise.tolist()
        self.moves: list[list[Happening | None]] = [
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

    def sampler(self, block: Block) -> Sampler:
        """Draws outcomes with draw 2 of the block's steps; noisy rewards with a normal number from draws 2 and 3."""
        cumulative, first, last, outcomes, noise = self.cumulative, self.first, self.last, self.outcomes, self.noise
        actions, choices, u2 = self.actions, self.choices, block.u2
        normal = block.normal() if noise is not None else None

        def happens(s: int, k: int, place: int) -> Happening:
            pair = s * choices + actions[s][k]
            o = bisect_right(cumulative, pair + u2[place], first[s][k], last[s][k] - 1)
            if noise is None or normal is None or not noise[o]:
                return outcomes[o]
            reward, then, end = outcomes[o]
            return reward + noise[o] * normal[place], then, end

        return happens


class Block:
    """The draws of steps begin … begin + steps − 1 of one agent, a column each; `u0` is a list, for it is read most."""

    def __init__(self, seed: int, begin: int, steps: int) -> None:
        columns = np.ascontiguousarray(uniforms(seed, begin, steps)[0].T)  # (4, steps)
        self.columns = columns
        self.u0: list[float] = columns[0].tolist()
        self.u1: Any = memoryview(columns[1])  # read now and then: as a list it would cost every step
        self.u2: Any = memoryview(columns[2])
        self.u3: Any = memoryview(columns[3])

    def normal(self) -> Any:
        """A normal number a step, by Box and Muller (1958): √(−2 ln(1 − u₂)) cos 2πu₃."""
        return memoryview(np.sqrt(-2.0 * np.log1p(-self.columns[2])) * np.cos(2.0 * np.pi * self.columns[3]))
