"""A world: a decision process, and the layout of its states when drawn. A named world specifies how to build one.

The algorithms use only the process. The layout is for display and for editing a map.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from txlab.engine.rl.environment import Environment
from txlab.engine.rl.maps.drawn import Map
from txlab.engine.rl.process import Process
from txlab.errors import LabError, nearest


@dataclass(frozen=True, eq=False)
class Layout:
    """The layout of states in a picture of `height` × `width` cells, of which there may be several layers.

    place     (S, 3) int: layer, row, column of each state
    layers    a description of each layer, e.g. "passenger at R, to G"; one of them is shown at a time
    marks     {(row, column): sign}, the fixed content of a cell: "#" wall, "S" start, "G" goal, "C" cliff…
    fences    pairs of neighbouring cells with a thin wall between them (taxi)
    """

    height: int
    width: int
    place: np.ndarray
    layers: tuple[str, ...] = ("",)
    marks: Mapping[tuple[int, int], str] = field(default_factory=dict)
    fences: frozenset[tuple[tuple[int, int], tuple[int, int]]] = frozenset()

    def state_at(self, row: int, column: int, layer: int = 0) -> int | None:
        """The state drawn there; None if there is none (a wall)."""
        states = np.flatnonzero((self.place == (layer, row, column)).all(axis=1))
        return int(states[0]) if len(states) else None


@dataclass(frozen=True, eq=False)
class World:
    """name    as in the catalogue, or "map"      title, source   one line each, for display
    map       the map it was compiled from, if any: such a world can be edited in place
    environment   makes the environment of a world that can only be stepped: `process` then has only names, no dynamics
    notes     sentences its users should know, e.g. that episodes are cut off because nothing ends them
    """

    name: str
    title: str
    process: Process
    layout: Layout
    source: str = ""
    map: Map | None = None
    notes: tuple[str, ...] = ()
    environment: Callable[[], Environment] | None = None


Value = bool | int | float | str


@dataclass(frozen=True)
class Option:
    """An option of a named world. `default` determines the type; numbers range from `low` to `high`, words are among
    `choices`."""

    default: Value
    about: str
    low: float = 0.0
    high: float = 1.0
    choices: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        if isinstance(self.default, bool):
            return "true or false"
        if self.choices:
            return ", ".join(self.choices)
        kind = "a whole number" if isinstance(self.default, int) else "a number"
        return f"{kind} from {self.low:g} to {self.high:g}"

    def check(self, name: str, value: Any) -> Value:
        """The value, as the default's type. LabError naming the option, the value given and what is allowed."""
        default = self.default
        if isinstance(default, bool):
            right = isinstance(value, bool)
        elif isinstance(default, str):
            right = isinstance(value, str) and value in self.choices
        else:
            number = int if isinstance(default, int) else (int, float)
            right = isinstance(value, number) and not isinstance(value, bool) and self.low <= value <= self.high
        if not right:
            near = nearest(value, self.choices) if isinstance(value, str) else ""
            raise LabError(f"{name} = {ascii(value)[:60]} is not possible{near}; allowed: {self.allowed}")
        return type(default)(value)


@dataclass(frozen=True)
class NamedWorld:
    """A world that a scenario can name: the object `WORLD` of a file of worlds/, or of another package.

    make      returns a World, or its Map, from all `options` by name
    source    where its definition and its numbers are published
    `title` and `source` apply to a world or map that `make` leaves without them.
    """

    name: str
    title: str
    source: str
    make: Callable[..., World | Map]
    options: Mapping[str, Option] = field(default_factory=dict)

    def build(self, given: Mapping[str, Any]) -> World | Map:
        """What `make` returns with these options, the others at their defaults. LabError for an invalid option."""
        for name in given:
            if name not in self.options:
                has = f"it has {', '.join(self.options)}" if self.options else "it has none"
                raise LabError(f"{self.name} has no option {name}{nearest(name, self.options)}; {has}")
        return self.make(**{key: each.check(key, given.get(key, each.default)) for key, each in self.options.items()})
