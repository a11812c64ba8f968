"""A process of which a learner sees only what happens: the plainest environment that can be stepped."""

from __future__ import annotations

from typing import Any

import numpy as np

from txlab.engine.rl.draws import uniforms
from txlab.engine.rl.environment import Stepped, replay
from txlab.engine.rl.process import Process
from txlab.errors import LabError


class SampledProcess:
    """A process of which only what happens is visible. Every action must be possible wherever anything is."""

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
