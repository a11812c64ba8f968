"""4 × 4, γ = 1, −1 a move until a corner is reached; figure 4.1 of Sutton and Barto has the uniform policy's values."""

from __future__ import annotations

from txlab.engine.rl.maps.drawn import parse_map
from txlab.engine.rl.world import NamedWorld

MAP = """\
title: Gridworld with two corners to end in
start: everywhere
step: -1

G...
....
....
...G
"""

WORLD = NamedWorld(
    "gridworld-corners",
    "Gridworld with two corners to end in",
    "Sutton and Barto 2018, example 4.1, figure 4.1",
    lambda: parse_map(MAP),
)
