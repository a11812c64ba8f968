"""Double Q-learning: Q₁(s,a) ← Q₁(s,a) + α [ r + γ Q₂(s′, argmaxₐ′ Q₁(s′,a′)) − Q₁(s,a) ], or 1 and 2 exchanged
(MATH M6; van Hasselt 2010)

Notable: which of the two is corrected a coin decides, draw 3 of the step; what is left of that draw breaks ties. One
table says which action is best, the other what it is worth, so that luck is not taken for merit twice. It acts on the
sum of both, and shows their mean.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from txlab.engine.explain import Step
from txlab.engine.rl.rules.choosing import exploring, probabilities, soft, tied
from txlab.engine.rl.rules.one_step import OneStep
from txlab.engine.rl.rules.step_context import Moment
from txlab.engine.rl.rules.transition_table import ENDED, Block
from txlab.engine.rl.update import Term, Update


class DoubleQ(OneStep):
    """rows is Q₁, others Q₂."""

    rule = "double-q"
    tables = ("rows", "others")
    letters = "Q₂(s′,argmax Q₁)"
    source = "van Hasselt 2010; Sutton and Barto 2018, eq. 6.10"
    others: list[list[float]]

    def loop(self, block: Block, steps: int) -> None:
        both, records, moves = (self.rows, self.others), self.records, self.model.moves
        u0, u1, u3, happens = block.u0, block.u1, block.u3, self.model.sampler(block)
        alpha, gamma, softly = self.settings.alpha, self.gamma, self.settings.policy == "softmax"
        chance, heat = exploring(self.settings, self.episode)
        s, total, cut, first = self.state, self.total, self.cut, self.updates
        for place in range(steps):
            was = s
            row = self.acting_row(s)
            if u0[place] < chance:
                k = soft(row, heat, u1[place]) if softly else int(u1[place] * len(row))
            else:
                k = tied(row, u1[place])
            happening = moves[s][k] or happens(s, k, place)
            reward, s, end = happening
            coin = u3[place]
            which = 0 if coin < 0.5 else 1
            chooser, judge = both[which][s], both[1 - which][s]
            ahead = -1 if end == ENDED else tied(chooser, 2.0 * coin % 1.0)
            value = 0.0 if end == ENDED else judge[ahead]
            new = both[which][was].copy()
            old = new[k]
            new[k] = old + alpha * (reward + gamma * value - old)
            both[which][was] = new
            t = first + place
            records[was][k] = (t, happening, old, chooser, value, ahead, both[1 - which][was][k])
            total += reward
            if end or t == cut:
                s, total, cut = self.turn(t, total, coin), 0.0, self.cut
                chance, heat = exploring(self.settings, self.episode)
        self.state, self.total, self.latest = s, total, (was, k)

    def acting_row(self, state: int) -> list[float]:
        return [one + two for one, two in zip(self.rows[state], self.others[state], strict=True)]

    def q(self) -> np.ndarray:
        mean: np.ndarray = (self.spread(self.rows) + self.spread(self.others)) / 2
        return mean

    def v(self) -> np.ndarray:
        return np.array([max(self.acting_row(s), default=0.0) / 2 for s in range(self.model.size)])

    def policy(self) -> np.ndarray:
        both = self.spread(self.rows) + self.spread(self.others)
        return probabilities(both, self.settings, self.episode)

    def worth(self, moment: Moment, record: Any) -> list[Step]:
        chooser, value, ahead = record[3], record[4], record[5]
        one, two = ("Q₁", "Q₂") if moment.draws[3] < 0.5 else ("Q₂", "Q₁")
        best = moment.action(record[1][1], ahead)
        return [
            Step("coin", f"u₃ = {moment.draws[3]:.3g}", float(moment.draws[3]), f"so {one} is corrected"),
            Step("argmaxₐ′", f"{best} by {one}", chooser[ahead], "which action is best"),
            Step("its worth", f"by {two}", value, "what it is worth"),
        ]

    def told(self, state: int, k: int, record: Any) -> Update:
        told = super().told(state, k, record)
        first = self.moment(record[0]).draws[3] < 0.5
        one, two = ("Q₁", "Q₂") if first else ("Q₂", "Q₁")
        other = record[6]
        names = {"Q(s,a)": f"{one}(s,a)", self.letters: f"{two}(s′,argmax {one})"}
        terms = [Term(names.get(term.letters, term.letters), term.value) for term in told.terms]
        shown = {"before": (told.before + other) / 2, "after": (told.after + other) / 2}
        return replace(told, **shown, terms=terms)
