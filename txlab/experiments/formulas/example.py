"""A formula with numbers in it: small inputs that can be changed, and the engine's computation from them step by step.

A chapter's examples are `EXAMPLES` of its module, which is imported when one of them is asked for: most need torch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from math import inf, isfinite
from typing import Any

from txlab.engine.explain import Explanation, Step, Value, differs
from txlab.errors import LabError, choices
from txlab.experiments.formulas.content import formula_named

MODULES = {
    "F": "descent",
    "K": "tokens",
    "R": "recurrent",
    "T": "transformers",
    "M": "decisions",
    "G": "games",
    "H": "feedback",
}
"""The module of each chapter."""

SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")

Rows = list[list[float]]
Given = dict[str, Any]
"""The name of an input → its value: int or float, list[float], list[list[float]], or str."""


@dataclass(frozen=True)
class Input:
    """An input of an example.

    name      as it is typed: --set q=1,2
    value     its first value; its type and shape are those that other values must have
    note      what it is, in words
    low, high the least and the largest of its numbers; a whole number (int) stays whole
    step      what one key press adds to a number
    allowed   the texts that are possible; empty = any text
    grows     rows may be of any number and length (a text of any length always may)
    """

    name: str
    value: Value
    note: str = ""
    low: float = -inf
    high: float = inf
    step: float = 0.1
    allowed: tuple[str, ...] = ()
    grows: bool = False

    def read(self, text: str) -> Any:
        """The value that a text denotes: "0.5", "1,2", "1,0; 0,1", or the text itself. LabError if not allowed."""
        if isinstance(self.value, str):
            return self.checked(text)
        rows = [[self.read_number(entry) for entry in re.split(r"[,\s]+", row.strip())] for row in text.split(";")]
        if isinstance(self.value, (int, float)):
            return self.checked(rows[0][0] if len(rows) == len(rows[0]) == 1 else rows)
        return self.checked(rows[0] if len(rows) == 1 and not self.is_matrix else rows)

    @property
    def is_matrix(self) -> bool:
        return (
            isinstance(self.value, Sequence) and not isinstance(self.value, str) and isinstance(self.value[0], Sequence)
        )

    def read_number(self, text: str) -> float | int:
        try:
            return float(text) if "." in text or "e" in text.lower() else int(text)
        except ValueError:
            raise LabError(
                f"{self.name}: {text!r} is not a number; an example: {self.name}={format_value(self.value)}"
            ) from None

    def checked(self, value: Value) -> Any:
        """The value with its numbers as int or float, as declared. LabError if its shape or a number is not allowed."""
        if isinstance(self.value, str):
            if self.allowed and value not in self.allowed:
                raise LabError(f"{self.name}={value!r} is not allowed{choices(str(value), self.allowed)}")
            return str(value)
        if shape(value) != shape(self.value) and not (self.grows and len(shape(value)) == len(shape(self.value))):
            raise LabError(
                f"{self.name} has the shape {shape_words(shape(value))}; "
                f"allowed: {shape_words(shape(self.value))}, as in {self.name}={format_value(self.value)}"
            )
        return self.cast(value)

    def cast(self, value: Value) -> Any:
        if not isinstance(value, (int, float)):
            return [self.cast(entry) for entry in value]
        if not (isfinite(value) and self.low <= value <= self.high):
            raise LabError(f"{self.name}={value} is not allowed; allowed: {self.bounds()}")
        if self.whole and value != int(value):
            raise LabError(f"{self.name}={value} is not allowed; allowed: whole numbers")
        return int(value) if self.whole else float(value)

    @property
    def whole(self) -> bool:
        value = self.value
        while not isinstance(value, (int, float)):
            value = value[0]  # type: ignore[assignment]  # a str never gets here
        return isinstance(value, int)

    def bounds(self) -> str:
        """ "numbers from 0 to 1" """
        low, high = (f"{bound:g}" if isfinite(bound) else "" for bound in (self.low, self.high))
        return "numbers" + f" from {low}" * bool(low) + f" to {high}" * bool(high)


@dataclass(frozen=True)
class Misprint:
    """A form of the formula that is printed wrongly somewhere, computed next to the right one.

    says      what the source prints, in one sentence
    explain   the same computation in that form
    parts     the name of the first step whose number differs from the right form's, for the inputs as they are declared
    """

    says: str
    explain: Callable[..., Explanation]
    parts: str


@dataclass(frozen=True)
class Example:
    """An example of a formula.

    inputs      in the order of the equation
    explain     called with the inputs by name; computes by the engine's functions and shows every number between
    predict     the question that is asked before the result is shown
    misprints   by name
    """

    number: str
    inputs: tuple[Input, ...]
    explain: Callable[..., Explanation]
    predict: str
    misprints: Mapping[str, Misprint] = field(default_factory=dict)

    def values(self, given: Mapping[str, str] | None = None) -> Given:
        """The inputs as they are declared, with what is given as text in their place. LabError for a name that is no
        input or a text that is no value of it."""
        values: Given = {
            each.name: each.cast(each.value) if not isinstance(each.value, str) else each.value for each in self.inputs
        }
        for name, text in (given or {}).items():
            values[name] = self.input(name).read(text)
        return values

    def input(self, name: str) -> Input:
        known = {each.name: each for each in self.inputs}
        if name not in known:
            raise LabError(f"the example of {self.number} has no input {name!r}{choices(name, known)}")
        return known[name]

    def misprint(self, name: str = "") -> Misprint:
        """The misprint of that name, by default the first. LabError if there is none."""
        if not self.misprints:
            raise LabError(f"{self.number} has no known misprint")
        if name and name not in self.misprints:
            raise LabError(f"{self.number} has no misprint {name!r}{choices(name, self.misprints)}")
        return self.misprints[name or next(iter(self.misprints))]


def where_they_part(right: Explanation, wrong: Explanation) -> Step | None:
    """The first step of the right form that the wrong form lacks or computes differently; None if the numbers agree."""
    others = {step.name: step.result for step in wrong.steps}
    for step in right.steps:
        if step.name not in others or unlike(step.result, others[step.name]):
            return step
    return None


def unlike(one: Value, other: Value) -> bool:
    """Whether two values differ by more than rounding."""
    if isinstance(one, str) or isinstance(other, str):
        return one != other
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return differs(one, other, 1e-9, 0.0)
    if isinstance(one, (int, float)) or isinstance(other, (int, float)):
        return True
    return len(one) != len(other) or any(map(unlike, one, other))


def shape(value: Value) -> tuple[int, ...]:
    """The shape of nested lists: () for a number. LabError if rows differ in length."""
    if isinstance(value, (int, float, str)):
        return ()
    inner = {shape(entry) for entry in value}
    if len(inner) != 1:
        raise LabError("rows of a matrix have the same length")
    return len(value), *inner.pop()


def shape_words(sizes: tuple[int, ...]) -> str:
    return " × ".join(map(str, sizes)) if sizes else "one number"


def format_value(value: Value) -> str:
    """A value as it is typed.

    >>> format_value([[1.0, 0.0], [0.5, 2.0]]), format_value(3)
    ('1,0; 0.5,2', '3')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)):
        return f"{value:.12g}"
    return ("; " if isinstance(value[0], Sequence) else ",").join(format_value(entry) for entry in value)


def indexed(name: str, n: int) -> str:
    """ "x" and 12: "x₁₂" """
    return name + str(n).translate(SUBSCRIPTS)


@cache
def examples(chapter: str) -> dict[str, Example]:
    """Number → example, of a chapter."""
    module = import_module(f"txlab.experiments.formulas.{MODULES[chapter]}")
    return {each.number: each for each in module.EXAMPLES}


def example_of(number: str) -> Example:
    """The example of a formula. LabError for a number that none has."""
    formula = formula_named(number)
    return examples(formula.number[0])[formula.number]
