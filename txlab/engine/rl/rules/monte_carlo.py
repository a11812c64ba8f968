"""Monte Carlo control: Q(s,a) ← Q(s,a) + α [ Gₜ − Q(s,a) ] for every visit of an episode, the last first (MATH M5, M3)

Notable: nothing is guessed from a guess: a return stands for all that came after, which makes it right on average and
noisy, and makes the learner wait for the end of the episode.

record: (step, (reward, s′, how it left the episode), Q(s,a) before, G)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from txlab.engine.explain import Operand, Step
from txlab.engine.rl.numerals import bracketed, said
from txlab.engine.rl.rules.episodes import Episodic, Lived
from txlab.engine.rl.update import Update, terms


class MonteCarlo(Episodic):
    rule = "monte-carlo"

    def learn(self, trail: Sequence[Lived]) -> None:
        alpha, returned = self.settings.alpha, self.returned(trail)
        for place in range(len(trail) - 1, -1, -1):
            s, k, happening = trail[place]
            row = self.rows[s].copy()
            old = row[k]
            row[k] = old + alpha * (returned[place] - old)
            self.rows[s] = row
            self.records[s][k] = (self.began + place, happening, old, returned[place])
        self.latest = trail[0][:2]

    def told(self, state: int, k: int, record: Any) -> Update:
        t, happening, before, returned = record
        moment = self.moment(t)
        alpha, delta = moment.settings.alpha, returned - before
        new = before + alpha * delta
        s, a = moment.state(state), moment.action(state, k)
        explanation = moment.explanation(
            f"why {said(new)} for {a} in {s}?",
            "Q(s,a) ← Q(s,a) + α [ Gₜ − Q(s,a) ],  Gₜ = Σ γᵏ rₜ₊ₖ₊₁",
            "M3, M5",
            "Monte Carlo control: Sutton and Barto 2018, §5.4, with a constant α",
            [
                Operand("Q(s,a)", before, f"{a} in {s}, before"),
                Operand("α", alpha, "step size"),
                Operand("Gₜ", returned, f"what the rest of episode {moment.episode} earned from here"),
                Operand("γ", moment.gamma, "discount"),
            ],
            [
                Step("δ", f"{said(returned)} − {bracketed(before)}", delta, "the error"),
                Step("Q(s,a)", f"{said(before)} + {said(alpha)} · {bracketed(delta)}", new, f"{a} in {s}, after"),
            ],
            new,
        )
        q, known = ("Q(s,a)", new), ("Q(s,a)", before)
        return self.account(
            moment,
            (state, k),
            happening,
            before=before,
            after=new,
            delta=delta,
            terms=terms(q, "←", known, "+", ("α", alpha), "[", ("G", returned), "−", known, "]"),
            explanation=explanation,
        )
