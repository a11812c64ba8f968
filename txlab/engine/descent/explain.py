"""How a method came from one point to the next: its rule, with the numbers of the step that was made (MATH F1–F4)."""

from __future__ import annotations

from math import sqrt

from torch import Tensor

from txlab.engine.descent.methods import Method, Settings, Step, told
from txlab.engine.explain import Explanation, Operand, computed
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
    """The step that `method` took, and at its end the number that was asked about: its letter `asked` and its formula
    `what`, if it is not f; `names` are those of the coordinates."""
    added = "with noise added to it" if noisy else "of the sample that was drawn" if method.name == "sgd" else ""
    operands = [
        Operand("f", f, "what is gone down"),
        Operand("x", told(taken.point), "the point before"),
        Operand("f(x)", taken.value),
        Operand("∇f", numbers(taken.gradient), added),
    ]
    operands += [Operand(letter, numbers(value)) for letter, value in taken.letters.items()]
    used = [*method.uses, *(["epsilon"] if method.name == "adam" else [])]
    operands += [Operand(LETTERS[name], float(getattr(settings, name))) for name in used]
    if taken.trouble:
        steps = [Line("x ←", "none: the method rests", told(taken.point), taken.trouble)]
    else:
        steps = [
            Line(
                f"({', '.join(names)}) ←" if len(taken.point) > 1 else "x ←",
                method.rule.rpartition("x ← ")[2],
                told(taken.after.x),
            )
        ]
        steps += [
            coordinate(method, taken, settings, place, name) for place, name in enumerate(names[: len(taken.point)])
        ]
    return Explanation(
        question=question,
        equation=",  ".join(part for part in (what, method.rule) if part),
        math=method.math,
        source=method.source,
        operands=operands,
        steps=[*steps, Line(asked, what.partition(" = ")[2], result, "there")],
    )


def coordinate(method: Method, taken: Step, settings: Settings, k: int, name: str) -> Line:
    """The rule for one coordinate, with its numbers."""
    x, gradient, rate = float(taken.point[k]), float(taken.gradient[k]), settings.rate
    letters = {letter: float(value[k]) for letter, value in taken.letters.items()}
    match method.name:
        case "newton-root":
            return computed(f"{name} ←", "{} − {} / {}", lambda x, f, g: x - f / g, x, taken.value, gradient)
        case "newton-minimum":
            return computed(f"{name} ←", "{} − {}", lambda x, d: x - d, x, letters["H⁻¹∇f"])
        case "adam":
            return computed(
                *(f"{name} ←", "{} − {} · {} / (√{} + {})", lambda x, r, m, v, e: x - r * m / (sqrt(max(v, 0)) + e)),
                *(x, rate, letters["m̂"], letters["v̂"], settings.epsilon),
            )
        case _:
            direction = letters.get("sign ∇f", letters.get("m", gradient))
            return computed(f"{name} ←", "{} − {} · {}", lambda x, r, g: x - r * g, x, rate, direction)


def numbers(tensor: Tensor) -> str:
    return "  ".join(f"{float(each):.6g}".replace("-", "−") for each in tensor)
