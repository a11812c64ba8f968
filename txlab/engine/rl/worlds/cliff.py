"""4 × 12; −1 a move, −100 and back to the start for the cliff; nothing cuts an episode off.

Slippery: the move or one of its two sides, each with probability 1/3.
"""

from __future__ import annotations

from dataclasses import replace

from txlab.engine.rl.maps.drawn import Map, parse_map
from txlab.engine.rl.world import NamedWorld, Option

MAP = """\
title: Cliff walking
step: -1

............
............
............
SCCCCCCCCCCG
"""


def cliff(slippery: bool) -> Map:
    drawn = parse_map(MAP)
    return replace(drawn, slip=2 / 3, title="Cliff walking on ice") if slippery else drawn


WORLD = NamedWorld(
    "cliff",
    "Cliff walking",
    "Sutton and Barto 2018, example 6.6; Gymnasium CliffWalking-v1",
    cliff,
    {"slippery": Option(False, "whether moves slip to either side, a third of the time each")},
)
