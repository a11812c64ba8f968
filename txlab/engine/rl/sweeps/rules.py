"""What an agent of each rule learns from one step, a thousand agents at a time (MATH M5, M6).

Notable: every formula is written as the glass box writes it, one operation after the other, so that the numbers are
the same to the last bit. `now` holds what does not change within a step: tables, and α, γ, λ, ε of each agent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from txlab.engine.rl.settings import PolicyName, Rule, Traces
from txlab.engine.rl.sweeps.arrays import Array, Numpy
from txlab.engine.rl.sweeps.policies import choose, expected
from txlab.engine.rl.sweeps.tables import Tables


@dataclass
class Now:
    """The agents while they are stepped. In a table (A, n, S) counted flat, (a, m, s) is a·stride + base[m] + s."""

    learns: Learns
    xp: Numpy
    tables: Tables
    policy: PolicyName
    traces: Traces
    table: dict[str, Array]
    base: Array
    stride: int
    alpha: Array
    gamma: Array
    lam: Array
    heat: Array

    def next_value(self, value: Array, over: Array) -> Array:
        """What the next state is worth: nothing, where the episode ended there."""
        return value if self.tables.ends else self.xp.where(over, 0.0, value)


@dataclass(frozen=True)
class BatchTransition:
    """One transition of each agent. `pair` is s·A + a, `u` (≥ 2, n) its draws, `ahead` the next action of SARSA."""

    state: Array
    action: Array
    reward: Array
    next: Array
    over: Array
    u: Array
    ahead: Array


def q_learning(now: Now, step: BatchTransition) -> None:
    """Q(s,a) ← Q(s,a) + α [r + γ maxₐ′ Q(s′,a′) − Q(s,a)]   (Watkins 1989)"""
    xp, q = now.xp, now.table["q"]
    best = now.next_value(xp.top(xp.rows(q, now.base + step.next)), step.over)
    correct(now, q, step, best)


def correct(now: Now, q: Array, step: BatchTransition, value: Array) -> None:
    """Q(s,a) ← Q(s,a) + α [r + γ value − Q(s,a)]"""
    cell = step.action * now.stride + (now.base + step.state)
    old = now.xp.take(q, cell)
    now.xp.put(q, cell, old + now.alpha * (step.reward + now.gamma * value - old))


def sarsa(now: Now, step: BatchTransition) -> None:
    """Q(s,a) ← Q(s,a) + α [r + γ Q(s′,a′) − Q(s,a)]   (Rummery and Niranjan 1994)"""
    q = now.table["q"]
    following = now.xp.take(q, step.ahead * now.stride + (now.base + step.next))
    correct(now, q, step, now.next_value(following, step.over))


def expected_sarsa(now: Now, step: BatchTransition) -> None:
    """Q(s,a) ← Q(s,a) + α [r + γ Σₐ′ π(a′|s′) Q(s′,a′) − Q(s,a)]   (van Seijen et al. 2009)"""
    xp, q = now.xp, now.table["q"]
    rows = xp.rows(q, now.base + step.next)
    value = expected(now.tables, now.policy, rows, step.next, now.heat)
    correct(now, q, step, now.next_value(value, step.over))


def double_q(now: Now, step: BatchTransition) -> None:
    """Q₁(s,a) ← Q₁(s,a) + α [r + γ Q₂(s′, argmaxₐ′ Q₁(s′,a′)) − Q₁(s,a)], or 1 and 2 exchanged (van Hasselt 2010)"""
    xp, one, two = now.xp, now.table["q"], now.table["q2"]
    first = step.u[3] < 0.5
    place = now.base + step.next
    rows_one, rows_two = xp.rows(one, place), xp.rows(two, place)
    chosen_by, valued_by = xp.where(first, rows_one, rows_two), xp.where(first, rows_two, rows_one)
    best = xp.among_best(chosen_by, xp.top(chosen_by), 2.0 * step.u[3] % 1.0)  # what the coin leaves of the draw
    value = now.next_value(xp.column(valued_by, best), step.over)
    cell = step.action * now.stride + (now.base + step.state)
    old_one, old_two = xp.take(one, cell), xp.take(two, cell)
    old = xp.where(first, old_one, old_two)
    new = old + now.alpha * (step.reward + now.gamma * value - old)
    xp.put(one, cell, xp.where(first, new, old_one))
    xp.put(two, cell, xp.where(first, old_two, new))


def sarsa_lambda(now: Now, step: BatchTransition) -> None:
    """δ = r + γ Q(s′,a′) − Q(s,a);  Q ← Q + α δ e;  e ← γ λ e"""
    q = now.table["q"]
    following = now.xp.take(q, step.ahead * now.stride + (now.base + step.next))
    share(now, step, now.next_value(following, step.over))


def watkins(now: Now, step: BatchTransition) -> None:
    """δ = r + γ maxₐ′ Q(s′,a′) − Q(s,a);  Q ← Q + α δ e;  e ← γ λ e, or 0 where a′ is no best action (Watkins 1989)"""
    xp, q = now.xp, now.table["q"]
    place = now.base + step.next
    best = xp.top(xp.rows(q, place))
    greedy = xp.take(q, step.ahead * now.stride + place) == best
    share(now, step, now.next_value(best, step.over), xp.where(greedy, now.lam, 0.0))


def share(now: Now, step: BatchTransition, value: Array, lam: Array | None = None) -> None:
    """One δ for all pairs, each by its trace (MATH M5; Sutton and Barto 2018, 12.7)."""
    xp, q, e = now.xp, now.table["q"], now.table["e"]
    cell = step.action * now.stride + (now.base + step.state)
    delta = step.reward + now.gamma * value - xp.take(q, cell)
    xp.put(e, cell, 1.0 if now.traces == "replacing" else xp.take(e, cell) + 1.0)
    q += (now.alpha * delta)[:, None] * e
    e *= (now.gamma * (now.lam if lam is None else lam))[:, None]


@dataclass(frozen=True)
class Learns:
    """tables   what it keeps, by name; the policy chooses from "q", or from "q" + "q2" where there are two
    update   what one step teaches; None where only whole episodes do
    ahead    whether the action in s′ is chosen before the update, and then taken
    traces   which of the tables are cleared at each episode
    coin     whether it draws on its own
    prefers  whether the table holds preferences: actions are drawn from their softmax, and `observation` is all it sees
    """

    tables: tuple[str, ...]
    update: Callable[[Now, BatchTransition], None] | None
    ahead: bool = False
    traces: tuple[str, ...] = ()
    coin: bool = False
    prefers: bool = False


RULES: dict[Rule, Learns] = {
    "q-learning": Learns(("q",), q_learning),
    "sarsa": Learns(("q",), sarsa, ahead=True),
    "expected-sarsa": Learns(("q",), expected_sarsa),
    "monte-carlo": Learns(("q",), None),
    "reinforce": Learns(("q", "w"), None, prefers=True),
    "reinforce-baseline": Learns(("q", "w"), None, prefers=True),
    "double-q": Learns(("q", "q2"), double_q, coin=True),
    "watkins-q-lambda": Learns(("q", "e"), watkins, ahead=True, traces=("e",)),
    "sarsa-lambda": Learns(("q", "e"), sarsa_lambda, ahead=True, traces=("e",)),
}


def prefers(rule: Rule) -> bool:
    """Whether the rule learns preferences, not values."""
    return rule in RULES and RULES[rule].prefers


def chosen_from(now: Now, states: Array) -> Array:
    """(A, n): the values by which actions are chosen in these states."""
    if now.learns.prefers:
        states = now.tables.seen(states)
    rows = now.xp.rows(now.table["q"], now.base + states)
    return rows + now.xp.rows(now.table["q2"], now.base + states) if "q2" in now.table else rows


def act(now: Now, states: Array, u: Array, lanes: Array | None = None) -> Array:
    """(n) actions in these states, by draws 0 and 1; of these agents alone, if `lanes` says which."""
    if lanes is None:
        return choose(now.tables, now.policy, chosen_from(now, states), states, u, now.heat)
    rows = now.xp.rows(now.table["q"], now.base[lanes] + states)  # of rules that choose ahead, which have one table
    return choose(now.tables, now.policy, rows, states, u[:, lanes], now.heat[lanes])
