"""Why a unit of a recurrent cell has its state: the last line of the cell's rule with its numbers (MATH R3).

torch is not imported: a screen explains a number of a frame without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import tanh

from txlab.engine.explain import HALF, Explaining, Explanation, number

NOTES = {
    "i": "input gate: how much is taken in",
    "f": "forget gate: how much is kept",
    "o": "output gate: how much is shown",
    "g": "candidate for the memory",
    "z": "update gate: 1 keeps the state",
    "r": "reset gate: 0 leaves the state out of n",
    "n": "candidate for the new state",
    "h": "the state",
    "c": "the cell's memory",
}


def why_state(
    cell: str, rule: str, source: str, asked: str, now: Mapping[str, float], before: Mapping[str, float], where: str
) -> Explanation:
    """Explain h or c of a unit from its gates and the state before it.

    cell, rule, source   of the cell       asked   "h" or "c"
    now      gates and state of this step, by name      before   the state one step earlier
    """
    why = Explaining(f"why is {asked} {number(now[asked])} {where}?", now[asked])
    why.equation(rule, "R1" if cell == "rnn" else "R3", source)
    for name, value in before.items():
        why.input(f"{name}(t−1)", value, NOTES[name])
    for name, value in now.items():
        if name not in before:
            why.input(name, value, NOTES[name])
    if cell == "lstm":
        f, i, g, c = now["f"], now["i"], now["g"], before["c"]
        why.compute("c(t)", "{} · {} + {} · {}", lambda f, c, i, g: f * c + i * g, f, c, i, g, note="f c(t−1) + i g")
        if asked == "h":
            why.compute("h(t)", "{} · tanh {}", lambda o, c: o * tanh(c), now["o"], now["c"], note="o tanh c(t)")
    elif cell.startswith("gru"):
        z, form = now["z"], "(1 − {}) · {} + {} · {}"
        meaning = "(1 − z) n + z h(t−1)"
        why.compute(
            "h(t)", form, lambda z, n, again, h: (1 - z) * n + again * h, z, now["n"], z, before["h"], note=meaning
        )
    else:
        why.measurement(f"{asked}(t)", "computed from all units of the step before")
    return why.result(HALF)
