"""Why a unit of a recurrent cell has its state: the last line of the cell's rule with its numbers (MATH R3).

torch is not imported: a screen explains a number of a frame without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import tanh

from txlab.engine.explain import Explanation, Operand, Step, computed, number

NOTES = {
    "i": "input gate: how much is taken in",
    "f": "forget gate: how much is kept",
    "o": "output gate: how much is shown",
    "g": "what might be taken in",
    "z": "update gate: 1 keeps the state",
    "r": "reset gate: 0 leaves the state out of n",
    "n": "what might replace the state",
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
    operands = [Operand(f"{name}(t−1)", value, NOTES[name]) for name, value in before.items()]
    operands += [Operand(name, value, NOTES[name]) for name, value in now.items() if name not in before]
    steps: list[Step] = []
    if cell == "lstm":
        steps = [
            computed("c(t)", "{} · {} + {} · {}", lambda f, c, i, g: f * c + i * g, now["f"], before["c"], now["i"],
                     now["g"], note="f c(t−1) + i g"),
            computed("h(t)", "{} · tanh {}", lambda o, c: o * tanh(c), now["o"], now["c"], note="o tanh c(t)"),
        ][: 1 if asked == "c" else 2]  # fmt: skip
    elif cell.startswith("gru"):
        steps = [
            computed("h(t)", "(1 − {}) · {} + {} · {}", lambda z, n, again, h: (1 - z) * n + again * h, now["z"],
                     now["n"], now["z"], before["h"], note="(1 − z) n + z h(t−1)")
        ]  # fmt: skip
    else:
        steps = [Step(f"{asked}(t)", "", now[asked], "computed from all units of the step before")]
    return Explanation(
        question=f"why is {asked} {number(now[asked])} {where}?",
        equation=rule,
        math="R1" if cell == "rnn" else "R3",
        source=source,
        operands=operands,
        steps=steps,
    )
