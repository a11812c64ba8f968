"""Value and policy iteration, one state at a time: learners that use the world's model and need no experience (MATH
M2).

    Q(s,a) ← r(s,a) + γ Σ p(s′|s,a) V(s′)  for every a,  V(s) = maxₐ Q(s,a), or Σₐ π(a|s) Q(s,a)

Policy iteration begins with π even over all actions, and improves it, π(s) ← argmaxₐ Q(s,a), after a sweep that changed
no value by more than SETTLED.

An update is one state's backup, in place, with the states in numerical order. A sweep of the world is as many
updates as there are non-terminal states, and is bit-identical to `dynamic_programming.sweep(order="in-place")`. It
draws nothing, makes no moves and has no episodes; `state` is the one updated last.
"""

from __future__ import annotations

from math import inf, isinf
from typing import Any

import numpy as np

from txlab.engine.rl.agent import Agent, Row, Rule
from txlab.engine.rl.draws import Draws
from txlab.engine.rl.dynamic_programming import even
from txlab.engine.rl.environment import Environment
from txlab.engine.rl.exact_values import check_values_exist
from txlab.engine.rl.process import Process
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.update import Update, terms
from txlab.engine.rl.why import why_value
from txlab.errors import LabError

ORDER = 9


SETTLED = 1e-9  # of the largest value, at least 1: then a policy has been evaluated


class ValueIteration(Agent):
    """delta    the largest change of a value in the last whole sweep; change: in the present one, so far
    rows     [s][k] Q(s, a) after the last backup of s
    values   [s] V(s), and behind them 0.0: the value after the end
    known    [s][k] (r(s, a), [(p, s′), …]); s′ is −1 where the episode ends
    records  [s][k] (step, Q before, Q after, the V(s′) of the outcomes at the time)
    """

    def __init__(self, rule: Rule, process: Process | Environment, settings: Settings, seed: int) -> None:
        if not isinstance(process, Process):
            raise LabError(f"{rule.title} needs a model of the world, and {process.name} can only be stepped")
        gamma = process.discount if settings.gamma is None else settings.gamma
        check_values_exist(process, gamma)
        super().__init__(rule, process, settings, seed)

    def set(self, **changes: Any) -> None:
        """Change settings like any learner; LabError also if the values would become infinite."""
        if changes.get("gamma", self.gamma) != self.gamma:
            gamma = changes["gamma"]
            check_values_exist(self.process, self.world.discount if gamma is None else float(gamma))
        super().set(**changes)

    def prepare(self) -> None:
        self.values = [*(max(row, default=0.0) for row in self.rows), 0.0]
        process = self.process
        after = np.where(process.onward > 0, process.next, -1).tolist()
        p, first = process.probability.tolist(), process.first.tolist()
        self.known: list[list[tuple[float, list[tuple[float, int]]]]] = [
            [
                (
                    float(process.expected_reward[i]),
                    list(zip(p[first[i] : first[i + 1]], after[first[i] : first[i + 1]], strict=True)),
                )
                for i in (s * process.choices + a for a in actions)
            ]
            for s, actions in enumerate(self.world.actions)
        ]
        self.order = [s for s, actions in enumerate(self.world.actions) if actions]
        self.delta, self.change = inf, 0.0

    def loop(self, draws: Draws, steps: int) -> None:
        rows, values, known, order, records = self.rows, self.values, self.known, self.order, self.records
        gamma, turns = self.gamma, len(self.order)
        s = self.state
        for t in range(self.updates, self.updates + steps):
            s = order[t % turns]
            row, kept = [], []
            for before, (reward, outcomes) in zip(rows[s], known[s], strict=True):
                seen = [values[then] for _, then in outcomes]
                worth = 0.0
                for (p, _), value in zip(outcomes, seen, strict=True):
                    worth += p * value
                row.append(reward + gamma * worth)
                kept.append((t, before, row[-1], seen))
            rows[s], records[s] = row, kept
            worth = self.worth(s, row)
            self.change = max(self.change, abs(worth - values[s]))
            values[s] = worth
            if (t + 1) % turns == 0:
                self.delta, self.change = self.change, 0.0
                self.finish_sweep()
        self.state = s
        if steps:
            self.latest = (s, rows[s].index(max(rows[s])))

    def worth(self, s: int, row: Row) -> float:
        """V(s) of its row of Q."""
        return max(row)

    def finish_sweep(self) -> None:
        """Called after a whole sweep."""

    @property
    def turn(self) -> int:
        return max(1, len(self.order))

    def progress(self) -> dict[str, Any]:
        return {"sweeps": self.updates // self.turn, "delta": None if isinf(self.delta) else self.delta}

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"sweep": [self.values, self.delta, self.change]}

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        values, self.delta, self.change = state["sweep"]
        self.values = [float(value) for value in values]

    def explain_update(self, state: int, k: int, record: Any) -> Update:
        """The backup of one action, with the V(s′) that it used."""
        t, before, after, seen = record
        process, action = self.process, self.world.actions[state][k]
        gamma = self.context(t).gamma
        reward, outcomes = self.known[state][k]
        worth = 0.0
        for (p, _), value in zip(outcomes, seen, strict=True):
            worth += p * value
        branches = process.outcomes(state, action)
        likeliest = max(branches, key=lambda each: each.probability)
        v = np.zeros(process.size)
        for (_, then), value in zip(outcomes, seen, strict=True):
            if then >= 0:
                v[then] = value
        return Update(
            number=t + 1,
            state=state,
            action=action,
            reward=reward,
            next=likeliest.next,
            done=all(then < 0 for _, then in outcomes),
            truncated=False,
            before=before,
            after=after,
            delta=after - before,
            terms=terms(("Q(s,a)", after), "←", ("r(s,a)", reward), "+", ("γ", gamma), ("Σ p V(s′)", worth)),
            explanation=why_value(
                process, v, state, action, gamma, "optimal" if self.rule.off_policy else self.policy()
            ),
        )

    def check_adoptable(self, process: Process) -> None:
        super().check_adoptable(process)
        gamma = process.discount if self.settings.gamma is None else self.settings.gamma
        check_values_exist(process, gamma)

    def renumber_record(self, record: Any, news: dict[int, int]) -> Any:
        """None: in an edited world the outcomes may differ, so the old record no longer applies."""
        return None


class ValueIterationRule(Rule):
    name, title, steers, parameters = "value-iteration", "value iteration", False, ()
    off_policy = True
    agent = ValueIteration
    equation = "Q(s,a) ← r(s,a) + γ Σ p(s′|s,a) V(s′),  V(s) = maxₐ Q(s,a)"
    math, source = "M2", "Sutton and Barto 2018, eq. 4.10"


class PolicyIteration(ValueIteration):
    """chosen        [s] the k among which the policy chooses evenly
    improvements  how often the policy has changed
    """

    def prepare(self) -> None:
        super().prepare()
        check_values_exist(self.process, self.gamma, even(self.process))
        self.chosen = [list(range(len(actions))) for actions in self.world.actions]
        self.improvements = 0

    def worth(self, s: int, row: Row) -> float:
        chosen = self.chosen[s]
        return sum(row[k] for k in chosen) / len(chosen)

    def finish_sweep(self) -> None:
        slack = SETTLED * max(1.0, *map(abs, self.values))
        if self.delta > slack:
            return
        best = [[k for k, q in enumerate(row) if q >= max(row) - 10 * slack] for row in self.rows]
        self.improvements += best != self.chosen
        self.chosen = best

    def v(self) -> np.ndarray:
        return np.array(self.values[:-1])

    def policy(self) -> np.ndarray:
        policy = np.zeros((self.world.size, self.world.choices))
        for s, chosen in enumerate(self.chosen):
            for k in chosen:
                policy[s, self.world.actions[s][k]] = 1 / len(chosen)
        return policy

    def progress(self) -> dict[str, Any]:
        return super().progress() | {"improvements": self.improvements}

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"policy": [self.chosen, self.improvements]}

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        chosen, self.improvements = state["policy"]
        self.chosen = [[int(k) for k in each] for each in chosen]


class PolicyIterationRule(ValueIterationRule):
    name, title, off_policy = "policy-iteration", "policy iteration", False
    agent = PolicyIteration
    equation = "Q(s,a) ← r(s,a) + γ Σ p(s′|s,a) V(s′),  V(s) = Σₐ π(a|s) Q(s,a);  then π(s) ← argmaxₐ Q(s,a)"
    source = "Howard 1960; Sutton and Barto 2018, §4.3"


RULES = (ValueIterationRule(), PolicyIterationRule())
