"""6 × 9 with seven wall cells; 1 at the goal, 0 otherwise, γ = .95; the shortest path takes 14 moves."""

from __future__ import annotations

from txlab.engine.rl.maps.drawn import parse_map
from txlab.engine.rl.world import NamedWorld

MAP = """\
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

WORLD = NamedWorld(
    "dyna-maze",
    "Dyna maze",
    "Sutton and Barto 2018, example 8.1, figures 8.2 and 8.3",
    lambda: parse_map(MAP),
)
