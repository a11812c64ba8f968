"""Monte Carlo control: Q(s,a) ← Q(s,a) + α [ Gₜ − Q(s,a) ] for every visit of an episode, the last first (MATH M5, M3)

Notable: nothing is guessed from a guess: a return stands for all that came after, which makes it right on average and
noisy, and makes the learner wait for the end of the episode.

record: (step, (reward, s′, how it left the episode), Q(s,a) before, G)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from txlab.engine.explain import Operand, Step
from txlab.engine.rl.rules.episodic import Episodic, Lived
from txlab.engine.rl.update import Update, bracketed, number, terms


class MonteCarlo(Episodic):
    rule = "monte-carlo"

    def learn(self, trail: Sequence[Lived]) -> None:
        alpha, returned = self.settings.alpha, self.returned(trail)
        for place in range(len(trail) - 1, -1, -1):
            s, k, transition = trail[place]
            row = self.rows[s].copy()
            old = row[k]
            row[k] = old + alpha * (returned[place] - old)
            self.rows[s] = row
            self.records[s][k] = (self.began + place, transition, old, returned[place])
        self.latest = trail[0][:2]

    def explain_update(self, state: int, k: int, record: Any) -> Update:
        t, transition, before, returned = record
        context = self.context(t)
        alpha, delta = context.settings.alpha, returned - before
        new = before + alpha * delta
        s, a = context.state(state), context.action(state, k)
        explanation = context.explanation(
            f"why {number(new)} for {a} in {s}?",
            "Q(s,a) ← Q(s,a) + α [ Gₜ − Q(s,a) ],  Gₜ = Σ γᵏ rₜ₊ₖ₊₁",
            "M3, M5",
            "Monte Carlo control: Sutton and Barto 2018, §5.4, with a constant α",
            [
                Operand("Q(s,a)", before, f"{a} in {s}, before"),
                Operand("α", alpha, "step size"),
                Operand("Gₜ", returned, f"what the rest of episode {context.episode} earned from here"),
                Operand("γ", context.gamma, "discount"),
            ],
            [
                Step("δ", f"{number(returned)} − {bracketed(before)}", delta, "the error"),
                Step(
                    "Q(s,a)",
                    f"{number(before)} + {number(alpha)} · {bracketed(delta)}",
                    new,
                    f"{a} in {s}, after",
                ),
            ],
            new,
        )
        q, known = ("Q(s,a)", new), ("Q(s,a)", before)
        return self.make_update(
            context,
            (state, k),
            transition,
            before=before,
            after=new,
            delta=delta,
            terms=terms(q, "←", known, "+", ("α", alpha), "[", ("G", returned), "−", known, "]"),
            explanation=explanation,
        )
