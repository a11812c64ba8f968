"""Q-learning: Q(s,a) ← Q(s,a) + α [ r + γ maxₐ′ Q(s′,a′) − Q(s,a) ]   (MATH M6; Watkins 1989)

Notable: the action that is *taken* next does not enter, so it estimates Q* whatever it does meanwhile: off-policy.
Mehlig calls it an approximation to SARSA, which it is not (erratum of M6); its answer to "why?" says so.
"""

from __future__ import annotations

from typing import Any, ClassVar

from txlab.engine.explain import Step
from txlab.engine.rl.draws import Draws
from txlab.engine.rl.policies import exploring, soft, tied
from txlab.engine.rl.rules.one_step import OneStep
from txlab.engine.rl.settings import Rule
from txlab.engine.rl.transition_table import ENDED
from txlab.engine.rl.update import StepContext


class QLearning(OneStep):
    rule: ClassVar[Rule] = "q-learning"
    letters = "maxₐ′ Q(s′,a′)"
    source = "Watkins 1989; Sutton and Barto 2018, eq. 6.8"

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
            value = 0.0 if end == over else tops[s]
            old = row[k]
            new = old + alpha * (reward + gamma * value - old)
            records[was][k] = (t, transition, old, rows[s], value, -1)
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
        after, value = record[3], record[4]
        labels = context.actions(record[1][1])
        best = ", ".join(label for label, one in zip(labels, after, strict=True) if one == value)
        return [Step("argmaxₐ′", best, value, "whatever is done next: off-policy, and no approximation to SARSA")]
