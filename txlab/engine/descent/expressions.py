"""Functions that the user types, in x or in x and y, parsed by Python's own parser and computed by torch (MATH F1).

    x**3 - 2*x + 1        sin(x)·y²        (1 - x)^2 + 100*(y - x^2)^2

Notable: nothing evaluates the text. `ast` parses it, and anything not on the lists below is refused by name; the rest
is a tree of sums, products, powers and known functions, computed in float64, so evaluation is always fast.
`^` and superscripts are powers, `·` and `×` products, as in handwriting. torch is imported when a function is first
computed, so that a scenario can be checked without it.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from txlab.engine.syntax import in_words, syntax_tree
from txlab.errors import LabError, choices

if TYPE_CHECKING:
    from torch import Tensor

LONGEST = 200  # characters
DEEPEST = 40  # operations inside each other
LARGEST = 1e100  # of the numbers that are typed
VARIABLES = ("x", "y")
CONSTANTS = {"pi": math.pi, "e": math.e, "tau": math.tau}
ONE = ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "log", "log2", "log10", "sqrt",
       "abs", "sigmoid", "relu", "erf")  # fmt: skip
FUNCTIONS = {name: (1, name) for name in ONE} | {
    "ln": (1, "log"),
    "atan2": (2, "atan2"),
    "min": (2, "minimum"),
    "max": (2, "maximum"),
}
"""name → (how many values it takes, its name in torch)"""
OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
SIGNS = {"^": "**", "·": "*", "×": "*", "−": "-", "π": "pi"} | {
    sign: f"**{power}" for power, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")
}
INSTEAD = {
    "|": "|x|: write abs(x)",
    "√": "√x: write sqrt(x)",
    "!": "n!: a factorial is not a function of real numbers here",
    "=": "f = …: write only what stands to the right of =",
}
"""A sign of mathematics that cannot be typed here → what to write for it."""


@dataclass(frozen=True)
class Number:
    value: float


@dataclass(frozen=True)
class Variable:
    name: str


@dataclass(frozen=True)
class Applied:
    """A function, named as in torch, or an operation, of other nodes."""

    what: str | Callable[..., Any]
    nodes: tuple[Node, ...]


Node: TypeAlias = Number | Variable | Applied


@dataclass(frozen=True)
class Expression:
    """text as it was typed · variables in it, in the order x, y"""

    text: str
    variables: tuple[str, ...]
    tree: Node

    def __call__(self, point: Tensor) -> Tensor:
        """(n, …) float64 → (…): the function at points whose coordinates are x, y in the first dimension."""
        values = dict(zip(VARIABLES, point, strict=False))
        return self._compute(values) + 0 * point[0]  # of the points' shape, even if it is constant

    @cached_property
    def _compute(self) -> Callable[[Mapping[str, Tensor]], Tensor]:
        return _compile(self.tree)


def expression(text: str) -> Expression:
    """Read a function of x, or of x and y. LabError, one sentence, for anything else."""
    if len(text) > LONGEST:
        raise LabError(f"a function has at most {LONGEST} characters; this one has {len(text)}")
    plain = "".join(SIGNS.get(sign, sign) for sign in text).strip()
    if not plain:
        raise LabError("a function is needed, as in x**2 - 2")
    try:
        [line] = syntax_tree(plain, DEEPEST).body
        if not isinstance(line, ast.Expr):
            raise SyntaxError
    except (SyntaxError, ValueError):
        instead = next((words for sign, words in INSTEAD.items() if sign in plain), "")
        raise LabError(
            instead
            or f"{text[:60]!a} is not a formula; write it as in x**2 - 2, sin(x)*y, exp(-x**2): products need a *"
        ) from None
    variables: set[str] = set()
    node = _read(line.value, variables)
    return Expression(text, tuple(name for name in VARIABLES if name in variables), node)


def _read(node: ast.AST, variables: set[str]) -> Node:
    """A node of our own for one of Python's; the variables in it are added to `variables`."""
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            if abs(value) > LARGEST:
                raise LabError(f"a number is at most {LARGEST:g}")
            return Number(float(value))
        case ast.Name(id=name) if name in VARIABLES:
            variables.add(name)
            return Variable(name)
        case ast.Name(id=name) if name in CONSTANTS:
            return Number(CONSTANTS[name])
        case ast.Name(id=name) if name in FUNCTIONS:
            values = "(x)" if FUNCTIONS[name][0] == 1 else "(x, 1)"
            raise LabError(f"{name} is a function; write its argument in parentheses, as in {name}{values}")
        case ast.Name(id=name):
            raise LabError(f"{name[:30]!a} is unknown{choices(name, [*VARIABLES, *CONSTANTS, *FUNCTIONS])}")
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return Applied(operator.neg, (_read(operand, variables),))
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _read(operand, variables)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATIONS:
            return Applied(OPERATIONS[type(op)], (_read(left, variables), _read(right, variables)))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            count, function = FUNCTIONS[name]
            if len(arguments) != count:
                raise LabError(f"{name} takes {count} value{'s' * (count > 1)}; {len(arguments)} are given")
            return Applied(function, tuple(_read(argument, variables) for argument in arguments))
        case ast.Call(func=ast.Name(id=name)) if name in (*VARIABLES, *CONSTANTS):
            raise LabError(f"{name} is a number and not a function; products need a *, as in {name}*(x + 1)")
        case ast.Call(func=ast.Name(id=name)):
            raise LabError(f"{name[:30]!a} is not a function here{choices(name, list(FUNCTIONS))}")
        case _:
            raise _refusal(node)


def _refusal(node: ast.AST) -> LabError:
    """What is wrong with a node that no formula has, in the words of mathematics."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return LabError(INSTEAD["|"])
    has = "it has numbers, x, y, + - * / ** and functions such as sin(x)"
    if isinstance(node, ast.IfExp | ast.Compare | ast.BoolOp):
        has = "abs, min, max and relu have corners, as in max(x, 0)"
    return LabError(f"a formula cannot have {in_words(node)}; {has}")


def _compile(node: Node) -> Callable[[Mapping[str, Tensor]], Tensor]:
    """What computes a node from the values of the variables."""
    import torch

    if isinstance(node, Number):
        number = torch.tensor(node.value, dtype=torch.float64)
        return lambda values: number
    if isinstance(node, Variable):
        name = node.name
        return lambda values: values[name]
    function = getattr(torch, node.what) if isinstance(node.what, str) else node.what  # a name of FUNCTIONS
    inner = [_compile(each) for each in node.nodes]
    return lambda values: function(*(each(values) for each in inner))
