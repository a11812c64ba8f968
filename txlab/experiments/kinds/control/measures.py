"""Why a metric of compared learners is what it is: means over runs, their errors, what they do not say (MATH M5–M7)."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, sqrt

from txlab.engine.explain import Explanation, Operand, Step
from txlab.engine.rl.settings import TITLES, numbers
from txlab.experiments.kinds.control.schema import LETTERS, ControlScenario, Learner


def explain_metric(scenario: ControlScenario, name: str, step: int, values: Mapping[str, float]) -> Explanation | None:
    """The answer for one metric of a row; None for what has no more to say than its number."""
    family, _, label = name.partition("/")
    learner = next((each for each in scenario.learners if each.name == label), None)
    if learner is None or name not in values or not isfinite(values[name]):
        return None
    if family in ("return", "return_low", "return_high"):
        return of_return(scenario, learner, family, step, values)
    told = {
        "length": ("L̄ = Σ Lᵢ / n", "how many steps episode {step} took on average"),
        "left": ("share = #(runs that went left) / n", "an episode of two steps went left, one of one step went right"),
        "greedy": ("Ḡ = Σ Gᵢ / n", "one episode of each run without exploring and without learning"),
    }
    if family not in told:
        return None
    equation, note = told[family]
    operands = [*about(scenario, learner), Operand("n", scenario.control.runs, "runs, a seed each")]
    steps = [Step(name, "", values[name], note.format(step=step))]
    on_line = values.get(f"return/{label}")
    if family == "greedy" and on_line is not None:
        steps.append(Step("while exploring", f"return/{label}", on_line, "another thing: there the stumbles count"))
    return Explanation(
        question=f"why {values[name]:.4g} for {label} at episode {step}?",
        equation=equation,
        math="M5, M6",
        source="Sutton and Barto 2018, §6.5",
        operands=operands,
        steps=steps,
        result=values[name],
    )


def of_return(
    scenario: ControlScenario, learner: Learner, family: str, step: int, values: Mapping[str, float]
) -> Explanation:
    """The mean return of an episode, or an edge of its band."""
    label, runs = learner.name, scenario.control.runs
    mean = values.get(f"return/{label}", values[f"{family}/{label}"])
    high = values.get(f"return_high/{label}", mean)
    error = high - mean
    sign = {"return": "", "return_low": " − s/√n", "return_high": " + s/√n"}[family]
    steps = [
        Step("Ḡ", "Σ Gᵢ / n", mean, "while exploring: not what the greedy policy earns"),
        Step("s", "√(Σ (Gᵢ − Ḡ)² / (n − 1))", error * sqrt(runs), "how far one run lies from the next"),
        Step("s/√n", f"{error * sqrt(runs):.4g} / √{runs}", error, "standard error of the mean"),
    ]
    if sign:
        steps.append(
            Step(f"Ḡ{sign}", f"{mean:.4g}{sign[:2]} {error:.4g}", values[f"{family}/{label}"], "edge of the band")
        )
    return Explanation(
        question=f"why {values[f'{family}/{label}']:.4g} for {label} in episode {step}?",
        equation=f"Ḡ{sign},  Gᵢ = Σ r of run i",
        math="M3, M5, M6",
        source="Sutton and Barto 2018, §6.5",
        operands=[*about(scenario, learner), Operand("n", runs, "runs, a seed each")],
        steps=steps,
        result=values[f"{family}/{label}"],
    )


def about(scenario: ControlScenario, learner: Learner) -> list[Operand]:
    """The numbers of a learner that are not swept."""
    swept = [name for name, _ in scenario.control.axes()]
    title = TITLES[learner.rule]
    return [
        Operand(
            LETTERS[name], getattr(learner, name), title + (", at first" if name in ("epsilon", "temperature") else "")
        )
        for name in numbers(learner.rule, learner.policy)
        if name not in swept
    ]
