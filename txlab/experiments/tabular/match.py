"""Learners side by side in one world, as the arena steps and shows them (MATH M4–M7).

Each side makes the same number of updates, with the same random draws as long as both make the same choices. Notable:
returns while learning and returns of the greedy policy differ (Q-learning on the cliff: −50 and −13), and are kept
apart.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from txlab.engine.explain import Explanation, Step
from txlab.engine.rl.agent import Agent
from txlab.engine.rl.divergence import divergence
from txlab.engine.rl.maps.compiling import match_states
from txlab.engine.rl.rules import make_agent, rule_named
from txlab.engine.rl.settings import BOUNDS, Settings
from txlab.engine.rl.update import Update
from txlab.engine.rl.why import Rule, why_value
from txlab.engine.rl.world import World
from txlab.errors import LabError
from txlab.experiments.protocol import Adjustable, Frame, State
from txlab.experiments.tabular.frames import facts_of, last_of, learner_side
from txlab.experiments.tabular.world import limit_steps, world_facts
from txlab.experiments.untimed import UntimedExperiment


class Match(UntimedExperiment):
    """`agents` learn in `world`, whose [world] table is `table`; `changes` lists what was changed, and when.

    An experiment like any other (see protocol.Experiment), except that its length is open.
    """

    def __init__(
        self, world: World, sides: Sequence[Settings], seed: int = 0, table: Mapping[str, Any] | None = None
    ) -> None:
        if not sides:
            raise LabError("a match needs at least one learner")
        self.seed = seed
        self.world = limit_steps(world)
        self.table = dict(table or {"name": world.name})
        self.agents: list[Agent] = [self.agent(each) for each in sides]
        self.asked = list(sides)  # as set by the user: one rule may come with its own policy, another not
        self.changes: list[dict[str, Any]] = []

    def agent(self, settings: Settings) -> Agent:
        """An untrained learner in the world, or in its own environment."""
        make = self.world.environment
        agent = make_agent(self.world.process if make is None else make(), settings, self.seed)
        agent.counting = True
        return agent

    @property
    def sides(self) -> list[Settings]:
        return [agent.settings for agent in self.agents]

    @property
    def updates(self) -> int:
        """The number of updates of every side since the match began."""
        return max(agent.updates for agent in self.agents)

    @property
    def step_count(self) -> int:  # type: ignore[override]
        return self.updates

    @property
    def steps(self) -> int:
        return sys.maxsize

    # Training
    def run(self, updates: int) -> None:
        """Make that many updates of every side."""
        for agent in self.agents:
            agent.run(updates)

    def step(self) -> Mapping[str, float]:
        """Make one update of every side, or one sweep if all of them plan: {"delta/…"}, δ of the update, or Δ of the
        sweep."""
        self.run(min(agent.turn for agent in self.agents))
        lasts = [(agent.rule.name, agent.last, agent.progress()) for agent in self.agents]
        return {
            f"delta/{rule}": progress.get("delta") or last.delta for rule, last, progress in lasts if last is not None
        }

    def add(self, settings: Settings) -> None:
        """Add an untrained learner; the present ones keep their values."""
        self.agents.append(self.agent(settings))
        self.asked.append(settings)

    def set(self, side: int, **changes: Any) -> None:
        """Change parameters of a side while it learns. LabError with the allowed values."""
        before = self.agents[side].settings
        self.agents[side].set(**changes)
        self.asked[side] = replace(self.asked[side], **changes)
        for name, value in changes.items():
            self.changes.append(
                {"update": self.updates, "side": side, "key": name, "from": getattr(before, name), "to": value}
            )

    def rule(self, side: int, rule: str) -> None:
        """Switch a side to another rule, with empty tables: those of one rule mean nothing to another."""
        old = self.agents[side]
        asked = replace(self.asked[side], rule=rule)
        if asked.traces == "true-online" and rule != "td-lambda":
            asked = replace(asked, traces="accumulating")
        self.agents[side] = self.agent(asked)
        self.asked[side] = asked
        self.changes.append({"update": self.updates, "side": side, "key": "rule", "from": old.rule.name, "to": rule})

    def edit_world(self, world: World) -> None:
        """Go on in a changed world; values of cells that still exist are kept. LabError, with nothing changed, if a
        learner does not work in it."""
        world = limit_steps(world)
        for agent in self.agents:
            agent.check_adoptable(world.process)
        states = match_states(self.world, world)
        for agent in self.agents:
            agent.adopt(world.process, states)
        self.world = world
        if world.map is not None:
            self.table = {"map": world.map.text()}

    # Frames and facts

    def history(self, side: int) -> list[float]:
        """The returns of a side's episodes while learning, oldest first."""
        return self.agents[side].returns

    def greedy(self, side: int) -> tuple[list[int], float]:
        """The states that a side's greedy policy leads through, and its return, without exploration."""
        return self.agents[side].greedy_path(min(1000, self.world.process.limit or 1000))

    def explanations(self, side: int, state: int | None = None) -> list[Explanation]:
        """The sequence of `w` in a cell, by default the one updated last: the update made there last, all actions
        of the cell side by side, and then each of the other actions."""
        agent = self.agents[side]
        state = self.updated_state(side) if state is None else state
        explanations = [self.explain(side, state)]
        if agent.q() is None or not agent.world.actions[state]:
            return explanations
        first, *others = self.actions(side, state)
        others_explained = [self.explain(side, state, a) for a in others if self.explainable(side, state, a)]
        return [*explanations, agent.explain_cell(state, first), *others_explained]

    def updated_state(self, side: int) -> int:
        """The state that a side updated last, or, before any update, the one it is in."""
        agent = self.agents[side]
        return agent.state if agent.latest is None else agent.latest[0]

    def actions(self, side: int, state: int) -> list[int]:
        """The allowed actions, the one updated last first; those never updated last, by their values."""
        agent, q = self.agents[side], self.agents[side].q()

        def order(a: int) -> tuple[float, bool, float]:
            last = agent.last_at(state, a)
            k = agent.world.actions[state].index(a)
            return (last.number if last else 0, (state, k) == agent.latest, 0.0 if q is None else float(q[state, a]))

        return sorted(agent.world.actions[state], key=order, reverse=True)

    def explainable(self, side: int, state: int, action: int) -> bool:
        """Whether there is an answer: an update, or known probabilities."""
        return self.world.environment is None or self.agents[side].last_at(state, action) is not None

    def explain(self, side: int, state: int | None = None, action: int | None = None) -> Explanation:
        """Explain the value in a cell, by default the one updated last: by its last update, or, if there was none, by
        its initial value and the Bellman equation that the rule solves: of its own policy, or of the greedy one.
        Without an action, the one updated last is meant."""
        agent = self.agents[side]
        q = agent.q()
        state = self.updated_state(side) if state is None else state
        if action is None and q is not None and agent.world.actions[state]:
            action = self.actions(side, state)[0]
        last = agent.last_at(state, -1 if action is None else action)
        if last is not None:
            return last.explanation
        shown = agent.v() if q is None else q
        if self.world.environment is not None:
            raise LabError(f"no update has touched {self.world.process.states[state]} yet: it has its initial value")
        rule: Rule = "optimal" if agent.rule.off_policy else agent.policy()
        explanation = why_value(self.world.process, shown, state, action if q is not None else None, agent.gamma, rule)
        untouched = Step("begins at", "no update has touched it yet", explanation.result, "its initial value")
        return replace(explanation, steps=[untouched, *explanation.steps])

    def frame(self) -> Frame:
        """The current frame, with the names of frames.py."""
        tensors: dict[str, np.ndarray] = {}
        for i, agent in enumerate(self.agents):
            q, trace = agent.q(), agent.trace()
            if q is not None:
                tensors[f"{i}/q"] = q.astype(np.float32)
            tensors[f"{i}/policy"] = agent.policy().astype(np.float32)
            tensors[f"{i}/v"] = agent.v().astype(np.float32)
            if trace is not None:
                tensors[f"{i}/trace"] = trace.astype(np.float32)
        facts = facts_of(
            self.table,
            [learner_side(agent.settings, agent.gamma, **agent.progress()) for agent in self.agents],
            states=[agent.state for agent in self.agents],
            episodes=[agent.episode for agent in self.agents],
            updates=[agent.updates for agent in self.agents],
            last=[None if agent.last is None else last_facts(agent.last) for agent in self.agents],
        )
        known = self.world.environment is None
        warnings = [
            divergence(agent.process, agent.settings, agent.v() if (q := agent.q()) is None else q, known)
            for agent in self.agents
        ]
        return Frame(self.updates, tensors, facts=facts | {"warnings": warnings})

    def facts(self) -> Mapping[str, Any]:
        return world_facts(self.world, "updates", [f"delta/{agent.rule.name}" for agent in self.agents])

    # Adjustable parameters

    def adjustable(self) -> Mapping[str, Adjustable]:
        """ "alpha/0" is α of side 0; parameters that its rule does not use are left out."""
        adjustable = {}
        for side, settings in enumerate(self.sides):
            for name in rule_named(settings.rule).numbers(settings.policy):
                key = f"{name}/{side}"
                adjustable[key] = Adjustable(key, getattr(settings, name), *BOUNDS[name])
        return adjustable

    def change(self, name: str, value: float) -> None:
        number, _, side = name.partition("/")
        whole = isinstance(getattr(self.sides[int(side)], number), int)
        self.set(int(side), **{number: int(value) if whole else value})

    # Checkpoints

    def state_dict(self) -> State:
        return {
            "table": self.table,
            "changes": self.changes,
            "asked": [vars(each) for each in self.asked],
            "agents": [agent.state_dict() for agent in self.agents],
        }

    def load_state_dict(self, state: State) -> None:
        """Restore a state of a match in the same world."""
        self.table = dict(state["table"])
        self.changes = [dict(change) for change in state["changes"]]
        self.asked = [Settings(**each) for each in state["asked"]]
        self.agents = [self.agent(each) for each in self.asked]
        for agent, saved in zip(self.agents, state["agents"], strict=True):
            agent.load(saved)


def last_facts(last: Update) -> dict[str, Any]:
    """The last update of a control learner, as the facts of a frame."""
    return last_of(
        last.state,
        last.reward,
        last.next,
        last.done,
        last.delta,
        last.terms,
        last.action,
        truncated=last.truncated,
    )
