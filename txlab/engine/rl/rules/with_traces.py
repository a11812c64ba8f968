"""SARSA(λ) and Watkins' Q(λ): one δ, shared by every pair by its trace (MATH M5, M6)

    δ = r + γ V − Q(s,a);   e(s,a) ← e(s,a) + 1 (accumulating) or 1 (replacing);   Q ← Q + α δ e;   e ← γ λ e

Notable: the traces are cleared at each episode. Watkins' are also cleared where the action that follows is not greedy:
what was done before an exploring action says nothing of the greedy policy. Only pairs that were passed in this episode
have an entry. Rows are written in place here, for every update touches many.

record: (step, (reward, s′, how it left the episode), Q before, (the row of s′ then, V, k of a′, δ, whose δ, its Q), e)
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from txlab.engine.explain import Operand, Step
from txlab.engine.rl.agent import Agent
from txlab.engine.rl.numerals import bracketed, said
from txlab.engine.rl.rules.choosing import exploring, soft, tied
from txlab.engine.rl.rules.transition_table import ENDED, Block
from txlab.engine.rl.settings import TITLES
from txlab.engine.rl.update import Update, terms


class WithTraces(Agent):
    """eligible: {(s, k): e}, in the order in which the pairs were passed."""

    letters: ClassVar[str]
    math: ClassVar[str]
    source: ClassVar[str]
    off_policy: ClassVar[bool]

    def prepare(self) -> None:
        if not hasattr(self, "eligible"):
            self.eligible: dict[tuple[int, int], float] = {}

    def loop(self, block: Block, steps: int) -> None:
        rows, records, moves, eligible = self.rows, self.records, self.model.moves, self.eligible
        u0, u1, u3, happens = block.u0, block.u1, block.u3, self.model.sampler(block)
        alpha, gamma, softly = self.settings.alpha, self.gamma, self.settings.policy == "softmax"
        lam, replacing, off_policy = self.settings.lam, self.settings.traces == "replacing", self.off_policy
        chance, heat = exploring(self.settings, self.episode)
        s, total, cut, first = self.state, self.total, self.cut, self.updates
        k = self.choose(rows[s], u0[0], u1[0]) if self.pending is None else self.pending
        for place in range(steps):
            was, j, t = s, k, first + place
            happening = moves[s][k] or happens(s, k, place)
            reward, s, end = happening
            after, k, value, keep = rows[s], -1, 0.0, lam
            if end != ENDED:
                if u0[place + 1] < chance:
                    k = soft(after, heat, u1[place + 1]) if softly else int(u1[place + 1] * len(after))
                else:
                    k = tied(after, u1[place + 1])
                value = max(after) if off_policy else after[k]
                if off_policy and after[k] != value:
                    keep = 0.0
            known = rows[was][j]
            delta = reward + gamma * value - known
            eligible[was, j] = 1.0 if replacing else eligible.get((was, j), 0.0) + 1.0
            share, fade = alpha * delta, gamma * keep
            made = (after.copy(), value, k, delta, (was, j), known)
            for pair, e in eligible.items():
                x, y = pair
                row = rows[x]
                old = row[y]
                row[y] = old + share * e
                records[x][y] = (t, happening, old, made, e)
                eligible[pair] = fade * e
            if not fade:
                eligible.clear()
            total += reward
            if end or t == cut:
                eligible.clear()
                s, total, cut = self.turn(t, total, u3[place]), 0.0, self.cut
                chance, heat = exploring(self.settings, self.episode)
                k = self.choose(rows[s], u0[place + 1], u1[place + 1])
        self.state, self.total, self.pending, self.latest = s, total, k, (was, j)

    def trace(self) -> np.ndarray:
        found = np.zeros((self.model.size, self.model.choices))
        for (s, k), e in self.eligible.items():
            found[s, self.model.actions[s][k]] = e
        return found

    def moved(self, olds: list[int], news: dict[int, int], actions: list[list[int]]) -> None:
        """What was passed in a cell that is there still is eligible still."""
        there = {(news[s], actions[s][k]): e for (s, k), e in self.eligible.items() if s in news}
        self.eligible = {
            (s, self.model.actions[s].index(a)): e for (s, a), e in there.items() if a in self.model.actions[s]
        }

    def renumbered(self, record: Any, news: dict[int, int]) -> Any:
        if record is None:
            return None
        t, (reward, then, end), old, (after, value, k, delta, (was, j), known), e = record
        if was not in news or then not in news or len(self.model.actions[news[then]]) != len(after):
            return None
        return (t, (reward, news[then], end), old, (after, value, k, delta, (news[was], j), known), e)

    def restart(self) -> None:
        super().restart()
        self.eligible.clear()

    def state_dict(self) -> dict[str, Any]:
        pairs = [[s, k] for s, k in self.eligible]
        return super().state_dict() | {"eligible": [pairs, list(self.eligible.values())]}

    def load(self, state: dict[str, Any]) -> None:
        pairs, shares = state["eligible"]
        self.eligible = {(int(s), int(k)): float(e) for (s, k), e in zip(pairs, shares, strict=True)}
        super().load(state)

    def told(self, state: int, k: int, record: Any) -> Update:
        t, (reward, then, end), old, (after, value, ahead, delta, (was, j), error), e = record
        moment = self.moment(t)
        alpha, gamma, lam = moment.settings.alpha, moment.gamma, moment.settings.lam
        ended = end == ENDED
        new = old + alpha * delta * e
        s, a = moment.state(state), moment.action(state, k)
        here = (state, k) == (was, j)
        there = "this pair itself" if here else f"of {moment.action(was, j)} in {moment.state(was)}, passed later"
        operands = [
            Operand("Q(s,a)", old, f"{a} in {s}, before"),
            Operand("α", alpha, "step size"),
            Operand("r", reward, f"reward {there}"),
            Operand("γ", gamma, "discount"),
            Operand("λ", lam, "how far credit reaches back"),
            Operand("e(s,a)", e, f"trace, {moment.settings.traces}"),
        ]
        if not ended:
            operands.append(Operand("Q(s′,·)", list(after), f"in {moment.state(then)}"))
        steps = [
            Step(self.letters, "0" if ended else "", value, moment.ending(end, then)),
            Step("δ", f"{said(reward)} + {said(gamma)} · {bracketed(value)} − {bracketed(error)}", delta, there),
            Step("Q(s,a)", f"{said(old)} + {said(alpha)} · {bracketed(delta)} · {said(e)}", new, f"{a} in {s}, after"),
        ]
        explanation = moment.explanation(
            f"why {said(new)} for {a} in {s}?",
            f"Q ← Q + α δ e,  δ = r + γ {self.letters} − Q(s,a),  e ← γ λ e",
            self.math,
            f"{TITLES[self.rule]}: {self.source}",
            operands,
            steps,
            new,
            moment.actions(then),
            ahead if ahead >= 0 else None,
        )
        pairs = {
            x * self.model.choices + self.model.actions[x][y]: shared[4]
            for x, row in enumerate(self.records)
            for y, shared in enumerate(row)
            if shared and shared[0] == t
        }
        bracket = (("r", reward), "+", ("γ", gamma), (self.letters, value), "−", ("Q", error))
        return self.account(
            moment,
            (state, k),
            (reward, then, end),
            before=old,
            after=new,
            delta=delta,
            terms=terms(("Q(s,a)", new), "←", ("Q(s,a)", old), "+", ("α", alpha), "[", *bracket, "]", ("e(s,a)", e)),
            explanation=explanation,
            ahead=ahead,
            trace=pairs,
        )


class SarsaLambda(WithTraces):
    rule = "sarsa-lambda"
    letters = "Q(s′,a′)"
    math = "M5"
    source = "Rummery and Niranjan 1994; Sutton and Barto 2018, §12.7"
    off_policy = False


class WatkinsLambda(WithTraces):
    rule = "watkins-q-lambda"
    letters = "maxₐ′ Q(s′,a′)"
    math = "M6"
    source = "Watkins 1989; Sutton and Barto 2018, §12.10"
    off_policy = True
