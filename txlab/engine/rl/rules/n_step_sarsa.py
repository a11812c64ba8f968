"""n-step SARSA: Q(s,a) ← Q(s,a) + α [ G − Q(s,a) ],  G = r₁ + γ r₂ + … + γⁿ⁻¹ rₙ + γⁿ Q(sₙ,aₙ)   (MATH M3, M5)

A pair is updated n steps after its visit, from Q at that time; when the episode ends, the pairs still waiting
are updated in turn from the remaining rewards. With n = 1 it is SARSA, with n above the length of an episode
on-policy Monte Carlo.

record: (step, (first reward, sₙ, how it left the episode), Q(s,a) before, the rewards, Q(sₙ,aₙ), k of aₙ)
"""

from __future__ import annotations

from typing import Any

from txlab.engine.explain import Operand, Step, bracket, compute_step, number, substitute
from txlab.engine.rl.agent import Rule
from txlab.engine.rl.draws import Draws
from txlab.engine.rl.policies import break_tie, soft
from txlab.engine.rl.rules.monte_carlo import Episodic
from txlab.engine.rl.transition_table import ENDED
from txlab.engine.rl.update import Update, change_step, terms

ORDER = 3


class NStep(Episodic):
    """trail: the steps whose pairs have not been updated yet."""

    def loop(self, draws: Draws, steps: int) -> None:
        rows, moves, trail = self.rows, self.world.moves, self.trail
        u0, u1, u3, draw_transition = draws.u0, draws.u1, draws.u3, self.world.sampler(draws)
        n, (epsilon, temperature, softly) = self.settings.n, self.exploration
        s, total, last, first = self.state, self.total, self.last_step, self.updates
        k = self.choose(rows[s], u0[0], u1[0]) if self.pending is None else self.pending
        for place in range(steps):
            t = first + place
            transition = moves[s][k] or draw_transition(s, k, place)
            trail.append((s, k, transition))
            self.visits[s][k] += 1
            reward, s, end = transition
            k = -1
            if end != ENDED:
                row, u = rows[s], u1[place + 1]
                explored = u0[place + 1] < epsilon
                k = break_tie(row, u) if not explored else soft(row, temperature, u) if softly else int(u * len(row))
            total += reward
            over = end or t == last
            while trail and (over or len(trail) >= n):
                self.back_up(t, k)
            if over:
                s, total, last = self.end_episode(t, total, u3[place]), 0.0, self.last_step
                epsilon, temperature, softly = self.exploration
                k = self.choose(rows[s], u0[place + 1], u1[place + 1])
        self.state, self.total, self.pending = s, total, k

    def back_up(self, t: int, ahead: int) -> None:
        """Update the pair that has waited longest; `ahead` is the action in sₙ, −1 at an end."""
        s, k, (reward, _, _) = self.trail[0]
        _, then, end = self.trail[-1][2]
        value = 0.0 if ahead < 0 else self.rows[then][ahead]
        rewards = [transition[0] for _, _, transition in self.trail]
        row = self.rows[s].copy()
        old = row[k]
        delta = gain(rewards, value, self.gamma) - old
        row[k] = old + self.settings.alpha * delta
        self.rows[s] = row
        self.records[s][k] = (t, (reward, then, end), old, rewards, value, ahead)
        self.latest = (s, k)
        del self.trail[0]

    def explain_update(self, state: int, k: int, record: Any) -> Update:
        t, (reward, then, end), before, rewards, value, ahead = record
        context = self.context(t)
        alpha, gamma, ended = context.settings.alpha, context.gamma, ahead < 0
        returned = gain(rewards, value, gamma)
        delta = returned - before
        new, m = before + alpha * delta, len(rewards)
        here = f"{context.action(state, k)} in {context.state(state)}"
        power = f"{number(gamma)}^{m}"
        operands = [
            Operand("Q(s,a)", before, f"{here}, before"),
            Operand("α", alpha, "step size"),
            Operand("γ", gamma, "discount"),
            Operand("n", context.settings.n, f"rewards to wait for; here there were {m}"),
            Operand("r₁ … rₙ", list(rewards), "the first is that of the action itself"),
        ]
        if not ended:
            reached = f"{context.action(then, ahead)} in {context.state(then)}, {m} steps on"
            operands.append(Operand("Q(sₙ,aₙ)", value, reached))
        summed = gain(rewards, 0.0, gamma)
        last = context.ending(end, then) if ended else f"{power} · {bracket(value)} estimates the rest"
        steps = [
            Step("Σ γⁱ⁻¹ rᵢ", f"over {m} rewards", summed, "what was earned"),
            Step(
                "G",
                number(summed)
                if ended
                else substitute("{} + {}^{} · {}", lambda g, γ, m, v: g + γ**m * v, summed, gamma, m, value),
                returned,
                last,
            ),
            compute_step("δ", "{} − {}", lambda g, q: g - q, returned, before, note="the error"),
            change_step("Q(s,a)", before, alpha, delta, note=f"{here}, after"),
        ]
        q, known = ("Q(s,a)", new), ("Q(s,a)", before)
        return self.make_update(
            context,
            (state, k),
            (reward, then, end),
            (before, delta, new),
            terms(q, "←", known, "+", ("α", alpha), "[", ("G", returned), "−", known, "]"),
            operands,
            steps,
            ahead=ahead,
            chosen=self.context(t - m + 1).explain_choice(state, k),
        )


def gain(rewards: list[float], value: float, gamma: float) -> float:
    """r₁ + γ r₂ + … + γⁿ⁻¹ rₙ + γⁿ value.

    >>> gain([1.0, 2.0], 4.0, 0.5)
    3.0
    """
    for reward in reversed(rewards):
        value = reward + gamma * value
    return value


class NStepSarsa(Rule):
    name, title = "n-step-sarsa", "n-step SARSA"
    agent, parameters = NStep, ("alpha", "policy", "n")
    equation = "Q(s,a) ← Q(s,a) + α [ G − Q(s,a) ],  G = r₁ + γ r₂ + … + γⁿ⁻¹ rₙ + γⁿ Q(sₙ,aₙ)"
    math, source = "M3, M5", "Sutton and Barto 2018, eq. 7.4 and 7.5"


RULES = (NStepSarsa(),)
