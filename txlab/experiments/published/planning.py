"""Published numbers of dynamic programming, all exact: values, policies, and how many sweeps or improvements it takes.

Notable: nothing here is simulated. A number that comes of a policy is that of the policy shared evenly among equally
good actions, except on the frozen lake under its limit of steps, where without discount all ways of not falling in are
equally good and only a discount prefers the short ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from txlab.engine.rl import undiscounted
from txlab.engine.rl.dynamic_programming import Order, backup, constant, even, greedy, policies, settled, sweeps
from txlab.engine.rl.finite_horizon import from_start, success_within
from txlab.engine.rl.linear_values import solved
from txlab.engine.rl.process import Process
from txlab.engine.rl.worlds.catalogue import world_named
from txlab.experiments.published.figure import Figure, Measured, Number, Say

SB = "Sutton and Barto 2018"


def best(process: Process, gamma: float | None = None, epsilon: float = 0.0) -> np.ndarray:
    """V* (S), or that of the best ε-soft policy; γ is the world's own if none is given."""
    gamma = process.discount if gamma is None else gamma
    undiscounted.check(process, gamma, None, epsilon)
    return settled(sweeps(process, gamma, epsilon=epsilon)).v


def exactly(values: Sequence[float] | np.ndarray) -> list[Measured]:
    return [Measured(float(value)) for value in values]


def rows(label: str, digits: int, *table: Sequence[float]) -> list[Number]:
    """Numbers of a table by (row, column); NaN where nothing was published."""
    return [
        Number(f"{label}({row},{column})", value, digits)
        for row, values in enumerate(table)
        for column, value in enumerate(values)
        if not np.isnan(value)
    ]


NOT = float("nan")


def at(process: Process, row: int, column: int) -> int:
    """The state that is called (row,column)."""
    return process.states.index(f"({row},{column})")


# Gridworlds of Sutton and Barto


def measure_gridworld_even(say: Say) -> list[Measured]:
    process = world_named("gridworld").process
    v = solved(process, even(process), process.discount).reshape(5, 5)
    return exactly([*v[0], *v[4]])


def measure_gridworld_best(say: Say) -> list[Measured]:
    return exactly(best(world_named("gridworld").process)[:5])


def sweeps_needed(process: Process, order: Order, tolerance: float) -> int:
    return next(s.number for s in sweeps(process, 1.0, even(process), order=order) if s.delta < tolerance)


def measure_gridworld_corners(say: Say) -> list[Measured]:
    process = world_named("gridworld-corners").process
    beside = at(process, 0, 1)
    early: dict[int, float] = {}
    for swept in sweeps(process, 1.0, even(process)):
        early[swept.number] = swept.v[beside]
        if swept.number == 10:
            break
    limit = solved(process, even(process), 1.0).reshape(4, 4)
    needed = [sweeps_needed(process, "synchronous", 1e-4), sweeps_needed(process, "in-place", 1e-4)]
    return exactly([*(early[k] for k in (1, 2, 3, 10)), *limit[0, 1:], *limit[1], *needed])


# Russell and Norvig's 4 × 3 world

ARROWS = ("right right right", "up", "up", "up left left left")


def measure_four_by_three(say: Say) -> list[Measured]:
    process = world_named("four-by-three").process
    v = best(process)
    open_ = np.flatnonzero(~process.terminal)
    policy = greedy(backup(process, v, process.discount))
    wanted = " ".join(ARROWS).split()
    agree = sum(policy[s, process.actions.index(arrow)] == 1 for s, arrow in zip(open_, wanted, strict=True))
    return exactly([*v[open_], agree])


# Gambler, car rental


def measure_gambler(say: Say) -> list[Measured]:
    process = world_named("gambler").process
    v = best(process)
    return exactly([v[process.states.index(str(capital))] for capital in (25, 50, 75, 1)])


def measure_car_rental(say: Say) -> list[Measured]:
    process = world_named("car-rental").process
    number = {state: place for place, state in enumerate(process.states)}
    say("evaluating policy 0")
    for found in policies(process, process.discount, constant(process, process.actions.index("0")), tolerance=1e-10):
        say(f"policy {found.number + 1}: {found.changes} of {process.size} states changed")
    values = [found.v[number[f"({n},{n})"]] for n in (0, 10, 20)]
    moved = [int(process.actions[int(found.policy[number[state]].argmax())]) for state in ("(20,0)", "(0,20)")]
    return exactly([found.number, *values, *moved])


# Gymnasium's


def measure_frozen_lake(say: Say) -> list[Measured]:
    four, eight = world_named("frozen-lake").process, world_named("frozen-lake-8").process
    discounted = best(four, 0.99)
    within = success_within(four, greedy(backup(four, discounted, 0.99)), 100)
    nearly = greedy(backup(eight, best(eight, 0.999), 0.999))
    limited = success_within(eight, nearly, 200)
    lost = solved(four, even(four), 1.0)
    values = [(four, best(four, 1.0)), (four, discounted), (four, within), (four, lost)]
    values += [(eight, best(eight, 1.0)), (eight, limited)]
    return exactly([from_start(process, v) for process, v in values])


def measure_cliff(say: Say) -> list[Measured]:
    worlds = [world_named("cliff").process, world_named("cliff", slippery=True).process]
    return exactly([from_start(process, best(process)) for process in worlds])


def measure_taxi(say: Say) -> list[Measured]:
    process = world_named("taxi").process
    return exactly([from_start(process, best(process, 1.0))])


def measure_windy(say: Say) -> list[Measured]:
    four, king = world_named("windy").process, world_named("windy", moves="king").process
    return exactly([-from_start(p, best(p, None, epsilon)) for p, epsilon in ((four, 0.0), (king, 0.0), (four, 0.1))])


FIGURES = [
    Figure(
        "gridworld-even",
        "Gridworld with two jumps: the value of moving at random, γ = .9",
        f"{SB}, figure 3.2",
        [
            *rows("V", 1, (3.3, 8.8, 4.4, 5.3, 1.5)),
            *(Number(f"V(4,{n})", v, 1) for n, v in enumerate((-1.9, -1.3, -1.2, -1.4, -2.0))),
        ],
        measure_gridworld_even,
        0.1,
    ),
    Figure(
        "gridworld-best",
        "Gridworld with two jumps: the best value, γ = .9",
        f"{SB}, figure 3.5",
        rows("V*", 1, (22.0, 24.4, 22.0, 19.4, 17.5)),
        measure_gridworld_best,
        0.1,
    ),
    Figure(
        "gridworld-sweeps",
        "Gridworld with two corners: moving at random, sweep by sweep, and how many until no value moves by 1e-4",
        f"{SB}, figure 4.1",
        [
            Number("V(0,1) after 1 sweep", -1, 4),
            Number("V(0,1) after 2 sweeps", -1.75, 4),
            Number("V(0,1) after 3 sweeps", -2.4375, 4),
            Number("V(0,1) after 10 sweeps", -6.138, 3),
            *rows("V", 6, (NOT, -14, -20, -22), (-14, -18, -20, -20)),
            Number("synchronous sweeps", 173, 0),
            Number("in-place sweeps", 114, 0),
        ],
        measure_gridworld_corners,
        0.2,
    ),
    Figure(
        "four-by-three",
        "The world of four columns and three rows: best values and moves, γ = 1, −.04 a step",
        "Russell and Norvig 2010, figures 17.2 and 17.3",
        [
            *rows("V*", 4, (0.8116, 0.8678, 0.9178), (0.7616, NOT, 0.6603), (0.7053, 0.6553, 0.6114, 0.3879)),
            Number("moves as published, of 9", 9, 0),
        ],
        measure_four_by_three,
        0.1,
    ),
    Figure(
        "gambler",
        "Gambler's problem: the chance of reaching 100, heads with .4",
        f"{SB}, example 4.3",
        [
            Number("V*(25)", 0.16, 6),
            Number("V*(50)", 0.4, 6),
            Number("V*(75)", 0.64, 6),
            Number("V*(1)", 0.0020656, 7),
        ],
        measure_gambler,
        0.3,
    ),
    Figure(
        "car-rental",
        "Jack's car rental: policy iteration from moving no car",
        f"{SB}, example 4.2 and figure 4.2",
        [
            Number("improvements", 4, 0),
            Number("V*(0,0)", 421.41, 2),
            Number("V*(10,10)", 574.95, 2),
            Number("V*(20,20)", 636.99, 2),
            Number("cars moved at (20,0)", 5, 0),
            Number("cars moved at (0,20)", -4, 0),
        ],
        measure_car_rental,
        8.0,
    ),
    Figure(
        "frozen-lake-best",
        "Frozen lake, slippery: the best policies, without a limit of steps and within Gymnasium's",
        "Gymnasium FrozenLake-v1, computed from its tables",
        [
            Number("4 × 4, V* with γ = 1 (14/17)", 0.823529, 6),
            Number("4 × 4, V* with γ = .99", 0.5420, 4),
            Number("4 × 4, that policy arrives within 100 steps", 0.7402, 4),
            Number("4 × 4, moving at random", 0.01394, 5),
            Number("8 × 8, V* with γ = 1", 1.0, 6),
            Number("8 × 8, the best policy for γ = .999 within 200 steps", 0.8857, 4),
        ],
        measure_frozen_lake,
        1.0,
    ),
    Figure(
        "cliff-best",
        "Cliff walking: the best return, sure-footed and slippery",
        "Gymnasium CliffWalking-v1, computed from its tables",
        [Number("V*(start)", -13, 6), Number("slippery V*(start)", -64.709, 3)],
        measure_cliff,
        0.2,
    ),
    Figure(
        "taxi-best",
        "Taxi: the best return, mean over the 300 starts",
        "Gymnasium Taxi-v3, computed from its tables",
        [Number("mean V*", 7.93, 2)],
        measure_taxi,
        0.3,
    ),
    Figure(
        "windy-best",
        "Windy gridworld: the fewest steps, and those of the best policy that explores with ε = .1",
        f"{SB}, example 6.5",
        [
            Number("four moves", 15, 6),
            Number("king's moves", 7, 6),
            Number("ε = .1, four moves (the book's 17)", 17.048, 3),
        ],
        measure_windy,
        0.2,
    ),
]
