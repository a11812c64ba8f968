"""Rules that learn when an episode is over: from then on what each step came to is known (MATH M3, M5, M7).

Notable: the loop only lives and remembers; `learn` is called at the end of an episode with its steps, and says in
`records` what it did. An episode that was cut off has earned what it earned: its return has no bootstrap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from txlab.engine.rl.agent import Agent
from txlab.engine.rl.draws import Draws
from txlab.engine.rl.policies import exploring, soft, tied
from txlab.engine.rl.process import Process
from txlab.engine.rl.transition_table import Transition

Lived = tuple[int, int, Transition]
"""(state, k, what happened) of a step"""


class Episodic(Agent):
    """trail: the steps of the present episode, since step `began`."""

    def prepare(self) -> None:
        if not hasattr(self, "trail"):
            self.trail: list[Lived] = []

    def seen(self, state: int) -> int:
        """Whose row of the table a state uses."""
        return state

    def learn(self, trail: Sequence[Lived]) -> None:
        """All updates of an episode whose first step was `began`."""
        raise NotImplementedError(f"the rule {self.rule} does not learn")

    def loop(self, draws: Draws, steps: int) -> None:
        rows, moves, trail = self.rows, self.world.moves, self.trail
        u0, u1, u3, draw_transition = draws.u0, draws.u1, draws.u3, self.world.sampler(draws)
        softly, exploring_starts = self.settings.policy == "softmax", self.settings.policy == "exploring-starts"
        epsilon, temperature = exploring(self.settings, self.episode)
        s, total, last, first, seen = self.state, self.total, self.last_step, self.updates, self.seen
        for place in range(steps):
            row = rows[seen(s)]
            if u0[place] < epsilon or (exploring_starts and not trail):
                k = soft(row, temperature, u1[place]) if softly else int(u1[place] * len(row))
            else:
                k = tied(row, u1[place])
            transition = moves[s][k] or draw_transition(s, k, place)
            trail.append((s, k, transition))
            reward, s, end = transition
            total += reward
            t = first + place
            if end or t == last:
                self.learn(trail)
                trail.clear()
                s, total, last = self.end_episode(t, total, u3[place]), 0.0, self.last_step
                epsilon, temperature = exploring(self.settings, self.episode)
        self.state, self.total = s, total

    def returned(self, trail: Sequence[Lived]) -> list[float]:
        """Gₜ = rₜ₊₁ + γ Gₜ₊₁ of every step of an episode (MATH M3)."""
        found = [0.0] * len(trail)
        coming, gamma = 0.0, self.gamma
        for place in range(len(trail) - 1, -1, -1):
            coming = trail[place][2][0] + gamma * coming
            found[place] = coming
        return found

    def renumber_states(self, olds: list[int], news: dict[int, int], actions: list[list[int]]) -> None:
        self.trail.clear()

    def adopt(self, process: Process, states: Sequence[int] | np.ndarray) -> None:
        """In a changed world the episode is begun again: its steps may not be possible any more."""
        super().adopt(process, states)
        self.restart()

    def renumber_record(self, record: Any, news: dict[int, int]) -> Any:
        if record is None or record[1][1] not in news:
            return None
        t, (reward, then, end), *rest = record
        return (t, (reward, news[then], end), *rest)

    def restart(self) -> None:
        super().restart()
        self.trail.clear()

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"trail": [[s, k, list(transition)] for s, k, transition in self.trail]}

    def load(self, state: dict[str, Any]) -> None:
        self.trail = [(int(s), int(k), (float(r), int(n), int(e))) for s, k, (r, n, e) in state["trail"]]
        super().load(state)
