"""An environment that can only be stepped: its dynamics are not known, only observed.

Notable: an episode is a function of the number u it was begun with and of the actions taken. So a learner's experience
is a function of its seed here too, and resuming replays the episode instead of saving the environment's internals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple, Protocol, runtime_checkable

from txlab.errors import LabError

MOST_STATES = 5_000_000  # a table of float64 for four actions: 160 MB


class Stepped(NamedTuple):
    """The result of an action. `terminated`: the episode ended (no bootstrap); `truncated`: it was cut off."""

    next: int
    reward: float
    terminated: bool
    truncated: bool


@runtime_checkable
class Environment(Protocol):
    """States are numbers from 0 to size − 1, actions from 0 to len(actions) − 1; every action is possible everywhere.

    states        names of the states
    limit         steps after which a learner cuts an episode off; 0 = the environment does so itself if needed
    reset(u)      begins an episode, in which u in [0, 1) decides all randomness; returns its first state
    step(action)  LabError if no episode is under way
    state()       what `load` needs to return to the middle of the same episode; small, JSON
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
    """Several numbers as one: (v₁ … vₙ) with 0 ≤ vᵢ < nᵢ is Σ vᵢ · nᵢ₊₁ · … · nₙ; the last one varies fastest.

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
        number = 0
        for value, size in zip(values, self.sizes, strict=True):
            if not 0 <= value < size:
                raise LabError(f"an observation of {value} is outside its space of 0 to {size - 1}")
            number = number * size + int(value)
        return number

    def values(self, number: int) -> tuple[int, ...]:
        digits = []
        for size in reversed(self.sizes):
            number, value = divmod(number, size)
            digits.append(value)
        return tuple(reversed(digits))


OTHERWISE = "did not do the same again with the same seed and the same actions"


def replay(environment: Environment, state: dict[str, Any]) -> None:
    """Replay the actions of a saved episode. LabError if it ends up in a different state."""
    if state["actions"] or state["under_way"]:
        at = environment.reset(float(state["u"]))
        for action in state["actions"]:
            at = environment.step(int(action)).next
        if at != state["at"]:
            raise LabError(f"{environment.name} {OTHERWISE}, so a run in it cannot be resumed bit for bit")
