"""TD(λ): state values under the uniform policy; nothing is controlled (MATH M4; Sutton 1988)

        δ = r + γ V(s′) − V(s);   e ← γ λ e, then increased at s;   V ← V + α δ e

With λ = 0 it is TD(0). A trace grows by 1 (accumulating), to 1 (replacing), or by 1 − α γ λ e(s), which is
true on-line TD(λ) (van Seijen and Sutton 2014) and corrects V by the small change of V(s) since s was the next state.
prediction.OnlineTD is the same rule for any linear unit, but its weights cannot record an update for each state; here,
with a table, only visited states are touched, and each keeps its last update. A test compares the two.

record: (step, (reward, s′, how it left the episode), V before, V(s′), δ, e, whose δ, its V(s), late)
late: the change of V(s) since it was V(s′) (true on-line; else 0)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from txlab.engine.explain import Operand, Step, compute_step
from txlab.engine.rl.agent import Agent, Rule
from txlab.engine.rl.draws import Draws
from txlab.engine.rl.dynamic_programming import even
from txlab.engine.rl.process import Process
from txlab.engine.rl.transition_table import ENDED
from txlab.engine.rl.update import Update, change_step, error_step, terms

ORDER = 8


class TDLambda(Agent):
    """worth [s] is V; eligible {s: e}; before: V(s) when s was the next state (true on-line)."""

    tables = ()

    def prepare(self) -> None:
        if not hasattr(self, "worth"):
            self.worth = [self.settings.initial if row else 0.0 for row in self.world.actions]
            self.eligible: dict[int, float] = {}
            self.before = self.worth[self.state]

    def loop(self, draws: Draws, steps: int) -> None:
        worth, records, moves, eligible = self.worth, self.records, self.world.moves, self.eligible
        visits = self.visits
        u1, u3, draw_transition = draws.u1, draws.u3, self.world.sampler(draws)
        alpha, gamma, grows = self.settings.alpha, self.gamma, self.settings.traces
        decay = gamma * self.settings.lam
        s, total, last, first, before = self.state, self.total, self.last_step, self.updates, self.before
        for place in range(steps):
            was, t = s, first + place
            k = int(u1[place] * len(moves[s]))
            visits[s][0] += 1
            transition = moves[s][k] or draw_transition(s, k, place)
            reward, s, end = transition
            value = 0.0 if end == ENDED else worth[s]
            now = worth[was]
            delta = reward + gamma * value - now
            faded = decay * eligible.get(was, 0.0)
            for x in eligible:
                eligible[x] *= decay
            if grows == "replacing":
                eligible[was] = 1.0
            else:
                eligible[was] = faded + (1.0 if grows == "accumulating" else 1.0 - alpha * faded)
            late = now - before if grows == "true-online" else 0.0
            for x, e in eligible.items():
                old = worth[x]
                worth[x] = old + alpha * (delta + late) * e - (alpha * late if x == was else 0.0)
                records[x][0] = (t, transition, old, value, delta, e, was, now, late)
            before = value
            total += reward
            if end or t == last:
                eligible.clear()
                s, total, last = self.end_episode(t, total, u3[place]), 0.0, self.last_step
                before = worth[s]
        self.state, self.total, self.before, self.latest = s, total, before, (was, 0)

    def q(self) -> None:
        return None

    def v(self) -> np.ndarray:
        return np.array(self.worth)

    def policy(self) -> np.ndarray:
        return even(self.process)

    greedy = policy

    def acting_row(self, state: int) -> list[float]:
        return [0.0] * len(self.world.actions[state])

    def trace(self) -> np.ndarray:
        traces = np.zeros(self.world.size)
        for s, e in self.eligible.items():
            traces[s] = e
        return traces

    def last_at(self, state: int, action: int = -1) -> Update | None:
        """The last update of the state; there are no actions."""
        record = self.records[state][0] if self.records[state] else None
        return None if record is None else self.explain_update(state, 0, record)

    def renumber_states(self, olds: list[int], news: dict[int, int], actions: list[list[int]]) -> None:
        self.worth = [
            self.worth[old] if old >= 0 else self.settings.initial * bool(self.world.actions[s])
            for s, old in enumerate(olds)
        ]
        self.eligible = {news[s]: e for s, e in self.eligible.items() if s in news}

    def adopt(self, process: Process, states: Sequence[int] | np.ndarray) -> None:
        super().adopt(process, states)
        self.before = self.worth[self.state]

    def renumber_record(self, record: Any, news: dict[int, int]) -> Any:
        if record is None or record[1][1] not in news or record[6] not in news:
            return None
        t, (reward, then, end), old, value, delta, e, was, *rest = record
        return (t, (reward, news[then], end), old, value, delta, e, news[was], *rest)

    def restart(self) -> None:
        super().restart()
        if hasattr(self, "eligible"):
            self.eligible.clear()
            self.before = self.worth[self.state]

    def state_dict(self) -> dict[str, Any]:
        traces = [list(self.eligible), list(self.eligible.values())]
        return super().state_dict() | {"worth": np.array(self.worth), "eligible": traces, "before": self.before}

    def load(self, state: dict[str, Any]) -> None:
        self.worth = np.asarray(state["worth"]).tolist()
        self.eligible = {int(s): float(e) for s, e in zip(*state["eligible"], strict=True)}
        self.before = float(state["before"])
        super().load(state)

    def explain_update(self, state: int, k: int, record: Any) -> Update:
        t, (reward, then, end), old, value, delta, e, was, error, late = record
        context = self.context(t)
        alpha, gamma, ended = context.settings.alpha, context.gamma, end == ENDED
        correction = alpha * late if state == was else 0.0
        new = old + alpha * (delta + late) * e - correction
        s, here = context.state(state), state == was
        steps = [
            Step("V(s′)", "0" if ended else "", value, context.ending(end, then)),
            error_step(reward, gamma, value, error, "" if here else f"made in {context.state(was)}, passed later"),
        ]
        if context.settings.traces == "true-online":
            steps.append(Step("late", "V(s) − its value as s′", late, "the on-line correction"))
        if correction:
            form, formula = "{} + {} · {} · {} − {}", lambda q, α, δ, e, c: q + α * δ * e - c
            steps.append(compute_step("V", form, formula, old, alpha, delta + late, e, correction, note=f"{s}, after"))
        else:
            steps.append(change_step("V", old, alpha, delta + late, e, note=f"{s}, after"))
        bracket = (("r", reward), "+", ("γ", gamma), ("V(s′)", value), "−", ("V(s)", error))
        corrected = ("+", ("late", alpha * late * e - correction)) if late else ()
        return self.make_update(
            context,
            (state, -1),
            (reward, then, end),
            (old, delta, new),
            terms(("V", new), "←", ("V", old), "+", ("α", alpha), "[", *bracket, "]", ("e", e), *corrected),
            [
                Operand("V", old, f"{s}, before"),
                Operand("α", alpha, "step size"),
                Operand("r", reward, "reward"),
                Operand("γ", gamma, "discount"),
                Operand("λ", context.settings.lam, "how far credit reaches back"),
                Operand("e", e, f"trace of {s}, {context.settings.traces}"),
            ],
            steps,
            trace={s: row[0][5] for s, row in enumerate(self.records) if row and row[0] and row[0][0] == t},
        )


class TDLambdaRule(Rule):
    name, title, steers = "td-lambda", "TD(λ)", False
    agent, parameters, traces = TDLambda, ("alpha", "lam"), ("accumulating", "replacing", "true-online")
    equation = "V ← V + α δ e,  δ = r + γ V(s′) − V(s),  e ← γ λ e"
    math, source = "M4", "Sutton 1988; Sutton and Barto 2018, §12.2, 12.5"


RULES = (TDLambdaRule(),)
