"""Small random decision processes, and the plainest backup there is, for the tests of planning."""

import numpy as np

from txlab.engine.rl.process import Outcome, Process, compile_process


def random_process(seed: int, ends: float = 0.2, forbidden: float = 0.2, discount: float = 0.9) -> Process:
    """2 to 8 states and 1 to 4 actions, each with 1 to 4 outcomes; the last state is terminal.

    ends       how likely an outcome is to end the episode, with some state's number as its `next`
    forbidden  how likely a pair is not to be allowed (never all of a state)
    """
    random = np.random.default_rng(seed)
    states, actions = int(random.integers(2, 9)), int(random.integers(1, 5))
    outcomes = {}
    for s in range(states - 1):
        open_ = random.random(actions) >= forbidden
        open_[random.integers(actions)] = True
        for a in np.flatnonzero(open_):
            shares = random.dirichlet(np.ones(random.integers(1, 5)))
            outcomes[s, int(a)] = [
                Outcome(float(p), int(random.integers(states)), float(random.normal()), bool(random.random() < ends))
                for p in shares
            ]
    names = [f"a{a}" for a in range(actions)], [f"s{s}" for s in range(states)]
    return compile_process(*names, outcomes, 0, discount)


def plain_backup(process: Process, v: np.ndarray, gamma: float) -> np.ndarray:
    """Q(s, a), outcome by outcome as the definition reads; NaN where an action is not allowed."""
    q = np.full((process.size, process.choices), np.nan)
    for s in range(process.size):
        for a in range(process.choices):
            found = process.outcomes(s, a)
            if found:
                ends = [o.done or not any(process.outcomes(o.next, b) for b in range(process.choices)) for o in found]
                worths = [o.reward + (0 if end else gamma * v[o.next]) for o, end in zip(found, ends, strict=True)]
                q[s, a] = sum(o.probability * worth for o, worth in zip(found, worths, strict=True))
    return q


def corners(discount: float = 1.0) -> Process:
    """Sutton and Barto's figure 4.1: 4 × 4 cells, two corners end, every move costs 1, walls stop."""
    outcomes = {}
    for s in range(1, 15):
        row, column = divmod(s, 4)
        for a, (down, right) in enumerate([(-1, 0), (1, 0), (0, -1), (0, 1)]):
            to = min(3, max(0, row + down)) * 4 + min(3, max(0, column + right))
            outcomes[s, a] = [Outcome(1.0, to, -1.0, to in (0, 15))]
    start = np.r_[0, np.ones(14) / 14, 0]
    return compile_process(["up", "down", "left", "right"], [f"cell {s}" for s in range(16)], outcomes, start, discount)


def chain(rewards: tuple[float, float, float], discount: float = 1.0) -> Process:
    """Two states: in the first "stay" pays rewards[0] and "go" rewards[1]; in the second "go" ends, pays rewards[2]."""
    outcomes = {
        (0, 0): [Outcome(1.0, 0, rewards[0])],
        (0, 1): [Outcome(1.0, 1, rewards[1])],
        (1, 1): [Outcome(1.0, 0, rewards[2], done=True)],
    }
    return compile_process(["stay", "go"], ["here", "there"], outcomes, 0, discount)
