"""The agents of a block live on: so many steps each, or so many episodes each.

Notable: the agents do not wait for one another. Where episodes are asked for, those that are through stand still: their
α is 0 and what was true of them is kept; when half of a block stands still, the rest goes on in a block of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from txlab.engine.rl.settings import TITLES
from txlab.engine.rl.sweeps.arrays import Array
from txlab.engine.rl.sweeps.block import AgentBlock
from txlab.engine.rl.sweeps.episodic import Trail, teach
from txlab.engine.rl.sweeps.rules import BatchTransition, Now, act
from txlab.errors import LabError

DRAWS = 1 << 16  # numbers drawn at a time, so that they stay in the cache (benchmarks/rl_sweeps.py)
MOST = 512  # steps between two looks at whether somebody wants it to end: some 30 ms
FEWEST = 24  # agents below which leaving some out saves nothing


@dataclass
class Ended:
    """Episodes that ended, in the order of time: whose, what they earned, how many steps they took."""

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
    """Step the block until each of its agents made `steps` more steps, or ended so many more `episodes` (n).

    `agents` (n) are their numbers in `ended`. False where it was cancelled: the block is then good for nothing.
    """
    n = len(block)
    chunk = min(MOST, max(1, DRAWS // (4 * n)))
    if episodes is None:
        if block.learns.update is None:
            raise LabError(f"{TITLES[block.rule]} learns from whole episodes; ask for episodes, not for steps")
        while steps > 0:
            if cancelled():
                return False
            march(block, ended, agents, min(chunk, steps), None)
            steps -= chunk
        return True
    if block.learns.update is None and block.trail is None:
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
    """All stand at the beginning of an episode: no trace is left of what went on in those that stood still."""
    for name in block.learns.traces:
        block.table[name][:] = 0.0


def one_episode(block: AgentBlock, ended: Ended, agents: Array, cancelled: Callable[[], bool]) -> bool:
    """An episode of each agent, and what it teaches."""
    xp, own = block.xp, Ended()
    block.trail = Trail()
    whole = live(block, own, block.lanes, 0, xp.array([1] * len(block), int), cancelled)
    if whole:
        order, lengths = xp.joined(own.agent), xp.array([0] * len(block), int)
        lengths[order] = xp.joined(own.length)
        teach(block, block.trail, lengths)
        ended.add(agents[order], xp.joined(own.earned), lengths[order])
    block.trail = None
    return whole


def march(block: AgentBlock, ended: Ended, agents: Array, steps: int, left: Array | None) -> None:
    """So many steps of every agent. `left` (n): episodes that each has still to end; they are counted down here, and
    it stops early where half of the agents have none left."""
    tables, xp, learns, own, place = block.tables, block.xp, block.learns, block.own, block.place
    n, limit, A, ahead = len(block), tables.process.limit, tables.A, learns.ahead
    at = {name: xp.copy(values) for name, values in place.items()}
    alpha = own["alpha"]
    if left is not None:
        alpha = xp.where(left > 0, alpha, 0.0)
    now = Now(
        learns, xp, tables, block.policy, block.traces, block.table, block.base(n), n * tables.S,
        alpha, own["gamma"], own["lam"], at["heat"],
    )  # fmt: skip
    every = tables.every_draw or learns.coin
    draws = xp.uniforms(own["key"], at["step"], steps + ahead, every)
    state, action = at["state"], at["action"]
    earned, length, episode, heat = at["earned"], at["length"], at["episode"], at["heat"]
    going = n if left is None else int((left > 0).sum())
    for t in range(steps):
        u = draws[t]
        if block.policy == "exploring-starts":
            now.heat = xp.where(length < 1, heat + 1.0, heat)
        if not ahead:
            action = act(now, state, u)
        outcome = tables.outcome(state * A + action, u[2] if every else None)
        following = xp.take(tables.next, outcome)
        reward = xp.take(tables.reward, outcome)
        over = xp.take(tables.over, outcome)
        if tables.noise is not None:
            reward = reward + xp.take(tables.noise, outcome) * xp.normal(u[2], u[3])
        then: Array = act(now, following, draws[t + 1]) if ahead else None
        if learns.update is not None:
            learns.update(now, BatchTransition(state, action, reward, following, over, u, then))
        elif block.trail is not None:
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
        heat[closed] = block.heat_of(closed, episode[closed])
        state[closed] = tables.first_start if tables.one_start else tables.begin(u[3][closed])
        for name in learns.traces:
            block.table[name][:, closed] = 0.0
        if ahead:
            action[closed] = act(now, state[closed], draws[t + 1], closed)
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
    """Whether so many of n agents should go on without those that stand still."""
    return going == 0 or (n > FEWEST and 2 * going <= n)


def keep(place: dict[str, Array], lanes: Array | None, at: dict[str, Array], step: Array) -> None:
    """Write down where these agents stand, all of them for None."""
    for name, values in (at | {"step": step}).items():
        if values is None:  # an action that nobody has chosen yet
            continue
        if lanes is None:
            place[name] = values
        else:
            place[name][lanes] = values[lanes]
