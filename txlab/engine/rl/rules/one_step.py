"""What the rules that learn from one step have in common: Q(s,a) ← Q(s,a) + α [r + γ V − Q(s,a)] (MATH M5, M6).

Notable: they differ in V alone, what the next state is taken to be worth. Each has a file with its loop, written out to
the end: a page to be read from top to bottom, and as fast as plain Python goes (one call a step to keep `tops` would
cost Q-learning 0 to 2 per cent). Here is how an update is told, from the record that the loop left.

record: (step, (reward, s′, how it left the episode), Q(s,a) before, the row of s′ then, V, k of a′ or −1)
"""

from __future__ import annotations

from typing import Any, ClassVar

from txlab.engine.explain import Operand, Step
from txlab.engine.rl.agent import Agent
from txlab.engine.rl.settings import TITLES
from txlab.engine.rl.transition_table import ENDED
from txlab.engine.rl.update import StepContext, Update, bracketed, number, terms


class OneStep(Agent):
    """`letters` is V as it is written; `worth` says where its number comes from.

    tops, picks   [s] the largest value of the row, and its k, or −1 where several are equally good: most updates
                  leave another row's best as it was, so it need not be looked for at each step
    """

    letters: ClassVar[str]
    math: ClassVar[str] = "M6"
    source: ClassVar[str]

    def prepare(self) -> None:
        self.tops = [max(row, default=0.0) for row in self.rows]
        self.picks = [
            row.index(top) if row.count(top) == 1 else -1 for row, top in zip(self.rows, self.tops, strict=True)
        ]

    def worth(self, context: StepContext, record: Any) -> list[Step]:
        """How V came out of the row of s′."""
        raise NotImplementedError(f"{self.rule} does not say what the next state is worth")

    def explain_update(self, state: int, k: int, record: Any) -> Update:
        t, (reward, then, end), before, after, value, ahead = record[:6]
        context = self.context(t)
        alpha, gamma = context.settings.alpha, context.gamma
        ended = end == ENDED
        value = 0.0 if ended else value
        delta = reward + gamma * value - before
        new = before + alpha * delta
        s, a = context.state(state), context.action(state, k)
        labels = context.actions(then)
        operands = [
            Operand("Q(s,a)", before, f"{a} in {s}, before"),
            Operand("α", alpha, "step size"),
            Operand("r", reward, "reward"),
            Operand("γ", gamma, "discount"),
        ]
        if not ended:
            operands.append(Operand("Q(s′,·)", list(after), f"in {context.state(then)}, where it led"))
        steps = [
            *([] if ended else self.worth(context, record)),
            Step(self.letters, "0" if ended else "", value, context.ending(end, then)),
            Step(
                "δ",
                f"{number(reward)} + {number(gamma)} · {bracketed(value)} − {bracketed(before)}",
                delta,
                "the error",
            ),
            Step(
                "Q(s,a)",
                f"{number(before)} + {number(alpha)} · {bracketed(delta)}",
                new,
                f"{a} in {s}, after",
            ),
        ]
        explanation = context.explanation(
            f"why {number(new)} for {a} in {s}?",
            f"Q(s,a) ← Q(s,a) + α [ r + γ {self.letters} − Q(s,a) ]",
            self.math,
            f"{TITLES[self.rule]}: {self.source}",
            operands,
            steps,
            new,
            labels,
            ahead if 0 <= ahead < len(labels) and not ended else None,
        )
        q, known = ("Q(s,a)", new), ("Q(s,a)", before)
        bracket = (("r", reward), "+", ("γ", gamma), (self.letters, value), "−", known)
        return self.make_update(
            context,
            (state, k),
            (reward, then, end),
            before=before,
            after=new,
            delta=delta,
            terms=terms(q, "←", known, "+", ("α", alpha), "[", *bracket, "]"),
            explanation=explanation,
            ahead=-1 if ended else ahead,
        )
