"""What is drawn of a learner in its world, and how it is looked at: values, arrows, the size of a cell.

Notable: best actions are those whose values are equal to rounding, never the first of several; what a cell can say
follows from its size alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from txlab.drawing.diverging import Scale
from txlab.drawing.palette import Ramp

Show = Literal["values", "actions", "visits", "policy"]
SHOWS: tuple[Show, ...] = ("values", "actions", "visits", "policy")
TIES = 1e-6  # values closer than this, for their size, are equally good: MATH M2's maximum, trap of rounding


@dataclass(frozen=True, eq=False)
class Scene:
    """What is drawn of one learner; arrays over states, as in the frames of decisions.

    value (S), NaN not known     q, policy (S, A) or None     trace, visits (S) or None
    agent    where it stands, −1 nowhere     updated  whose number was changed last
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
        """The actions that are equally best there, by q, else by the policy; none where nothing is known."""
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
    """The scene of one side of a frame of decisions; None where the frame has none."""

    def of(name: str) -> np.ndarray | None:
        found = tensors.get(f"{side}/{name}")
        return None if found is None else np.asarray(found)

    q, value, trace, path = of("q"), of("v"), of("trace"), of("path")
    if value is None:
        if q is None:
            return None
        value = best_value(q)
    if trace is not None and trace.ndim == 2:
        trace = np.nan_to_num(trace, nan=0.0).max(axis=1)
    last = listed(facts.get("last"), side)
    states = listed(facts.get("states"), side)
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


def listed(values: Any, place: int) -> Any:
    return values[place] if isinstance(values, Sequence) and 0 <= place < len(values) else None


def best_value(q: np.ndarray) -> np.ndarray:
    """maxₐ Q(s, a) over what is allowed, NaN where nothing is."""
    found: np.ndarray = np.where(np.isnan(q), -np.inf, q).max(axis=1)
    return np.where(np.isneginf(found), np.nan, found)


@dataclass(frozen=True)
class CellSize:
    """How large a cell is drawn, in characters."""

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
        return self.tall >= 3 and self.wide >= 12

    @property
    def rank(self) -> int:
        """The larger, the more it says."""
        return {"sign": 0, "line": 2, "stacked": 1 if self.wide < 4 else 3, "compass": 4}[self.kind] + self.quad


MOST = CellSize(14, 5)


def cell_size(height: int, width: int, columns: int, rows: int) -> CellSize:
    """The largest cells with which height × width of them fit into the room; at least 2 × 1, which may not fit."""
    wide = max(2, min(MOST.wide, columns // max(1, width)))
    tall = max(1, min(MOST.tall, rows // max(1, height), (wide + 1) // 2 + (wide == 4)))
    if tall == 2 and wide < 4:
        tall = 1
    if tall == 4:  # a middle line, and as many above as below
        tall = 3
    if tall == 1:
        wide = min(wide, 8)
    elif tall == 2:
        wide = min(wide, 9)
    return CellSize(wide, tall)


@dataclass(frozen=True, eq=False)
class WorldAspect:
    """How a world is looked at: which of its cells, how large, what they show, with which colours.

    first   (row, column) of the cell at the top left     cells   (rows, columns) that are drawn
    cursor  (row, column) of the cell that is chosen, or None
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
