"""Reference numbers of control: the cliff, the windy gridworld, maximisation bias, the short corridor.

Notable: the book shows these learners as curves without numbers; the values here come from
tests/experiments/independent_simulations.py. The runs measured have the seeds 0, 1, 2, …, so that everybody measures
the same value; its standard error is that of the mean over the runs. The values of the corridor are printed and exact.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np

from txlab.engine.rl.dynamic_programming import even, find_converged_sweep, from_start, sweeps
from txlab.engine.rl.exact_values import solve_values
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.sweeps.sweep import Sweep, greedy_returns, sweep_in
from txlab.engine.rl.worlds import world_named
from txlab.experiments.reference_numbers import Figures, Measured, Say, computed, derived, exactly, mean_of, printed

SB = "Sutton and Barto 2018"

FIGURES = Figures()

DYNA = {0: (292.988, 1.777, 3000, 200), 5: (39.899, 0.186, 1500, 150), 50: (19.626, 0.107, 400, 40)}
"""planning updates → mean steps of episodes 2 to 10, standard error, number of reference runs; runs to measure"""


@FIGURES.measured_by(
    "cliff",
    "Cliff walking, ε = .1, 500 runs of 500 episodes, mean return of the last 100",
    f"{SB}, example 6.6 (the curves of figure 6.3 are of other episodes: 1 to 100, 1 to 100 000)",
    [
        computed("SARSA, α = .1", -22.631, 2, 0.041, 4000),
        computed("SARSA, α = .5", -26.938, 2, 0.106, 4000),
        computed("Q-learning, α = .1", -49.080, 2, 0.109, 4000),
        computed("Q-learning, α = .5", -50.133, 2, 0.112, 4000),
        computed("Expected SARSA, α = .1", -21.974, 2, 0.035, 4000),
        computed("Expected SARSA, α = .5", -20.826, 2, 0.032, 4000),
        computed("Q-learning, α = .1: % of greedy paths that take 13", 100, 1, 0.0, 4000),
        computed("Q-learning, α = .5: % of greedy paths that take 13", 100, 1, 0.0, 4000),
    ],
    seconds=8,
)
def measure_cliff(say: Say, runs: int = 500, episodes: int = 500) -> list[Measured]:
    """Mean return of the last hundred episodes; percentage of runs whose greedy Q-learning path is the shortest."""
    process, measured, shortest = world_named("cliff").process, [], []
    for rule in ("sarsa", "q-learning", "expected-sarsa"):
        say(f"cliff: {rule}, {runs} runs of {episodes} episodes with α = .1 and .5")
        for alpha in (0.1, 0.5):
            sweep = Sweep(process, [Settings(rule=rule, alpha=alpha, epsilon=0.1)] * runs, range(runs))
            returns, _ = sweep.run_episodes(episodes)
            measured.append(mean_of(returns[:, -100:].mean(axis=1)))
            if rule == "q-learning":
                greedy, _, ended = greedy_returns(process, sweep.q(), range(runs))
                shortest.append(Measured(100.0 * float((ended & (greedy == -13.0)).mean()), 0.0, runs))
    return measured + shortest


@FIGURES.measured_by(
    "windy",
    "Windy gridworld, SARSA, α = .5, ε = .1, 1000 runs of 8000 steps",
    f"{SB}, example 6.5 and its curve",
    [
        computed("episodes ended", 159.88, 2, 0.156, 4000),
        computed("deviation from run to run", 9.85, 2, 0.110, 4000),
    ],
    seconds=3,
)
def measure_windy(say: Say, runs: int = 1000, steps: int = 8000) -> list[Measured]:
    """The number of episodes that SARSA finishes within `steps` steps: mean and deviation over the runs."""
    say(f"windy: SARSA, {runs} runs of {steps} steps")
    sweep = Sweep(world_named("windy").process, [Settings(rule="sarsa", alpha=0.5, epsilon=0.1)] * runs, range(runs))
    counts = np.bincount(sweep.advance(steps).agent, minlength=runs).astype(np.float64)
    # The standard error of a deviation s over n runs is s / √(2 (n − 1)) if they are about normal.
    deviation = float(counts.std(ddof=1))
    return [mean_of(counts), Measured(deviation, deviation / sqrt(2 * (runs - 1)), runs)]


@FIGURES.measured_by(
    "bias",
    "Maximisation bias, 10 actions in B, α = ε = .1, 10 000 runs, per cent that go left",
    f"{SB}, example 6.7 and the curves of figure 6.5",
    [
        computed("Q-learning, highest (about episode 20)", 93.975, 2, 0.075, 100_000),
        computed("Q-learning, episode 100", 45.957, 2, 0.158, 100_000),
        computed("Q-learning, episode 300", 11.965, 2, 0.103, 100_000),
        computed("double Q-learning, highest (at the start)", 50.108, 2, 0.158, 100_000),
        computed("double Q-learning, episode 100", 9.395, 2, 0.092, 100_000),
        computed("double Q-learning, episode 300", 6.793, 2, 0.080, 100_000),
    ],
    seconds=6,
)
def measure_bias(say: Say, runs: int = 10_000, episodes: int = 300) -> list[Measured]:
    """Percentage of runs that go left: the highest of all episodes, in episode 100, in episode 300."""
    process, measured = world_named("bias").process, []
    for rule in ("q-learning", "double-q"):
        say(f"bias: {rule}, {runs} runs of {episodes} episodes")
        sweep = Sweep(process, [Settings(rule=rule, alpha=0.1, epsilon=0.1)] * runs, range(runs))
        _, lengths = sweep.run_episodes(episodes)
        left = 100.0 * (lengths == 2)  # left leads to B, where one more step is made
        highest = int(left.mean(axis=0).argmax())
        measured += [mean_of(left[:, episode]) for episode in (highest, 99, 299)]
    return measured


@FIGURES.measured_by(
    "corridor",
    "Short corridor with switched actions, where all states look the same",
    f"{SB}, example 13.1",
    [
        printed("best probability of right", 0.59, 2),
        printed("its value (−11.66, of which the text cuts a digit)", -11.6, 1, cut=True),
        printed("value of ε-greedy right, ε = .1", -44, 0),
        printed("value of ε-greedy left, ε = .1", -82, 0),
    ],
    seconds=0.1,
)
def measure_corridor(say: Say) -> list[Measured]:
    """The best probability of going right, and the values of ε-greedy left and right with ε = .1."""
    process = world_named("corridor").process

    def worth(right: float) -> float:
        policy = np.where(process.allowed, np.array([1 - right, right]), 0.0)
        return float(solve_values(process, policy, 1.0)[0])

    low, high = 0.05, 0.95
    for _ in range(100):  # ternary search: the value has a single maximum
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (a, high) if worth(a) < worth(b) else (low, b)
    right = (low + high) / 2
    return exactly([right, worth(right), worth(0.95), worth(0.05)])


@FIGURES.measured_by(
    "dyna",
    "Dyna-Q in the maze, α = ε = .1, γ = .95: steps of an episode",
    f"{SB}, example 8.1 and the curves of figure 8.2",
    [
        derived("the first one, expected", 868.725, 3),
        derived("of the best policy with ε = .1", 15.813, 3),
        *(
            computed(f"episodes 2 to 10, {planning} from memory", value, 2, error, runs)
            for planning, (value, error, runs, _) in DYNA.items()
        ),
    ],
    seconds=6,
)
def measure_dyna(say: Say) -> list[Measured]:
    """Expected steps of the first episode, a random walk; then the mean of episodes 2 to 10."""
    world = world_named("dyna-maze")
    counted = replace(world.process, reward=-np.ones_like(world.process.reward), discount=1.0)
    by_chance, best = (
        solve_values(counted, even(counted), 1.0),
        find_converged_sweep(sweeps(counted, 1.0, epsilon=0.1)).v,
    )
    measured = exactly(-from_start(counted, v) for v in (by_chance, best))
    for planning, (_, _, _, runs) in DYNA.items():
        say(f"Dyna-Q: {planning} from memory, {runs} runs of 10 episodes")
        settings = Settings(rule="dyna-q", alpha=0.1, epsilon=0.1, planning=planning)
        _, lengths = sweep_in(world, [settings] * runs, range(runs)).run_episodes(10)
        measured.append(mean_of(lengths[:, 1:].mean(axis=1)))
    return measured
