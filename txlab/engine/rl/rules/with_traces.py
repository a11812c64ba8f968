"""SARSA(λ) and Watkins' Q(λ): one δ, applied to every pair in proportion to its trace (MATH M5, M6)

    δ = r + γ V − Q(s,a);   e(s,a) ← e(s,a) + 1 (accumulating) or 1 (replacing);   Q ← Q + α δ e;   e ← γ λ e

The traces are cleared at each episode. Watkins' are also cleared when the next action is not greedy: what
preceded an exploring action says nothing about the greedy policy. Only pairs visited in this episode have an entry.
Rows are written in place here, because every update touches many.

record: (step, (reward, s′, how it left the episode), Q before, (the row of s′ then, V, k of a′, δ, whose δ, its Q), e)
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from txlab.engine.explain import Operand, Step
from txlab.engine.rl.agent import Agent, Rule
from txlab.engine.rl.draws import Draws
from txlab.engine.rl.policies import break_tie, soft
from txlab.engine.rl.rules.one_step import Q_LEARNING, SARSA, OneStepRule
from txlab.engine.rl.sweeps.tables import BatchTransition, StepState
from txlab.engine.rl.transition_table import ENDED
from txlab.engine.rl.update import Update, change_step, error_step, terms

ORDER = 5


class WithTraces(Agent):
    """eligible: {(s, k): e}, in the order of the visits."""

    rule: TraceRule

    def prepare(self) -> None:
        if not hasattr(self, "eligible"):
            self.eligible: dict[tuple[int, int], float] = {}

    def loop(self, draws: Draws, steps: int) -> None:
        rows, records, moves, eligible = self.rows, self.records, self.world.moves, self.eligible
        visits = self.visits
        u0, u1, u3, draw_transition = draws.u0, draws.u1, draws.u3, self.world.sampler(draws)
        alpha, gamma, target = self.settings.alpha, self.gamma, self.rule.one_step.target
        lam, replacing, off_policy = self.settings.lam, self.settings.traces == "replacing", self.rule.off_policy
        epsilon, temperature, softly = exploration = self.exploration
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
                    k = break_tie(after, u1[place + 1])
                best = max(after)
                value = target(after, best, k, exploration)
                if off_policy and after[k] != best:
                    keep = 0.0
            known = rows[was][j]
            delta = reward + gamma * value - known
            eligible[was, j] = 1.0 if replacing else eligible.get((was, j), 0.0) + 1.0
            visits[was][j] += 1
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
                epsilon, temperature, softly = exploration = self.exploration
                k = self.choose(rows[s], u0[place + 1], u1[place + 1])
        self.state, self.total, self.pending, self.latest = s, total, k, (was, j)

    def trace(self) -> np.ndarray:
        traces = np.zeros((self.world.size, self.world.choices))
        for (s, k), e in self.eligible.items():
            traces[s, self.world.actions[s][k]] = e
        return traces

    def renumber_states(self, olds: list[int], news: dict[int, int], actions: list[list[int]]) -> None:
        """Keep the traces of cells that still exist."""
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
        context, letters, ended = self.context(t), self.rule.one_step.letters, end == ENDED
        alpha, gamma, lam = context.settings.alpha, context.gamma, context.settings.lam
        new = old + alpha * delta * e
        here = f"{context.action(state, k)} in {context.state(state)}"
        there = f"of {context.action(was, j)} in {context.state(was)}, passed later"
        there = "this pair itself" if (state, k) == (was, j) else there
        operands = [
            Operand("Q(s,a)", old, f"{here}, before"),
            Operand("α", alpha, "step size"),
            Operand("r", reward, f"reward {there}"),
            Operand("γ", gamma, "discount"),
            Operand("λ", lam, "how far credit reaches back"),
            Operand("e(s,a)", e, f"trace, {context.settings.traces}"),
        ]
        if not ended:
            operands.append(Operand("Q(s′,·)", list(after), f"in {context.state(then)}"))
        steps = [
            *([] if ended else self.rule.one_step.explain_target(context, (*record[:3], after, value, ahead))),
            Step(letters, "0" if ended else "", value, context.ending(end, then)),
            error_step(reward, gamma, value, error, there),
            change_step("Q(s,a)", old, alpha, delta, e, note=f"{here}, after"),
        ]
        pairs = {
            x * self.world.choices + self.world.actions[x][y]: shared[4]
            for x, row in enumerate(self.records)
            for y, shared in enumerate(row)
            if shared and shared[0] == t
        }
        bracket = (("r", reward), "+", ("γ", gamma), (letters, value), "−", ("Q", error))
        return self.make_update(
            context,
            (state, k),
            (reward, then, end),
            (old, delta, new),
            terms(("Q(s,a)", new), "←", ("Q(s,a)", old), "+", ("α", alpha), "[", *bracket, "]", ("e(s,a)", e)),
            operands,
            steps,
            ahead=ahead,
            trace=pairs,
            labels=context.actions(then),
            chosen=context.explain_choice(was, j),
        )


class TraceRule(Rule):
    """Applies the δ of a one-step rule, whose target it uses, to every pair by its trace."""

    one_step: ClassVar[OneStepRule]
    agent, parameters, traces = WithTraces, ("alpha", "policy", "lam"), ("accumulating", "replacing")
    ahead, tables, runs_on_values = True, ("q", "e"), True

    def __init_subclass__(cls) -> None:
        cls.off_policy, cls.math = cls.one_step.off_policy, cls.one_step.math
        cls.equation = f"Q ← Q + α δ e,  δ = r + γ {cls.one_step.letters} − Q(s,a),  e ← γ λ e"

    def learn(self, now: StepState, step: BatchTransition) -> None:
        xp, q, e, cell = now.xp, now.table["q"], now.table["e"], now.cell(step)
        delta = (
            step.reward + now.gamma * now.unless_over(self.one_step.targets(now, step), step.over) - xp.take(q, cell)
        )
        lam = now.lam
        if self.off_policy:  # e ← 0 where a′ is not a best action
            place = now.base + step.next
            greedy = xp.take(q, step.ahead * now.stride + place) == xp.top(xp.rows(q, place))
            lam = xp.where(greedy, lam, 0.0)
        xp.put(e, cell, 1.0 if now.traces == "replacing" else xp.take(e, cell) + 1.0)
        q += (now.alpha * delta)[:, None] * e
        e *= (now.gamma * lam)[:, None]


class SarsaLambda(TraceRule):
    name, title, one_step = "sarsa-lambda", "SARSA(λ)", SARSA
    source = "Rummery and Niranjan 1994; Sutton and Barto 2018, §12.7"


class WatkinsLambda(TraceRule):
    name, title, one_step = "watkins-q-lambda", "Watkins' Q(λ)", Q_LEARNING
    source = "Watkins 1989; Sutton and Barto 2018, §12.10"


RULES = (SarsaLambda(), WatkinsLambda())
