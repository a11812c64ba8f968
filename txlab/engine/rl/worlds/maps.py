"""Worlds that a person draws as text, edits while agents live in them, and shares as a file.

    title: A cliff            `key: value` lines first: title, moves, start, slip, wind, gusts,
    step: -1                  step, bump, discount, limit
    A: leaving pays 10, leaving leads to a        and what the map's own signs mean

    ....a.......              then the rows: . floor  # wall  S start  G goal  H hole  C cliff, and own signs
    SCCCCCCCCCCG

Notable: this is the door; the map itself is in drawn.py, its text in parsing.py, its process in compiling.py.
"""

from __future__ import annotations

import numpy as np

from txlab.engine.rl.world import World
from txlab.engine.rl.worlds.compiling import compile_map
from txlab.engine.rl.worlds.drawn import Map
from txlab.engine.rl.worlds.moves import ACTIONS, ARROWS, STEPS
from txlab.engine.rl.worlds.parsing import parse_map
from txlab.engine.rl.worlds.tiles import TILES, Tile

__all__ = ["ACTIONS", "ARROWS", "STEPS", "TILES", "Map", "Tile", "carried", "compile_map", "parse_map"]


def carried(old: World, new: World) -> np.ndarray:
    """(S of new) int64: the state of `old` whose cell and layer this was and in which the same could be done; −1 where
    there was none, so that nothing was learnt. Worlds with other moves have nothing in common."""
    found = np.full(new.process.size, -1, dtype=np.int64)
    if old.process.actions != new.process.actions:
        return found
    where = {tuple(place): s for s, place in enumerate(old.layout.place.tolist())}
    for s, place in enumerate(new.layout.place.tolist()):
        before = where.get(tuple(place), -1)
        if before >= 0 and (old.process.allowed[before] == new.process.allowed[s]).all():
            found[s] = before
    return found
