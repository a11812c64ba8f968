"""Many learners that are no batch: glass boxes one by one, each with a world or a memory of its own (MATH M5–M7).

Notable: it looks as Sweep does to whoever compares learners. In environments that can only be stepped there is nothing
to batch; and Dyna-Q's memory and the queue of n-step SARSA would be ragged arrays, at 30 runs no faster than lists. An
agent goes on in stretches of steps, so that it may be some steps into the episode after the last one asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from txlab.engine.rl.agent import make_agent
from txlab.engine.rl.environment import Environment
from txlab.engine.rl.policies import exploring
from txlab.engine.rl.process import Process
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.sweeps.sweep import Cancelled

STRETCH = 64  # steps that an agent makes before it is asked how many episodes it has ended


class OneByOne:
    """See Sweep, whose methods these are."""

    arrays = SimpleNamespace(name="one by one")

    def __init__(
        self, make: Callable[[], Environment | Process], settings: Sequence[Settings], seeds: Sequence[int]
    ) -> None:
        self.settings, self.seeds = tuple(settings), tuple(int(seed) for seed in seeds)
        self.agents = [make_agent(make(), each, seed) for each, seed in zip(settings, self.seeds, strict=True)]
        self.asked = 0  # episodes of each agent that were asked for so far

    def __len__(self) -> int:
        return len(self.agents)

    def run_episodes(
        self, episodes: int, cancelled: Callable[[], bool] = lambda: False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Until every agent has ended so many more episodes: their returns and lengths (M, episodes)."""
        end = self.asked + episodes
        for agent in self.agents:
            while agent.episode < end:
                if cancelled():
                    raise Cancelled
                agent.run(STRETCH)
        begin, self.asked = self.asked, end
        returns, lengths = ([kept[begin:end] for kept in rows] for rows in zip(*self.kept(), strict=True))
        return np.array(returns, dtype=np.float64), np.array(lengths, dtype=np.int64)

    def kept(self) -> list[tuple[list[float], list[int]]]:
        return [(agent.returns, agent.lengths) for agent in self.agents]

    def q(self, members: np.ndarray) -> np.ndarray:
        """(n, S, A): the tables of these agents."""
        return np.stack([table for m in members if (table := self.agents[m].q()) is not None])

    def w(self, members: np.ndarray) -> np.ndarray:
        """(n, S): what they think states are worth."""
        return np.stack([self.agents[m].v() for m in members])

    def greedy_returns(self, members: np.ndarray, limit: int) -> np.ndarray:
        """(n): what an episode earns in which each acts greedily and learns nothing."""
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
        return np.array(
            [
                exploring(agent.settings, agent.episode)[agent.settings.policy == "softmax"]  # (chance, temperature)
                for agent in self.agents
            ]
        )

    def state(self) -> dict[str, Any]:
        return {"asked": self.asked, "agents": [agent.state_dict() for agent in self.agents]}

    def load(self, state: dict[str, Any]) -> None:
        """LabError where an environment does not do again what it did in the episode that was under way."""
        self.asked = int(state["asked"])
        for agent, saved in zip(self.agents, state["agents"], strict=True):
            agent.load(saved)
