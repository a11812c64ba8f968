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
from txlab.engine.rl.draws import Draws
from txlab.engine.rl.policies import exploring, soft, tied
from txlab.engine.rl.settings import TITLES
from txlab.engine.rl.transition_table import ENDED
from txlab.engine.rl.update import Update, bracketed, number, terms


class WithTraces(Agent):
    """eligible: {(s, k): e}, in the order in which the pairs were passed."""

    letters: ClassVar[str]
    math: ClassVar[str]
    source: ClassVar[str]
    off_policy: ClassVar[bool]

    def prepare(self) -> None:
        if not hasattr(self, "eligible"):
            self.eligible: dict[tuple[int, int], float] = {}

    def loop(self, draws: Draws, steps: int) -> None:
        rows, records, moves, eligible = self.rows, self.records, self.world.moves, self.eligible
        u0, u1, u3, draw_transition = draws.u0, draws.u1, draws.u3, self.world.sampler(draws)
        alpha, gamma, softly = self.settings.alpha, self.gamma, self.settings.policy == "softmax"
        lam, replacing, off_policy = self.settings.lam, self.settings.traces == "replacing", self.off_policy
        epsilon, temperature = exploring(self.settings, self.episode)
        s, total, last, first = self.state, self.total, self.last_step, self.updates
        k = self.choose(rows[s], u0[0], u1[0]) if self.pending is None else self.pending
        for place in range(steps):
            was, j, t = s, k, first + place
            transition = moves[s][k] or draw_transition(s, k, place)
            reward, s, end = transition
            after, k, value, keep = rows[s], -1, 0.0, lam
            if end != ENDED:
                if u0[place + 1] < epsilon:
                    k = soft(after, temperature, u1[place + 1]) if softly else int(u1[place + 1] * len(after))
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
                records[x][y] = (t, transition, old, made, e)
                eligible[pair] = fade * e
            if not fade:
                eligible.clear()
            total += reward
            if end or t == last:
                eligible.clear()
                s, total, last = self.end_episode(t, total, u3[place]), 0.0, self.last_step
                epsilon, temperature = exploring(self.settings, self.episode)
                k = self.choose(rows[s], u0[place + 1], u1[place + 1])
        self.state, self.total, self.pending, self.latest = s, total, k, (was, j)

    def trace(self) -> np.ndarray:
        found = np.zeros((self.world.size, self.world.choices))
        for (s, k), e in self.eligible.items():
            found[s, self.world.actions[s][k]] = e
        return found

    def renumber_states(self, olds: list[int], news: dict[int, int], actions: list[list[int]]) -> None:
        """What was passed in a cell that is there still is eligible still."""
        there = {(news[s], actions[s][k]): e for (s, k), e in self.eligible.items() if s in news}
        self.eligible = {
            (s, self.world.actions[s].index(a)): e for (s, a), e in there.items() if a in self.world.actions[s]
        }

    def renumber_record(self, record: Any, news: dict[int, int]) -> Any:
        if record is None:
            return None
        t, (reward, then, end), old, (after, value, k, delta, (was, j), known), e = record
        if was not in news or then not in news or len(self.world.actions[news[then]]) != len(after):
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

    def explain_update(self, state: int, k: int, record: Any) -> Update:
        t, (reward, then, end), old, (after, value, ahead, delta, (was, j), error), e = record
        context = self.context(t)
        alpha, gamma, lam = context.settings.alpha, context.gamma, context.settings.lam
        ended = end == ENDED
        new = old + alpha * delta * e
        s, a = context.state(state), context.action(state, k)
        here = (state, k) == (was, j)
        there = "this pair itself" if here else f"of {context.action(was, j)} in {context.state(was)}, passed later"
        operands = [
            Operand("Q(s,a)", old, f"{a} in {s}, before"),
            Operand("α", alpha, "step size"),
            Operand("r", reward, f"reward {there}"),
            Operand("γ", gamma, "discount"),
            Operand("λ", lam, "how far credit reaches back"),
            Operand("e(s,a)", e, f"trace, {context.settings.traces}"),
        ]
        if not ended:
            operands.append(Operand("Q(s′,·)", list(after), f"in {context.state(then)}"))
        steps = [
            Step(self.letters, "0" if ended else "", value, context.ending(end, then)),
            Step(
                "δ",
                f"{number(reward)} + {number(gamma)} · {bracketed(value)} − {bracketed(error)}",
                delta,
                there,
            ),
            Step(
                "Q(s,a)",
                f"{number(old)} + {number(alpha)} · {bracketed(delta)} · {number(e)}",
                new,
                f"{a} in {s}, after",
            ),
        ]
        explanation = context.explanation(
            f"why {number(new)} for {a} in {s}?",
            f"Q ← Q + α δ e,  δ = r + γ {self.letters} − Q(s,a),  e ← γ λ e",
            self.math,
            f"{TITLES[self.rule]}: {self.source}",
            operands,
            steps,
            new,
            context.actions(then),
            ahead if ahead >= 0 else None,
        )
        pairs = {
            x * self.world.choices + self.world.actions[x][y]: shared[4]
            for x, row in enumerate(self.records)
            for y, shared in enumerate(row)
            if shared and shared[0] == t
        }
        bracket = (("r", reward), "+", ("γ", gamma), (self.letters, value), "−", ("Q", error))
        return self.make_update(
            context,
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
