"""How a method came from one point to the next: its rule, with the numbers of the step that was made (MATH F1–F4)."""

from __future__ import annotations

from math import sqrt

from torch import Tensor

from txlab.engine.descent.methods import Method, Settings, Step, format_point
from txlab.engine.explain import Explaining, Explanation, compute_step
from txlab.engine.explain import Step as Line

LETTERS = {"rate": "γ", "momentum": "μ", "beta1": "β₁", "beta2": "β₂", "epsilon": "ε"}
"""setting → its letter in the rules"""


def explain_step(
    method: Method,
    f: str,
    taken: Step,
    settings: Settings,
    *,
    question: str,
    result: float,
    asked: str = "f(x)",
    what: str = "",
    names: str = "xy",
    noisy: bool = False,
) -> Explanation:
    """The step that `method` took, ending with the number being explained: its letter `asked` and, if it is not f, its
    formula `what`; `names` are the coordinates' names."""
    added = "with noise added to it" if noisy else "of the sample that was drawn" if method.name == "sgd" else ""
    why = Explaining(question, result)
    why.equation(",  ".join(part for part in (what, method.rule) if part), method.math, method.source)
    why.input("f", f, "the objective")
    why.input("x", format_point(taken.point), "the point before")
    why.input("f(x)", taken.value)
    why.input("∇f", numbers(taken.gradient), added)
    for letter, each in taken.letters.items():
        why.input(letter, numbers(each), "the second derivatives, row by row" if letter == "H" else "")
    for name in [*method.uses, *(["epsilon"] if method.name == "adam" else [])]:
        if name in LETTERS:
            why.input(LETTERS[name], float(getattr(settings, name)))
    if taken.trouble:
        why.step("x ←", "none: the method rests", format_point(taken.point), taken.trouble)
    else:
        point = f"({', '.join(names)}) ←" if len(taken.point) > 1 else "x ←"
        why.step(point, method.rule.rpartition("x ← ")[2], format_point(taken.after.x))
        for place, name in enumerate(names[: len(taken.point)]):
            why.steps.append(coordinate(method, taken, settings, place, name))
    why.measurement(asked, "there", what.partition(" = ")[2])
    return why.result()


def coordinate(method: Method, taken: Step, settings: Settings, k: int, name: str) -> Line:
    """The rule for one coordinate, with its numbers."""
    x, gradient, rate = float(taken.point[k]), float(taken.gradient[k]), settings.rate
    letters = {letter: float(value[k]) for letter, value in taken.letters.items() if value.dim() == 1}
    match method.name:
        case "newton-root":
            return compute_step(f"{name} ←", "{} − {} / {}", lambda x, f, g: x - f / g, x, taken.value, gradient)
        case "newton-minimum":
            return compute_step(f"{name} ←", "{} − {}", lambda x, d: x - d, x, letters["H⁻¹∇f"])
        case "adam":
            return compute_step(
                *(f"{name} ←", "{} − {} · {} / (√{} + {})", lambda x, r, m, v, e: x - r * m / (sqrt(max(v, 0)) + e)),
                *(x, rate, letters["m̂"], letters["v̂"], settings.epsilon),
            )
        case _:
            direction = letters.get("sign ∇f", letters.get("m", gradient))
            return compute_step(f"{name} ←", "{} − {} · {}", lambda x, r, g: x - r * g, x, rate, direction)


def numbers(tensor: Tensor) -> str:
    """(n) or (n, n), whose rows are separated by semicolons."""
    if tensor.dim() == 2:
        return ";  ".join(numbers(row) for row in tensor)
    return "  ".join(f"{float(each):.6g}".replace("-", "−") for each in tensor)
