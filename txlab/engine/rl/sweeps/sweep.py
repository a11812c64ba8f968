"""M independent agents at once, a table each: error bars over seeds, and sweeps over α, ε, λ (MATH M5–M7).

Notable: never one table that many agents write into. Summing the updates of a thousand agents in one table is another
algorithm, and diverges where Q-learning does not. Agent m of a sweep is, number for number, the one agent that the
glass box makes of the same settings and seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from txlab.engine.rl.process import Process
from txlab.engine.rl.settings import TITLES, Settings
from txlab.engine.rl.sweeps.arrays import Numpy
from txlab.engine.rl.sweeps.block import AgentBlock, Powers
from txlab.engine.rl.sweeps.greedy import greedy_returns
from txlab.engine.rl.sweeps.rules import RULES
from txlab.engine.rl.sweeps.stepping import Ended, live
from txlab.engine.rl.sweeps.tables import Tables
from txlab.errors import LabError


@dataclass(frozen=True)
class FinishedEpisodes:
    """Episodes that ended while a sweep was advanced, agent by agent, each one's in their order; (N) each."""

    agent: np.ndarray
    returns: np.ndarray
    lengths: np.ndarray


class Cancelled(Exception):
    """Somebody did not want the rest; the sweep stands where it stood before the call only in whole blocks."""


class Sweep:
    """Agents of `settings[m]` with seeds `seeds[m]` in one process.

    `arrays` is where it is computed: Numpy(), or on_torch.Torch(device). Agents of the same rule and policy are worked
    on in blocks whose tables fit into the cache. `offset` (M, S, A) is added to what the tables hold at first.
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
            if each.rule not in RULES:
                raise LabError(f"{TITLES[each.rule]} cannot be swept; these can: {', '.join(RULES)}")
        self.process, self.settings, self.seeds = process, tuple(settings), tuple(int(seed) for seed in seeds)
        self.arrays = arrays or Numpy()
        self.tables = Tables(process, self.arrays)
        powers = Powers(self.arrays)
        groups: dict[tuple[str, ...], list[int]] = {}
        for m, each in enumerate(settings):
            groups.setdefault((each.rule, each.policy, each.traces), []).append(m)
        self.blocks: list[tuple[np.ndarray, AgentBlock]] = []
        for members in groups.values():
            size = 8 * len(RULES[settings[members[0]].rule].tables) * process.size * process.choices
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

    # Living

    def advance(self, steps: int, cancelled: Callable[[], bool] = lambda: False) -> FinishedEpisodes:
        """So many steps of every agent; the episodes that ended within them."""
        return self._gathered(steps, 0, cancelled)

    def run_episodes(
        self, episodes: int, cancelled: Callable[[], bool] = lambda: False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Until every agent has ended so many more episodes, no step further: returns, lengths (M, episodes)."""
        found = self._gathered(0, episodes, cancelled)
        shape = (len(self), episodes)
        return found.returns.reshape(shape), found.lengths.reshape(shape)

    def _gathered(self, steps: int, episodes: int, cancelled: Callable[[], bool]) -> FinishedEpisodes:
        xp, ended = self.arrays, Ended()
        for members, block in self.blocks:
            agents = xp.array(members, int)
            wanted = xp.array(np.full(len(members), episodes), int) if episodes else None
            if not live(block, ended, agents, steps, wanted, cancelled):
                raise Cancelled
        if not ended.agent:
            return FinishedEpisodes(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64))
        agent, returns, lengths = (xp.numpy(xp.joined(x)) for x in (ended.agent, ended.earned, ended.length))
        order = np.argsort(agent, kind="stable")
        return FinishedEpisodes(agent[order], returns[order], lengths[order])

    # Looking

    def _placed(self, name: str) -> np.ndarray:
        values = [self.arrays.numpy(block.place[name]) for _, block in self.blocks]
        out = np.empty(len(self), values[0].dtype)
        for (members, _), found in zip(self.blocks, values, strict=True):
            out[members] = found
        return out

    @property
    def states(self) -> np.ndarray:
        """(M): where each agent stands."""
        return self._placed("state")

    @property
    def episodes(self) -> np.ndarray:
        """(M): how many episodes each has ended."""
        return self._placed("episode")

    @property
    def steps(self) -> np.ndarray:
        """(M): how many steps each has made."""
        return self._placed("step")

    @property
    def exploration(self) -> np.ndarray:
        """(M): ε of each agent's present episode, or τ where it chooses by softmax."""
        return self._placed("heat")

    def q(self, members: np.ndarray | None = None) -> np.ndarray:
        """(M, S, A): the tables of all agents, or of these; NaN where nothing can be chosen; of two tables the mean."""
        wanted = np.arange(len(self)) if members is None else np.asarray(members)
        out = np.empty((len(wanted), self.tables.S, self.tables.A))
        for present, block in self.blocks:
            lanes = np.searchsorted(present, wanted)
            here = np.flatnonzero(present[np.minimum(lanes, len(present) - 1)] == wanted)
            if not len(here):
                continue
            some = self.arrays.array(lanes[here], int)
            found = self.arrays.numpy(self.arrays.lanes(block.table["q"], some))
            if "q2" in block.table:
                found = (found + self.arrays.numpy(self.arrays.lanes(block.table["q2"], some))) / 2
            out[here] = found.transpose(1, 2, 0)
            if block.learns.prefers and self.tables.looks is not None:
                out[here] = out[here][:, self.tables.looks]  # what looks the same has the same preferences
        out[:, ~self.process.allowed] = np.nan
        return out

    def w(self, members: np.ndarray) -> np.ndarray:
        """(n, S): what visits of each state have been followed by, of agents that learn preferences; else NaN."""
        out = np.full((len(members), self.tables.S), np.nan)
        for present, block in self.blocks:
            for place, m in enumerate(members):
                lane = int(np.searchsorted(present, m))
                if "w" in block.table and lane < len(present) and present[lane] == m:
                    found = self.arrays.numpy(block.table["w"][0, lane])
                    looks = np.arange(len(found)) if self.tables.looks is None else self.tables.looks
                    out[place] = np.where(self.process.terminal, 0.0, found[looks])
        return out

    def greedy_returns(self, members: np.ndarray, limit: int) -> np.ndarray:
        """(n): what one episode earns when each acts greedily and learns nothing; see greedy.greedy_returns."""
        seeds = [self.seeds[m] for m in members]
        return greedy_returns(self.process, self.q(members), seeds, limit)[0]

    # Putting back

    def state(self) -> dict[str, Any]:
        """All that an exact restart needs beside process, settings and seeds."""
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
        """Go back to a state of a sweep with the same process, settings and seeds."""
        for (_, block), saved in zip(self.blocks, state["blocks"], strict=True):
            for kind, values in (("place", block.place), ("table", block.table)):
                for name in values:
                    found = np.asarray(saved[kind][name])
                    values[name] = self.arrays.array(found, float if found.dtype.kind == "f" else int)
