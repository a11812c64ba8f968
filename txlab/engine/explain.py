"""The answer to "why this number?": an equation with the numbers that produced it.

Notable: this file does not import torch, so a screen can show an Explanation without it. The code that computes a
quantity builds the Explanation from its own intermediate values, never from a second derivation that could disagree.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

Number = float | int
Value = Number | Sequence[Number] | Sequence[Sequence[Number]] | str

SHOWN = 4
"""Significant digits of a result on a screen, and at least as many of what it is computed from."""


def number(value: Number, digits: int = SHOWN) -> str:
    """The number with this many significant digits and a typographic minus sign; a whole number has all of its own."""
    return (str(value) if isinstance(value, int) else f"{value:.{digits}g}").replace("-", "−")


def bracketed(value: Number, digits: int = SHOWN) -> str:
    """The same for use after an operator: in brackets if negative."""
    return f"({number(value, digits)})" if value < 0 else number(value, digits)


def substituted(form: str, formula: Callable[..., Number], *operands: Number) -> str:
    """The form with the operands in place of its {}, each with as few digits as give the result that is shown.

    All operands have the same number of significant digits, at least four: the fewest with which the numbers as they
    are written give the result of the exact ones to four digits, or to 1e-12 of the largest.

    >>> substituted("{} / {}", lambda loss, ln2: loss / ln2, 0.000156789, 0.6931471805599453)
    '0.0001568 / 0.6931'
    >>> substituted("{} − {}", lambda a, b: a - b, 12.3456, 12.3444)
    '12.3456 − 12.3444'
    """
    exact = formula(*operands)
    shown = f"{exact:.{SHOWN}g}"
    for digits in range(SHOWN, 18):
        written = formula(*[each if isinstance(each, int) else float(f"{each:.{digits}g}") for each in operands])
        if f"{written:.{SHOWN}g}" == shown or abs(written - exact) <= 1e-12 * max(map(abs, operands)):
            break
    first, *rest = operands
    return form.format(number(first, digits), *[bracketed(each, digits) for each in rest])


@dataclass(frozen=True)
class Operand:
    """One input of the equation: its name there, its value, and what it is in words."""

    name: str
    value: Value
    note: str = ""


@dataclass(frozen=True)
class Step:
    """One line of the computation: `name = expression` with the numbers substituted, and its result."""

    name: str
    expression: str
    result: Value
    note: str = ""


@dataclass(frozen=True)
class Explanation:
    """Why a number is what it is.

    question   what was asked, e.g. "why does 'mice' look at 'cat' with .62?"
    equation   the formula in letters, e.g. "αᵢⱼ = exp(sᵢⱼ) / Σⱼ′ exp(sᵢⱼ′)"
    math       the formula's number, e.g. "T1" (`txlab formulas`)
    source     where the formula comes from, e.g. "Vaswani et al. 2017, eq. 1"
    operands   the inputs, in the order of the equation
    steps      the computation from the operands to the number asked about, which the last step gives; a number that
               is measured or counted is a single step without an expression
    labels     names for the entries of row-shaped values (tokens, actions), if they have any
    asked      the index of the label that was asked about; None if the question is not about one entry of a row
    meaning    what follows from the number: a loss as a perplexity, a share beside that of guessing
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
        found = last if isinstance(last, (int, float)) or self.asked is None else last[self.asked]
        assert isinstance(found, (int, float)), f"{self.question} The last step gives {found!r}, which is not a number"
        return found

    def as_json(self) -> dict[str, Any]:
        """Its parts and the result, as `--json` prints them."""
        return {**asdict(self), "result": self.result}


def computed(name: str, form: str, formula: Callable[..., Number], *operands: Number, note: str = "") -> Step:
    """The line of a computation whose operands are written with as many digits as its result needs.

    >>> computed("δ", "{} − {}", lambda a, b: a - b, 3.0, -2.0)
    Step(name='δ', expression='3 − (−2)', result=5.0, note='')
    """
    return Step(name, substituted(form, formula, *operands), formula(*operands), note)
