"""Answers to "why this number?" for what a planning run records: how far from the end it is, and what it began with
(MATH M1, M2).

Notable: the change of a sweep over all states bounds the error that is left, which no curve of it shows by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from txlab.engine.explain import Explanation, Operand, Step
from txlab.experiments.kinds.planning.schema import PlanningScenario
from txlab.experiments.tabular.world import world_of

SOURCE = "Sutton and Barto 2018, §4.1–4.4"


def explain_metric(scenario: PlanningScenario, name: str, step: int, values: Mapping[str, float]) -> Explanation | None:
    """delta, residual, value_start, changed; None for any other."""
    if name not in values:
        return None
    value = values[name]
    if name == "delta":
        return _delta(scenario, step, values)
    told = {
        "residual": (
            f"how far from the Bellman equation after step {step}?",
            "residual = maxₛ |Σₐ π(a|s) Q(s,a) − V(s)|,  or with maxₐ Q(s,a) where the best choice is looked for",
            "the largest change that one more sweep would make",
        ),
        "value_start": (
            f"why {value:.4g} at the start?",
            "value_start = Σₛ P(an episode begins in s) V(s)",
            "the mean over the states in which an episode may begin",
        ),
        "changed": (
            f"what changed in {value:.0f} states at step {step}?",
            "π′(s) = argmaxₐ Q(s,a),  equals sharing;  changed = |{s : π′(s) ≠ π(s)}|",
            (
                "of policy iteration the policy itself, improved with its own Q^π (Wang §6.1 writes V*, with which "
                "nothing would be left to improve: erratum of M2); else the one that goes where the values are best"
            ),
        ),
    }.get(name)
    if told is None:
        return None
    question, equation, note = told
    return Explanation(question, equation, "M1, M2", SOURCE, [Operand(name, value, note)], [], value)


def _delta(scenario: PlanningScenario, step: int, values: Mapping[str, float]) -> Explanation:
    delta, residual = values["delta"], values.get("residual")
    gamma = values.get("gamma", world_of(scenario.world).process.discount)
    tolerance = scenario.plan.tolerance
    steps = [Step("δ ≤ tolerance?", f"{delta:.4g} ≤ {tolerance:g}", "yes" if delta <= tolerance else "no")]
    equation = "δ = maxₛ |V_new(s) − V_old(s)|"
    nothing = "no value is further off than this"
    if gamma < 1 and scenario.plan.sweep != "prioritised":
        equation += ",  maxₛ |V_new(s) − V(s)| ≤ γ / (1 − γ) · δ"
        bound = gamma / (1 - gamma) * delta
        steps.append(Step("error ≤", f"{gamma:g} / (1 − {gamma:g}) · {delta:.4g}", bound, nothing))
    elif gamma < 1 and residual is not None:  # a sweep that left states out is no contraction: what it left counts
        equation += ",  maxₛ |V_new(s) − V(s)| ≤ residual / (1 − γ)"
        steps.append(Step("error ≤", f"{residual:.4g} / (1 − {gamma:g})", residual / (1 - gamma), nothing))
    return Explanation(
        question=f"what does a change of {delta:.4g} at step {step} say?",
        equation=equation,
        math="M1, M2",
        source="Puterman 1994, theorem 6.3.3",
        operands=[
            Operand("δ", delta, "the largest change of a value in this sweep"),
            Operand("γ", gamma, "discount" if gamma < 1 else "without discount a small change bounds nothing"),
        ],
        steps=steps,
        result=delta,
    )
