"""What can only be stepped: an environment whose probabilities nobody tells, as a learner sees it.

Notable: an episode is a function of the number u that it was begun with and of what was done in it. So the life of a
learner is a function of its seed here too, and a resume goes through the episode again; nothing within is saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from txlab.engine.rl.draws import uniforms
from txlab.engine.rl.process import Process
from txlab.errors import LabError

MOST_STATES = 5_000_000  # a table of float64 for four actions: 160 MB


class Stepped(NamedTuple):
    """What an action led to. `terminated`: the episode ended (no bootstrap); `truncated`: it was cut off."""

    next: int
    reward: float
    terminated: bool
    truncated: bool


@runtime_checkable
class Environment(Protocol):
    """States are numbers from 0 to size − 1, actions from 0 to len(actions) − 1; every action is possible everywhere.

    states        what the states are called
    limit         steps after which a learner cuts an episode off; 0 = the environment does so itself, where need be
    reset(u)      begins an episode, u in [0, 1) deciding all that chance does in it; gives its first state
    step(action)  LabError where no episode is under way
    state()       what `load` needs to be in the middle of the same episode again; small, JSON
    """

    @property
    def name(self) -> str: ...
    @property
    def actions(self) -> tuple[str, ...]: ...
    @property
    def size(self) -> int: ...
    @property
    def states(self) -> tuple[str, ...]: ...
    @property
    def discount(self) -> float: ...
    @property
    def limit(self) -> int: ...
    def reset(self, u: float) -> int: ...
    def step(self, action: int) -> Stepped: ...
    def state(self) -> dict[str, Any]: ...
    def load(self, state: dict[str, Any]) -> None: ...


@dataclass(frozen=True)
class Numbering:
    """One number for several: (v₁ … vₙ) with 0 ≤ vᵢ < nᵢ is Σ vᵢ · nᵢ₊₁ · … · nₙ; the last one is the fastest.

    >>> Numbering((2, 3)).number([1, 2]), Numbering((2, 3)).values(5)
    (5, (1, 2))
    """

    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(size < 1 for size in self.sizes) or self.size > MOST_STATES:
            raise LabError(f"{self.size} states are not possible in a table; 1 to {MOST_STATES} are")

    @property
    def size(self) -> int:
        return prod(int(size) for size in self.sizes)

    def number(self, values: Sequence[int]) -> int:
        found = 0
        for value, size in zip(values, self.sizes, strict=True):
            if not 0 <= value < size:
                raise LabError(f"an observation of {value} is outside its space of 0 to {size - 1}")
            found = found * size + int(value)
        return found

    def values(self, number: int) -> tuple[int, ...]:
        found = []
        for size in reversed(self.sizes):
            number, value = divmod(number, size)
            found.append(value)
        return tuple(reversed(found))


class SampledProcess:
    """A process of which only what happens is told. Every action must be possible wherever anything is."""

    def __init__(self, process: Process, name: str = "process") -> None:
        if not (process.allowed | process.terminal[:, None]).all():
            raise LabError(f"{name} has states in which only some actions are possible; it cannot be only stepped")
        self.process = process
        self.name = name
        self.actions = process.actions
        self.states = process.states
        self.size = process.size
        self.limit = 0
        self.discount = process.discount
        self.begins = np.cumsum(process.start)
        self.u = 0.0
        self.done: list[int] = []
        self.at = -1
        self.reached = -1  # the state that was told last

    def reset(self, u: float) -> int:
        """Begin; where, is decided by draw 3 of step 0 of the seed ⌊u · 2³²⌋, what happens by draw 2 of each step."""
        self.u, self.done = u, []
        begin = uniforms(int(u * 2**32), 0, 1)[0, 0, 3]
        self.at = min(int(np.searchsorted(self.begins, begin, side="right")), self.size - 1)
        while self.process.start[self.at] == 0:  # rounding may leave the last sum a little below 1
            self.at -= 1
        self.reached = self.at
        return self.at

    def step(self, action: int) -> Stepped:
        if self.at < 0:
            raise LabError(f"{self.name} must be reset before it is stepped")
        process = self.process
        u = float(uniforms(int(self.u * 2**32), len(self.done), 1)[0, 0, 2])
        outcome = int(np.searchsorted(process.cumulative, self.at * process.choices + action + u, side="right"))
        self.done.append(action)
        self.at = self.reached = int(process.next[outcome])
        ended = bool(process.done[outcome])
        cut = not ended and len(self.done) == process.limit
        found = Stepped(self.at, float(process.reward[outcome]), ended, cut)
        if ended or cut:
            self.at = -1
        return found

    def state(self) -> dict[str, Any]:
        return {"u": self.u, "actions": list(self.done), "under_way": self.at >= 0, "at": self.reached}

    def load(self, state: dict[str, Any]) -> None:
        replay(self, state)
        if not state["under_way"]:
            self.at = -1


OTHERWISE = "did not do the same again with the same seed and the same actions"


def replay(environment: Environment, state: dict[str, Any]) -> None:
    """Begin the episode of a saved state again and do what was done in it. LabError where it comes out elsewhere."""
    if state["actions"] or state["under_way"]:
        at = environment.reset(float(state["u"]))
        for action in state["actions"]:
            at = environment.step(int(action)).next
        if at != state["at"]:
            raise LabError(f"{environment.name} {OTHERWISE}, so a run in it cannot be resumed bit for bit")
