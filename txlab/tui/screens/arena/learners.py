"""The live learners of the arena: a match as an experiment that a session steps, and the memory of its returns.

The memory stays small however long they learn. When a curve has too many points, each two are merged into their mean,
and the curve states how many episodes a point covers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from txlab.engine.rl.process import Process
from txlab.engine.rl.world import World
from txlab.experiments.protocol import Frame, Metrics

if TYPE_CHECKING:
    from txlab.engine.rl.agent import Agent
    from txlab.engine.rl.maps.drawn import Map
    from txlab.engine.rl.settings import Settings

MOST_POINTS = 240
LONGEST_HORIZON = 300  # steps for which the greedy policy's expected return is computed
MOST_BACKUPS = 10_000_000  # outcomes, for one such measurement
GREEDY_SHARE = 0.05  # of the time, at most, to spend on measuring the greedy policies
CIRCLES, LOST = "goes in circles", "does not arrive"

GreedyWalk = tuple[tuple[int, ...], float, str]
"""The states along best actions, the return, and why it does not arrive ("" if it arrives)."""


@dataclass(frozen=True)
class WorldFrame(Frame):
    """A frame of a decision experiment, the world of its states, and the curves of its run."""

    world: World = field(kw_only=True)
    curves: tuple[ReturnCurves, ...] = ()


@dataclass(frozen=True, eq=False)
class ReturnCurves:
    """The returns of one side: of episodes while exploring, and of the greedy policy.

    fate        why the greedy walk does not arrive; its return then depends on where it was cut off
    label       the metric that a recorded run has instead of returns     across  the unit of its x axis
    low, high   the recorded band
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


class Returns:
    """Returns of episodes, as means over blocks of 1, 2, 4, … episodes."""

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
            self.means = np.asarray(self.means).reshape(-1, 2).mean(axis=1).tolist()
            self.block *= 2

    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (episode at the end of each block, mean return)."""
        return (np.arange(1, len(self.means) + 1) * self.block).astype(np.int64), np.asarray(self.means)


@dataclass
class LearnerMemory:
    """The memory of one learner: its returns, and measurements of its greedy policy."""

    returns: Returns = field(default_factory=Returns)
    greedy: list[tuple[int, float]] = field(default_factory=list)  # (episodes, expected or earned return)
    known: int = 0  # episodes of its history that are already in `returns`
    path: tuple[int, ...] = ()
    fate: str = ""
    walked: int = 0  # steps of the greedy walk, if there is only one

    def add_return(self, value: float) -> None:
        """Add a return of the greedy policy; every second measurement is dropped when there are many."""
        if self.greedy and self.known <= self.greedy[-1][0]:
            self.greedy.pop()
        self.greedy.append((self.known, value))
        if len(self.greedy) > MOST_POINTS:
            self.greedy = self.greedy[::2]

    def curves(self) -> ReturnCurves:
        episodes, returns = self.returns.curve()
        greedy = np.asarray(self.greedy, np.float64).reshape(-1, 2)
        latest = tuple((self.returns.means[-6:] + self.returns.rest)[-6:]) if self.returns.block == 1 else ()
        return ReturnCurves(
            *(episodes, returns, self.returns.block, greedy[:, 0].astype(np.int64), greedy[:, 1], latest),
            *(max(0, self.walked), self.fate),
        )


class LiveMatch:
    """Learners side by side in one world, and their memory. `running` says whether they are being stepped continuously,
    so that measuring their greedy policies must not take long.

    `curves` is replaced as a whole by every frame, so that another thread may read it.
    """

    def __init__(
        self,
        world: World,
        table: Mapping[str, Any],
        settings: Sequence[Settings],
        seed: int,
        running: Callable[[], bool],
    ) -> None:
        from txlab.experiments.tabular.match import Match

        self.match = Match(world, settings, seed, table)
        self.seed, self.running = seed, running
        self.memory = [LearnerMemory() for _ in settings]
        self.curves: tuple[ReturnCurves, ...] = ()
        self.measured_at, self.measuring = 0.0, 0.0

    @property
    def step_count(self) -> int:
        return self.match.updates

    @property
    def world(self) -> World:
        return self.match.world

    @property
    def settings(self) -> list[Settings]:
        """The settings of each side. Safe to read from any thread."""
        return list(self.match.sides)

    def step(self) -> Metrics:
        return self.match.step()

    def run(self, updates: int) -> None:
        self.match.run(updates)

    def frame(self) -> WorldFrame:
        """Return the match's frame, with the greedy path of each side."""
        self.remember()
        frame = self.match.frame()
        paths = {f"{number}/path": np.array(each.path, np.int64) for number, each in enumerate(self.memory)}
        self.curves = tuple(each.curves() for each in self.memory)
        return WorldFrame(frame.step, {**frame.tensors, **paths}, facts=frame.facts, world=self.world)

    def remember(self) -> None:
        """Remember the returns of newly ended episodes, and occasionally the return of the greedy policies."""
        for number, each in enumerate(self.memory):
            new = self.match.history(number)[each.known :]
            each.known += len(new)
            each.returns.extend(new)
        begun = time.monotonic()
        if not self.step_count or (begun - self.measured_at < self.measuring / GREEDY_SHARE and self.running()):
            return  # a policy that has learnt nothing has no return of its own
        for number, each in enumerate(self.memory):
            path, value = self.match.greedy(number)
            process = self.world.process
            expected = expected_return(process, self.match.agents[number])
            each.path, each.fate, each.walked = tuple(path), fate_of(path, process), len(path) - 1
            if expected is not None:
                each.fate, each.walked = "", 0
            if not each.fate:
                each.add_return(value if expected is None else expected)
        self.measured_at = time.monotonic()
        self.measuring = self.measured_at - begun

    # Orders of the keys, carried out between two updates.

    def another(
        self, settings: Sequence[Settings], world: World | None = None, table: Mapping[str, Any] | None = None
    ) -> LiveMatch:
        """Return a fresh match with these learners, in this world or another one."""
        target = world or self.world
        return LiveMatch(target, self.match.table if table is None else table, settings, self.seed, self.running)

    def again(self) -> LiveMatch:
        """Return the same learners, untrained and with another seed, for an independent run."""
        self.seed += 1
        return self.another(self.settings)

    def add(self, settings: Settings) -> None:
        """Add a learner to the present ones, which continue."""
        self.match.add(settings)
        self.memory.append(LearnerMemory())

    def set(self, side: int, name: str, value: float) -> None:
        if side < len(self.memory):
            self.match.set(side, **{name: value})

    def change_rule(self, side: int, rule: str) -> None:
        """Change the rule of a side, which restarts with empty tables; the other side continues."""
        if side < len(self.memory):
            self.match.rule(side, rule)
            self.memory[side] = LearnerMemory(known=len(self.match.history(side)))

    def edit(self, change: Callable[[Map], Map]) -> list[str]:
        """Change the map under the learners; return notes on the new one. LabError, and no change, if it is
        impossible."""
        from txlab.engine.rl.maps.compiling import compile_map

        before = self.world
        if before.map is None:
            return []
        self.match.edit_world(compile_map(change(before.map), draft=True))
        self.measured_at = 0.0
        return [note for note in self.world.notes if note not in before.notes]

    def greedy_walks(self) -> list[GreedyWalk]:
        walks = [self.match.greedy(side) for side in range(len(self.memory))]
        return [(tuple(path), float(value), fate_of(path, self.world.process)) for path, value in walks]


def expected_return(process: Process, agent: Agent) -> float | None:
    """Return the expected return of the greedy policy until the world's limit, where a single walk would be random;
    None if nothing is random, or if it is too expensive to compute while learning."""
    from txlab.engine.rl.dynamic_programming import from_start, value_within

    certain = bool((np.diff(process.first) <= 1).all()) and process.start.max() == 1
    steps = min(LONGEST_HORIZON, process.limit or LONGEST_HORIZON)
    if certain or not process.done.any() or len(process.next) * steps > MOST_BACKUPS:
        return None
    return from_start(process, value_within(process, agent.greedy(), steps))


def fate_of(path: Sequence[int], process: Process) -> str:
    """Return "" if a greedy walk reached an end of the world, or the world has none; else why it failed."""
    walked = len(path) - 1
    if walked < 1 or process.terminal[path[-1]] or not process.done.any():
        return ""
    certain = bool((np.diff(process.first) <= 1).all())
    if certain and repeats(path):
        return CIRCLES
    cut = walked >= (process.limit or walked)  # by the world itself: the expected return accounts for that
    return "" if cut and not certain else LOST


def repeats(path: Sequence[int]) -> bool:
    """Return whether the last states repeat those before them."""
    last = len(path) - 1
    for before in range(last - 1, last // 2, -1):
        if path[before] == path[last]:
            circle = last - before
            return list(path[last - circle + 1 :]) == list(path[last - 2 * circle + 1 : last - circle + 1])
    return False


def describe_side(facts: Mapping[str, Any], side: int) -> Mapping[str, Any]:
    """Return a frame's facts about a side."""
    sides = facts.get("sides")
    facts_of_side = sides[side] if isinstance(sides, (list, tuple)) and side < len(sides) else {}
    return facts_of_side if isinstance(facts_of_side, Mapping) else {}
