""".8 straight on, .1 to either side; −.04 a move; the exits are worth +1 and −1. γ = 1."""

from __future__ import annotations

from txlab.engine.rl.maps.drawn import parse_map
from txlab.engine.rl.world import NamedWorld

MAP = """\
title: The world of four columns and three rows
slip: 0.2
step: -0.04
+: goal, adds 1
-: ends, adds -1

...+
.#.-
S...
"""

WORLD = NamedWorld(
    "four-by-three",
    "The world of four columns and three rows",
    "Russell and Norvig 2010, section 17.1, figures 17.1 to 17.3",
    lambda: parse_map(MAP),
)
