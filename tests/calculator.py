"""What a reader with a calculator finds for the expressions of an explanation."""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import cos, exp, log, pi, sqrt, tanh

from txlab.engine.explain import IN_FACT, Explanation, Step, sigmoid

KNOWN = {"sqrt": sqrt, "log": log, "exp": exp, "cos": cos, "tanh": tanh, "pi": pi, "min": min, "max": max}
KNOWN["σ"] = sigmoid
WRITTEN = {"−": "-", "·": "*", "^": "**", "[": "(", "]": ")", "√": "sqrt ", "ln ": "log ", "π": "pi", "½": "0.5 *"}


def calculated(expression: str) -> float | None:
    """The value of an expression in numbers; None if it contains variables, or no operation."""
    for sign, plain in WRITTEN.items():
        expression = expression.replace(sign, plain)
    expression = re.sub(r"(?<=\d) (?=\d{3}(?!\d))", "", expression)  # 12 345.6
    expression = re.sub(r"(sqrt|log|tanh) *([\d.]+(?:e[-+]?\d+)?)", r"\1(\2)", expression).replace("sqrt (", "sqrt(")
    letters = set(re.findall(r"[^\W\d]+", re.sub(r"\de[-+]?\d", "", expression)))
    if letters - set(KNOWN) or not re.search(r"[-+*/(]", expression) or not re.search(r"\d", expression):
        return None
    try:
        return float(eval(expression, {"__builtins__": {}}, KNOWN))
    except (SyntaxError, TypeError):  # a list, a sum that is cut short
        return None


def miscalculated(steps: Iterable[Step], within: float) -> list[str]:
    """The lines whose expression gives another result than the one printed next to it."""
    found = []
    for step in steps:
        value = calculated(step.expression) if isinstance(step.result, int | float) else None
        if value is not None and abs(value - step.result) > within * max(abs(value), abs(step.result)) + 1e-9:  # type: ignore[operator, arg-type]
            found.append(f"{step.name} = {step.expression} = {step.result}, not {value}")
    return found


def contradictions(why: Explanation) -> list[str]:
    """Why the explanation cannot be true: its steps give another number, or a letter has two values."""
    found = [step.note for step in why.steps if step.name == IN_FACT]
    names = [operand.name for operand in why.operands]
    found += [f"two inputs are called {name}" for name in set(names) if names.count(name) > 1]
    values = {operand.name: operand.value for operand in why.operands}
    for step in why.steps:
        changed = f"{step.name} ←" in why.equation or f"{step.name.partition('(')[0]} ←" in why.equation
        if step.name in values and not changed and values[step.name] != step.result:
            found.append(f"{step.name} is {values[step.name]} and {step.result}")
    return found
