"""Functions as they are typed: what is read agrees with Python, what is not is refused in a sentence (MATH F1)."""

from __future__ import annotations

import math
import random
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from waiting import calls

from txlab.engine.descent.expressions import CONSTANTS, FUNCTIONS, LONGEST, expression
from txlab.engine.syntax import depth, syntax_tree
from txlab.errors import LabError

OURS = {
    "sin": math.sin, "cos": math.cos, "tan": math.tan, "asin": math.asin, "acos": math.acos, "atan": math.atan,
    "atan2": math.atan2, "sinh": math.sinh, "cosh": math.cosh, "tanh": math.tanh, "exp": math.exp, "log": math.log,
    "ln": math.log, "log2": math.log2, "log10": math.log10, "sqrt": math.sqrt, "abs": abs, "erf": math.erf,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)), "relu": lambda x: max(x, 0.0), "min": min, "max": max,
}  # fmt: skip


def grown(choice: random.Random, depth: int) -> str:
    """A formula at random."""
    if depth == 0 or choice.random() < 0.2:
        return choice.choice(["x", "y", "2", "0.5", "1e-3", "pi", "e", "3.25"])
    match choice.randrange(4):
        case 0:
            name = choice.choice(list(FUNCTIONS))
            return f"{name}({', '.join(grown(choice, depth - 1) for _ in range(FUNCTIONS[name][0]))})"
        case 1:
            return f"-{grown(choice, depth - 1)}"
        case 2:
            return f"({grown(choice, depth - 1)})**{choice.choice(['2', '3', '-1', '0.5'])}"
        case _:
            return f"({grown(choice, depth - 1)} {choice.choice('+-*/')} {grown(choice, depth - 1)})"


def test_what_is_read_agrees_with_python() -> None:
    choice, agreed = random.Random(0), 0
    while agreed < 200:
        text = grown(choice, 3)
        if len(text) > LONGEST:
            continue
        x, y = choice.uniform(-3, 3), choice.uniform(-3, 3)
        try:
            expected = eval(text, {"__builtins__": {}}, {**OURS, **CONSTANTS, "x": x, "y": y})  # of our own making
        except (ValueError, ZeroDivisionError, OverflowError):
            continue
        if isinstance(expected, complex) or not math.isfinite(expected):
            continue
        found = expression(text)
        value = found(torch.tensor([x, y], dtype=torch.float64))
        assert value.dtype == torch.float64
        assert float(value) == pytest.approx(expected, rel=1e-9, abs=1e-12), text
        assert found.variables == tuple(name for name in "xy" if name in text.replace("exp", "").replace("max", ""))
        agreed += 1


@pytest.mark.parametrize(
    ("typed", "plain"),
    [("x^2+1", "x**2+1"), ("3·x²−π", "3*x**2-pi"), ("2×x³", "2*x**3"), ("(1 - x)^2 + 100*(y - x^2)^2",) * 2],
)
def test_signs_that_people_write_are_understood(typed: str, plain: str) -> None:
    points = torch.rand(2, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(expression(typed)(points), expression(plain)(points))


def test_a_constant_has_a_value_at_every_point() -> None:
    assert expression("2")(torch.zeros(1, 7, dtype=torch.float64)).tolist() == [2.0] * 7
    assert expression("2").variables == ()


HOSTILE = [
    "__import__('os').system('true')", "().__class__.__bases__[0]", "x.__class__", "(lambda: x)()", "[x for x in y]",
    "f'{x}'", "f'{__import__(1)}'", "'a' * 10**9", "x if x else y", "x and y", "x < y", "x := 2", "print(x)",
    "eval('x')", "exec('x')", "open('/etc/passwd')", "sin.__call__(x)", "sin(*[x])", "sin(**{})", "sin(x=1)", "sin",
    "x[0]", "{x}", "{1: 2}", "(x, y)", "x; y", "x = 2", "import os", "await x", "yield", "...", "None", "True", "1j",
    "b'1'", "'x'", "x @ y", "x // y", "x % y", "x << 10**10", "x | y", "~x", "not x", "sin()", "sin(x, y)", "min(x)",
    "z + 1", "2x", "x y", "x +", "(x", "x)", "", "   ", "\0", "x\0", "\ud800", "9" * 199, "1e999", "1_0__0", "0x",
    "\x1b[2J", "é", "x" * LONGEST * 2, "(" * 100 + "x" + ")" * 99, "-" * 150 + "x", "sin(" * 45 + "x" + ")" * 45,
    "x**" * 60 + "2", "globals()", "x.real", "#", "x # y\n+", "\\", "'''", '"', "lambda", "def f(): pass",
    "__debug__", "x" + ".x" * 90, "pi()", "x(2)", "(sin)(x)(y)",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_an_invalid_formula_is_refused_immediately_with_an_error(seed: int) -> None:
    choice, refused = random.Random(seed), 0
    for number in range(250):
        text = HOSTILE[number % len(HOSTILE)]
        if number >= len(HOSTILE):  # and changed at random
            for _ in range(choice.randint(1, 4)):
                at = choice.randrange(len(text) + 1)
                text = (
                    text[:at]
                    + choice.choice(["(", ")", ".", "x", "**", "__", "'", "[", "9", "\0", "é", ","])
                    + text[at:]
                )
        said = ""

        def read(text: str = text) -> None:
            nonlocal said, refused
            try:
                expression(text)
            except LabError as error:
                said = str(error)
                refused += 1

        assert calls(read) < 20_000, text[:80]
        assert said.isprintable()
        assert len(said) < 400
        if number < len(HOSTILE):
            assert said, text[:80]
    assert refused > 225


def test_ten_megabytes_are_refused_before_they_are_read() -> None:
    for text in ("x+" * 5_000_000 + "x", "(" * 10_000_000, "9" * 10_000_000):
        tracemalloc.start()
        with pytest.raises(LabError, match="at most 200 characters"):
            expression(text)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 20


def test_huge_powers_cost_nothing() -> None:
    """As whole numbers they would take longer than any test may."""
    assert float(expression("9**9**9**9")(torch.zeros(1, dtype=torch.float64))) == math.inf


def test_the_nearest_name_is_suggested() -> None:
    with pytest.raises(LabError, match="nearest: sqrt"):
        expression("sqr(x)")
    with pytest.raises(LabError, match="products need a"):
        expression("2x")
    with pytest.raises(LabError, match=r"sin is a function; .* as in sin\(x\)"):
        expression("sin")
    with pytest.raises(LabError, match=r"as in atan2\(x, 1\)"):
        expression("1 + atan2")
    with pytest.raises(LabError, match="pi is a number"):
        expression("pi(x)")


@pytest.mark.parametrize("text", ["|x|", "2*|x - 1|", "abs|x|", "x | 1", "||x||"])
def test_bars_are_answered_with_abs(text: str) -> None:
    with pytest.raises(LabError, match=r"abs\(x\)"):
        expression(text)


def test_trees_built_in_many_threads_concurrently_are_all_read() -> None:
    """CPython's parser raises SystemError if two threads build trees concurrently and are switched in between."""
    lines = ["h = " + "-" * 90 + "x", "h = " + " + ".join(["x"] * 90)]
    with ThreadPoolExecutor(8) as pool:
        depths = list(pool.map(lambda place: depth(syntax_tree(lines[place % 2], 100)), range(400)))
    assert depths == [91, 90] * 200


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("|x|", "|x|: write abs(x)"),
        ("1 + |x - 1|", "|x|: write abs(x)"),
        ("√x", "√x: write sqrt(x)"),
        ("y = x**2", "write only what stands to the right of ="),
        ("x if x > 0 else 0", "a choice with if and else; abs, min, max and relu have corners"),
        ("x > 0", "a comparison"),
        ("x % 2", "the remainder %"),
        ("x // 2", "the division //"),
        ("x[0]", "an index in [ ]"),
        ("(x, y)", "a comma"),
        ("not x", "not"),
        ("lambda: x", "a function of its own"),
        ("x.real", "a point between names"),
    ],
)
def test_what_no_formula_has_is_refused_in_the_words_of_mathematics(text: str, said: str) -> None:
    with pytest.raises(LabError) as refused:
        expression(text)
    assert said in str(refused.value)
    python = ("IfExp", "BinOp", "Compare", "Subscript", "Attribute", "Lambda", "Tuple", "UnaryOp")
    assert not any(each in str(refused.value) for each in python)
