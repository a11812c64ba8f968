"""Baird's counterexample: seven states, eight weights, all rewards 0, and weights that grow without bound.

The features are part of the world, like its moves. The true values are 0, and the features can represent
them exactly; still every expected semi-gradient update makes the error larger.
"""

from __future__ import annotations

import numpy as np

from txlab.engine.rl.process import Outcome, compile_process
from txlab.engine.rl.world import Layout, NamedWorld, World

STATES = 7
WEIGHTS = np.array([1.0, 1, 1, 1, 1, 1, 10, 1])  # initial weights
TARGET = np.array([0.0, 1.0])  # the policy to be evaluated: always solid
BEHAVIOUR = np.array([6 / 7, 1 / 7])  # the policy followed: every next state is equally likely


def features() -> np.ndarray:
    """(7, 8): 2wᵢ + w₈ in the upper states, w₇ + 2w₈ in the lower one."""
    matrix = np.zeros((STATES, STATES + 1))
    matrix[:6, :6] = 2 * np.eye(6)
    matrix[:6, 7] = 1.0
    matrix[6, 6], matrix[6, 7] = 1.0, 2.0
    return matrix


def baird() -> World:
    """`dashed` leads to one of the six upper states, `solid` to the seventh, from everywhere; reward 0, γ = .99."""
    outcomes = {}
    for s in range(STATES):
        outcomes[s, 0] = [Outcome(1 / 6, upper, 0.0) for upper in range(6)]
        outcomes[s, 1] = [Outcome(1.0, 6, 0.0)]
    names = [f"upper {n}" for n in range(1, 7)] + ["lower"]
    begin = np.full(STATES, 1 / STATES)
    process = compile_process(["dashed", "solid"], names, outcomes, begin, discount=0.99, limit=1000)
    place = np.array([[0, 0, n] for n in range(6)] + [[0, 1, 2]])
    notes = ("Nothing ends an episode here: it is cut off after 1000 steps.",)
    return World("baird", "", process, Layout(2, 6, place), notes=notes)


WORLD = NamedWorld(
    "baird", "Baird's counterexample", "Sutton and Barto 2018, example 11.1, figures 11.1 and 11.2", baird
)
