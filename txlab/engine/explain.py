"""The answer to "why this number?": an equation with the numbers that produced it.

Notable: this file does not import torch, so a screen can show an Explanation without it. The code that computes a
quantity builds the Explanation from its own intermediate values, never from a second derivation that could disagree.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

Number = float | int
Value = Number | Sequence[Number] | Sequence[Sequence[Number]] | str


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
    steps      the computation from the operands to the result
    result     the number asked about, exactly as computed
    labels     names for the entries of row-shaped values (tokens, actions), if they have any
    asked      the index of the label that was asked about; None if the question is not about one entry of a row
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
