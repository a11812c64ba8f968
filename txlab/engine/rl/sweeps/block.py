"""A block of agents of one rule: their tables, their positions, and the loop that steps them (MATH M5–M7).

Notable: the agents share nothing but the arithmetic. Each has its own table, seed, settings and counts of steps and
episodes, so that it runs exactly as it would alone. Agents that have finished the requested episodes are idle (their α
is 0 and their position is kept) until they are half of a block; then the others continue in a smaller block. A rule of
whole episodes changes nothing during an episode: its agents wait for each other at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from txlab.engine.rl.rules import rule_named
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.sweeps.arrays import Array, Numpy
from txlab.engine.rl.sweeps.tables import BatchTransition, StepState, Tables, Trail, choose
from txlab.errors import LabError

DRAWS = 1 << 16  # numbers drawn at a time, so that they stay in the cache (benchmarks/rl_sweeps.py)
MOST = 512  # steps between two checks for cancellation: some 30 ms
FEWEST = 24  # with fewer agents, leaving some out saves nothing

PLACE = ("state", "action", "step", "earned", "length", "episode", "exploration")
"""The part of an agent's state that is kept while it is idle."""


COLDEST = 1e-9  # the lowest temperature: softmax is greedy there, and there is no division by 0


class Powers:
    """decayⁿ as Python computes it, in one table for all agents: array libraries may differ in the last bit."""

    def __init__(self, xp: Numpy) -> None:
        self.xp = xp
        self.decays: list[float] = []
        self.known = 0
        self.table: Array = None

    def number(self, decay: float) -> int:
        """The row of that decay."""
        if decay not in self.decays:
            self.decays.append(decay)
            self.known = 0
        return self.decays.index(decay)

    def of(self, which: Array, episode: Array) -> Array:
        most = int(episode.max()) if len(episode) else 0
        if most >= self.known:
            self.known = max(64, 2 * most)
            self.table = self.xp.array([[decay**n for n in range(self.known)] for decay in self.decays])
        return self.xp.take(self.table, which * self.known + episode)


class AgentBlock:
    """n agents: their settings `own` (n), positions `place` (n), and their values in `table` (A, n, S).

    own      key, alpha, beta, gamma, lam, exploration (ε or τ of episode 0), floor, decay
    place    state, action (chosen ahead), step, earned, length (of this episode), episode, exploration (ε or τ now)
    """

    def __init__(
        self,
        tables: Tables,
        settings: Sequence[Settings],
        seeds: Sequence[int],
        powers: Powers,
        offset: np.ndarray | None = None,
    ) -> None:
        xp, first = tables.xp, settings[0]
        self.tables, self.xp, self.powers = tables, xp, powers
        self.lanes = xp.array(np.arange(len(seeds)), int)
        self.trail: Trail | None = None
        self.rule, self.policy, self.traces = rule_named(first.rule), first.policy, first.traces
        if self.rule.prefers:
            self.policy = "softmax"
            settings = [replace(each, temperature=1.0, decay=1.0, floor=0.0) for each in settings]
        soft = self.policy == "softmax"
        gammas = [tables.process.discount if each.gamma is None else each.gamma for each in settings]

        def exploration(each: Settings) -> float:  # 0 if only an episode's first action is random
            return {"softmax": each.temperature, "exploring-starts": 0.0}.get(self.policy, each.epsilon)

        self.own: dict[str, Array] = {
            "key": xp.keys(seeds),
            "alpha": xp.array([each.alpha for each in settings]),
            "beta": xp.array([each.beta for each in settings]),
            "gamma": xp.array(gammas),
            "lam": xp.array([each.lam for each in settings]),
            "exploration": xp.array([exploration(each) for each in settings]),
            "floor": xp.array([max(each.floor, COLDEST) if soft else each.floor for each in settings]),
            "decay": xp.array([powers.number(each.decay) for each in settings], int),
        }
        self.decays = any(each.decay != 1 for each in settings)
        n = len(seeds)
        self.place: dict[str, Array] = {
            name: xp.array(np.zeros(n), float if name in ("earned", "exploration") else int) for name in PLACE
        }
        self.place["exploration"] = self.exploration_of(slice(None), self.place["episode"])
        start = np.full((n, tables.S, tables.A), 0.0) + np.array([each.initial for each in settings])[:, None, None]
        start[:, tables.process.terminal] = 0.0
        self.table: dict[str, Array] = {}
        if offset is not None:
            start = start + offset
        for name in self.rule.tables:
            values = np.zeros_like(start) if name in ("e", "w") else np.where(tables.forbidden, -np.inf, start)
            values = values[:, :, :1] if name == "w" else values
            self.table[name] = xp.array(np.ascontiguousarray(values.transpose(2, 0, 1)))
        # An episode begins with draw 3 of the step before it; the first one with that of step −1.
        before, first_step = xp.uniforms(self.own["key"], self.place["step"] - 1, 2, True)
        self.place["state"] = state = tables.begin(before[3])
        if self.rule.ahead:
            rows = xp.rows(self.table["q"], self.base() + state)
            self.place["action"] = choose(tables, self.policy, rows, state, first_step, self.place["exploration"])

    def __len__(self) -> int:
        return len(self.place["step"])

    def base(self) -> Array:
        """(n): the index of each agent's first state in a flattened table (A, n, S)."""
        return self.xp.array(np.arange(len(self)) * self.tables.S, int)

    def exploration_of(self, lanes: Array | slice, episode: Array) -> Array:
        """ε, or τ, of these agents in an episode: max(floor, ε · decayⁿ)."""
        value, floor = self.own["exploration"][lanes], self.own["floor"][lanes]
        if self.decays:
            value = value * self.powers.of(self.own["decay"][lanes], episode)
        return self.xp.where(value < floor, floor, value)

    def now(self, alpha: Array, exploration: Array) -> StepState:
        """The argument of the rule: the agents with this α and ε, or τ."""
        own = self.own
        return StepState(
            self.xp, self.tables, self.policy, self.traces, self.rule.prefers, self.table, self.base(),
            len(self) * self.tables.S, alpha, own["beta"], own["gamma"], own["lam"], exploration,
        )  # fmt: skip

    # Parts

    def part(self, lanes: Array) -> AgentBlock:
        """A block of these agents alone, with copies of their data."""
        other = object.__new__(AgentBlock)
        other.__dict__.update(self.__dict__)
        other.lanes = self.lanes[lanes]
        other.own = {name: values[lanes] for name, values in self.own.items()}
        other.place = {name: values[lanes] for name, values in self.place.items()}
        other.table = {name: self.xp.lanes(values, lanes) for name, values in self.table.items()}
        return other

    def put_back(self, lanes: Array, part: AgentBlock) -> None:
        for name, values in part.place.items():
            self.place[name][lanes] = values
        for name, values in part.table.items():
            self.table[name][:, lanes] = values


@dataclass
class Ended:
    """Finished episodes in the order of time: agent, return, number of steps."""

    agent: list[Array] = field(default_factory=list)
    earned: list[Array] = field(default_factory=list)
    length: list[Array] = field(default_factory=list)

    def add(self, agent: Array, earned: Array, length: Array) -> None:
        self.agent.append(agent)
        self.earned.append(earned)
        self.length.append(length)


def live(
    block: AgentBlock,
    ended: Ended,
    agents: Array,
    steps: int = 0,
    episodes: Array | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> bool:
    """Step the block until each of its agents has made `steps` more steps, or finished `episodes` (n) more episodes.

    `agents` (n) are their numbers in `ended`. Returns False if cancelled: the block must then be discarded.
    """
    n = len(block)
    chunk = min(MOST, max(1, DRAWS // (4 * n)))
    if episodes is None:
        if not block.rule.learns_each_step:
            raise LabError(f"{block.rule.title} learns from whole episodes; ask for episodes, not for steps")
        while steps > 0:
            if cancelled():
                return False
            march(block, ended, agents, min(chunk, steps), None)
            steps -= chunk
        return True
    if not block.rule.learns_each_step and block.trail is None:
        return all(one_episode(block, ended, agents, cancelled) for _ in range(int(episodes.max())))
    left = block.xp.array(block.xp.numpy(episodes), int)
    while True:
        going = block.xp.which(left > 0)
        if not len(going):
            rest(block)
            return True
        if cancelled():
            return False
        if is_worth_parting(n, len(going)):
            part = block.part(going)
            whole = live(part, ended, agents[going], 0, left[going], cancelled)
            block.put_back(going, part)
            rest(block)
            return whole
        march(block, ended, agents, chunk, left)


def rest(block: AgentBlock) -> None:
    """All agents are at the beginning of an episode: clear the traces of those that were idle."""
    if "e" in block.table:
        block.table["e"][:] = 0.0


def one_episode(block: AgentBlock, ended: Ended, agents: Array, cancelled: Callable[[], bool]) -> bool:
    """Run an episode of each agent, and learn from it."""
    xp, own = block.xp, Ended()
    block.trail = Trail()
    whole = live(block, own, block.lanes, 0, xp.array([1] * len(block), int), cancelled)
    if whole:
        order, lengths = xp.join(own.agent), xp.array([0] * len(block), int)
        lengths[order] = xp.join(own.length)
        block.rule.teach(block.now(block.own["alpha"], block.place["exploration"]), block.trail, lengths)
        ended.add(agents[order], xp.join(own.earned), lengths[order])
    block.trail = None
    return whole


def march(block: AgentBlock, ended: Ended, agents: Array, steps: int, left: Array | None) -> None:
    """Make this many steps with every agent. `left` (n): episodes that each has yet to finish; it is counted down here,
    and the loop stops early where half of the agents have none left."""
    tables, xp, rule, own, place = block.tables, block.xp, block.rule, block.own, block.place
    n, limit, A, ahead = len(block), tables.process.limit, tables.A, rule.ahead
    at = {name: xp.copy(values) for name, values in place.items()}
    alpha = own["alpha"]
    if left is not None:
        alpha = xp.where(left > 0, alpha, 0.0)
    now = block.now(alpha, at["exploration"])
    every = tables.every_draw or rule.coin
    draws = xp.uniforms(own["key"], at["step"], steps + ahead, every)
    state, action = at["state"], at["action"]
    earned, length, episode, exploration = at["earned"], at["length"], at["episode"], at["exploration"]
    going = n if left is None else int((left > 0).sum())
    for t in range(steps):
        u = draws[t]
        if block.policy == "exploring-starts":
            now.exploration = xp.where(length < 1, exploration + 1.0, exploration)
        if not ahead:
            action = now.act(state, u)
        outcome = tables.outcome(state * A + action, u[2] if every else None)
        following = xp.take(tables.next, outcome)
        reward = xp.take(tables.reward, outcome)
        over = xp.take(tables.over, outcome)
        if tables.noise is not None:
            reward = reward + xp.take(tables.noise, outcome) * xp.normal(u[2], u[3])
        then: Array = now.act(following, draws[t + 1]) if ahead else None
        if block.trail is None:
            rule.learn(now, BatchTransition(state, action, reward, following, over, u, then))
        else:
            block.trail.add(block.lanes, state, action, reward)
        earned += reward
        length += 1
        state, action = following, then
        closed = xp.which(over | (length >= limit) if limit else over)
        if not len(closed):
            continue
        if left is None:
            through = None
            ended.add(agents[closed], earned[closed], length[closed])
        else:
            real = closed[left[closed] > 0]
            ended.add(agents[real], earned[real], length[real])
            left[closed] -= 1
            through = real[left[real] == 0]
        earned[closed] = 0.0
        length[closed] = 0
        episode[closed] += 1
        exploration[closed] = block.exploration_of(closed, episode[closed])
        state[closed] = tables.first_start if tables.one_start else tables.begin(u[3][closed])
        if "e" in block.table:
            block.table["e"][:, closed] = 0.0
        if ahead:
            action[closed] = now.act(state[closed], draws[t + 1], closed)
        if through is not None and len(through):
            alpha[through] = 0.0
            going -= len(through)
            keep(place, through, at | {"state": state, "action": action}, at["step"] + (t + 1))
            if is_worth_parting(n, going):
                steps = t + 1
                break
    here = {**at, "state": state, "action": action}
    keep(place, None if left is None else xp.which(left > 0), here, at["step"] + steps)


def is_worth_parting(n: int, going: int) -> bool:
    """Whether `going` of n agents should continue without the idle ones."""
    return going == 0 or (n > FEWEST and 2 * going <= n)


def keep(place: dict[str, Array], lanes: Array | None, at: dict[str, Array], step: Array) -> None:
    """Save the positions of these agents; None means all."""
    for name, values in (at | {"step": step}).items():
        if values is None:  # an action that has not been chosen yet
            continue
        if lanes is None:
            place[name] = values
        else:
            place[name][lanes] = values[lanes]
