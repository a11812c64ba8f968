"""The answer to "why this number?": an equation with the very numbers that made it.

Notable: this file imports no torch, so that a screen can show an Explanation without it; the code that computes a
quantity builds the Explanation from its own intermediate values (never a second derivation that could disagree).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

Number = float | int
Value = Number | Sequence[Number] | Sequence[Sequence[Number]] | str


@dataclass(frozen=True)
class Operand:
    """One named thing that enters the equation: `name` as in the equation, its value, and what it is in words."""

    name: str
    value: Value
    note: str = ""


@dataclass(frozen=True)
class Step:
    """One line of the computation: `name = expression`, with numbers put in, and its result."""

    name: str
    expression: str
    result: Value
    note: str = ""


@dataclass(frozen=True)
class Explanation:
    """Why a number is what it is.

    question   what was asked, e.g. "why does 'mice' look at 'cat' with .62?"
    equation   the formula in letters, e.g. "αᵢⱼ = exp(sᵢⱼ) / Σⱼ′ exp(sᵢⱼ′)"
    math       the item of MATH.md, e.g. "T1"
    source     where the formula is from, e.g. "Vaswani et al. 2017, eq. 1"
    operands   what goes in, in the order of the equation
    steps      the way from the operands to the result
    result     the number asked about, exactly as computed
    labels     names for the entries of row-shaped values (tokens, actions), if they have any
    asked      the place among the labels that was asked about; None where no entry of a row was
    """

    question: str
    equation: str
    math: str
    source: str
    operands: Sequence[Operand]
    steps: Sequence[Step]
    result: float
    labels: Sequence[str] = field(default_factory=tuple)
    asked: int | None = None
