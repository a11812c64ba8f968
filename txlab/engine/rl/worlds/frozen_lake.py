"""Frozen lakes: the two well-known ones, and random ones.

Notable: a random lake always has a path over the ice; if the draws leave none, holes freeze one by one, in the order of
other draws, until there is one. So every seed and every share of ice gives a lake, in bounded time.
"""

from __future__ import annotations

import numpy as np

from txlab.engine.rl.maps.compiling import compile_map
from txlab.engine.rl.maps.drawn import Map
from txlab.engine.rl.maps.tiles import Tile
from txlab.engine.rl.world import NamedWorld, Option, World

LARGEST = 64

KNOWN = {
    4: ("S...", ".H.H", "...H", "H..G"),
    8: ("S.......", "........", "...H....", ".....H..", "...H....", ".HH...H.", ".H..H.H.", "...H...G"),
}


def frozen_lake(slippery: bool, size: int, seed: int, frozen: float) -> World:
    """1 for the goal, 0 otherwise; holes end it. Slippery: the move or one of its sides, 1/3 each. Cut off after 100
    steps (size up to 4), 200 (up to 8), 25 · size above."""
    known = seed < 0 and size in KNOWN
    rows = KNOWN[size] if known else lake(size, max(seed, 0), frozen)
    drawn = Map(
        rows,
        {"G": Tile(goal=True, pays=1.0)},
        slip=2 / 3 if slippery else 0.0,
        limit=100 if size <= 4 else 200 if size <= 8 else 25 * size,
        title=f"Frozen lake of {size} × {size}" + ("" if known else f", seed {max(seed, 0)}"),
    )
    return compile_map(drawn, source="" if known else "random, like Gymnasium's")


def lake(size: int, seed: int, frozen: float) -> tuple[str, ...]:
    """size × size cells, S and G in opposite corners, others ice with probability `frozen`, and a way across."""
    draws = np.random.default_rng(seed)
    ice = draws.random((size, size)) < frozen
    ice[0, 0] = ice[-1, -1] = True
    order = draws.permutation(size * size)
    # Find by bisection the fewest holes to freeze, in this order: freezing more never closes a path.
    holes = order[~ice.ravel()[order]]
    few, many = 0, len(holes)
    while few < many:
        half = (few + many) // 2
        if has_path(freeze(ice, holes[:half])):
            many = half
        else:
            few = half + 1
    ice = freeze(ice, holes[:few])
    signs = np.where(ice, ".", "H")
    signs[0, 0], signs[-1, -1] = "S", "G"
    return tuple("".join(row) for row in signs.tolist())


def freeze(ice: np.ndarray, holes: np.ndarray) -> np.ndarray:
    """The ice with these cells (numbers in reading order) frozen too."""
    more = ice.ravel().copy()
    more[holes] = True
    return more.reshape(ice.shape)


def has_path(ice: np.ndarray) -> bool:
    """Whether there is a path over the ice from the first cell to the last."""
    size = len(ice)
    free = {(r, c) for r, c in np.argwhere(ice).tolist()}
    waiting = [(0, 0)]
    free.discard((0, 0))
    while waiting:
        r, c = waiting.pop()
        for there in ((r + 1, c), (r, c + 1), (r - 1, c), (r, c - 1)):
            if there in free:
                free.discard(there)
                waiting.append(there)
    return (size - 1, size - 1) not in free


SLIPPERY = Option(True, "whether moves slip to either side, a third of the time each")

WORLD = (
    NamedWorld(
        "frozen-lake",
        "Frozen lake",
        "Gymnasium FrozenLake-v1",
        frozen_lake,
        {
            "slippery": SLIPPERY,
            "size": Option(4, "cells a side; 4 and 8 are the known maps unless a seed is given", 2, LARGEST),
            "seed": Option(-1, "of a random lake; −1 = the known map of 4 or 8, seed 0 otherwise", -1, 2**31),
            "frozen": Option(0.8, "share of a random lake that is frozen", 0.0, 1.0),
        },
    ),
    NamedWorld(
        "frozen-lake-8",
        "Frozen lake of 8 × 8",
        "Gymnasium FrozenLake8x8-v1",
        lambda slippery: frozen_lake(slippery, 8, -1, 0.8),
        {"slippery": SLIPPERY},
    ),
)
