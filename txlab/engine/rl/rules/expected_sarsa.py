"""Expected SARSA: Q(s,a) ← Q(s,a) + α [ r + γ Σₐ′ π(a′|s′) Q(s′,a′) − Q(s,a) ]   (MATH M6; van Seijen et al. 2009)

Notable: the chance of the next choice is averaged out, so even α = 1 is steady; with ε = 0 it is Q-learning.
"""

from __future__ import annotations

from typing import Any

from txlab.engine.explain import Step
from txlab.engine.rl.draws import Draws
from txlab.engine.rl.policies import exploring, soft, tied, weights
from txlab.engine.rl.rules.one_step import OneStep
from txlab.engine.rl.transition_table import ENDED
from txlab.engine.rl.update import StepContext, number


def expectation(row: list[float], top: float, epsilon: float, temperature: float, softly: bool) -> float:
    """Σₐ π(a|s) Q(s,a): ε-greedy (1 − ε) max + ε mean; softmax by its weights. `top` is the largest of the row."""
    if softly:
        return added([one * value for one, value in zip(weights(row, temperature), row, strict=True)])
    return (1.0 - epsilon) * top + epsilon * (added(row) / len(row))


def added(row: list[float]) -> float:
    """The sum from the first on; Python's own `sum` compensates rounding from 3.12 on, and would be another number."""
    total = 0.0
    for value in row:
        total += value
    return total


class ExpectedSarsa(OneStep):
    rule = "expected-sarsa"
    letters = "Σₐ′ π(a′|s′) Q(s′,a′)"
    source = "van Seijen et al. 2009; Sutton and Barto 2018, eq. 6.9"

    def loop(self, draws: Draws, steps: int) -> None:
        rows, tops, picks, records, moves = self.rows, self.tops, self.picks, self.records, self.world.moves
        u1, u3, draw_transition, over = draws.u1, draws.u3, self.world.sampler(draws), ENDED
        alpha, gamma, softly = self.settings.alpha, self.gamma, self.settings.policy == "softmax"
        epsilon, temperature = exploring(self.settings, self.episode)
        s, total, last, first = self.state, self.total, self.last_step, self.updates
        for t, u0 in zip(range(first, first + steps), draws.u0, strict=False):
            was, row = s, rows[s]
            if u0 < epsilon:
                k = soft(row, temperature, u1[t - first]) if softly else int(u1[t - first] * len(row))
            else:
                k = picks[s]
                if k < 0:
                    k = tied(row, u1[t - first])
            transition = moves[s][k] or draw_transition(s, k, t - first)
            reward, s, end = transition
            after = rows[s]
            value = 0.0 if end == over else expectation(after, tops[s], epsilon, temperature, softly)
            old = row[k]
            new = old + alpha * (reward + gamma * value - old)
            records[was][k] = (t, transition, old, after, value, -1)
            if new != old:
                rows[was] = row = row.copy()
                row[k] = new
                if new > tops[was]:
                    tops[was], picks[was] = new, k
                elif new == tops[was] or picks[was] == k or picks[was] < 0:
                    top = tops[was] = max(row)
                    picks[was] = row.index(top) if row.count(top) == 1 else -1
            total += reward
            if end or t == last:
                s, total, last = self.end_episode(t, total, u3[t - first]), 0.0, self.last_step
                epsilon, temperature = exploring(self.settings, self.episode)
        self.state, self.total, self.latest = s, total, (was, k)

    def worth(self, context: StepContext, record: Any) -> list[Step]:
        after = record[3]
        if context.settings.policy == "softmax":
            return [
                Step(
                    "π(·|s′)",
                    f"softmax at {number(context.temperature)}",
                    weights(list(after), context.temperature),
                )
            ]
        ε, best, mean = context.epsilon, max(after), added(list(after)) / len(after)
        return [
            Step("max", "maxₐ′ Q(s′,a′)", best, f"with probability 1 − ε = {number(1 - ε)}"),
            Step("mean", "of all allowed actions", mean, f"with probability ε = {number(ε)}"),
        ]
