"""SARSA: Q(s,a) ← Q(s,a) + α [ r + γ Q(s′,a′) − Q(s,a) ]   (MATH M5; Rummery and Niranjan 1994)

Notable: a′ is the action that will really be taken in s′, chosen now and kept; so exploring costs what it costs, and
on the cliff SARSA learns to keep away from the edge.
"""

from __future__ import annotations

from typing import Any

from txlab.engine.explain import Step
from txlab.engine.rl.rules.choosing import exploring, soft, tied
from txlab.engine.rl.rules.model import ENDED, Block
from txlab.engine.rl.rules.moment import Moment
from txlab.engine.rl.rules.one_step import OneStep


class Sarsa(OneStep):
    rule = "sarsa"
    letters = "Q(s′,a′)"
    math = "M5"
    source = "Rummery and Niranjan 1994; Sutton and Barto 2018, eq. 6.7"

    def loop(self, block: Block, steps: int) -> None:
        rows, records, moves = self.rows, self.records, self.model.moves
        u0, u1, u3, happens = block.u0, block.u1, block.u3, self.model.sampler(block)
        alpha, gamma, softly = self.settings.alpha, self.gamma, self.settings.policy == "softmax"
        chance, heat = exploring(self.settings, self.episode)
        s, total, cut, first = self.state, self.total, self.cut, self.updates
        k = self.choose(rows[s], u0[0], u1[0]) if self.pending is None else self.pending
        for place in range(steps):
            was, j, row = s, k, rows[s]
            happening = moves[s][k] or happens(s, k, place)
            reward, s, end = happening
            after = rows[s]
            if end == ENDED:
                k, value = -1, 0.0
            else:
                if u0[place + 1] < chance:
                    k = soft(after, heat, u1[place + 1]) if softly else int(u1[place + 1] * len(after))
                else:
                    best = max(after)
                    k = after.index(best) if after.count(best) == 1 else tied(after, u1[place + 1])
                value = after[k]
            old = row[j]
            new = row.copy()
            new[j] = old + alpha * (reward + gamma * value - old)
            rows[was] = new
            t = first + place
            records[was][j] = (t, happening, old, after, value, k)
            total += reward
            if end or t == cut:
                s, total, cut = self.turn(t, total, u3[place]), 0.0, self.cut
                chance, heat = exploring(self.settings, self.episode)
                k = self.choose(rows[s], u0[place + 1], u1[place + 1])
        self.state, self.total, self.pending, self.latest = s, total, k, (was, j)

    def worth(self, moment: Moment, record: Any) -> list[Step]:
        ahead, value = record[5], record[4]
        return [Step("a′", moment.action(record[1][1], ahead), value, "the action that is taken next")]
