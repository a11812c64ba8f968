"""The short corridor, in which all places look the same and one has its moves switched: the best policy is random.

The states are the world's; a learner of preferences sees only the `observation`, which is always 0.
"""

from __future__ import annotations

import numpy as np

from txlab.engine.rl.process import Outcome, compile_process
from txlab.engine.rl.world import Layout, NamedWorld, World


def corridor() -> World:
    """−1 a move; left in the first state stays; in the second left and right are switched; right of the third it ends.

    As every place looks the same, the best policy goes right with probability 2 − √2: see `value`.
    """
    outcomes = {
        (0, 0): [Outcome(1.0, 0, -1.0)],
        (0, 1): [Outcome(1.0, 1, -1.0)],
        (1, 0): [Outcome(1.0, 2, -1.0)],
        (1, 1): [Outcome(1.0, 0, -1.0)],
        (2, 0): [Outcome(1.0, 1, -1.0)],
        (2, 1): [Outcome(1.0, 3, -1.0, True)],
    }
    names = ["start", "switched", "last", "end"]
    process = compile_process(["left", "right"], names, outcomes, start=0, observation=np.zeros(4, dtype=np.int64))
    place = np.array([[0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 0, 3]])
    layout = Layout(1, 4, place, marks={(0, 0): "S", (0, 3): "G"})
    return World("corridor", "", process, layout)


def value(right: float) -> float:
    """v(start) if right is chosen with this probability everywhere: −2 (2 − p) / (p (1 − p)), best −11.66 at 2 − √2.

    >>> round(value(2 - 2**0.5), 2)
    -11.66
    """
    return -2 * (2 - right) / (right * (1 - right))


WORLD = NamedWorld("corridor", "Short corridor with switched actions", "Sutton and Barto 2018, example 13.1", corridor)
