"""The bands behind a curve: mean and standard error over seeds of the same learner.

Notable: a band is ±1 standard error of the mean, s/√n with s the deviation over n seeds. It shows how well the *mean*
is known, not how much learners differ from each other: that is √n wider. It is not a 95 % interval: for normal values
it contains the true mean in 50 % of cases for 2 seeds, 63 % for 5, 68 % for many (`covered_by_standard_error`).
Student's 95 % interval would promise too much, for returns are skewed: of Q-learning's 60th episode on the cliff it
contains the mean in 76 % of cases for 5 seeds and 91 % for 30. One seed has no band.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from txlab.engine.rl.settings import Settings
from txlab.engine.rl.sweeps.sweep import Cancelled, sweep_in
from txlab.engine.rl.world import World
from txlab.experiments.tabular.world import limit_steps

Band = tuple[np.ndarray, np.ndarray, np.ndarray]
"""mean, low, high: (episodes) each, of the returns under the exploring policy, not the greedy one."""


def band(
    world: World,
    settings: Settings,
    seeds: Sequence[int],
    episodes: int,
    cancelled: Callable[[], bool] = lambda: False,
) -> Band:
    """The mean return of each episode over seeds, and one standard error below and above it; NaN for one seed.

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
    sweep = sweep_in(limit_steps(world), [settings] * len(seeds), seeds)
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
    """mean, mean − s/√n, mean + s/√n over the first axis of (n, …)."""
    mean, error = mean_and_error(values)
    return mean, mean - error, mean + error


def mean_and_error(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n, …) → mean and standard error of the mean; the error is NaN for one seed, and where a value is infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = values.mean(axis=0)
        if len(values) < 2:
            return mean, np.full_like(mean, np.nan)
        return mean, values.std(axis=0, ddof=1) / np.sqrt(len(values))
