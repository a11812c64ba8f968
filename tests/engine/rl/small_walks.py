"""The walks of the tests, compiled by hand: S states in a row, an end at either side."""

import numpy as np

from txlab.engine.rl.process import Outcome, Process, compile_process
from txlab.engine.rl.rollouts import Episode, Rollouts


def walk(states: int, left: float, right: float, limit: int = 0, discount: float = 1.0) -> Process:
    """States 1 … `states` between two ends, 0 and states + 1; begins in the middle."""
    outcomes = {}
    for s in range(1, states + 1):
        outcomes[s, 0] = [Outcome(1, s - 1, left if s == 1 else 0.0, s == 1)]
        outcomes[s, 1] = [Outcome(1, s + 1, right if s == states else 0.0, s == states)]
    names = [str(s) for s in range(states + 2)]
    return compile_process(["left", "right"], names, outcomes, (states + 1) // 2, discount, limit)


def some_episodes(process: Process, many: int, seed: int = 1) -> list[Episode]:
    """The first episodes of one life."""
    rollouts = Rollouts(process, np.array([seed]))
    return [rollouts.episodes().of(0) for _ in range(many)]
