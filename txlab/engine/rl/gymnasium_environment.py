"""A world as a Gymnasium environment, and a Gymnasium environment as one that our learners can step.

Discrete, MultiDiscrete and MultiBinary spaces, and Tuple and Dict of those, become one number each. This file imports
gymnasium; go through `gymnasium_adapter`, which reports in one sentence if it is not installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import product
from math import isfinite
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from txlab.engine.rl.environment import Numbering, Stepped, replay
from txlab.engine.rl.world import World
from txlab.errors import LabError, RunFailed, one_line

MOST_ACTIONS = 10_000


class WorldEnvironment(gymnasium.Env[int, int]):
    """A world as a Gymnasium environment: Discrete(S), Discrete(A), reset(seed), terminated, truncated.

    info has `action_mask` (A) int8, and the `probability` of what happened. An action that is not possible changes
    nothing and has reward 0. render_mode "ansi" draws the current layer of the world, with "@" at the current position.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 4}

    def __init__(self, world: World, render_mode: str | None = None) -> None:
        if render_mode not in (None, "ansi"):
            raise LabError(f"render_mode = {render_mode!a} is not possible; allowed: ansi, or none")
        self.world = world
        self.render_mode = render_mode
        self.observation_space: Any = spaces.Discrete(world.process.size)
        self.action_space: Any = spaces.Discrete(world.process.choices)
        self.at = -1
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        start = self.world.process.start
        self.at = int(self.np_random.choice(len(start), p=start / start.sum()))
        self.steps = 0
        return self.at, self.info(float(start[self.at]))

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        process = self.world.process
        if self.at < 0:
            raise LabError("the environment must be reset before it is stepped")
        u, normal = self.np_random.random(), self.np_random.standard_normal()
        self.steps += 1
        reward, ended, probability = 0.0, False, 1.0
        if process.allowed[self.at, action]:
            i = self.at * process.choices + int(action)
            o = int(np.searchsorted(process.cumulative, i + u, side="right"))
            reward, ended, probability = float(process.reward[o]), bool(process.done[o]), float(process.probability[o])
            if process.noise is not None:
                reward += float(process.noise[o]) * normal
            self.at = int(process.next[o])
        truncated = not ended and self.steps == process.limit
        return self.at, reward, ended, truncated, self.info(probability)

    def info(self, probability: float) -> dict[str, Any]:
        return {"action_mask": self.world.process.allowed[self.at].astype(np.int8), "probability": probability}

    def render(self) -> str | None:  # type: ignore[override]
        if self.render_mode is None:
            return None
        layout = self.world.layout
        rows = [[layout.marks.get((r, c), ".") for c in range(layout.width)] for r in range(layout.height)]
        layer, row, column = layout.place[max(self.at, 0)].tolist()
        rows[row][column] = "@"
        title = [layout.layers[layer]] if layout.layers[layer] else []
        return "\n".join([*title, *("".join(line) for line in rows)]) + "\n"


class SteppedGymnasium:
    """A Gymnasium environment as an `Environment` for our learners: each discrete space is one number.

    Each episode is begun with the seed ⌊u · 2³²⌋.
    """

    def __init__(self, environment: gymnasium.Env[Any, Any], name: str, discount: float = 1.0, limit: int = 0) -> None:
        self.environment = environment
        self.name = name
        self.discount = discount
        self.limit = limit
        try:
            self.observations = SpaceNumbers(environment.observation_space, "observation")
            self.choices = SpaceNumbers(environment.action_space, "action")
        except LabError as error:
            raise LabError(f"{name}: {error}") from None
        if self.choices.size > MOST_ACTIONS:
            raise LabError(f"{name}: {self.choices.size} actions are too many for a table; {MOST_ACTIONS} are allowed")
        self.size = self.observations.size
        self.actions = action_names(environment, self.choices.size)
        self.u = 0.0
        self.done: list[int] = []
        self.at = -1
        self.under_way = False

    @cached_property
    def states(self) -> tuple[str, ...]:
        return tuple(self.observations.names())

    def reset(self, u: float) -> int:
        self.u, self.done, self.under_way = u, [], True
        try:
            observation, _ = self.environment.reset(seed=int(u * 2**32))
            self.at = self.observations.number(observation)
        except Exception as error:
            raise self.fault(error) from error
        return self.at

    def step(self, action: int) -> Stepped:
        if not self.under_way:
            raise LabError(f"{self.name} must be reset before it is stepped")
        try:
            observation, paid, terminated, truncated, _ = self.environment.step(self.choices.sample(action))
            reward, ended = float(paid), bool(terminated)
            self.at = self.observations.number(observation)
        except Exception as error:
            raise self.fault(error) from error
        if not isfinite(reward):
            raise RunFailed(f"{self.name} gave a reward of {reward}; finite ones can be learnt from")
        self.done.append(action)
        self.under_way = not (terminated or truncated)
        return Stepped(self.at, reward, ended, bool(truncated) and not ended)

    def fault(self, error: Exception) -> RunFailed:
        """Describe an exception of an environment, or an invalid observation that it returned, in one line."""
        description = one_line(error) if isinstance(error, LabError) else f"{type(error).__name__}: {one_line(error)}"
        return RunFailed(f"{self.name} cannot be stepped: {description}")

    def state(self) -> dict[str, Any]:
        return {"u": self.u, "actions": list(self.done), "under_way": self.under_way, "at": self.at}

    def load(self, state: dict[str, Any]) -> None:
        replay(self, state)
        self.under_way = bool(state["under_way"])


KNOWN_ACTIONS = {
    "FrozenLakeEnv": ("left", "down", "right", "up"),
    "CliffWalkingEnv": ("up", "right", "down", "left"),
    "TaxiEnv": ("down", "up", "right", "left", "pick up", "drop off"),
    "BlackjackEnv": ("stick", "hit"),
}


def action_names(environment: gymnasium.Env[Any, Any], count: int) -> tuple[str, ...]:
    """The names of the actions where they are known; otherwise their numbers."""
    known = KNOWN_ACTIONS.get(type(environment.unwrapped).__name__, ())
    return known if len(known) == count else tuple(str(a) for a in range(count))


class SpaceNumbers:
    """number(sample) → 0 … size − 1, and sample(number) back. LabError for a space that is not discrete."""

    def __init__(self, space: spaces.Space[Any], what: str) -> None:
        self.space = space
        parts = list(pieces(space, what))
        if not parts:
            raise LabError(f"its {what} space is empty")
        self.starts = [start for start, _ in parts]
        try:
            self.numbering = Numbering(tuple(size for _, size in parts))
        except LabError as error:
            raise LabError(f"its {what} space is too large: {error}") from None
        self.size = self.numbering.size

    def number(self, sample: Any) -> int:
        values = list(entries(self.space, sample))
        return self.numbering.number([value - start for value, start in zip(values, self.starts, strict=True)])

    def names(self) -> Iterator[str]:
        """The entries of each number as text, such as "14" or "(14,10,0)"."""
        ranges = [range(start, start + size) for start, size in zip(self.starts, self.numbering.sizes, strict=True)]
        for values in product(*ranges):
            yield str(values[0]) if len(values) == 1 else f"({','.join(map(str, values))})"

    def sample(self, number: int) -> Any:
        values = self.numbering.values(number)
        left = iter([value + start for value, start in zip(values, self.starts, strict=True)])
        return rebuild_sample(self.space, left)


def pieces(space: spaces.Space[Any], what: str) -> Iterator[tuple[int, int]]:
    """(lowest value, number of values) of each entry, in the order of `entries`."""
    match space:
        case spaces.Discrete():
            yield int(space.start), int(space.n)
        case spaces.MultiDiscrete():
            yield from zip(space.start.ravel().tolist(), space.nvec.ravel().tolist(), strict=True)
        case spaces.MultiBinary():
            yield from [(0, 2)] * int(np.prod(space.shape))
        case spaces.Tuple():
            for part in space.spaces:
                yield from pieces(part, what)
        case spaces.Dict():
            for part in space.spaces.values():
                yield from pieces(part, what)
        case _:
            raise LabError(
                f"its {what} space is {type(space).__name__}, which is not discrete; Discrete, MultiDiscrete,"
                " MultiBinary, and Tuple and Dict of those can be learnt with a table"
            )


def entries(space: spaces.Space[Any], sample: Any) -> Iterator[int]:
    """The integers that a sample consists of."""
    match space:
        case spaces.Tuple():
            for part, value in zip(space.spaces, sample, strict=True):
                yield from entries(part, value)
        case spaces.Dict():
            for key, part in space.spaces.items():
                yield from entries(part, sample[key])
        case _:
            yield from (int(value) for value in np.asarray(sample).ravel())


def rebuild_sample(space: spaces.Space[Any], left: Iterator[int]) -> Any:
    """The sample made of the next numbers."""
    match space:
        case spaces.Tuple():
            return tuple(rebuild_sample(part, left) for part in space.spaces)
        case spaces.Dict():
            return {key: rebuild_sample(part, left) for key, part in space.spaces.items()}
        case spaces.Discrete():
            return space.dtype.type(next(left))
        case _:
            assert space.shape is not None
            count = int(np.prod(space.shape))
            return np.array([next(left) for _ in range(count)], dtype=space.dtype).reshape(space.shape)
