"""Why a unit of a recurrent cell has its state: the cell's rule with its numbers, and each gate as σ of its sum, the
parts from the input, from the state before and from the bias (MATH R1, R3).

torch is not imported: a screen explains a number of a frame without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import atanh, isfinite, log, tanh
from typing import TypeVar

from txlab.engine.explain import HALF, IN_FACT, TOLERANCE, Explaining, Explanation, number, sigmoid

NOTES = {
    "f": "forget gate: how much is kept",
    "i": "input gate: how much is taken in",
    "g": "candidate for the memory",
    "o": "output gate: how much is shown",
    "r": "reset gate: 0 leaves the state out of n",
    "z": "update gate: 1 keeps the state",
    "n": "candidate for the new state",
    "h": "the state",
    "c": "the cell's memory",
}
NAMED = 3  # units of the step before that a line names
A = TypeVar("A")


def state_read(cell: str, name: str, h: A, r: A) -> A:
    """What U multiplies in a sum: h(t−1), or r h(t−1) for the candidate of Mehlig's GRU. MATH R3."""
    return r * h if (cell, name) == ("gru-mehlig", "n") else h  # type: ignore[operator, no-any-return]


@dataclass(frozen=True)
class Sum:
    """The sum of one gate of one unit at one step, W x + b + U h(t−1) + c, and the gate.

    name        "i"                      gate    its value, σ or tanh of the sum
    input       W x                      b, c    the biases of the input and of the state
    recurrent   U h(t−1)                 reset   r, which multiplies U h(t−1) + c for the candidate of torch's GRU
    weights     the row of U, (H)        states  what it multiplies, (H); () = only the sum of the products is known
    """

    name: str
    gate: float
    input: float
    recurrent: float
    b: float
    c: float
    reset: float | None = None
    weights: Sequence[float] = ()
    states: Sequence[float] = ()

    @property
    def products(self) -> list[float]:
        """The contribution of each unit of the step before: (H)."""
        return [weight * state for weight, state in zip(self.weights, self.states, strict=True)]

    @property
    def largest(self) -> str:
        """ "most from unit 17: +0.31, unit 4: −0.22, unit 90: +0.2"; "" if that is not known, or the states are 0"""
        products = self.products
        order = sorted(range(len(products)), key=lambda k: -abs(products[k]))[:NAMED]
        said = [f"unit {k + 1}: {'+' * (products[k] > 0)}{number(products[k], 3)}" for k in order if products[k]]
        return f"most from {', '.join(said)}" if said else ""


def why_gate(cell: str, source: str, each: Sum, where: str, x: str) -> Explanation:
    """Explain a gate, a candidate or the state of an RNN: σ or tanh of its sum.

    where   "in unit 3 of layer 1, after 'e'"      x   what the input is: "the embedding of 'e'"
    """
    name = "h(t)" if each.name == "h" else each.name
    squashes: tuple[str, Callable[[float], float], float] = ("σ", sigmoid, each.gate * (1 - each.gate))
    if each.name in "gnh":
        squashes = "tanh", tanh, 1 - each.gate**2
    squash, apply, slope = squashes
    read = "r h(t−1)" if (cell, each.name) == ("gru-mehlig", "n") else "h(t−1)"
    product = f"U ({read})" if " " in read else f"U {read}"
    letters = f"W x + {product} + b" if each.reset is None else f"W x + r ({product} + c) + b"
    why = Explaining(
        f"why is {each.name} {number(each.gate)} {where}?",
        each.gate,
        [f"unit {k + 1}" for k in range(len(each.weights))],
    )
    why.equation(f"{name} = {squash}({letters})", "R1" if cell == "rnn" else "R3", source)
    why.input("W x", each.input, f"the part from the input; x is {x}")
    if each.weights:
        why.input("U", each.weights, "the weight of each unit of the step before")
        why.input(read, each.states, "of these units")
        why.step("products", "each weight times its state", each.products)
        why.step(product, "the sum of the products", each.recurrent, "the part from the state before")
    else:
        why.input(product, each.recurrent, "the part from the state before")
    if each.reset is None:
        form, parts = "{} + {} + {}", [each.input, each.recurrent, each.b + each.c]
        why.input("b", each.b + each.c, "the bias")
    else:
        form, parts = "{} + {} · ({} + {}) + {}", [each.input, each.reset, each.recurrent, each.c, each.b]
        why.input("r", each.reset, NOTES["r"])
        why.input("c", each.c, "the bias of the state")
        why.input("b", each.b, "the bias of the input")
    notes = [NOTES[each.name].partition(":")[0], letters, each.largest]
    if rest := left_by_rounding(each, squash, slope):
        form, parts = f"{form} + {{}}", [*parts, rest]
        notes.append("the last term is left by storing the parts in half precision")

    def formula(*terms: float) -> float:
        if each.reset is None:
            return apply(sum(terms))
        x, r, h, c, *others = terms
        return apply(x + r * (h + c) + sum(others))

    why.compute(name, f"{squash}({form})", formula, *parts, note="; ".join(part for part in notes if part))
    return why.result(HALF)


def left_by_rounding(each: Sum, squash: str, slope: float) -> float:
    """What is missing from a sum whose parts were rounded to half precision, if a digit that is shown depends on it;
    0 if not, or if more is missing than rounding explains."""
    reset = 1.0 if each.reset is None else each.reset
    total = each.input + each.b + reset * (each.recurrent + each.c)
    if not (slope and isfinite(total)):
        return 0.0
    rest = (atanh(each.gate) if squash == "tanh" else log(each.gate / (1 - each.gate))) - total
    sizes = abs(each.input) + abs(each.b + each.c) + reset * (sum(map(abs, each.products)) or abs(each.recurrent))
    seen = abs(slope * rest) > TOLERANCE * abs(each.gate)
    return rest if seen and abs(rest) <= HALF * sizes else 0.0


def why_state(
    cell: str,
    rule: str,
    source: str,
    asked: str,
    now: Mapping[str, float],
    before: Mapping[str, float],
    where: str,
    gates: Mapping[str, Explanation] | None = None,
) -> Explanation:
    """Explain h or c of a unit from its gates and the state before it.

    cell, rule, source   of the cell       asked   "h" or "c"
    now      gates and state of this step, by name      before   the state one step earlier
    gates    the explanation of each gate by `why_gate`; None = its sum was not recorded
    """
    gates = gates or {}
    if cell == "rnn" and "h" in gates:
        return gates["h"]
    why = Explaining(f"why is {asked} {number(now[asked])} {where}?", now[asked])
    why.equation(rule, "R1" if cell == "rnn" else "R3", source)
    for name, value in before.items():
        why.input(f"{name}(t−1)", value, NOTES[name])
    for name, value in now.items():
        if name not in before and name not in gates:
            why.input(name, value, NOTES[name])

    def sums(names: str) -> None:
        why.steps += [
            step for name in names if name in gates for step in gates[name].steps if step.name in (name, IN_FACT)
        ]

    if cell == "lstm":
        sums("fig")
        f, i, g, c = now["f"], now["i"], now["g"], before["c"]
        why.compute("c(t)", "{} · {} + {} · {}", lambda f, c, i, g: f * c + i * g, f, c, i, g, note="f c(t−1) + i g")
        if asked == "h":
            sums("o")
            why.compute("h(t)", "{} · tanh {}", lambda o, c: o * tanh(c), now["o"], now["c"], note="o tanh c(t)")
    elif cell.startswith("gru"):
        sums("rzn")
        z, form = now["z"], "(1 − {}) · {} + {} · {}"
        meaning = "(1 − z) n + z h(t−1)"
        why.compute(
            "h(t)", form, lambda z, n, again, h: (1 - z) * n + again * h, z, now["n"], z, before["h"], note=meaning
        )
    else:
        why.measurement(f"{asked}(t)", "computed from all units of the step before")
    return why.result(HALF)
