"""M independent agents in parallel, a table each: error bars over seeds, and sweeps over α, ε, λ (MATH M5–M7).

Notable: agents never share a table. Summing the updates of a thousand agents in one table is a different algorithm, and
diverges where Q-learning does not. Agent m of a sweep equals, number for number, the glass box with the same settings
and seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from txlab.engine.rl.environment import Environment
from txlab.engine.rl.policies import shares
from txlab.engine.rl.process import Process
from txlab.engine.rl.rules import make_agent, rule_named, rule_names
from txlab.engine.rl.settings import PolicyName, Settings
from txlab.engine.rl.sweeps.arrays import Numpy
from txlab.engine.rl.sweeps.block import AgentBlock, Ended, Powers, live
from txlab.engine.rl.sweeps.tables import Tables, choose
from txlab.engine.rl.world import World
from txlab.errors import LabError

APART = 0x5EED  # separates the seeds of greedy episodes from those of learning
STRETCH = 64  # steps of a glass box between checks of its number of finished episodes


@dataclass(frozen=True)
class FinishedEpisodes:
    """Episodes that ended while a sweep was advanced, (N) each, by agent and then in order of time."""

    agent: np.ndarray
    returns: np.ndarray
    lengths: np.ndarray


class Cancelled(Exception):
    """The call was cancelled, which leaves the sweep part-way: some of its blocks have advanced, others not."""


class Sweep:
    """Agents with `settings[m]` and `seeds[m]` in one process.

    `arrays` is the array library: Numpy(), or on_torch.Torch(device). Agents of the same rule and policy are processed
    in blocks whose tables fit into the cache. `offset` (M, S, A) is added to the initial tables.
    """

    def __init__(
        self,
        process: Process,
        settings: Sequence[Settings],
        seeds: Sequence[int],
        arrays: Numpy | None = None,
        offset: np.ndarray | None = None,
    ) -> None:
        if len(settings) != len(seeds) or not len(seeds):
            raise LabError(f"a sweep needs a seed for each agent; there are {len(settings)} agents, {len(seeds)} seeds")
        for each in settings:
            if not rule_named(each.rule).has_array_form:
                swept = [name for name in rule_names() if rule_named(name).has_array_form]
                raise LabError(f"{rule_named(each.rule).title} cannot be swept; these can: {', '.join(swept)}")
        self.process, self.settings, self.seeds = process, tuple(settings), tuple(int(seed) for seed in seeds)
        self.arrays = arrays or Numpy()
        self.tables = Tables(process, self.arrays)
        powers = Powers(self.arrays)
        groups: dict[tuple[str, ...], list[int]] = {}
        for m, each in enumerate(settings):
            groups.setdefault((each.rule, each.policy, each.traces), []).append(m)
        self.blocks: list[tuple[np.ndarray, AgentBlock]] = []
        for members in groups.values():
            size = 8 * len(rule_named(settings[members[0]].rule).tables) * process.size * process.choices
            most = len(members) if self.arrays.cache is None else max(64, min(4096, self.arrays.cache // size))
            parts = -(-len(members) // most)
            for part in np.array_split(np.array(members), parts):
                block = AgentBlock(
                    self.tables,
                    [settings[m] for m in part],
                    [self.seeds[m] for m in part],
                    powers,
                    None if offset is None else offset[part],
                )
                self.blocks.append((part, block))

    def __len__(self) -> int:
        return len(self.seeds)

    # Running

    def advance(self, steps: int, cancelled: Callable[[], bool] = lambda: False) -> FinishedEpisodes:
        """Make this many steps with every agent; return the episodes that ended within them."""
        return self._gather(steps, 0, cancelled)

    def run_episodes(
        self, episodes: int, cancelled: Callable[[], bool] = lambda: False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Run until every agent has finished this many more episodes, no further: returns, lengths (M, episodes)."""
        gathered = self._gather(0, episodes, cancelled)
        shape = (len(self), episodes)
        return gathered.returns.reshape(shape), gathered.lengths.reshape(shape)

    def _gather(self, steps: int, episodes: int, cancelled: Callable[[], bool]) -> FinishedEpisodes:
        xp, ended = self.arrays, Ended()
        for members, block in self.blocks:
            agents = xp.array(members, int)
            wanted = xp.array(np.full(len(members), episodes), int) if episodes else None
            if not live(block, ended, agents, steps, wanted, cancelled):
                raise Cancelled
        if not ended.agent:
            return FinishedEpisodes(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64))
        agent, returns, lengths = (xp.numpy(xp.join(x)) for x in (ended.agent, ended.earned, ended.length))
        order = np.argsort(agent, kind="stable")
        return FinishedEpisodes(agent[order], returns[order], lengths[order])

    # Inspection

    def _place(self, name: str) -> np.ndarray:
        values = [self.arrays.numpy(block.place[name]) for _, block in self.blocks]
        out = np.empty(len(self), values[0].dtype)
        for (members, _), values_here in zip(self.blocks, values, strict=True):
            out[members] = values_here
        return out

    @property
    def states(self) -> np.ndarray:
        """(M): the state that each agent is in."""
        return self._place("state")

    @property
    def episodes(self) -> np.ndarray:
        """(M): how many episodes each has finished."""
        return self._place("episode")

    @property
    def steps(self) -> np.ndarray:
        """(M): how many steps each has made."""
        return self._place("step")

    @property
    def exploration(self) -> np.ndarray:
        """(M): ε of each agent's present episode, or τ where it chooses by softmax."""
        return self._place("exploration")

    def q(self, members: np.ndarray | None = None) -> np.ndarray:
        """(M, S, A): the tables of these agents, or all; NaN where an action is not allowed; the mean of two tables."""
        wanted = np.arange(len(self)) if members is None else np.asarray(members)
        out = np.empty((len(wanted), self.tables.S, self.tables.A))
        for present, block in self.blocks:
            lanes = np.searchsorted(present, wanted)
            here = np.flatnonzero(present[np.minimum(lanes, len(present) - 1)] == wanted)
            if not len(here):
                continue
            some = self.arrays.array(lanes[here], int)
            table = self.arrays.numpy(self.arrays.lanes(block.table["q"], some))
            if "q2" in block.table:
                table = (table + self.arrays.numpy(self.arrays.lanes(block.table["q2"], some))) / 2
            out[here] = table.transpose(1, 2, 0)
            if block.rule.prefers and self.tables.looks is not None:
                out[here] = out[here][:, self.tables.looks]  # states that look the same share preferences
        out[:, ~self.process.allowed] = np.nan
        return out

    def w(self, members: np.ndarray) -> np.ndarray:
        """(n, S): the baselines w of these agents if they learn preferences; else NaN."""
        out = np.full((len(members), self.tables.S), np.nan)
        for present, block in self.blocks:
            for place, m in enumerate(members):
                lane = int(np.searchsorted(present, m))
                if "w" in block.table and lane < len(present) and present[lane] == m:
                    baselines = self.arrays.numpy(block.table["w"][0, lane])
                    looks = np.arange(len(baselines)) if self.tables.looks is None else self.tables.looks
                    out[place] = np.where(self.process.terminal, 0.0, baselines[looks])
        return out

    def greedy_returns(self, members: np.ndarray, limit: int) -> np.ndarray:
        """(n): the return of one greedy episode of each, without learning; see the function of that name."""
        seeds = [self.seeds[m] for m in members]
        return greedy_returns(self.process, self.q(members), seeds, limit)[0]

    # Saving and loading

    def state(self) -> dict[str, Any]:
        """Everything an exact restart needs apart from process, settings and seeds."""
        xp = self.arrays
        return {
            "blocks": [
                {
                    "place": {name: xp.numpy(values) for name, values in block.place.items()},
                    "table": {name: xp.numpy(values) for name, values in block.table.items()},
                }
                for _, block in self.blocks
            ]
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore a state of a sweep with the same process, settings and seeds."""
        for (_, block), saved in zip(self.blocks, state["blocks"], strict=True):
            for kind, values in (("place", block.place), ("table", block.table)):
                for name in values:
                    old = "heat" if name not in saved[kind] else name  # the former name of `exploration`
                    array = np.asarray(saved[kind][old])
                    values[name] = self.arrays.array(array, float if array.dtype.kind == "f" else int)


class OneByOne:
    """Glass boxes run one by one, each with a world or a memory of its own; the methods are those of Sweep.

    Environments that can only be stepped cannot be batched; and Dyna-Q's memory and the queue of n-step SARSA would be
    ragged arrays, at 30 runs no faster than lists. An agent advances several steps at a time, so it may be a few steps
    into the episode after the last one requested.
    """

    arrays = SimpleNamespace(name="one by one")

    def __init__(
        self, make: Callable[[], Environment | Process], settings: Sequence[Settings], seeds: Sequence[int]
    ) -> None:
        self.settings, self.seeds = tuple(settings), tuple(int(seed) for seed in seeds)
        self.agents = [make_agent(make(), each, seed) for each, seed in zip(settings, self.seeds, strict=True)]
        self.asked = 0  # episodes of each agent requested so far

    def __len__(self) -> int:
        return len(self.agents)

    def run_episodes(
        self, episodes: int, cancelled: Callable[[], bool] = lambda: False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Run until every agent has finished this many more episodes: their returns and lengths (M, episodes)."""
        end = self.asked + episodes
        for agent in self.agents:
            while agent.episode < end:
                if cancelled():
                    raise Cancelled
                agent.run(STRETCH)
        begin, self.asked = self.asked, end
        returns, lengths = ([kept[begin:end] for kept in rows] for rows in zip(*self.kept_episodes(), strict=True))
        return np.array(returns, dtype=np.float64), np.array(lengths, dtype=np.int64)

    def kept_episodes(self) -> list[tuple[list[float], list[int]]]:
        return [(agent.returns, agent.lengths) for agent in self.agents]

    def q(self, members: np.ndarray) -> np.ndarray:
        """(n, S, A): the tables of these agents."""
        return np.stack([table for m in members if (table := self.agents[m].q()) is not None])

    def w(self, members: np.ndarray) -> np.ndarray:
        """(n, S): their estimates of the state values."""
        return np.stack([self.agents[m].v() for m in members])

    def greedy_returns(self, members: np.ndarray, limit: int) -> np.ndarray:
        """(n): the return of one greedy episode of each, without learning."""
        return np.array([self.agents[m].greedy_path(limit)[1] for m in members])

    @property
    def states(self) -> np.ndarray:
        return np.array([agent.state for agent in self.agents])

    @property
    def steps(self) -> np.ndarray:
        return np.array([agent.updates for agent in self.agents])

    @property
    def exploration(self) -> np.ndarray:
        """(M): ε of each agent's present episode, or τ where it chooses by softmax."""
        settings = [agent.exploration for agent in self.agents]
        return np.array([temperature if softly else epsilon for epsilon, temperature, softly in settings])

    def state(self) -> dict[str, Any]:
        return {"asked": self.asked, "agents": [agent.state_dict() for agent in self.agents]}

    def load(self, state: dict[str, Any]) -> None:
        """Restore a state. LabError if an environment does not repeat the episode in progress."""
        self.asked = int(state["asked"])
        for agent, saved in zip(self.agents, state["agents"], strict=True):
            agent.load(saved)


def sweep_in(
    world: World,
    settings: Sequence[Settings],
    seeds: Sequence[int],
    device: str = "cpu",
    offset: np.ndarray | None = None,
) -> Sweep | OneByOne:
    """Make the learners of a world on a device: "cpu" computes with numpy, any other (cuda, cuda:1, mps) with torch. In
    a world that can only be stepped, or if the rule has no batched form, they are glass boxes, one by one.

    LabError where that is not possible.
    """
    process = world.process
    rules = [rule_named(each.rule) for each in settings]
    alone = next((rule.title for rule in rules if not rule.has_array_form), "")
    if alone or world.environment is not None:
        if offset is not None or device not in ("cpu", "auto"):
            why = f"{alone} learns one by one" if alone else f"{world.title} can only be stepped"
            raise LabError(f"{why}, on the CPU, unlike learners that begin with equal values")
        return OneByOne(world.environment or (lambda: process), settings, seeds)
    if device in ("cpu", "auto"):
        return Sweep(process, settings, seeds, offset=offset)
    from txlab.engine.rl.sweeps.on_torch import Torch

    return Sweep(process, settings, seeds, Torch(device), offset)


def greedy_returns(
    process: Process, q: np.ndarray, seeds: Sequence[int], limit: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Run one greedy episode of each table (M, S, A), NaN where an action is not allowed: returns, lengths, ended.

    The return under ε > 0 is a different number (on the cliff Q-learning earns −50 and knows the path of −13). `limit`
    0: the process's own, or S·A steps. Ties are broken at random; rewards are neither discounted nor noisy.
    """
    xp = Numpy()
    tables = Tables(process, xp)
    limit = limit or process.limit or process.size * process.choices
    M = len(q)
    values = np.ascontiguousarray(np.where(np.isnan(q), -np.inf, q).transpose(2, 0, 1))
    values[:, :, process.terminal] = 0.0
    base = np.arange(M) * process.size
    keys = xp.keys((np.asarray(seeds).astype(np.uint64) ^ np.uint64(APART)).astype(np.uint64))
    returns, lengths, ended = np.zeros(M), np.zeros(M, np.int64), np.zeros(M, bool)
    going = np.arange(M)
    state = np.zeros(0, np.int64)
    for t in range(limit):
        if not len(going):
            break
        u = xp.uniforms(keys[going], np.full(len(going), t), 1, True)[0]
        if t == 0:
            state = tables.begin(u[3])
        rows = xp.rows(values, base[going] + state)
        action = choose(tables, "greedy", rows, state, u, np.zeros(len(going)))
        outcome = tables.outcome(state * tables.A + action, u[2])
        returns[going] += tables.reward[outcome]
        lengths[going] += 1
        over = tables.over[outcome]
        ended[going[over]] = True
        going, state = going[~over], tables.next[outcome][~over]
    return returns, lengths, ended


def policies(process: Process, q: np.ndarray, exploration: np.ndarray, policy: PolicyName) -> np.ndarray:
    """(M, S, A): π(a|s) of tables (M, S, A), NaN where an action is not allowed; `exploration` (M): ε or τ."""
    warm = exploration[:, None, None]
    return shares(np.where(process.allowed, q, np.nan), 0.0 if policy == "greedy" else warm, warm, policy == "softmax")
