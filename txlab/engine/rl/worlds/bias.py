"""A world in which the maximum of estimates overestimates the maximum.

The rewards are normal. The process holds their mean, −.1, and their standard deviation, 1, in `noise`, so that
planning sees that right is better while a learner sees the misleading samples.
"""

from __future__ import annotations

import numpy as np

from txlab.engine.rl.process import Outcome, compile_process
from txlab.engine.rl.world import Layout, NamedWorld, Option, World


def bias(choices: int) -> World:
    """From A, right ends with 0, left leads to B with 0; in B each of `choices` actions ends with N(−.1, 1)."""
    A, B, END = 0, 1, 2
    names = ["left", "right", *(f"action {n}" for n in range(3, choices + 1))]
    outcomes = {(A, 0): [Outcome(1.0, B, 0.0)], (A, 1): [Outcome(1.0, END, 0.0, True)]}
    outcomes |= {(B, a): [Outcome(1.0, END, -0.1, True, 1.0)] for a in range(choices)}
    process = compile_process(names, ["A", "B", "end"], outcomes, start=A)
    layout = Layout(1, 3, np.array([[0, 0, 1], [0, 0, 0], [0, 0, 2]]), marks={(0, 1): "S", (0, 2): "G"})
    title = f"Maximisation bias, {choices} actions in B"
    return World("bias", title, process, layout)


WORLD = NamedWorld(
    "bias",
    "Maximisation bias",
    "Sutton and Barto 2018, example 6.7, figure 6.5",
    bias,
    {"choices": Option(10, "actions in B", 2, 1000)},
)
