"""Reference numbers of dynamic programming, all exact: values, policies, how many sweeps or improvements it takes.

Notable: nothing here is simulated; the numbers are printed or derived. A number of a policy is that of the policy that
splits evenly among equally good actions, except on the frozen lake under its limit of steps, where without discount all
ways of not falling in are equally good and only a discount prefers the short ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from txlab.engine.rl.dynamic_programming import (
    Order,
    backup,
    best_policy,
    constant,
    even,
    find_converged_sweep,
    from_start,
    greedy,
    policies,
    success_within,
    sweeps,
)
from txlab.engine.rl.exact_values import check_values_exist, solve_values
from txlab.engine.rl.process import Process
from txlab.engine.rl.worlds import world_named
from txlab.experiments.reference_numbers import Figures, Measured, Number, Say, derived, exactly, printed

SB = "Sutton and Barto 2018"

FIGURES = Figures()

NOT = float("nan")

ARROWS = ("right right right", "up", "up", "up left left left")

CORNERS = ("0,1", "0,2", "0,3", "1,1", "1,2", "1,0")
"""Row and column of six cells; the other eight that are not corners mirror them, and 1,0 mirrors 0,1"""

AFTER: dict[str, tuple[float, ...]] = {
    "1 sweep": (-1.0, -1.0, -1.0, -1.0, -1.0, -1.0),
    "2 sweeps": (-1.7, -2.0, -2.0, -2.0, -2.0, -1.7),
    "3 sweeps": (-2.4, -2.9, -3.0, -2.9, -3.0, -2.4),
    "10 sweeps": (-6.1, -8.4, -9.0, -7.7, -8.4, -6.1),
}
"""The figure cuts −1.75 to −1.7 and rounds −2.9375 to −2.9."""

GRIDWORLD_EVEN = (
    (3.3, 8.8, 4.4, 5.3, 1.5),
    (1.5, 3.0, 2.3, 1.9, 0.5),
    (0.1, 0.7, 0.7, 0.4, -0.4),
    (-1.0, -0.4, -0.4, -0.6, -1.2),
    (-1.9, -1.3, -1.2, -1.4, -2.0),
)

GRIDWORLD_BEST = (
    (22.0, 24.4, 22.0, 19.4, 17.5),
    (19.8, 22.0, 19.8, 17.8, 16.0),
    (17.8, 19.8, 17.8, 16.0, 14.4),
    (16.0, 17.8, 16.0, 14.4, 13.0),
    (14.4, 16.0, 14.4, 13.0, 11.7),
)

BLACKJACK = {
    0: ("SSSSSSSSSS", "SSSSSSSSSS", "SSSSSSSSSS", "HSSSSSSSHH", *["HHHHHHHHHH"] * 6),
    1: (*["SSSSSSSSSS"] * 5, *["HSSSSSHHHH"] * 4, "HHHSSSHHHH"),
}
"""Figure 5.2: stick or hit, with an ace that counts as 11 and without; sums 21 … 12, dealer's cards A, 2 … 10"""


def best(process: Process, gamma: float | None = None, epsilon: float = 0.0) -> np.ndarray:
    """V* (S), or the values of the best ε-soft policy; γ defaults to the world's own."""
    gamma = process.discount if gamma is None else gamma
    check_values_exist(process, gamma, None, epsilon)
    return find_converged_sweep(sweeps(process, gamma, epsilon=epsilon)).v


def rows(make: Callable[[str, float, int], Number], label: str, digits: int, *table: Sequence[float]) -> list[Number]:
    """Numbers of a table by (row, column), made by `printed` or `derived`; NaN = no number."""
    return [
        make(f"{label}({row},{column})", value, digits)
        for row, values in enumerate(table)
        for column, value in enumerate(values)
        if not np.isnan(value)
    ]


def at(process: Process, row: int, column: int) -> int:
    """The state named (row,column)."""
    return process.states.index(f"({row},{column})")


# Gridworlds of Sutton and Barto


@FIGURES.measured_by(
    "gridworld-even",
    "Gridworld with two jumps: the value of moving at random, γ = .9",
    f"{SB}, figure 3.2",
    rows(printed, "V", 1, *GRIDWORLD_EVEN),
    seconds=0.1,
)
def measure_gridworld_even(say: Say) -> list[Measured]:
    process = world_named("gridworld").process
    return exactly(solve_values(process, even(process), process.discount)[:25])


@FIGURES.measured_by(
    "gridworld-best",
    "Gridworld with two jumps: the best value, γ = .9",
    f"{SB}, figure 3.5",
    rows(printed, "V*", 1, *GRIDWORLD_BEST),
    seconds=0.1,
)
def measure_gridworld_best(say: Say) -> list[Measured]:
    return exactly(best(world_named("gridworld").process)[:25])


@FIGURES.measured_by(
    "gridworld-corners",
    "Gridworld with two corners: moving at random, sweep by sweep",
    f"{SB}, figure 4.1",
    [
        *(
            printed(f"V({cell}) after {sweeps}", value, 1, cut=value == -1.7)
            for sweeps, values in AFTER.items()
            for cell, value in zip(CORNERS, values, strict=True)
        ),
        *(printed(f"V({cell})", value, 0) for cell, value in zip(CORNERS, (-14, -20, -22, -18, -20, -14), strict=True)),
    ],
    seconds=0.2,
)
def measure_gridworld_corners(say: Say) -> list[Measured]:
    """The six cells of the sixteen that are distinct under symmetry, after 1, 2, 3, 10 and all sweeps."""
    process = world_named("gridworld-corners").process
    cells = [at(process, int(cell[0]), int(cell[2])) for cell in CORNERS]
    values: list[float] = []
    for swept in sweeps(process, 1.0, even(process)):
        if swept.number in (1, 2, 3, 10):
            values += swept.v[cells].tolist()
        if swept.number == 10:
            break
    return exactly([*values, *solve_values(process, even(process), 1.0)[cells]])


@FIGURES.measured_by(
    "gridworld-exercises",
    "Gridworld with two corners: what its exercises ask for",
    f"{SB}, exercises 4.1 and 4.2",
    [derived("q(11, down)", -1, 6), derived("q(7, down)", -15, 6), derived("v(15)", -20, 6)],
    seconds=0.1,
)
def measure_gridworld_exercises(say: Say) -> list[Measured]:
    """q(11, down) and q(7, down); v of a state below 13 from which left, up, right, down lead to 12, 13, 14, itself."""
    process = world_named("gridworld-corners").process
    v = solve_values(process, even(process), 1.0)
    q = backup(process, v, 1.0)[:, process.actions.index("down")]
    below = (-4 + v[[at(process, 3, 0), at(process, 3, 1), at(process, 3, 2)]].sum()) / 3  # v = −1 + (Σ + v) / 4
    return exactly([q[at(process, 2, 3)], q[at(process, 1, 3)], below])


@FIGURES.measured_by(
    "gridworld-sweeps",
    "Gridworld with two corners: sweeps until no value moves by 1e-4",
    f"{SB}, example 4.1",
    [derived("synchronous", 173, 0), derived("in place", 114, 0)],
    seconds=0.2,
)
def measure_gridworld_sweeps(say: Say) -> list[Measured]:
    process = world_named("gridworld-corners").process
    orders: tuple[Order, ...] = ("synchronous", "in-place")
    runs = [sweeps(process, 1.0, even(process), order=order) for order in orders]
    return exactly(next(swept.number for swept in run if swept.delta < 1e-4) for run in runs)


# Russell and Norvig's 4 × 3 world


@FIGURES.measured_by(
    "four-by-three",
    "The world of four columns and three rows: best values and moves, γ = 1, −.04 a step",
    "Russell and Norvig 2010, figures 17.2 and 17.3",
    [
        *rows(printed, "V*", 3, (0.812, 0.868, 0.918), (0.762, NOT, 0.660), (0.705, 0.655, 0.611, 0.388)),
        printed("moves as drawn, of 9", 9, 0),
    ],
    seconds=0.1,
)
def measure_four_by_three(say: Say) -> list[Measured]:
    process = world_named("four-by-three").process
    v = best(process)
    open_ = np.flatnonzero(~process.terminal)
    policy = greedy(backup(process, v, process.discount))
    wanted = " ".join(ARROWS).split()
    agree = sum(policy[s, process.actions.index(arrow)] == 1 for s, arrow in zip(open_, wanted, strict=True))
    return exactly([*v[open_], agree])


def with_move_reward(process: Process, r: float) -> Process:
    """The world with r instead of −.04 for every move."""
    return replace(process, reward=process.reward + (r + 0.04))


def rewards_of_one_policy(r: float) -> tuple[float, float]:
    """The range of rewards per move in which the policy that is best at r stays best: V^π and Q^π are linear in r."""
    process = world_named("four-by-three").process
    open_ = ~process.terminal
    policy = np.eye(process.choices)[
        np.nan_to_num(backup(with_move_reward(process, r), best(with_move_reward(process, r)), 1.0)).argmax(axis=1)
    ]
    at_0, at_1 = (
        backup(world, solve_values(world, policy, 1.0), 1.0)[open_]
        for world in (with_move_reward(process, 0.0), with_move_reward(process, 1.0))
    )
    own = policy[open_].astype(bool)
    worse, slope = at_0 - at_0[own][:, None], (at_1 - at_0) - (at_1 - at_0)[own][:, None]  # Q − V = worse + slope · r
    with np.errstate(divide="ignore", invalid="ignore"):
        even_at = -worse / slope
    return float(even_at[slope < -1e-9].max(initial=-np.inf)), float(even_at[slope > 1e-9].min(initial=np.inf))


@FIGURES.measured_by(
    "four-by-three-rewards",
    "The same world: rewards of a move at which another policy becomes the best (cells as column, row)",
    "Russell and Norvig 2020, figure 16.2(b)",
    [
        printed("straight out, even by −1, below", -1.6497, 4),
        printed("the short way to +1, from (4,1) into −1, from", -0.7311, 4),
        printed("… up to", -0.4526, 4),
        printed("at (3,2) into the wall, away from −1, from", -0.0274, 4),
    ],
    seconds=0.1,
)
def measure_thresholds(say: Say) -> list[Measured]:
    return exactly([rewards_of_one_policy(-2.0)[1], *rewards_of_one_policy(-0.6), rewards_of_one_policy(-0.025)[0]])


# Gambler, car rental


@FIGURES.measured_by(
    "gambler",
    "Gambler's problem: the chance of reaching 100, heads with .4",
    f"{SB}, example 4.3",
    [
        derived("V*(25)", 0.16, 6),
        derived("V*(50)", 0.4, 6),
        derived("V*(75)", 0.64, 6),
        derived("V*(1)", 0.0020656, 7),
    ],
    seconds=0.3,
)
def measure_gambler(say: Say) -> list[Measured]:
    process = world_named("gambler").process
    v = best(process)
    return exactly([v[process.states.index(str(capital))] for capital in (25, 50, 75, 1)])


@FIGURES.measured_by(
    "car-rental",
    "Jack's car rental: policy iteration from moving no car",
    f"{SB}, example 4.2 and figure 4.2",
    [
        printed("improvements, as drawn", 4, 0),
        derived("V*(0,0)", 421.41, 2),
        derived("V*(10,10)", 574.95, 2),
        derived("V*(20,20)", 636.99, 2),
        derived("cars moved at (20,0)", 5, 0),
        derived("cars moved at (0,20)", -4, 0),
    ],
    seconds=8.0,
)
def measure_car_rental(say: Say) -> list[Measured]:
    process = world_named("car-rental").process
    number = {state: place for place, state in enumerate(process.states)}
    say("evaluating policy 0")
    for policy in policies(process, process.discount, constant(process, process.actions.index("0")), tolerance=1e-10):
        say(f"policy {policy.number + 1}: {policy.changes} of {process.size} states changed")
    values = [policy.v[number[f"({n},{n})"]] for n in (0, 10, 20)]
    moved = [int(process.actions[int(policy.policy[number[state]].argmax())]) for state in ("(20,0)", "(0,20)")]
    return exactly([policy.number, *values, *moved])


# Gymnasium's


@FIGURES.measured_by(
    "frozen-lake-best",
    "Frozen lake, slippery: the best policies, without a limit of steps and within Gymnasium's",
    "the tables of Gymnasium's FrozenLake-v1",
    [
        derived("4 × 4, V* with γ = 1 (14/17)", 0.823529, 6),
        derived("4 × 4, V* with γ = .99", 0.5420, 4),
        derived("4 × 4, that policy arrives within 100 steps", 0.7402, 4),
        derived("4 × 4, moving at random", 0.01394, 5),
        derived("8 × 8, V* with γ = 1", 1.0, 6),
        derived("8 × 8, the best policy for γ = .999 within 200 steps", 0.8857, 4),
    ],
    seconds=1.0,
)
def measure_frozen_lake(say: Say) -> list[Measured]:
    four, eight = world_named("frozen-lake").process, world_named("frozen-lake-8").process
    discounted = best(four, 0.99)
    within = success_within(four, greedy(backup(four, discounted, 0.99)), 100)
    nearly = greedy(backup(eight, best(eight, 0.999), 0.999))
    limited = success_within(eight, nearly, 200)
    lost = solve_values(four, even(four), 1.0)
    values = [(four, best(four, 1.0)), (four, discounted), (four, within), (four, lost)]
    values += [(eight, best(eight, 1.0)), (eight, limited)]
    return exactly([from_start(process, v) for process, v in values])


@FIGURES.measured_by(
    "cliff-best",
    "Cliff walking: the best return, sure-footed and slippery",
    "the tables of Gymnasium's CliffWalking-v1",
    [derived("V*(start)", -13, 6), derived("slippery V*(start)", -64.709, 3)],
    seconds=0.2,
)
def measure_cliff(say: Say) -> list[Measured]:
    worlds = [world_named("cliff").process, world_named("cliff", slippery=True).process]
    return exactly([from_start(process, best(process)) for process in worlds])


@FIGURES.measured_by(
    "taxi-best",
    "Taxi: the best return, mean over the 300 starts",
    "the tables of Gymnasium's Taxi-v3",
    [derived("mean V*", 7.93, 2)],
    seconds=0.3,
)
def measure_taxi(say: Say) -> list[Measured]:
    process = world_named("taxi").process
    return exactly([from_start(process, best(process, 1.0))])


@FIGURES.measured_by(
    "windy-best",
    "Windy gridworld: the fewest steps, and those of the best policy that explores with ε = .1",
    f"{SB}, example 6.5 and exercise 6.9",
    [
        printed("four moves", 15, 0),
        derived("king's moves", 7, 6),
        printed("ε = .1, four moves: about 17", 17, 0),
        derived("ε = .1, four moves", 17.048, 3),
    ],
    seconds=0.2,
)
def measure_windy(say: Say) -> list[Measured]:
    four, king = world_named("windy").process, world_named("windy", moves="king").process
    fewest, kings = (-from_start(process, best(process)) for process in (four, king))
    exploring = -from_start(four, best(four, None, 0.1))
    return exactly([fewest, kings, exploring, exploring])


@FIGURES.measured_by(
    "blackjack",
    "Blackjack: the best policy, the value of a game with it, and with sticking on 20 and 21 alone",
    f"{SB}, examples 5.1 to 5.4 and figure 5.2",
    [
        printed("states in which to stick or hit as drawn, of 200", 200, 0),
        derived("a game, best", -0.043113, 6),
        derived("a game, sticking on 20 and 21", -0.350111, 6),
        derived("so from 13 with an ace against 2 (the book's 10⁸ games: −.27726)", -0.277204, 6),
    ],
    seconds=0.2,
)
def measure_blackjack(say: Say) -> list[Measured]:
    """States in which the best policy is that of the figure; the value of the game under the best and a poor policy."""
    world = world_named("blackjack")
    process, v = world.process, best(world.process)
    policy = best_policy(process, v, 1.0)
    drawn = {
        world.layout.state_at(row, column, layer): sign
        for layer, lines in BLACKJACK.items()
        for row, line in enumerate(lines, 2)
        for column, sign in enumerate(line, 1)
    }
    agree = sum(policy[s, "SH".index(sign)] == 1 for s, sign in drawn.items())
    sticks = [name.startswith("natural") or "20 " in name or "21 " in name for name in process.states]
    poor = solve_values(process, np.eye(2)[np.where(sticks, 0, 1)], 1.0)
    return exactly(
        [agree, from_start(process, v), from_start(process, poor), poor[process.states.index("soft 13 v 2")]]
    )
