"""Rules that learn when an episode is over: Monte Carlo control, REINFORCE without and with a baseline (MATH M5, M7).

Notable: nothing changes while an episode lasts, so the agents of a block wait for one another at its end and are taught
together. Within an episode the updates are made in the order of time, each with what the one before it left, as Sutton
and Barto's boxes have it: one update a time step, and not one a summed gradient. REINFORCE is told `observation`, where
the world has one, so that states that look the same share their preferences.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from txlab.engine.rl.sweeps.arrays import Array
from txlab.errors import RunFailed

if TYPE_CHECKING:
    from txlab.engine.rl.sweeps.block import AgentBlock

MOST_STEPS = 100_000


@dataclass
class Trail:
    """What the agents of a block did in one episode: at step k of it, which agents, state, action, reward."""

    moves: list[tuple[Array, Array, Array, Array]] = field(default_factory=list)

    def add(self, lanes: Array, state: Array, action: Array, reward: Array) -> None:
        if len(self.moves) >= MOST_STEPS:
            raise RunFailed(
                f"an episode took more than {MOST_STEPS} steps; world.limit cuts it off, or take a smaller α"
            )
        self.moves.append((lanes, state, action, reward))


def teach(block: AgentBlock, trail: Trail, lengths: Array) -> None:
    """All updates of an episode that took `lengths` (n) steps."""
    xp, own, tables = block.xp, block.own, block.tables
    n, steps = len(block), len(trail.moves)
    zeros = xp.array([0] * n, int)
    states, actions, returns = [], [], []
    coming = xp.array([0.0] * n)
    for k in range(steps - 1, -1, -1):  # G ← r + γ G, backwards
        lanes, state, action, reward = trail.moves[k]
        row_state, row_action, row_reward = xp.copy(zeros), xp.copy(zeros), xp.copy(coming)
        row_state[lanes], row_action[lanes], row_reward[lanes] = state, action, reward
        coming = xp.where(lengths > k, row_reward + own["gamma"] * coming, 0.0)
        states.append(row_state)
        actions.append(row_action)
        returns.append(coming)
    base, stride = block.base(n), n * tables.S
    if block.rule == "monte-carlo":
        for k in range(steps):  # they were listed backwards, which is the order in which Monte Carlo learns
            alpha = xp.where(lengths > steps - 1 - k, own["alpha"], 0.0)
            cell = actions[k] * stride + (base + states[k])
            old = xp.take(block.table["q"], cell)
            xp.put(block.table["q"], cell, old + alpha * (returns[k] - old))
        return
    fade = xp.where(lengths > 0, 1.0, 0.0)  # γᵗ
    for k in range(steps - 1, -1, -1):
        seen = base + tables.seen(states[k])
        here = lengths > steps - 1 - k
        preferences(block, seen, stride, actions[k], returns[k], here, fade)
        fade = fade * own["gamma"]


def preferences(
    block: AgentBlock, seen: Array, stride: int, action: Array, returned: Array, here: Array, fade: Array
) -> None:
    """θ ← θ + α γᵗ (G − b) ∇ ln π(a|s), with b = 0, or b = w(s); w(s) ← w(s) + β (G − w(s)) either way, to be seen.

    For softmax preferences ∇ ln π(a|s) is 1 − π(a|s) at a and −π(a′|s) at the others.   (Williams 1992; MATH M7)
    """
    xp, own, theta = block.xp, block.own, block.table["q"]
    w = block.table["w"]
    known = xp.take(w, seen)
    xp.put(w, seen, known + xp.where(here, own["beta"], 0.0) * (returned - known))
    error = returned - (known if block.rule == "reinforce-baseline" else 0.0)
    rows = xp.rows(theta, seen)
    raw = xp.exp(rows - xp.top(rows))
    chances = raw / xp.total(raw)
    size = xp.where(here, own["alpha"], 0.0) * fade * error
    for a in range(len(rows)):
        xp.put(theta, a * stride + seen, rows[a] + size * (xp.where(action == a, 1.0, 0.0) - chances[a]))
