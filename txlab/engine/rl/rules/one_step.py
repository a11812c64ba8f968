"""SARSA, Expected SARSA and Q-learning: Q(s,a) ← Q(s,a) + α [ r + γ V − Q(s,a) ] (MATH M5, M6).

They differ only in V, the value assigned to the next state: the `target` of a rule. Any other one-step rule is a
subclass of `OneStepRule` with another target. One loop runs them all, written out in full: a page to read from top to
bottom, and as fast as plain Python allows.
"""

from __future__ import annotations

from typing import Any, ClassVar

from txlab.engine.explain import Operand, Step, number
from txlab.engine.rl.agent import Agent, Rule
from txlab.engine.rl.draws import Draws
from txlab.engine.rl.policies import Exploration, add_up, break_tie, soft, weights
from txlab.engine.rl.sweeps.arrays import Array
from txlab.engine.rl.sweeps.tables import BatchTransition, StepState
from txlab.engine.rl.transition_table import ENDED
from txlab.engine.rl.update import StepContext, Update, change_step, error_step, terms

ORDER = 1


class OneStep(Agent):
    """The loop of the family, and the explanation of an update from its record.

    tops, picks   [s] the largest value of the row, and its k, or −1 if several are tied: most updates leave the
                  best of the other rows unchanged, so it need not be searched at each step
    records       (step, (reward, s′, how it left the episode), Q(s,a) before, the row of s′ then, V, k of a′ or −1)
    """

    rule: OneStepRule

    def prepare(self) -> None:
        self.tops = [max(row, default=0.0) for row in self.rows]
        self.picks = [
            row.index(top) if row.count(top) == 1 else -1 for row, top in zip(self.rows, self.tops, strict=True)
        ]

    def loop(self, draws: Draws, steps: int) -> None:
        rows, tops, picks, records, moves = self.rows, self.tops, self.picks, self.records, self.world.moves
        visits, counting = self.visits, self.counting
        u0, u1, u3, draw_transition, over = draws.u0, draws.u1, draws.u3, self.world.sampler(draws), ENDED
        alpha, gamma, target, choose_ahead = self.settings.alpha, self.gamma, self.rule.target, self.rule.ahead
        # Two targets are inlined: a call would cost SARSA and Q-learning 10 % (benchmarks/rl_glass.py).
        is_best, is_taken = target is QLearning.target, target is Sarsa.target
        fades, exploration = self.settings.decay != 1.0, self.exploration
        epsilon, temperature, softly = exploration
        s, total, last, first = self.state, self.total, self.last_step, self.updates
        ahead = -1 if self.pending is None else self.pending  # the action that is already chosen
        for t, explore in zip(range(first, first + steps), u0, strict=False):
            row = rows[s]
            if ahead >= 0:
                a = ahead
            elif explore < epsilon:
                a = soft(row, temperature, u1[t - first]) if softly else int(u1[t - first] * len(row))
            else:
                a = picks[s]
                if a < 0:
                    a = break_tie(row, u1[t - first])
            was = s
            transition = moves[s][a] or draw_transition(s, a, t - first)
            reward, s, end = transition
            after = rows[s]
            if end == over:
                value, ahead = 0.0, -1
            elif is_best:
                value = tops[s]
            else:
                if choose_ahead:  # a′ is chosen now, with the draws of step t + 1, and then taken
                    if u0[t + 1 - first] < epsilon:
                        u = u1[t + 1 - first]
                        ahead = soft(after, temperature, u) if softly else int(u * len(after))
                    else:
                        ahead = picks[s]
                        if ahead < 0:
                            ahead = break_tie(after, u1[t + 1 - first])
                value = after[ahead] if is_taken else target(after, tops[s], ahead, exploration)
            old = row[a]
            delta = reward + gamma * value - old
            new = old + alpha * delta
            records[was][a] = (t, transition, old, after, value, ahead)
            if counting:
                visits[was][a] += 1
            if new != old:
                rows[was] = row = row.copy()
                row[a] = new
                if new > tops[was]:
                    tops[was], picks[was] = new, a
                elif new == tops[was] or picks[was] == a or picks[was] < 0:
                    top = tops[was] = max(row)
                    picks[was] = row.index(top) if row.count(top) == 1 else -1
            total += reward
            if end or t == last:
                s, total, last, ahead = self.end_episode(t, total, u3[t - first]), 0.0, self.last_step, -1
                epsilon, temperature, softly = exploration = self.exploration if fades else exploration
        self.state, self.total, self.latest = s, total, (was, a)
        self.pending = None if ahead < 0 else ahead

    def explain_update(self, state: int, k: int, record: Any) -> Update:
        t, (reward, then, end), before, after, value, ahead = record[:6]
        context, rule, ended = self.context(t), self.rule, end == ENDED
        alpha, gamma, value = context.settings.alpha, context.gamma, 0.0 if ended else value
        delta = reward + gamma * value - before
        new = before + alpha * delta
        here = f"{context.action(state, k)} in {context.state(state)}"
        operands = [
            Operand("Q(s,a)", before, f"{here}, before"),
            Operand("α", alpha, "step size"),
            Operand("r", reward, "reward"),
            Operand("γ", gamma, "discount"),
        ]
        if not ended:
            operands.append(Operand("Q(s′,·)", list(after), f"in {context.state(then)}, where it led"))
        steps = [
            *([] if ended else rule.explain_target(context, record)),
            Step(rule.letters, "0" if ended else "", value, context.ending(end, then)),
            error_step(reward, gamma, value, before, "the error"),
            change_step("Q(s,a)", before, alpha, delta, note=f"{here}, after"),
        ]
        q, known = ("Q(s,a)", new), ("Q(s,a)", before)
        bracket = (("r", reward), "+", ("γ", gamma), (rule.letters, value), "−", known)
        return self.make_update(
            context,
            (state, k),
            (reward, then, end),
            (before, delta, new),
            terms(q, "←", known, "+", ("α", alpha), "[", *bracket, "]"),
            operands,
            steps,
            ahead=-1 if ended else ahead,
            labels=context.actions(then),
        )


class OneStepRule(Rule):
    """Q(s,a) ← Q(s,a) + α [ r + γ target − Q(s,a) ]; `letters` is the target as a formula.

    The loop of the glass box calls `target` at each step; `targets` is the same for a block of agents (if it is
    missing, sweeps run the rule agent by agent).
    """

    agent = OneStep
    letters: ClassVar[str]
    math = "M6"

    def __init_subclass__(cls) -> None:
        if "equation" not in vars(cls) and hasattr(cls, "letters"):
            cls.equation = f"Q(s,a) ← Q(s,a) + α [ r + γ {cls.letters} − Q(s,a) ]"

    @staticmethod
    def target(after: list[float], best: float, k: int, exploration: Exploration) -> float:
        """The value of s′. `after` is its row Q(s′,·), `best` the largest entry, `k` that of a′ (if the rule
        chooses it ahead)."""
        raise NotImplementedError("a rule defines the value of the next state")

    def targets(self, now: StepState, step: BatchTransition) -> Array:
        """The same for n agents, (n). In their rows a forbidden action has −∞: `now.xp.top`, `now.xp.bottom` and
        `now.expectation` leave it out, as Q(s′,·) of `target` does."""
        raise NotImplementedError(f"{self.name} has no form for arrays")

    def explain_target(self, context: StepContext, record: Any) -> list[Step]:
        """Explain how the target follows from the row of s′."""
        return []

    def learn(self, now: StepState, step: BatchTransition) -> None:
        q, cell = now.table["q"], now.cell(step)
        old = now.xp.take(q, cell)
        delta = step.reward + now.gamma * now.unless_over(self.targets(now, step), step.over) - old
        now.xp.put(q, cell, old + now.alpha * delta)

    @property
    def runs_on_values(self) -> bool:
        """Whether it needs only its target and one set of values, so that the values may have any form."""
        return self.agent is OneStep

    @property
    def has_array_form(self) -> bool:
        own = type(self)
        return own.targets is not OneStepRule.targets or own.learn is not OneStepRule.learn


class Sarsa(OneStepRule):
    """a′ is the action that will actually be taken in s′, chosen now and kept; so the cost of exploring counts, and on
    the cliff SARSA learns to keep away from the edge."""

    name, title = "sarsa", "SARSA"
    letters, ahead = "Q(s′,a′)", True
    math, source = "M5", "Rummery and Niranjan 1994; Sutton and Barto 2018, eq. 6.7"

    @staticmethod
    def target(after: list[float], best: float, k: int, exploration: Exploration) -> float:
        return after[k]

    def targets(self, now: StepState, step: BatchTransition) -> Array:
        return now.xp.take(now.table["q"], step.ahead * now.stride + (now.base + step.next))

    def explain_target(self, context: StepContext, record: Any) -> list[Step]:
        (_, then, _), ahead = record[1], record[5]
        return [Step("a′", "", context.action(then, ahead), "the action that is taken next")]


class ExpectedSarsa(OneStepRule):
    """Averages over the next choice, so even α = 1 is stable; with ε = 0 it is Q-learning."""

    name, title = "expected-sarsa", "Expected SARSA"
    letters = "Σₐ′ π(a′|s′) Q(s′,a′)"
    source = "van Seijen et al. 2009; Sutton and Barto 2018, eq. 6.9"

    @staticmethod
    def target(after: list[float], best: float, k: int, exploration: Exploration) -> float:
        epsilon, temperature, softly = exploration
        if softly:
            return add_up([one * value for one, value in zip(weights(after, temperature), after, strict=True)])
        total = 0.0
        for value in after:
            total += value
        return (1.0 - epsilon) * best + epsilon * (total / len(after))

    def targets(self, now: StepState, step: BatchTransition) -> Array:
        return now.expectation(now.xp.rows(now.table["q"], now.base + step.next), step.next)

    def explain_target(self, context: StepContext, record: Any) -> list[Step]:
        after = record[3]
        if context.settings.policy == "softmax":
            τ = context.temperature
            return [Step("π(·|s′)", f"softmax at {number(τ)}", weights(list(after), τ))]
        ε, best, mean = context.epsilon, max(after), add_up(list(after)) / len(after)
        return [
            Step("max", "maxₐ′ Q(s′,a′)", best, f"with probability 1 − ε = {number(1 - ε)}"),
            Step("mean", "of all allowed actions", mean, f"with probability ε = {number(ε)}"),
        ]


class QLearning(OneStepRule):
    """The action *taken* next does not enter, so it estimates Q* under any policy it follows: off-policy.

    Mehlig calls it an approximation to SARSA, which it is not (erratum of M6); its answer to "why?" says so.
    """

    name, title = "q-learning", "Q-learning"
    letters, off_policy = "maxₐ′ Q(s′,a′)", True
    source = "Watkins 1989; Sutton and Barto 2018, eq. 6.8"

    @staticmethod
    def target(after: list[float], best: float, k: int, exploration: Exploration) -> float:
        return best

    def targets(self, now: StepState, step: BatchTransition) -> Array:
        return now.xp.top(now.xp.rows(now.table["q"], now.base + step.next))

    def explain_target(self, context: StepContext, record: Any) -> list[Step]:
        after, value = record[3], record[4]
        labels = context.actions(record[1][1])
        best = ", ".join(label for label, one in zip(labels, after, strict=True) if one == value)
        return [Step("argmaxₐ′", "", best, "whatever is done next: off-policy, and no approximation to SARSA")]


SARSA, EXPECTED_SARSA, Q_LEARNING = Sarsa(), ExpectedSarsa(), QLearning()
RULES = (SARSA, EXPECTED_SARSA, Q_LEARNING)
