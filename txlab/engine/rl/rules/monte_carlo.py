"""Rules that learn when an episode is over, and the first of them: Monte Carlo control (MATH M3, M5)

    Q(s,a) ← Q(s,a) + α [ Gₜ − Q(s,a) ] for every visit of an episode, the last first

Notable: there is no bootstrapping: a return sums all that followed, which makes it unbiased but noisy, and makes the
learner wait for the end of the episode. This also holds for an episode that was cut off: its return is the sum so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from txlab.engine.explain import Operand, compute_step
from txlab.engine.rl.agent import Agent, Rule
from txlab.engine.rl.draws import Draws
from txlab.engine.rl.policies import break_tie, soft
from txlab.engine.rl.process import Process
from txlab.engine.rl.sweeps.arrays import Array
from txlab.engine.rl.sweeps.tables import StepState, Trail
from txlab.engine.rl.transition_table import Transition
from txlab.engine.rl.update import Update, change_step, terms

ORDER = 6

Lived = tuple[int, int, Transition]
"""(state, k, transition) of a step"""


class Episodic(Agent):
    """trail: the steps of the present episode, since step `began`."""

    def prepare(self) -> None:
        if not hasattr(self, "trail"):
            self.trail: list[Lived] = []

    def row_of_state(self, state: int) -> int:
        """The state whose row of the table this state uses."""
        return state

    def learn(self, trail: Sequence[Lived]) -> None:
        """Make all updates of an episode whose first step was `began`."""
        raise NotImplementedError(f"the rule {self.rule.name} does not learn")

    def loop(self, draws: Draws, steps: int) -> None:
        rows, moves, trail = self.rows, self.world.moves, self.trail
        u0, u1, u3, draw_transition = draws.u0, draws.u1, draws.u3, self.world.sampler(draws)
        exploring_starts = self.settings.policy == "exploring-starts"
        epsilon, temperature, softly = self.exploration
        s, total, last, first, seen = self.state, self.total, self.last_step, self.updates, self.row_of_state
        for place in range(steps):
            row = rows[seen(s)]
            if u0[place] < epsilon or (exploring_starts and not trail):
                k = soft(row, temperature, u1[place]) if softly else int(u1[place] * len(row))
            else:
                k = break_tie(row, u1[place])
            transition = moves[s][k] or draw_transition(s, k, place)
            trail.append((s, k, transition))
            self.visits[s][k] += 1
            reward, s, end = transition
            total += reward
            t = first + place
            if end or t == last:
                self.learn(trail)
                trail.clear()
                s, total, last = self.end_episode(t, total, u3[place]), 0.0, self.last_step
                epsilon, temperature, softly = self.exploration
        self.state, self.total = s, total

    def returns_of(self, trail: Sequence[Lived]) -> list[float]:
        """Gₜ = rₜ₊₁ + γ Gₜ₊₁ of every step of an episode (MATH M3)."""
        discounted = [0.0] * len(trail)
        coming, gamma = 0.0, self.gamma
        for place in range(len(trail) - 1, -1, -1):
            coming = trail[place][2][0] + gamma * coming
            discounted[place] = coming
        return discounted

    def renumber_states(self, olds: list[int], news: dict[int, int], actions: list[list[int]]) -> None:
        self.trail.clear()

    def adopt(self, process: Process, states: Sequence[int] | np.ndarray) -> None:
        """Restart the episode in a changed world: its steps may no longer be possible."""
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


class MonteCarloControl(Episodic):
    """records: (step, (reward, s′, how it left the episode), Q(s,a) before, G)"""

    def learn(self, trail: Sequence[Lived]) -> None:
        alpha, returned = self.settings.alpha, self.returns_of(trail)
        for place in range(len(trail) - 1, -1, -1):
            s, k, transition = trail[place]
            row = self.rows[s].copy()
            old = row[k]
            delta = returned[place] - old
            row[k] = old + alpha * delta
            self.rows[s] = row
            self.records[s][k] = (self.began + place, transition, old, returned[place])
        self.latest = trail[0][:2]

    def explain_update(self, state: int, k: int, record: Any) -> Update:
        t, transition, before, returned = record
        context = self.context(t)
        alpha, delta = context.settings.alpha, returned - before
        new = before + alpha * delta
        here = f"{context.action(state, k)} in {context.state(state)}"
        q, known = ("Q(s,a)", new), ("Q(s,a)", before)
        return self.make_update(
            context,
            (state, k),
            transition,
            (before, delta, new),
            terms(q, "←", known, "+", ("α", alpha), "[", ("G", returned), "−", known, "]"),
            [
                Operand("Q(s,a)", before, f"{here}, before"),
                Operand("α", alpha, "step size"),
                Operand("Gₜ", returned, f"the return of the rest of episode {context.episode}"),
                Operand("γ", context.gamma, "discount"),
            ],
            [
                compute_step("δ", "{} − {}", lambda g, q: g - q, returned, before, note="the error"),
                change_step("Q(s,a)", before, alpha, delta, note=f"{here}, after"),
            ],
        )


class MonteCarlo(Rule):
    name, title = "monte-carlo", "Monte Carlo"
    agent, exploring_starts = MonteCarloControl, True
    equation = "Q(s,a) ← Q(s,a) + α [ Gₜ − Q(s,a) ],  Gₜ = Σ γᵏ rₜ₊ₖ₊₁"
    math, source = "M3, M5", "Sutton and Barto 2018, §5.4, with a constant α"

    def teach(self, now: StepState, trail: Trail, lengths: Array) -> None:
        xp, q = now.xp, now.table["q"]
        for state, action, returned, here in trail.backwards(now, lengths):
            cell = action * now.stride + (now.base + state)
            old = xp.take(q, cell)
            xp.put(q, cell, old + xp.where(here, now.alpha, 0.0) * (returned - old))


RULES = (MonteCarlo(),)
