"""Dyna-Q: Q-learning, and after each step `planning` more updates from memory (MATH M6; Sutton 1990)

    model(s,a) ← r, s′;  then, `planning` times, Q-learning's update of a pair seen before, with model(s,a)

Notable: only the last outcome of each pair is remembered, as if the world were deterministic. The pairs are chosen by
separate draws, also a pure function of (seed, step): first one of the states seen so far, then one of the actions tried
there.

record: as in one_step.py, and whether the update was made from memory
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from txlab.engine.explain import Step
from txlab.engine.rl.draws import EACH, Draws, uniforms
from txlab.engine.rl.policies import break_tie, soft
from txlab.engine.rl.rules.one_step import OneStep, OneStepRule, QLearning
from txlab.engine.rl.transition_table import ENDED, Transition
from txlab.engine.rl.update import Update

ORDER = 4
MEMORY = 0xD14A  # separates the seeds of planning from those of real steps
MOST = 1000  # updates per step: settings.BOUNDS


class DynaQ(OneStep):
    """remembered  {(s, k): its last outcome}, in the order in which pairs were first seen
    met, tried     the states seen, in that order, and [s] the k tried there
    """

    def prepare(self) -> None:
        super().prepare()
        if not hasattr(self, "remembered"):
            self.remembered: dict[tuple[int, int], Transition] = {}
        self.met = list(dict.fromkeys(s for s, _ in self.remembered))
        self.tried: list[list[int]] = [[] for _ in self.rows]
        for s, k in self.remembered:
            self.tried[s].append(k)

    def loop(self, draws: Draws, steps: int) -> None:
        rows, picks, moves, planning = self.rows, self.picks, self.world.moves, self.settings.planning
        u1, u3, draw_transition = draws.u1, draws.u3, self.world.sampler(draws)
        remembered, met, tried = self.remembered, self.met, self.tried
        epsilon, temperature, softly = self.exploration
        s, total, last, first = self.state, self.total, self.last_step, self.updates
        drawn = self.draws_of_planning(first, steps, planning)
        for t, u0 in zip(range(first, first + steps), draws.u0, strict=False):
            place, was, row = t - first, s, rows[s]
            if u0 < epsilon:
                k = soft(row, temperature, u1[place]) if softly else int(u1[place] * len(row))
            else:
                k = picks[s]
                if k < 0:
                    k = break_tie(row, u1[place])
            transition = moves[s][k] or draw_transition(s, k, place)
            reward, s, end = transition
            if (was, k) not in remembered:
                if not tried[was]:
                    met.append(was)
                tried[was].append(k)
            remembered[was, k] = transition
            self.correct(t, was, k, transition, False)
            for u in range(0, 2 * planning, 2):
                x = met[int(drawn[place][u] * len(met))]
                y = tried[x][int(drawn[place][u + 1] * len(tried[x]))]
                self.correct(t, x, y, remembered[x, y], True)
            self.visits[was][k] += 1
            total += reward
            if end or t == last:
                s, total, last = self.end_episode(t, total, u3[place]), 0.0, self.last_step
                epsilon, temperature, softly = self.exploration
            self.latest = (was, k)
        self.state, self.total = s, total

    def draws_of_planning(self, first: int, steps: int, planning: int) -> list[list[float]]:
        """Two draws for each planning update of a step."""
        begins = (first + np.arange(steps)) * (2 * MOST // EACH)
        draws = uniforms(np.full(steps, self.seed ^ MEMORY), begins, -(-2 * planning // EACH))
        return draws.reshape(steps, -1).tolist()

    def correct(self, t: int, s: int, k: int, transition: Transition, imagined: bool) -> None:
        """Q(s,a) ← Q(s,a) + α [ r + γ maxₐ′ Q(s′,a′) − Q(s,a) ]"""
        tops, picks, row = self.tops, self.picks, self.rows[s]
        reward, then, end = transition
        value = 0.0 if end == ENDED else tops[then]
        old = row[k]
        delta = reward + self.gamma * value - old
        new = old + self.settings.alpha * delta
        self.records[s][k] = (t, transition, old, self.rows[then], value, -1, imagined)
        if new == old:
            return
        self.rows[s] = row = row.copy()
        row[k] = new
        if new > tops[s]:
            tops[s], picks[s] = new, k
        elif new == tops[s] or picks[s] == k or picks[s] < 0:
            top = tops[s] = max(row)
            picks[s] = row.index(top) if row.count(top) == 1 else -1

    def explain_update(self, state: int, k: int, record: Any) -> Update:
        update = super().explain_update(state, k, record)
        if not record[6]:
            return update
        explanation = update.explanation
        memory = Step("from memory", "model(s,a)", record[1][0], "no step was made now: so it went here last")
        return replace(update, explanation=replace(explanation, steps=[memory, *explanation.steps[1:]]))

    def renumber_states(self, olds: list[int], news: dict[int, int], actions: list[list[int]]) -> None:
        """Keep the memory of cells that still exist."""
        believed = {}
        for (s, k), (reward, then, end) in self.remembered.items():
            a, here = actions[s][k], news.get(s, -1)
            if here >= 0 and then in news and a in self.world.actions[here]:
                believed[here, self.world.actions[here].index(a)] = (reward, news[then], end)
        self.remembered = believed

    def state_dict(self) -> dict[str, Any]:
        kept = [[s, k, list(transition)] for (s, k), transition in self.remembered.items()]
        return super().state_dict() | {"remembered": kept}

    def load(self, state: dict[str, Any]) -> None:
        kept = state["remembered"]
        self.remembered = {(int(s), int(k)): (float(r), int(then), int(end)) for s, k, (r, then, end) in kept}
        super().load(state)


class DynaQLearning(OneStepRule):
    name, title = "dyna-q", "Dyna-Q"
    agent, parameters = DynaQ, ("alpha", "policy", "planning")
    letters, target, explain_target = QLearning.letters, QLearning.target, QLearning.explain_target
    off_policy, source = True, "Sutton 1990; Sutton and Barto 2018, section 8.2"


RULES = (DynaQLearning(),)
