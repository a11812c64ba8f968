"""The bands behind a curve: mean and standard error over seeds of the same learner.

Notable: a band is ±1 standard error of the mean, s/√n with s the deviation over n seeds. It shows how well the *mean*
is known (two in three bands contain the true one), not how much learners differ from each other: that is √n wider.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from txlab.engine.rl.settings import Settings
from txlab.engine.rl.sweeps.sweep import Cancelled, sweep_in
from txlab.engine.rl.world import World
from txlab.experiments.tabular.world import limited

Band = tuple[np.ndarray, np.ndarray, np.ndarray]
"""mean, low, high: (episodes) each, of the returns under the exploring policy, not the greedy one."""


def band(
    world: World,
    settings: Settings,
    seeds: Sequence[int],
    episodes: int,
    cancelled: Callable[[], bool] = lambda: False,
) -> Band:
    """The mean return of each episode over seeds, and one standard error below and above it.

    If cancelled, the arrays end with the last part that all seeds have finished.
    """
    nothing: Band = (np.zeros(0), np.zeros(0), np.zeros(0))
    return next(iter([*growing(world, settings, seeds, episodes, cancelled)][-1:]), nothing)


def growing(
    world: World,
    settings: Settings,
    seeds: Sequence[int],
    episodes: int,
    cancelled: Callable[[], bool] = lambda: False,
    parts: int = 10,
) -> Iterator[Band]:
    """Yield the same band as it grows, about `parts` times, each time with all episodes so far."""
    sweep = sweep_in(limited(world), [settings] * len(seeds), seeds)
    returns = np.zeros((len(seeds), 0))
    stride = max(1, -(-episodes // parts))
    while returns.shape[1] < episodes:
        try:
            more, _ = sweep.run_episodes(min(stride, episodes - returns.shape[1]), cancelled)
        except Cancelled:
            return
        returns = np.concatenate([returns, more], axis=1)
        yield spread(returns)


def spread(values: np.ndarray) -> Band:
    """mean, mean − s/√n, mean + s/√n over the first axis of (n, …); all three are equal if n is 1."""
    mean = values.mean(axis=0)
    n = len(values)
    error = values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.zeros_like(mean)
    return mean, mean - error, mean + error
