"""The answer to "why this number?": an equation with the numbers that produced it.

`Explaining` builds it and compares the last step with the number that is explained: where they differ, the explanation
says so. Notable: this file does not import torch, so a screen can show an Explanation without it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import repeat
from math import exp, floor, isfinite, log10
from typing import Any

Number = float | int
Value = Number | Sequence[Number] | Sequence[Sequence[Number]] | str

SHOWN = 4
"""Significant digits of a result on a screen, and the least number of digits of its operands."""

TOLERANCE = 1e-4
"""Relative: a difference in the last of the digits that are shown."""

LARGE = 1e7
"""From here on numbers are written with an exponent."""

HALF = 2**-9
"""The same for numbers that were stored in half precision: two roundings to 11 bits."""

IN_FACT = "in fact"
"""The name of a last step that says what the others should have given."""


def number(value: Number, digits: int = SHOWN) -> str:
    """The number with this many significant digits, without trailing zeros, and a typographic minus sign; a whole
    number, and every number below ten million, has all digits before its point, with spaces between thousands.

    >>> number(0.5), number(-1.0), number(0.00032), number(2e-5), number(-0.0), number(1.5e9), number(12345)
    ('0.5', '−1', '0.00032', '2e-5', '0', '1.5e9', '12 345')
    >>> number(12345.678), number(-1234.5), number(12345.678, 7)
    ('12 346', '−1 234', '12 345.68')
    """
    exponent = ""
    if isinstance(value, int):
        text = f"{value:,}"
    elif 1000 <= abs(value) < LARGE:
        text = f"{value:,.{max(0, digits - 1 - floor(log10(abs(value))))}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        text, _, exponent = f"{value + 0.0:.{digits}g}".partition("e")  # −0 + 0 = 0
    return text.replace("-", "−").replace(",", " ") + (f"e{int(exponent)}" if exponent else "")


def rounded(value: Number, digits: int) -> float:
    """The value of what `number` writes.

    >>> rounded(12345.678, 4), rounded(-0.12345678, 4)
    (12346.0, -0.1235)
    """
    return float(number(value, digits).replace(" ", "").replace("−", "-"))


NUMERAL = re.compile(r"(?<![\w.'\"−-])[+−-]?(?:\d{1,3}(?: \d{3})+(?:\.\d+)?|\d[\d.]*(?:e-?\d+)?)(?![\w.])(?<!\.)")


def write_alike(question: str, value: Number, answer: str = "") -> str:
    """Write the number that a question asks about as the `answer` does; "" = as `number`.

    >>> write_alike("why is 'the' worth -0.500 at step 12?", -0.5), write_alike("why +0.2500 for column 1?", 0.25)
    ("why is 'the' worth −0.5 at step 12?", 'why +0.25 for column 1?')
    """
    for match in NUMERAL.finditer(question):
        numeral = match.group().replace("−", "-")
        grouped, numeral = " " in numeral, numeral.replace(" ", "")
        places = len(numeral.partition("e")[0].partition(".")[2])
        half = 0.5 * 10.0 ** (-places + int(numeral.partition("e")[2] or 0))
        if (grouped or "." in numeral or numeral[0] in "+-") and abs(float(numeral) - value) <= half * (1 + 1e-9):
            written = "+" * (numeral[0] == "+" and value > 0) + (answer or number(value))
            return question[: match.start()] + written + question[match.end() :]
    return question


def bracket(value: Number, digits: int = SHOWN) -> str:
    """The same for use after an operator: in brackets if negative."""
    return f"({number(value, digits)})" if value < 0 else number(value, digits)


def digits_needed(result: Number, operands: Sequence[Number]) -> int:
    """The digits with which a result does not look like an operand that it differs from; at least four.

    >>> digits_needed(1.9951, [1.995, 0.0001]), digits_needed(3.0, [1.0, 2.0])
    (5, 4)
    """
    for digits in range(SHOWN, 13):
        if not any(looks_like(each, result, digits) for each in operands):
            return digits
    return SHOWN


def looks_like(operand: Number, result: Number, digits: int, written: Number | None = None) -> bool:
    """Whether an operand differs from the result and, as it is `written`, equals it to this many digits."""
    written = operand if written is None else written
    return abs(operand - result) > 1e-12 * abs(result) and rounded(written, digits) == rounded(result, digits)


def substitute(form: str, formula: Callable[..., Number], *operands: Number) -> str:
    """The form with its {} replaced by the operands, each with as few digits as reproduce the displayed result.

    All operands have the same number of significant digits, at least four: the fewest with which the numbers as they
    are written give the result of the exact ones to the digits that it needs, or to 1e-12 of the largest.

    >>> substitute("{} / {}", lambda loss, ln2: loss / ln2, 0.000156789, 0.6931471805599453)
    '0.0001568 / 0.6931'
    >>> substitute("{} − {}", lambda a, b: a - b, 12.3456, 12.3444)
    '12.3456 − 12.3444'
    >>> substitute("{} + {}", lambda a, b: a + b, 1.995, 0.0002)
    '1.995 + 0.0002'
    >>> substitute("−{} · {}", lambda a, b: -a * b, -2.0, 3.0), substitute("{}²", lambda a: a * a, -3.0)
    ('−(−2) · 3', '(−3)²')
    """
    exact = formula(*operands)
    needed = digits_needed(exact, operands)
    for digits in range(SHOWN, 18):
        written = [each if isinstance(each, int) else rounded(each, digits) for each in operands]
        found = formula(*written)
        alike = all(rounded(found, each) == rounded(exact, each) for each in {SHOWN, needed})
        if alike and not any(map(looks_like, operands, repeat(exact), repeat(needed), written)):
            break
        if abs(found - exact) <= 1e-12 * max(map(abs, operands)):
            break
    before, _, after = form.partition("{}")
    alone = (not before or before.endswith("(")) and not after.startswith(("²", "³", "^"))
    first, *rest = operands
    written_first = number(first, digits) if alone else bracket(first, digits)
    return form.format(written_first, *[bracket(each, digits) for each in rest])


@dataclass(frozen=True)
class Operand:
    """One input of the equation: its name there, its value, and what it is in words."""

    name: str
    value: Value
    note: str = ""


@dataclass(frozen=True)
class Step:
    """One line of the computation: `name = expression` with the numbers substituted, and its result, which is shown
    with `digits` significant digits."""

    name: str
    expression: str
    result: Value
    note: str = ""
    digits: int = SHOWN


@dataclass(frozen=True)
class Explanation:
    """The explanation of a number.

    question   e.g. "why does 'mice' look at 'cat' with .62?"
    equation   the formula in letters, e.g. "αᵢⱼ = exp(sᵢⱼ) / Σⱼ′ exp(sᵢⱼ′)"
    math       the formula's number, e.g. "T1" (`txlab formulas`)
    source     where the formula comes from, e.g. "Vaswani et al. 2017, eq. 1"
    operands   the inputs, in the order of the equation
    steps      the computation from the operands to the number being explained, the last step's result; a measured or
               counted number is a single step without an expression
    labels     names for the entries of row-shaped values (tokens, actions), if they have any
    asked      the index of the label in question; None if the question is not about one entry of a row
    meaning    what follows from the number: a loss as a perplexity, a share compared with guessing
    """

    question: str
    equation: str
    math: str
    source: str
    operands: Sequence[Operand]
    steps: Sequence[Step]
    labels: Sequence[str] = field(default_factory=tuple)
    asked: int | None = None
    meaning: Sequence[Step] = field(default_factory=tuple)

    @property
    def result(self) -> float:
        """The number asked about: the result of the last step; of a row, its entry `asked`."""
        last = self.steps[-1].result
        answer = last if isinstance(last, (int, float)) or self.asked is None else last[self.asked]
        assert isinstance(answer, (int, float)), (
            f"{self.question} The last step gives {answer!r}, which is not a number"
        )
        return answer

    def as_json(self) -> dict[str, Any]:
        """Its parts and the result, as `--json` prints them."""
        return {**asdict(self), "result": self.result}


def compute_step(name: str, form: str, formula: Callable[..., Number], *operands: Number, note: str = "") -> Step:
    """The line of a computation whose operands are written with as many digits as its result needs.

    >>> compute_step("δ", "{} − {}", lambda a, b: a - b, 3.0, -2.0)
    Step(name='δ', expression='3 − (−2)', result=5.0, note='', digits=4)
    """
    result = formula(*operands)
    return Step(name, substitute(form, formula, *operands), result, note, digits_needed(result, operands))


class Explaining:
    """Builds the explanation of one number: question, equation, what goes in, steps, and what the number means.

    >>> why = Explaining("why is δ 2?", 2.0)
    >>> why.equation("δ = r − Q(s,a)", "M6", "Sutton and Barto 2018, eq. 6.8")
    >>> why.input("r", 3.0, "reward")
    >>> why.compute("δ", "{} − {}", lambda r, q: r - q, 3.0, 1.0)
    >>> why.result().result
    2.0

    value          the number that is explained, as it was recorded or is shown
    labels, asked  as in `Explanation`; of a last step that is a row, value is its entry `asked`
    """

    def __init__(self, question: str, value: Number, labels: Sequence[str] = (), asked: int | None = None) -> None:
        self.question, self.value, self.labels, self.asked = write_alike(question, value), value, labels, asked
        self.formula = ("", "", "")
        self.operands: list[Operand] = []
        self.steps: list[Step] = []
        self.meaning: list[Step] = []
        self.scale = 0.0  # of the terms of the last step

    def equation(self, equation: str, math: str, source: str) -> None:
        self.formula = equation, math, source

    def input(self, name: str, value: Value, note: str = "") -> None:
        """An input of the equation."""
        self.operands.append(Operand(name, value, note))

    def step(self, name: str, expression: str, result: Value, note: str = "") -> None:
        """A line whose expression is in words or letters."""
        self.steps.append(Step(name, expression, result, note))
        self.scale = 0.0

    def compute(self, name: str, form: str, formula: Callable[..., Number], *operands: Number, note: str = "") -> None:
        """A line whose result is computed here: the formula of the operands, which take the places {} of the form."""
        self.steps.append(compute_step(name, form, formula, *operands, note=note))
        self.scale = size_of_terms(formula, operands)

    def measurement(self, name: str, note: str = "", expression: str = "") -> None:
        """The only line of a number that is not computed from others: it was measured or counted."""
        self.step(name, expression, self.value, note)

    def means(self, *steps: Step) -> None:
        """What follows from the number."""
        self.meaning += steps

    def result(self, within: float = TOLERANCE, because: str = "", scale: float = 0.0) -> Explanation:
        """The explanation. If the last step differs from the number that is explained, one more line says so.

        within   the largest difference, relative to the largest of the number, the terms of the last step and `scale`;
                 more than `TOLERANCE` for numbers stored in half precision, whose rounding is told where it is seen
        because  what the difference comes from, if that is known
        """
        why = Explanation(
            self.question, *self.formula, self.operands, self.steps, self.labels, self.asked, self.meaning
        )
        value, last = self.value, why.result
        if differs(last, value, within, max(scale, self.scale)):
            digits = max(SHOWN, digits_needed(value, [last]))
            difference = f"these steps give {number(last, digits)}, the value shown is {number(value, digits)}"
            line = Step(IN_FACT, "", value, f"{difference}: {because}" if because else difference, digits)
            return replace(why, steps=[*self.steps, line])
        end = self.steps[-1]
        if not isinstance(end.result, (int, float)):
            return why
        if differs(last, value, TOLERANCE, max(scale, self.scale)):
            if f"{last:.3g}" != f"{value:.3g}":
                stored = f"stored in half precision as {number(value)}"
                end = replace(end, note=f"{end.note}; {stored}" if end.note else stored)
        else:
            end = replace(end, result=value)
        return replace(why, steps=[*self.steps[:-1], end])


def sigmoid(x: float) -> float:
    """σ(x) = 1 / (1 + e⁻ˣ), without overflow."""
    return 1 / (1 + exp(-x)) if x >= 0 else exp(x) / (1 + exp(x))


def differs(one: float, other: float, within: float, scale: float) -> bool:
    """Whether two numbers differ by more than a share of the largest of them and of `scale`; nan is like nan."""
    if not (isfinite(one) and isfinite(other)):
        return one != other and not (one != one and other != other)
    return abs(one - other) > within * max(abs(one), abs(other), scale)


def size_of_terms(formula: Callable[..., Number], operands: Sequence[Number]) -> float:
    """Σ |xᵢ ∂f/∂xᵢ|: of a sum, the sum of its absolute terms, by which roundings of the operands are to be measured.

    >>> round(size_of_terms(lambda a, b: a - b, [5.0, 4.0]), 3)
    9.0
    """
    h, exact, total = 1e-6, formula(*operands), 0.0
    for place, each in enumerate(operands):
        if isinstance(each, float):
            total += abs(formula(*operands[:place], each * (1 - h), *operands[place + 1 :]) - exact) / h
    return total if isfinite(total) else 0.0
