"""Double Q-learning: Q₁(s,a) ← Q₁(s,a) + α [ r + γ Q₂(s′, argmaxₐ′ Q₁(s′,a′)) − Q₁(s,a) ], or 1 and 2 exchanged
(MATH M6; van Hasselt 2010)

Notable: draw 3 of the step is the coin that decides which of the two is updated; the rest of that draw breaks ties. One
table selects the best action, the other evaluates it, so that a lucky estimate does not count twice. It acts on the sum
of both, and shows their mean.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from txlab.engine.explain import Step
from txlab.engine.rl.draws import Draws
from txlab.engine.rl.policies import break_tie, probabilities, soft
from txlab.engine.rl.rules.one_step import OneStep, OneStepRule
from txlab.engine.rl.sweeps.tables import BatchTransition, StepState
from txlab.engine.rl.transition_table import ENDED
from txlab.engine.rl.update import StepContext, Term, Update

ORDER = 2


class DoubleQ(OneStep):
    """rows is Q₁, others is Q₂."""

    tables = ("rows", "others")
    others: list[list[float]]

    def loop(self, draws: Draws, steps: int) -> None:
        both, records, moves = (self.rows, self.others), self.records, self.world.moves
        u0, u1, u3, draw_transition = draws.u0, draws.u1, draws.u3, self.world.sampler(draws)
        alpha, gamma = self.settings.alpha, self.gamma
        epsilon, temperature, softly = self.exploration
        s, total, last, first = self.state, self.total, self.last_step, self.updates
        for place in range(steps):
            was = s
            row = self.acting_row(s)
            if u0[place] < epsilon:
                k = soft(row, temperature, u1[place]) if softly else int(u1[place] * len(row))
            else:
                k = break_tie(row, u1[place])
            transition = moves[s][k] or draw_transition(s, k, place)
            reward, s, end = transition
            coin = u3[place]
            which = 0 if coin < 0.5 else 1
            chooser, judge = both[which][s], both[1 - which][s]
            ahead = -1 if end == ENDED else break_tie(chooser, 2.0 * coin % 1.0)
            value = 0.0 if end == ENDED else judge[ahead]
            new = both[which][was].copy()
            old = new[k]
            delta = reward + gamma * value - old
            new[k] = old + alpha * delta
            both[which][was] = new
            t = first + place
            records[was][k] = (t, transition, old, chooser, value, ahead, both[1 - which][was][k])
            self.visits[was][k] += 1
            total += reward
            if end or t == last:
                s, total, last = self.end_episode(t, total, coin), 0.0, self.last_step
                epsilon, temperature, softly = self.exploration
        self.state, self.total, self.latest = s, total, (was, k)

    def acting_row(self, state: int) -> list[float]:
        return [one + two for one, two in zip(self.rows[state], self.others[state], strict=True)]

    def q(self) -> np.ndarray:
        mean: np.ndarray = (self.spread(self.rows) + self.spread(self.others)) / 2
        return mean

    def v(self) -> np.ndarray:
        return np.array([max(self.acting_row(s), default=0.0) / 2 for s in range(self.world.size)])

    def policy(self) -> np.ndarray:
        both = self.spread(self.rows) + self.spread(self.others)
        return probabilities(both, self.settings, self.episode)

    def explain_update(self, state: int, k: int, record: Any) -> Update:
        update = super().explain_update(state, k, record)
        first = self.context(record[0]).draws[3] < 0.5
        one, two = ("Q₁", "Q₂") if first else ("Q₂", "Q₁")
        other = record[6]
        names = {"Q(s,a)": f"{one}(s,a)", self.rule.letters: f"{two}(s′,argmax {one})"}
        terms = [Term(names.get(term.letters, term.letters), term.value) for term in update.terms]
        shown = {"before": (update.before + other) / 2, "after": (update.after + other) / 2}
        return replace(update, **shown, terms=terms)


class DoubleQLearning(OneStepRule):
    name, title = "double-q", "double Q-learning"
    agent, tables, coin = DoubleQ, ("q", "q2"), True
    letters, off_policy = "Q₂(s′,argmax Q₁)", True
    source = "van Hasselt 2010; Sutton and Barto 2018, eq. 6.10"

    def explain_target(self, context: StepContext, record: Any) -> list[Step]:
        chooser, value, ahead = record[3], record[4], record[5]
        one, two = ("Q₁", "Q₂") if context.draws[3] < 0.5 else ("Q₂", "Q₁")
        best = context.action(record[1][1], ahead)
        return [
            Step("coin", f"u₃ = {context.draws[3]:.3g}", float(context.draws[3]), f"so {one} is corrected"),
            Step("argmaxₐ′", f"{best} by {one}", chooser[ahead], "which action is best"),
            Step("its worth", f"by {two}", value, "its value"),
        ]

    def learn(self, now: StepState, step: BatchTransition) -> None:
        xp, one, two = now.xp, now.table["q"], now.table["q2"]
        first = step.u[3] < 0.5
        place = now.base + step.next
        rows_one, rows_two = xp.rows(one, place), xp.rows(two, place)
        chosen_by, valued_by = xp.where(first, rows_one, rows_two), xp.where(first, rows_two, rows_one)
        best = xp.among_best(chosen_by, xp.top(chosen_by), 2.0 * step.u[3] % 1.0)  # the rest of the coin's draw
        value = now.unless_over(xp.column(valued_by, best), step.over)
        cell = now.cell(step)
        old_one, old_two = xp.take(one, cell), xp.take(two, cell)
        old = xp.where(first, old_one, old_two)
        new = old + now.alpha * (step.reward + now.gamma * value - old)
        xp.put(one, cell, xp.where(first, new, old_one))
        xp.put(two, cell, xp.where(first, old_two, new))


RULES = (DoubleQLearning(),)
