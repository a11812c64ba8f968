"""The data drawn for a learner in its world, and the view of it: values, arrows, the size of a cell.

Best actions are all those whose values are equal up to rounding, never just the first; what a cell shows depends only
on its size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from txlab.drawing.diverging import Scale
from txlab.drawing.legibility import DESK, Legibility
from txlab.drawing.palette import Ramp

Show = Literal["values", "actions", "visits", "policy"]
SHOWS: tuple[Show, ...] = ("values", "actions", "visits", "policy")
TIES = 1e-6  # values within this relative tolerance are equally good: MATH M2's maximum, trap of rounding


@dataclass(frozen=True, eq=False)
class Scene:
    """The data drawn for one learner; arrays over states, as in the frames of decisions.

    value (S), NaN if unknown    q, policy (S, A) or None     trace, visits (S) or None
    agent    its state, −1 if none     updated  the state whose value changed last
    path     states of the greedy path
    """

    value: np.ndarray
    q: np.ndarray | None = None
    policy: np.ndarray | None = None
    trace: np.ndarray | None = None
    visits: np.ndarray | None = None
    agent: int = -1
    updated: int = -1
    path: tuple[int, ...] = ()

    def best(self, state: int, actions: Sequence[str]) -> list[int]:
        """Return the equally best actions of a state, by q, else by the policy; none where neither is known."""
        table = self.q if self.q is not None else self.policy
        if table is None or state >= len(table):
            return []
        row = np.asarray(table[state], np.float64).tolist()
        known = [each for each in row if each == each]
        if not known:
            return []
        top = max(known)
        if self.q is None and top <= 0:
            return []
        slack = TIES * max(1.0, abs(top))
        return [a for a, each in enumerate(row) if each == each and each >= top - slack]


def scene_of(tensors: Mapping[str, Any], facts: Mapping[str, Any], side: int) -> Scene | None:
    """Return the scene of one side of a frame of decisions; None if the frame has none."""

    def of(name: str) -> np.ndarray | None:
        tensor = tensors.get(f"{side}/{name}")
        return None if tensor is None else np.asarray(tensor)

    q, value, trace, path = of("q"), of("v"), of("trace"), of("path")
    if value is None:
        if q is None:
            return None
        value = best_value(q)
    if trace is not None and trace.ndim == 2:
        trace = np.nan_to_num(trace, nan=0.0).max(axis=1)
    last = entry_of(facts.get("last"), side)
    states = entry_of(facts.get("states"), side)
    return Scene(
        value=value,
        q=q,
        policy=of("policy"),
        trace=trace,
        visits=of("visits"),
        agent=states if isinstance(states, int) else -1,
        updated=last.get("state", -1) if isinstance(last, Mapping) else -1,
        path=tuple(path.tolist()) if path is not None else (),
    )


def entry_of(values: Any, place: int) -> Any:
    return values[place] if isinstance(values, Sequence) and 0 <= place < len(values) else None


def best_value(q: np.ndarray) -> np.ndarray:
    """Return maxₐ Q(s, a) over the allowed actions, NaN where there are none."""
    best: np.ndarray = np.where(np.isnan(q), -np.inf, q).max(axis=1)
    return np.where(np.isneginf(best), np.nan, best)


@dataclass(frozen=True)
class CellSize:
    """The size of a cell, in characters."""

    wide: int
    tall: int

    @property
    def kind(self) -> Literal["sign", "line", "stacked", "compass"]:
        if self.tall >= 3 and self.wide >= 7:
            return "compass"
        if self.tall >= 2 and self.wide >= 4:
            return "stacked"
        return "line" if self.wide >= 5 else "sign"

    @property
    def quad(self) -> bool:
        """Whether there is room for a number in each of the four directions."""
        return self.tall >= 3 and self.wide >= 9

    @property
    def rank(self) -> int:
        """An order of sizes: the higher, the more a cell shows."""
        return {"sign": 0, "line": 2, "stacked": 1 if self.wide < 4 else 3, "compass": 4}[self.kind] + self.quad


MOST = CellSize(14, 5)


def cell_size(height: int, width: int, columns: int, rows: int) -> CellSize:
    """Return the largest size at which height × width cells fit the space; at least 2 × 1, which may not fit."""
    wide = max(2, min(MOST.wide, columns // max(1, width)))
    tall = max(1, min(MOST.tall, rows // max(1, height), (wide + 1) // 2 + (wide == 4)))
    if tall == 2 and wide < 4:
        tall = 1
    if tall == 4:  # an odd height has a middle line
        tall = 3
    if tall == 1:
        wide = min(wide, 8)
    elif tall == 2:
        wide = min(wide, 9)
    return CellSize(wide, tall)


@dataclass(frozen=True, eq=False)
class WorldAspect:
    """A view of a world: the visible cells, their size, content and colours.

    first   (row, column) of the cell at the top left     cells   (rows, columns) drawn
    cursor  (row, column) of the chosen cell, or None
    """

    size: CellSize
    first: tuple[int, int]
    cells: tuple[int, int]
    show: Show
    scale: Scale
    ramp: Ramp
    layer: int = 0
    cursor: tuple[int, int] | None = None
    ascii: bool = False
    legibility: Legibility = DESK
