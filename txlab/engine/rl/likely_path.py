"""The way that a policy most probably leads through a world: what a person sees drawn over it.

Notable: nothing is drawn by chance, so that the same policy always has the same path; where one cannot say which
outcome comes, it ends.
"""

from __future__ import annotations

import numpy as np

from txlab.engine.rl.process import Process


def likely_path(process: Process, policy: np.ndarray) -> np.ndarray:
    """(n) int64: the states that a policy (S, A) leads through from where episodes most probably begin, as far as one
    can say: each step takes the likeliest action and its likeliest outcome, until the end, a state that was passed
    before, or an outcome no likelier than not."""
    state = int(process.start.argmax())
    passed = [state]
    while not process.terminal[state]:
        likeliest = max(process.outcomes(state, int(policy[state].argmax())), key=lambda each: each.probability)
        if likeliest.probability <= 0.5:
            break
        state = likeliest.next
        again = state in passed
        passed.append(state)
        if likeliest.done or again:
            break
    return np.array(passed, dtype=np.int64)
