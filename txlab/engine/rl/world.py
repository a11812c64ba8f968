"""A world: a decision process, and where its states lie when it is drawn.

Notable: the algorithms see the process alone. The layout serves the eye, and a person who edits a map.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from txlab.engine.rl.process import Process

if TYPE_CHECKING:
    from txlab.engine.rl.environment import Environment
    from txlab.engine.rl.worlds.maps import Map


@dataclass(frozen=True, eq=False)
class Layout:
    """Where states lie in a picture of `height` × `width` cells, of which there may be several, one behind the other.

    place     (S, 3) int: layer, row, column of each state
    layers    what each layer is, e.g. "passenger at R, to G"; one of them is seen at a time
    marks     {(row, column): sign}, what stands in a cell whoever is there: "#" wall, "S" start, "G" goal, "C" cliff…
    fences    pairs of neighbouring cells with a thin wall between them (taxi)
    """

    height: int
    width: int
    place: np.ndarray
    layers: tuple[str, ...] = ("",)
    marks: Mapping[tuple[int, int], str] = field(default_factory=dict)
    fences: frozenset[tuple[tuple[int, int], tuple[int, int]]] = frozenset()

    def state_at(self, row: int, column: int, layer: int = 0) -> int | None:
        """The state drawn there; None where there is none (a wall)."""
        found = np.flatnonzero((self.place == (layer, row, column)).all(axis=1))
        return int(found[0]) if len(found) else None


@dataclass(frozen=True, eq=False)
class World:
    """name    as in the catalogue, or "map"      title, source   one line each, for a person
    map       the text it was compiled from, where it was: such a world can be edited in place
    environment   makes what is stepped, where that is all one can do: `process` then has names alone, and no truths
    notes     sentences that whoever uses it must know, e.g. that episodes are cut off because nothing ends them
    """

    name: str
    title: str
    process: Process
    layout: Layout
    source: str = ""
    map: Map | None = None
    notes: tuple[str, ...] = ()
    environment: Callable[[], Environment] | None = None
