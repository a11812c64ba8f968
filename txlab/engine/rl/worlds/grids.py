"""The gridworlds of the textbooks: cliff, wind, jumps, corners, and the one of four columns and three rows.

Notable: each is drawn as the text that a person would type, so whoever opens one can change it.
"""

from __future__ import annotations

from dataclasses import replace

from txlab.engine.rl.world import World
from txlab.engine.rl.worlds.compiling import compile_map
from txlab.engine.rl.worlds.moves import Moves
from txlab.engine.rl.worlds.parsing import parse_map

CLIFF = """\
title: Cliff walking
step: -1

............
............
............
SCCCCCCCCCCG
"""

WINDY = """\
title: Windy gridworld
step: -1
wind: 0 0 0 1 1 1 2 2 1 0

..........
..........
..........
S......G..
..........
..........
..........
"""

GRIDWORLD = """\
title: Gridworld with two jumps
start: everywhere
bump: -1
discount: 0.9
A: leaving pays 10, leaving leads to a
B: leaving pays 5, leaving leads to b
a: floor
b: floor

.A.B.
.....
...b.
.....
.a...
"""

CORNERS = """\
title: Gridworld with two corners to end in
start: everywhere
step: -1

G...
....
....
...G
"""

DYNA_MAZE = """\
title: Dyna maze
discount: 0.95
G: goal, pays 1

.......#G
..#....#.
S.#....#.
..#......
.....#...
.........
"""

FOUR_BY_THREE = """\
title: The world of four columns and three rows
slip: 0.2
step: -0.04
+: goal, adds 1
-: ends, adds -1

...+
.#.-
S...
"""


def cliff(slippery: bool) -> World:
    """4 × 12; −1 a move, −100 and back to the start for the cliff; nothing cuts an episode off. Slippery: one of the
    move and its two sides, each with 1/3."""
    drawn = replace(parse_map(CLIFF), slip=2 / 3 if slippery else 0.0)
    title = "Cliff walking on ice" if slippery else "Cliff walking"
    return compile_map(drawn, "cliff", title, "Sutton and Barto 2018, example 6.6; Gymnasium CliffWalking-v1")


def windy(moves: Moves, stochastic: bool) -> World:
    """7 × 10; −1 a move; wind of strength 0 0 0 1 1 1 2 2 1 0. Stochastic: where there is wind, it is one stronger or
    one weaker, a third of the time each (exercise 6.10)."""
    drawn = replace(parse_map(WINDY), moves=moves, gusts=2 / 3 if stochastic else 0.0)
    extra = {"4": "", "king": ", king's moves", "king-stay": ", king's moves and staying"}[moves]
    title = f"Windy gridworld{extra}{', stochastic wind' if stochastic else ''}"
    return compile_map(drawn, "windy", title, "Sutton and Barto 2018, example 6.5, exercises 6.9 and 6.10")


def gridworld() -> World:
    """5 × 5, γ = .9; +10 from A to A′, +5 from B to B′, −1 for bumping into the edge, 0 otherwise; never ends."""
    return compile_map(parse_map(GRIDWORLD), "gridworld", "", "Sutton and Barto 2018, example 3.5, figures 3.2 and 3.5")


def corners() -> World:
    """4 × 4, γ = 1, −1 a move until a corner is reached; the even policy's values are figure 4.1."""
    return compile_map(parse_map(CORNERS), "gridworld-corners", "", "Sutton and Barto 2018, example 4.1, figure 4.1")


def dyna_maze() -> World:
    """6 × 9 with seven cells of walls; 1 at the goal, 0 otherwise, γ = .95; the shortest way is 14 moves."""
    return compile_map(parse_map(DYNA_MAZE), "dyna-maze", "", "Sutton and Barto 2018, example 8.1, figures 8.2 and 8.3")


def four_by_three() -> World:
    """.8 straight on, .1 to either side; −.04 a move; the exits are worth +1 and −1. γ = 1."""
    source = "Russell and Norvig 2010, section 17.1, figures 17.1 to 17.3"
    return compile_map(parse_map(FOUR_BY_THREE), "four-by-three", "", source)
