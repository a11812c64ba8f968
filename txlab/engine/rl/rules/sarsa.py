"""SARSA: Q(s,a) ← Q(s,a) + α [ r + γ Q(s′,a′) − Q(s,a) ]   (MATH M5; Rummery and Niranjan 1994)

Notable: a′ is the action that will really be taken in s′, chosen now and kept; so exploring costs what it costs, and
on the cliff SARSA learns to keep away from the edge.
"""

from __future__ import annotations

from typing import Any

from txlab.engine.explain import Step
from txlab.engine.rl.draws import Draws
from txlab.engine.rl.policies import exploring, soft, tied
from txlab.engine.rl.rules.one_step import OneStep
from txlab.engine.rl.transition_table import ENDED
from txlab.engine.rl.update import StepContext


class Sarsa(OneStep):
    rule = "sarsa"
    letters = "Q(s′,a′)"
    math = "M5"
    source = "Rummery and Niranjan 1994; Sutton and Barto 2018, eq. 6.7"

    def loop(self, draws: Draws, steps: int) -> None:
        rows, tops, picks, records, moves = self.rows, self.tops, self.picks, self.records, self.world.moves
        u1, u3, draw_transition, over = draws.u1, draws.u3, self.world.sampler(draws), ENDED
        alpha, gamma, softly = self.settings.alpha, self.gamma, self.settings.policy == "softmax"
        epsilon, temperature = exploring(self.settings, self.episode)
        s, total, last, first = self.state, self.total, self.last_step, self.updates
        k = self.choose(rows[s], draws.u0[0], u1[0]) if self.pending is None else self.pending
        for t, u0 in zip(range(first, first + steps), draws.u0[1:], strict=True):  # u0 is that of step t + 1
            was, j, row = s, k, rows[s]
            transition = moves[s][k] or draw_transition(s, k, t - first)
            reward, s, end = transition
            after = rows[s]
            if end == over:
                k, value = -1, 0.0
            else:
                if u0 < epsilon:
                    u = u1[t + 1 - first]
                    k = soft(after, temperature, u) if softly else int(u * len(after))
                else:
                    k = picks[s]
                    if k < 0:
                        k = tied(after, u1[t + 1 - first])
                value = after[k]
            old = row[j]
            new = old + alpha * (reward + gamma * value - old)
            records[was][j] = (t, transition, old, after, value, k)
            if new != old:
                rows[was] = row = row.copy()
                row[j] = new
                if new > tops[was]:
                    tops[was], picks[was] = new, j
                elif new == tops[was] or picks[was] == j or picks[was] < 0:
                    top = tops[was] = max(row)
                    picks[was] = row.index(top) if row.count(top) == 1 else -1
            total += reward
            if end or t == last:
                s, total, last = self.end_episode(t, total, u3[t - first]), 0.0, self.last_step
                epsilon, temperature = exploring(self.settings, self.episode)
                k = self.choose(rows[s], u0, u1[t + 1 - first])
        self.state, self.total, self.pending, self.latest = s, total, k, (was, j)

    def worth(self, context: StepContext, record: Any) -> list[Step]:
        ahead, value = record[5], record[4]
        return [Step("a′", context.action(record[1][1], ahead), value, "the action that is taken next")]
