"""The figure of λ and α on the 19-state walk: how long it takes, compared with a plain loop over runs and settings.

    python benchmarks/rl_prediction.py

Four methods × 8 λ × 21 α × 300 runs × 10 episodes are 202 million updates. The plain loop is the usual program for this
figure: one run and one setting at a time, with a NumPy vector of 21 values and one of traces. It runs for about a
second, and its time for the whole figure is extrapolated.
"""

import time
from typing import Any

import numpy as np

from txlab.engine.rl.dynamic_programming import even
from txlab.engine.rl.exact_values import solve_values
from txlab.engine.rl.features import tabular
from txlab.engine.rl.prediction_sweep import PredictionSettings, PredictionSweep
from txlab.engine.rl.rollouts import Rollouts
from txlab.engine.rl.worlds import world_named

METHODS = ("offline-lambda-return", "accumulating", "true-online", "replacing")
LAMS = (0.0, 0.4, 0.8, 0.9, 0.95, 0.975, 0.99, 1.0)
ALPHAS = tuple(round(0.05 * i, 2) for i in range(21))
RUNS, EPISODES = 300, 10


def plain(states: np.ndarray, rewards: np.ndarray, w: np.ndarray, alpha: float, lam: float) -> None:
    """An episode of TD(λ) with accumulating traces, as usually written."""
    e = np.zeros_like(w)
    last = len(rewards) - 1
    for t in range(len(rewards)):
        s = states[t]
        there = 0.0 if t == last else w[states[t + 1]]
        delta = rewards[t] + there - w[s]
        e *= lam
        e[s] += 1
        w += alpha * delta * e


def measure(runs: int = RUNS) -> dict[str, Any]:
    """CPU seconds and millions of updates per second of each method, of all together, and of the plain loop."""
    process = world_named("walk-19").process
    true, counted = solve_values(process, even(process), 1.0), np.flatnonzero(~process.terminal)
    lams, alphas = (grid.ravel() for grid in np.meshgrid(LAMS, ALPHAS, indexing="ij"))
    settings = PredictionSettings(alphas, lams, 1.0)

    begin = time.process_time()
    rollouts = Rollouts(process, np.arange(runs))
    lived = [rollouts.episodes() for _ in range(EPISODES)]
    walking = time.process_time() - begin
    steps = int(rollouts.begin.sum())

    seconds, best = {}, {}
    for method in METHODS:
        begin = time.process_time()
        sweep = PredictionSweep(method, tabular(process.size), runs, settings)
        errors = np.zeros((runs, len(alphas)))
        with np.errstate(over="ignore"):
            for episodes in lived:
                sweep.learn(episodes)
                errors += sweep.rms_error(true, counted) / EPISODES
        seconds[method] = time.process_time() - begin
        best[method] = float(errors.mean(axis=0).min())

    done, begin = 0, time.process_time()
    for run in range(runs):
        w = np.zeros(process.size)
        for episodes in lived:
            one = episodes.of(run)
            plain(one.states, one.rewards, w, 0.3, 0.8)
            done += len(one.rewards)
        if time.process_time() - begin > 1:
            break
    rate = done / (time.process_time() - begin)
    updates = steps * len(alphas)
    whole = walking + sum(seconds.values())
    return {
        "updates": updates * len(METHODS),
        "walking": walking,
        "seconds": seconds,
        "best": best,
        "whole": whole,
        "rate": {method: updates / taken for method, taken in seconds.items()},
        "plain_rate": rate,
        "plain_whole": updates * len(METHODS) / rate,
        "ratio": updates * len(METHODS) / whole / rate,
    }


def main() -> None:
    measured = measure()
    print(
        f"19-state walk, {len(METHODS)} methods × {len(LAMS)} λ × {len(ALPHAS)} α × {RUNS} runs × {EPISODES} episodes"
    )
    print(f"{measured['updates'] / 1e6:.0f} M updates; one core, CPU time")
    print(f"  {'the walks themselves':24}{measured['walking']:8.2f} s")
    for method in METHODS:
        rate, best = measured["rate"][method] / 1e6, measured["best"][method]
        print(f"  {method:24}{measured['seconds'][method]:8.2f} s {rate:7.1f} M updates/s   best RMS error {best:.4f}")
    print(f"  {'all':24}{measured['whole']:8.2f} s")
    print(
        f"  {'plain loop, reckoned':24}{measured['plain_whole']:8.0f} s {measured['plain_rate'] / 1e6:7.3f} M updates/s"
    )
    print(f"  ratio {measured['ratio']:.0f}")


if __name__ == "__main__":
    main()
