"""Reference numbers of prediction: the two random walks, and Baird's counterexample (MATH M4).

Notable: the book shows the errors of the walks as curves over 100 runs, without numbers; the values here come from
tests/experiments/independent_simulations.py. Ours are measured with the random seeds of the scenarios. "Best" is the
setting where the book's curves are lowest, not our best.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from txlab.engine.rl.dynamic_programming import even
from txlab.engine.rl.exact_values import solve_values
from txlab.engine.rl.features import tabular
from txlab.engine.rl.off_policy import Weights, off_policy, semi_gradient_dp
from txlab.engine.rl.prediction_sweep import PredictionSettings, PredictionSweep
from txlab.engine.rl.rollouts import Rollouts
from txlab.engine.rl.worlds import baird as counterexample
from txlab.engine.rl.worlds import world_named
from txlab.experiments.kinds.prediction.episodes import seeds_of
from txlab.experiments.reference_numbers import Figures, Measured, Say, computed, derived, exactly, mean_of

WALK_19: list[tuple[str, float, float, float, float]] = [
    ("offline-lambda-return", 0.8, 0.35, 0.26261, 0.00069),
    ("accumulating", 0.8, 0.30, 0.26167, 0.00071),
    ("true-online", 0.8, 0.40, 0.25492, 0.00077),
    ("replacing", 0.8, 0.50, 0.24866, 0.00079),
    ("td-0", 0.0, 0.80, 0.34493, 0.00028),
]
"""(method, λ, α, RMS error, its standard error in 5000 runs) of the 19-state walk"""

N_STEP: list[tuple[int, float, float, float]] = [
    (1, 0.80, 0.34551, 0.00028),
    (2, 0.60, 0.27654, 0.00058),
    (4, 0.40, 0.26361, 0.00069),
    (8, 0.30, 0.28535, 0.00078),
    (16, 0.15, 0.31098, 0.00072),
]
"""(n, α, RMS error, its standard error in 5000 runs) of n-step TD on the 19-state walk"""

TD = {0.05: (0.03535, 0.00012), 0.10: (0.05535, 0.00016), 0.15: (0.07004, 0.00020)}
MONTE_CARLO = {
    0.01: (0.09732, 0.00017),
    0.02: (0.08190, 0.00028),
    0.03: (0.09327, 0.00034),
    0.04: (0.10699, 0.00038),
}
"""α → RMS error of the 5-state walk, its standard error in 20 000 runs"""

WALK_19_RUNS, WALK_19_EPISODES = 300, 10
WALK_5_RUNS, WALK_5_EPISODES = 2000, 100

FIGURES = Figures()

TITLED = {
    "offline-lambda-return": "off-line λ-return",
    "accumulating": "TD(λ), accumulating traces",
    "true-online": "true on-line TD(λ)",
    "replacing": "TD(λ), replacing traces",
    "td-0": "TD(0)",
}


def errors_of(
    world: str,
    wanted: Sequence[tuple[str, float, float]],
    runs: int,
    episodes: int,
    initial: float,
    every_episode: bool,
    say: Say = lambda text: None,
) -> list[Measured]:
    """RMS errors at (method, λ or n, α): the mean over all episodes, or after the last one; mean over the runs."""
    process = world_named(world).process
    gamma = process.discount
    true, counted = solve_values(process, even(process), gamma), np.flatnonzero(~process.terminal)
    rollouts = Rollouts(process, seeds_of(1, runs))
    sweeps = {}
    for method in dict.fromkeys(name for name, _, _ in wanted):
        depths, alphas = np.array([(depth, alpha) for name, depth, alpha in wanted if name == method]).T
        sweeps[method] = PredictionSweep(
            method, tabular(process.size), runs, PredictionSettings(alphas, depths, gamma), initial
        )
    errors = {method: np.zeros((runs, len(sweep.settings.alphas))) for method, sweep in sweeps.items()}
    for episode in range(episodes):
        say(f"episode {episode + 1} of {episodes}, {runs} runs")
        lived = rollouts.episodes()
        for method, sweep in sweeps.items():
            sweep.learn(lived)
            if every_episode:
                errors[method] += sweep.rms_error(true, counted) / episodes
            elif episode == episodes - 1:
                errors[method] = sweep.rms_error(true, counted)
    taken = {method: iter(values.T) for method, values in errors.items()}
    return [mean_of(next(taken[name])) for name, _, _ in wanted]


@FIGURES.measured_by(
    "walk-19",
    f"random walk of 19 states: RMS error over the first {WALK_19_EPISODES} episodes, {WALK_19_RUNS} runs",
    "Sutton and Barto 2018, example 7.1 and the curves of figures 12.3, 12.6 and 12.8",
    [
        *(
            computed(f"{TITLED[method]}, λ={lam:g} α={alpha:g}", value, 4, error, 5000)
            for method, lam, alpha, value, error in WALK_19
        ),
        derived("α=0: √.3", 0.5477, 4),
    ],
    seconds=2,
)
def walk_19(say: Say) -> list[Measured]:
    wanted = [(method, lam, alpha) for method, lam, alpha, _, _ in WALK_19]
    measured = errors_of("walk-19", wanted, WALK_19_RUNS, WALK_19_EPISODES, 0.0, True, say)
    [untouched] = errors_of("walk-19", [("accumulating", 0.8, 0.0)], 2, 1, 0.0, True)
    return [*measured, Measured(untouched.value)]


@FIGURES.measured_by(
    "n-step",
    f"random walk of 19 states, n-step TD: RMS error over {WALK_19_EPISODES} episodes, {WALK_19_RUNS} runs",
    "Sutton and Barto 2018, the curves of figure 7.2",
    [computed(f"n={n} α={alpha:g}", value, 4, error, 5000) for n, alpha, value, error in N_STEP],
    seconds=1,
)
def n_step(say: Say) -> list[Measured]:
    wanted = [("n-step-td", float(n), alpha) for n, alpha, _, _ in N_STEP]
    return errors_of("walk-19", wanted, WALK_19_RUNS, WALK_19_EPISODES, 0.0, True, say)


@FIGURES.measured_by(
    "walk-5",
    f"random walk of 5 states: RMS error after {WALK_5_EPISODES} episodes, {WALK_5_RUNS} runs",
    "Sutton and Barto 2018, example 6.2 and its curves",
    [
        *(computed(f"TD(0), α={alpha:g}", value, 4, error, 20_000) for alpha, (value, error) in TD.items()),
        *(
            computed(f"Monte Carlo, α={alpha:g}", value, 4, error, 20_000)
            for alpha, (value, error) in MONTE_CARLO.items()
        ),
    ],
    seconds=2,
)
def walk_5(say: Say) -> list[Measured]:
    wanted = [("td-0", 0.0, alpha) for alpha in TD] + [("monte-carlo", 1.0, alpha) for alpha in MONTE_CARLO]
    return errors_of("walk-5", wanted, WALK_5_RUNS, WALK_5_EPISODES, 0.5, False, say)


@FIGURES.measured_by(
    "baird",
    "Baird's counterexample: weights after 1000 sweeps of semi-gradient dynamic programming, α=0.01",
    "Sutton and Barto 2018, example 11.1 and the curves of figure 11.2",
    [derived("w₁ … w₆", 114.4, 1), derived("w₇", 6.9, 1), derived("w₈", 335.0, 1)],
    seconds=0.1,
)
def baird(say: Say) -> list[Measured]:
    process = counterexample.baird().process
    S = process.size
    target, behaviour = np.tile(counterexample.TARGET, (S, 1)), np.tile(counterexample.BEHAVIOUR, (S, 1))
    problem = off_policy(process, counterexample.features(), target, behaviour, np.full(S, 1 / S), process.discount)
    at = Weights(counterexample.WEIGHTS.copy(), np.zeros(8))
    for _ in range(1000):
        at = semi_gradient_dp(problem, at, 0.01, 0.0)
    return exactly(at.w[[0, 6, 7]])
