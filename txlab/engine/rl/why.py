"""Explanations of values: the Bellman equation in numbers, and how far its two sides disagree (MATH M1).

The sum is `backup`'s own, over the displayed values; its difference from the displayed number is the
residual: 0 once dynamic programming has converged, and the remaining error of a learner. A table of Q is
reduced to V as its rule does: by its maximum, or by its mean under the policy.
"""

from __future__ import annotations

from operator import sub
from typing import Literal

import numpy as np

from txlab.engine.explain import Explaining, Explanation, Operand, Step, bracket, compute_step, number
from txlab.engine.rl.dynamic_programming import backup_of, values
from txlab.engine.rl.process import Outcome, Process
from txlab.errors import LabError

Rule = Literal["optimal"] | np.ndarray

MOST_LINES = 12
"""Outcomes with a line each; of more, the likeliest are listed and the rest share one line."""

SOURCE = "Sutton and Barto 2018, eq. 3.14 and 3.19"


def why_value(
    process: Process,
    shown: np.ndarray,
    state: int,
    action: int | None = None,
    gamma: float | None = None,
    rule: Rule = "optimal",
) -> Explanation:
    """Explain V(state), or Q(state, action).

    shown   the displayed values: V (S), or Q (S, A) with NaN where an action is not allowed
    gamma   γ; None = the world's own
    rule    "optimal", V = max Q; or a policy (S, A), V = Σ π Q

    LabError for a state or an action that does not exist.
    """
    gamma = process.discount if gamma is None else gamma
    if not 0 <= state < process.size:
        raise LabError(f"state {state} does not exist; there are {process.size}")
    if action is not None and not 0 <= action < process.choices:
        raise LabError(f"action {action} does not exist; there are {process.choices}")
    if action is not None and not process.allowed[state, action]:
        raise LabError(f"{process.actions[action]} is not allowed in {process.states[state]}")
    policy = None if isinstance(rule, str) else rule
    shown = np.asarray(shown, dtype=np.float64)
    v = values(shown, policy) if shown.ndim == 2 else shown
    if action is not None:
        return _of_action(process, shown, v, state, action, gamma, policy)
    return _of_state(process, v, state, gamma, policy)


def _of_action(
    process: Process, shown: np.ndarray, v: np.ndarray, state: int, action: int, gamma: float, policy: np.ndarray | None
) -> Explanation:
    total = float(backup_of(process, v, gamma, state)[action])
    s, a = process.states[state], process.actions[action]
    follows = "maxₐ′ Q(s′,a′)" if policy is None else "Σₐ′ π(a′|s′) Q(s′,a′)"
    result = float(shown[state, action]) if shown.ndim == 2 else total
    why = Explaining(f"why {number(result)} for {a} in {s}?", result)
    equation = f"Q(s,a) = Σₛ′ p(s′|s,a) [r + γ V(s′)],  V(s′) = {follows}"
    why.equation(equation, "M1" if policy is not None else "M1, M2", SOURCE)
    why.input("γ", gamma, "discount")
    why.operands += _next_values(process, v, state, action)
    why.steps += _outcomes(process, v, state, action, gamma)
    why.step("Q(s,a)", " + ".join(each.name for each in why.steps), total, f"{a} in {s}")
    if shown.ndim == 2:
        why.measurement("shown", "as in the table")
        why.means(_residual(total, result))
    return why.result()


def _of_state(process: Process, v: np.ndarray, state: int, gamma: float, policy: np.ndarray | None) -> Explanation:
    s, result = process.states[state], float(v[state])
    letters = "maxₐ Q(s,a)" if policy is None else "Σₐ π(a|s) Q(s,a)"
    q = backup_of(process, v, gamma, state)
    total = float(values(q, None if policy is None else policy[state]))
    allowed = np.flatnonzero(process.allowed[state])
    labels = [process.actions[a] for a in allowed]
    why = Explaining(f"why {number(result)} in {s}?", result, labels if policy is not None else ())
    equation = f"V(s) = {letters},  Q(s,a) = Σₛ′ p(s′|s,a) [r + γ V(s′)]"
    why.equation(equation, "M1" if policy is not None else "M1, M2", SOURCE)
    why.input("γ", gamma, "discount")
    if policy is not None:
        why.input("π(·|s)", policy[state][allowed].tolist(), "the policy")
    for a, label in zip(allowed, labels, strict=True):
        why.step(f"Q({label})", _sum(process, v, state, int(a), gamma), float(q[a]))
    if len(allowed):
        why.step("V(s)", letters, total, "" if policy is not None else f"{labels[int(q[allowed].argmax())]}")
        why.means(_residual(total, result))
    else:
        why.step("V(s)", "0", 0.0, f"nothing can be done in {s}: the episode is over")
    why.measurement("shown")
    return why.result()


def _residual(total: float, result: float) -> Step:
    holds = abs(total - result) <= 1e-12 * max(1.0, abs(total))
    note = "the equation holds" if holds else "how far the number shown is from agreeing with it"
    return compute_step("residual", "{} − {}", sub, total, result, note=note)


def _outcomes(process: Process, v: np.ndarray, state: int, action: int, gamma: float) -> list[Step]:
    """One line per outcome, the likeliest ones if there are many: p · [r + γ V(s′)]."""
    outcomes = _likeliest(process, state, action)
    steps = []
    rest = 0.0
    for place, each in enumerate(outcomes):
        worth = each.probability * (each.reward + (0.0 if over(process, each) else gamma * float(v[each.next])))
        if place >= MOST_LINES:
            rest += worth
            continue
        bracket = _bracket(process, each, v, gamma)
        note = "the episode ends: no V(s′)" if over(process, each) else f"s′ = {process.states[each.next]}"
        steps.append(Step(f"w{_small(place + 1)}", f"{each.probability:.4g} · [{bracket}]", worth, note))
    if len(outcomes) > MOST_LINES:
        steps.append(Step("w…", "", rest, f"{len(outcomes) - MOST_LINES} outcomes less likely than these"))
    return steps


def over(process: Process, each: Outcome) -> bool:
    """Whether nothing follows this outcome."""
    return each.done or bool(process.terminal[each.next])


def _bracket(process: Process, each: Outcome, v: np.ndarray, gamma: float) -> str:
    """r + γ · V(s′) in numbers."""
    return number(each.reward, 6) + ("" if over(process, each) else f" + {gamma:g} · {bracket(float(v[each.next]), 6)}")


def _sum(process: Process, v: np.ndarray, state: int, action: int, gamma: float) -> str:
    """p · [r + γ V(s′)] + …, on one line, as long as it stays readable."""
    outcomes = process.outcomes(state, action)
    if len(outcomes) > 4:
        return f"over {len(outcomes)} outcomes"
    parts: list[str] = []
    for each in outcomes:
        inside = _bracket(process, each, v, gamma)
        parts.append(f"[{inside}]" if each.probability == 1 else f"{each.probability:.3g} · [{inside}]")
    return " + ".join(parts)


def _next_values(process: Process, v: np.ndarray, state: int, action: int) -> list[Operand]:
    listed = _likeliest(process, state, action)[:MOST_LINES]
    seen = {each.next: float(v[each.next]) for each in listed if not over(process, each)}
    return [Operand(f"V({process.states[s]})", value) for s, value in seen.items()]


def _likeliest(process: Process, state: int, action: int) -> list[Outcome]:
    """The outcomes in order, or the likeliest first if there are too many for a line each."""
    outcomes = process.outcomes(state, action)
    return outcomes if len(outcomes) <= MOST_LINES else sorted(outcomes, key=lambda each: -each.probability)


def _small(count: int) -> str:
    return "".join("₀₁₂₃₄₅₆₇₈₉"[int(digit)] for digit in str(count))
