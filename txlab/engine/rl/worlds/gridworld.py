"""5 × 5, γ = .9; +10 from A to A′, +5 from B to B′, −1 for bumping into the edge, 0 otherwise; never ends."""

from __future__ import annotations

from txlab.engine.rl.maps.drawn import parse_map
from txlab.engine.rl.world import NamedWorld

MAP = """\
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

WORLD = NamedWorld(
    "gridworld",
    "Gridworld with two jumps",
    "Sutton and Barto 2018, example 3.5, figures 3.2 and 3.5",
    lambda: parse_map(MAP),
)
