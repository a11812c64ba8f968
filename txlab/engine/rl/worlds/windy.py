"""7 × 10; −1 a move; wind of strength 0 0 0 1 1 1 2 2 1 0.

Stochastic: where there is wind, it is one stronger or one weaker, each a third of the time (exercise 6.10).
"""

from __future__ import annotations

from dataclasses import replace

from txlab.engine.rl.maps.drawn import Map, Moves, parse_map
from txlab.engine.rl.world import NamedWorld, Option

MAP = """\
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


def windy(moves: Moves, stochastic: bool) -> Map:
    extra = {"king": ", king's moves", "king-stay": ", king's moves and staying"}.get(moves, "")
    title = f"Windy gridworld{extra}{', stochastic wind' if stochastic else ''}"
    return replace(parse_map(MAP), moves=moves, gusts=2 / 3 if stochastic else 0.0, title=title)


WORLD = NamedWorld(
    "windy",
    "Windy gridworld",
    "Sutton and Barto 2018, example 6.5, exercises 6.9 and 6.10",
    windy,
    {
        "moves": Option("4", "the available moves", choices=("4", "king", "king-stay")),
        "stochastic": Option(False, "whether the wind is one cell stronger or weaker, a third of the time each"),
    },
)
