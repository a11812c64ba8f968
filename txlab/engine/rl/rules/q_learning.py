"""Q-learning: Q(s,a) ← Q(s,a) + α [ r + γ maxₐ′ Q(s′,a′) − Q(s,a) ]   (MATH M6; Watkins 1989)

Notable: the action that is *taken* next does not enter, so it estimates Q* whatever it does meanwhile: off-policy.
Mehlig calls it an approximation to SARSA, which it is not (erratum of M6).
"""

from __future__ import annotations

from typing import Any

from txlab.engine.explain import Step
from txlab.engine.rl.rules.choosing import exploring, soft, tied
from txlab.engine.rl.rules.model import ENDED, Block
from txlab.engine.rl.rules.moment import Moment
from txlab.engine.rl.rules.one_step import OneStep


class QLearning(OneStep):
    rule = "q-learning"
    letters = "maxₐ′ Q(s′,a′)"
    source = "Watkins 1989; Sutton and Barto 2018, eq. 6.8"

    def loop(self, block: Block, steps: int) -> None:
        rows, records, moves = self.rows, self.records, self.model.moves
        u0, u1, u3, happens = block.u0, block.u1, block.u3, self.model.sampler(block)
        alpha, gamma, softly = self.settings.alpha, self.gamma, self.settings.policy == "softmax"
        chance, heat = exploring(self.settings, self.episode)
        s, total, cut, first = self.state, self.total, self.cut, self.updates
        after, value = None, 0.0
        for place in range(steps):
            was, row = s, rows[s]
            if u0[place] < chance:
                k = soft(row, heat, u1[place]) if softly else int(u1[place] * len(row))
            else:
                best = value if row is after else max(row)  # the largest of this row was just looked for
                k = row.index(best) if row.count(best) == 1 else tied(row, u1[place])
            happening = moves[s][k] or happens(s, k, place)
            reward, s, end = happening
            after = rows[s]
            value = 0.0 if end == ENDED else max(after)
            old = row[k]
            new = row.copy()
            new[k] = old + alpha * (reward + gamma * value - old)
            rows[was] = new
            t = first + place
            records[was][k] = (t, happening, old, after, value, -1)
            total += reward
            if end or t == cut:
                s, total, cut, after = self.turn(t, total, u3[place]), 0.0, self.cut, None
                chance, heat = exploring(self.settings, self.episode)
        self.state, self.total, self.latest = s, total, (was, k)

    def worth(self, moment: Moment, record: Any) -> list[Step]:
        after, value = record[3], record[4]
        labels = moment.actions(record[1][1])
        best = ", ".join(label for label, one in zip(labels, after, strict=True) if one == value)
        return [Step("argmaxₐ′", best, value, "whatever is done next")]
