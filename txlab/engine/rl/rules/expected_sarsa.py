"""Expected SARSA: Q(s,a) ← Q(s,a) + α [ r + γ Σₐ′ π(a′|s′) Q(s′,a′) − Q(s,a) ]   (MATH M6; van Seijen et al. 2009)

Notable: the chance of the next choice is averaged out, so even α = 1 is steady; with ε = 0 it is Q-learning.
"""

from __future__ import annotations

from typing import Any

from txlab.engine.explain import Step
from txlab.engine.rl.rules.choosing import exploring, soft, tied, weights
from txlab.engine.rl.rules.model import ENDED, Block
from txlab.engine.rl.rules.moment import Moment, said
from txlab.engine.rl.rules.one_step import OneStep


def expectation(row: list[float], chance: float, heat: float, softly: bool) -> float:
    """Σₐ π(a|s) Q(s,a): ε-greedy (1 − ε) max + ε mean; softmax by its weights."""
    if softly:
        return added([one * value for one, value in zip(weights(row, heat), row, strict=True)])
    return (1.0 - chance) * max(row) + chance * (added(row) / len(row))


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

    def loop(self, block: Block, steps: int) -> None:
        rows, records, moves = self.rows, self.records, self.model.moves
        u0, u1, u3, happens = block.u0, block.u1, block.u3, self.model.sampler(block)
        alpha, gamma, softly = self.settings.alpha, self.gamma, self.settings.policy == "softmax"
        chance, heat = exploring(self.settings, self.episode)
        s, total, cut, first = self.state, self.total, self.cut, self.updates
        for place in range(steps):
            was, row = s, rows[s]
            if u0[place] < chance:
                k = soft(row, heat, u1[place]) if softly else int(u1[place] * len(row))
            else:
                best = max(row)
                k = row.index(best) if row.count(best) == 1 else tied(row, u1[place])
            happening = moves[s][k] or happens(s, k, place)
            reward, s, end = happening
            after = rows[s]
            value = 0.0 if end == ENDED else expectation(after, chance, heat, softly)
            old = row[k]
            new = row.copy()
            new[k] = old + alpha * (reward + gamma * value - old)
            rows[was] = new
            t = first + place
            records[was][k] = (t, happening, old, after, value, -1)
            total += reward
            if end or t == cut:
                s, total, cut = self.turn(t, total, u3[place]), 0.0, self.cut
                chance, heat = exploring(self.settings, self.episode)
        self.state, self.total, self.latest = s, total, (was, k)

    def worth(self, moment: Moment, record: Any) -> list[Step]:
        after = record[3]
        if moment.settings.policy == "softmax":
            return [Step("π(·|s′)", f"softmax at {said(moment.temperature)}", weights(list(after), moment.temperature))]
        ε, best, mean = moment.epsilon, max(after), added(list(after)) / len(after)
        return [
            Step("max", "maxₐ′ Q(s′,a′)", best, f"with probability 1 − ε = {said(1 - ε)}"),
            Step("mean", "of all allowed actions", mean, f"with probability ε = {said(ε)}"),
        ]
