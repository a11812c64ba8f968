"""REINFORCE: θ ← θ + α γᵗ (Gₜ − b(s)) ∇ ln π(a|s,θ), π the softmax of preferences θ (MATH M7; Williams 1992)

For such a policy ∇ ln π(a|s) is 1 − π(a|s) at the action taken and −π(a′|s) at the others. Without a
baseline b is 0; with one it is w(s), w(s) ← w(s) + β (Gₜ − w(s)), which changes the variance and not the mean. w is
learnt either way, for display. States that look the same (Process.observation) share preferences and w.

record: (step, (reward, s′, how it left the episode), θ before, (θ(s,·), k), G, b, γᵗ)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from txlab.engine.explain import Operand, Step, compute_step, number
from txlab.engine.rl.agent import Rule
from txlab.engine.rl.environment import Environment
from txlab.engine.rl.policies import probabilities, weights
from txlab.engine.rl.process import Process
from txlab.engine.rl.rules.monte_carlo import Episodic, Lived
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.sweeps.arrays import Array
from txlab.engine.rl.sweeps.tables import StepState, Trail
from txlab.engine.rl.update import Update, change_step, terms

ORDER = 7


class Reinforce(Episodic):
    """rows are the preferences θ; worth [s] is w, the mean return after visiting s."""

    rule: ReinforceRule

    def __init__(self, rule: Rule, process: Process | Environment, settings: Settings, seed: int) -> None:
        super().__init__(rule, process, replace(settings, policy="softmax", temperature=1.0, decay=1.0), seed)

    def prepare(self) -> None:
        super().prepare()
        if not hasattr(self, "worth"):
            self.worth = [0.0] * self.world.size
        looks = self.process.observation
        looks = np.arange(self.world.size) if looks is None else looks
        _, first, which = np.unique(looks, return_index=True, return_inverse=True)
        self.looks: list[int] = first[which].tolist()  # the first state that looks like s owns the shared row

    def row_of_state(self, state: int) -> int:
        return self.looks[state]

    def learn(self, trail: Sequence[Lived]) -> None:
        settings, gamma, returned = self.settings, self.gamma, self.returns_of(trail)
        alpha, beta, fade = settings.alpha, settings.beta, 1.0
        for place, (s, k, transition) in enumerate(trail):
            o = self.looks[s]
            row, known = self.rows[o], self.worth[o]
            b = known if self.rule.baseline else 0.0
            self.worth[o] = known + beta * (returned[place] - known)
            pi = weights(row, 1.0)
            delta = returned[place] - b
            size = alpha * fade * delta
            new = [old + size * ((j == k) - share) for j, (old, share) in enumerate(zip(row, pi, strict=True))]
            self.rows[o] = new
            for j in range(len(row)):
                self.records[o][j] = (self.began + place, transition, row[j], (row, k, s), returned[place], b, fade)
            fade *= gamma
        self.latest = (self.looks[trail[-1][0]], trail[-1][1])

    def q(self) -> None:
        """None: preferences are not values."""
        return None

    def preferences(self) -> np.ndarray:
        """(S, A) θ, NaN where an action is not allowed."""
        return self.spread([self.rows[o] if self.world.actions[s] else [] for s, o in enumerate(self.looks)])

    def policy(self) -> np.ndarray:
        return probabilities(self.preferences(), self.settings, 0)

    def greedy(self) -> np.ndarray:
        return probabilities(np.round(self.preferences(), 9), replace(self.settings, policy="greedy"), 0)

    def v(self) -> np.ndarray:
        """The baseline w (S)."""
        over = self.process.terminal
        return np.where(over, 0.0, np.array([self.worth[o] for o in self.looks]))

    def acting_row(self, state: int) -> list[float]:
        return self.rows[self.looks[state]]

    def last_at(self, state: int, action: int = -1) -> Update | None:
        """The last update of the preference for that action, or for the likeliest one if none is named."""
        o = self.looks[state]
        actions = self.world.actions[o]
        if action < 0 and actions:
            action = actions[int(np.argmax(self.rows[o]))]
        return super().last_at(o, action)

    def renumber_states(self, olds: list[int], news: dict[int, int], actions: list[list[int]]) -> None:
        super().renumber_states(olds, news, actions)
        self.worth = [0.0 if old < 0 else self.worth[old] for old in olds]

    def renumber_record(self, record: Any, news: dict[int, int]) -> Any:
        renumbered = super().renumber_record(record, news)
        if renumbered is None or record[3][2] not in news:
            return None
        row, k, s = record[3]
        return (*renumbered[:3], (row, k, news[s]), *renumbered[4:])

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"worth": np.array(self.worth)}

    def load(self, state: dict[str, Any]) -> None:
        self.worth = np.asarray(state["worth"]).tolist()
        super().load(state)

    def explain_update(self, state: int, k: int, record: Any) -> Update:
        t, transition, before, (row, taken, where), returned, b, fade = record
        context = self.context(t)
        alpha = context.settings.alpha
        pi = weights(list(row), 1.0)
        slope = (k == taken) - pi[k]
        delta = returned - b
        new = before + alpha * fade * delta * slope
        s, a, did = context.state(where), context.action(state, k), context.action(state, taken)
        gap = "1 − " if k == taken else "−"
        theta, known = ("θ(s,a)", new), ("θ(s,a)", before)
        error = ("[", ("G", returned), "−", ("b(s)", b), "]")
        return self.make_update(
            context,
            (where, k),
            transition,
            (before, delta, new),
            terms(theta, "←", known, "+", ("α", alpha), ("γᵗ", fade), *error, ("∇ ln π", slope)),
            [
                Operand("θ(s,·)", list(row), f"preferences in {s}, before"),
                Operand("π(·|s)", pi, "their softmax"),
                Operand("α", alpha, "step size"),
                Operand("γᵗ", fade, f"t = {t - self.first_step(t)} steps into episode {context.episode}"),
                Operand("Gₜ", returned, f"what followed {did}"),
                Operand("b(s)", b, "what usually follows" if self.rule.baseline else "no baseline"),
            ],
            [
                compute_step("Gₜ − b", "{} − {}", lambda g, b: g - b, returned, b, note="better or worse than usual"),
                Step("∇ ln π", f"{gap}π({a}|s)", slope, f"of {a}, when {did} was done"),
                change_step("θ", before, alpha, fade, delta, slope),
            ],
            labels=context.actions(state),
            asked=taken,
            chosen=context.explain_choice(where, taken),
            question=f"why a preference of {number(new)} for {a} in {s}?",
        )

    def first_step(self, t: int) -> int:
        """The first step of the episode of step t."""
        return max((end for end in self.ends if end <= t), default=0)


class ReinforceRule(Rule):
    name, title, baseline = "reinforce", "REINFORCE", False
    agent, tables, prefers = Reinforce, ("q", "w"), True
    parameters: ClassVar[tuple[str, ...]] = ("alpha",)
    equation = "θ(s,·) ← θ(s,·) + α γᵗ (Gₜ − b(s)) ∇ ln π(a|s)"
    math, source = "M7", "Williams 1992; Sutton and Barto 2018, §13.3"

    def teach(self, now: StepState, trail: Trail, lengths: Array) -> None:
        """Make one update per time step, in order, each with the result of the previous one."""
        xp, theta, w = now.xp, now.table["q"], now.table["w"]
        fade = xp.where(lengths > 0, 1.0, 0.0)  # γᵗ
        for state, action, returned, here in reversed(trail.backwards(now, lengths)):
            seen = now.base + now.tables.rows_of_states(state)
            known = xp.take(w, seen)
            xp.put(w, seen, known + xp.where(here, now.beta, 0.0) * (returned - known))
            delta = returned - (known if self.baseline else 0.0)
            rows = xp.rows(theta, seen)
            raw = xp.exp(rows - xp.top(rows))
            pi = raw / xp.total(raw)
            size = xp.where(here, now.alpha, 0.0) * fade * delta
            for a in range(len(rows)):
                xp.put(theta, a * now.stride + seen, rows[a] + size * (xp.where(action == a, 1.0, 0.0) - pi[a]))
            fade = fade * now.gamma


class ReinforceWithBaseline(ReinforceRule):
    name, title, baseline = "reinforce-baseline", "REINFORCE with a baseline", True
    parameters, source = ("alpha", "beta"), "Williams 1992; Sutton and Barto 2018, §13.3–13.4"


RULES = (ReinforceRule(), ReinforceWithBaseline())
