"""How a thousand agents choose: ε-greedy, softmax and greedy, from rows of their tables (MATH M5).

Notable: ties are broken by chance, among all equally good actions; draw 1 says which, and is used up either way, so
that an agent's life does not depend on how its numbers happen to be equal.
"""

from __future__ import annotations

from txlab.engine.rl.settings import PolicyName
from txlab.engine.rl.sweeps.arrays import Array
from txlab.engine.rl.sweeps.tables import Tables


def choose(
    tables: Tables, policy: PolicyName, rows: Array, states: Array, u: Array, heat: Array, best: Array | None = None
) -> Array:
    """(n) actions. `rows` (A, n) holds the values, −∞ where an action cannot be chosen; `u` (≥ 2, n) draws 0 and 1.

    ε-greedy (`heat` is ε): explore if u₀ < ε, and then allowed[int(u₁ · n)] among all that can be done; else the
    int(u₁ · ties)-th of the best. softmax (`heat` is τ): the first action whose cumulated probability is above u₁.
    """
    xp = tables.xp
    if policy == "softmax":
        return xp.first_above(softmax(tables, rows, heat), u[1])
    action = xp.among_best(rows, xp.top(rows) if best is None else best, u[1])
    if policy == "greedy":
        return action
    if tables.open:
        other = xp.floor(u[1] * tables.A)
    else:
        other = xp.take(tables.listed, states * tables.A + xp.floor(u[1] * xp.take(tables.count, states)))
    return xp.where(u[0] < heat, other, action)


def softmax(tables: Tables, rows: Array, heat: Array) -> Array:
    """(A, n): exp(Q/τ) / Σ exp(Q/τ); the largest is subtracted first, it cancels."""
    xp = tables.xp
    raw = xp.exp((rows - xp.top(rows)) / heat)
    return raw / xp.total(raw)


def expected(tables: Tables, policy: PolicyName, rows: Array, states: Array, heat: Array) -> Array:
    """(n): Σₐ π(a | s) Q(s, a)."""
    xp = tables.xp
    best = xp.top(rows)
    if policy == "greedy":
        return best
    values = rows if tables.open else xp.where(rows == -float("inf"), 0.0, rows)
    if policy == "softmax":
        return xp.total(softmax(tables, rows, heat) * values)
    count = tables.A if tables.open else xp.take(tables.count, states)
    count = xp.where(count < 1, 1.0, count) if not tables.open else count  # a terminal state: all is 0 there
    return (1.0 - heat) * best + heat * (xp.total(values) / count)
