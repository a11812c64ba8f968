"""What the arena keeps of a learning: its frames, for the time line, and its returns, for the curves.

Notable: both stay small however long one learns. When there are too many frames every second one goes; when there are
too many points of a curve two become one, their mean, and the curve says over how many episodes it is a mean.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from txlab.engine.rl.process import Process
from txlab.engine.rl.world import World
from txlab.experiments.protocol import Frame

MOST_FRAMES = 600
MOST_BYTES = 48_000_000
MOST_POINTS = 240


def size_of(frame: Frame) -> int:
    return sum(int(getattr(tensor, "nbytes", 0)) for tensor in frame.tensors.values()) + 2000


class Recording:
    """Frames by their step (updates made) with the world of then, thinned as they become many."""

    def __init__(self) -> None:
        self.frames: list[tuple[Frame, World]] = []
        self.steps: list[int] = []
        self.gap = 1  # updates between two frames, at least
        self.bytes = 0

    def clear(self) -> None:
        self.__init__()  # type: ignore[misc]

    def add(self, frame: Frame, world: World) -> None:
        if self.steps and frame.step < self.steps[-1] + self.gap:
            return
        self.frames.append((frame, world))
        self.steps.append(frame.step)
        self.bytes += size_of(frame)
        if len(self.frames) > MOST_FRAMES or (self.bytes > MOST_BYTES and len(self.frames) > 2):
            self.frames, self.steps = self.frames[::2], self.steps[::2]
            self.bytes = sum(size_of(each) for each, _ in self.frames)
            if len(self.steps) > 1:
                self.gap = max(self.gap, (self.steps[-1] - self.steps[0]) // max(1, len(self.steps)))

    def at(self, step: int) -> tuple[Frame, World] | None:
        """The frame at a step, or the last before it, and the world of then."""
        index = bisect_right(self.steps, step) - 1
        return self.frames[max(0, index)] if self.frames else None


class Returns:
    """The returns of episodes, as means over blocks of 1, 2, 4, … episodes."""

    def __init__(self) -> None:
        self.block = 1
        self.means: list[float] = []
        self.rest: list[float] = []
        self.episodes = 0

    def extend(self, values: Sequence[float]) -> None:
        self.rest.extend(values)
        self.episodes += len(values)
        whole = len(self.rest) // self.block
        if whole:
            used = np.asarray(self.rest[: whole * self.block], np.float64).reshape(whole, self.block)
            self.means.extend(used.mean(axis=1).tolist())
            del self.rest[: whole * self.block]
        while len(self.means) > MOST_POINTS:
            if len(self.means) % 2:
                self.rest[:0] = [self.means.pop()] * self.block  # half of a pair: it waits for the other half
            pairs = np.asarray(self.means).reshape(-1, 2)
            self.means = pairs.mean(axis=1).tolist()
            self.block *= 2

    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """(episode at the end of each block, mean return)"""
        return (np.arange(1, len(self.means) + 1) * self.block).astype(np.int64), np.asarray(self.means)


class Points:
    """Single measurements at episodes, thinned when they are many."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.values: list[float] = []

    def add(self, step: int, value: float) -> None:
        if self.steps and step <= self.steps[-1]:
            self.values[-1] = value
            return
        self.steps.append(step)
        self.values.append(value)
        if len(self.steps) > MOST_POINTS:
            self.steps, self.values = self.steps[::2], self.values[::2]

    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(self.steps, np.int64), np.asarray(self.values, np.float64)


@dataclass(frozen=True, eq=False)
class Curves:
    """The returns of one side: what episodes earned while it explored, and what the greedy policy would have.

    fate        of the greedy walk where it does not arrive, in words; its return then says only when it was cut off
    label       of another number that a recorded run has in place of returns     across  what it is a number of
    low, high   the band that it was recorded with
    """

    episodes: np.ndarray
    returns: np.ndarray
    block: int
    greedy_episodes: np.ndarray
    greedy_returns: np.ndarray
    latest: tuple[float, ...] = ()
    path: int = 0
    fate: str = ""
    label: str = ""
    across: str = "episode"
    low: np.ndarray | None = None
    high: np.ndarray | None = None


@dataclass
class Side:
    """What is remembered of one learner."""

    returns: Returns = field(default_factory=Returns)
    greedy: Points = field(default_factory=Points)
    known: int = 0
    path: tuple[int, ...] = ()
    fate: str = ""
    walked: int = 0  # steps of the greedy walk, where there is but one


CIRCLES, LOST = "goes in circles", "does not arrive"


def fate_of(path: Sequence[int], process: Process) -> str:
    """ "" where a greedy walk ended as the world ends it, or nothing in the world is an end; else how it did not."""
    walked = len(path) - 1
    if walked < 1 or process.terminal[path[-1]] or not process.done.any():
        return ""
    certain = bool((np.diff(process.first) <= 1).all())
    if certain and repeats(path):
        return CIRCLES
    cut = walked >= (process.limit or walked)  # by the world itself: what chance does not bring home earns just that
    return "" if cut and not certain else LOST


def repeats(path: Sequence[int]) -> bool:
    """Whether the last states are those before them once more."""
    last = len(path) - 1
    for before in range(last - 1, last // 2, -1):
        if path[before] == path[last]:
            circle = last - before
            return list(path[last - circle + 1 :]) == list(path[last - 2 * circle + 1 : last - circle + 1])
    return False
