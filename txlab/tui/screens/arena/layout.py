"""The division of the Arena's lines between worlds, update rules and the chart.

Notable: the worlds are side by side wherever their cells are then large enough for a number; long worlds in a narrow
terminal are stacked instead.
"""

from __future__ import annotations

from dataclasses import dataclass

from txlab.drawing.world_scene import CellSize, Show, cell_size
from txlab.engine.rl.world import Layout

NUMBERS = 3  # CellSize.rank from which a cell has an arrow and a number
LEAST_CHART = 8  # fewest lines for a useful chart
BEST_CHART = 14
RULE_LINES = 3


@dataclass(frozen=True)
class PanePlan:
    """`stacked`: the second side is below the first. Lines: `head` and `world` of each side, `chart` (0: none).
    `updates`: the number of sides whose update rule has room."""

    stacked: bool
    head: int
    world: int
    chart: int
    cell: CellSize
    updates: int


def plan(
    layout: Layout, sides: int, columns: int, lines: int, show: Show, curves: bool, with_updates: bool = True
) -> PanePlan:
    """Plan `lines` lines between the header and the timeline; `curves`: the user asked for the curves; `with_updates`:
    there are updates to show."""
    rule = 0 if (curves and lines < 24) or not with_updates else RULE_LINES + 1
    beside, stacked = (candidate(layout, sides, columns, lines, curves, rule, below) for below in (False, True))
    if sides == 1:
        return beside
    if show in ("actions", "policy") and stacked.cell.quad and not beside.cell.quad:
        return stacked
    if stacked.chart >= BEST_CHART and stacked.cell.rank > beside.cell.rank:  # larger cells rather than a taller chart
        return stacked
    return stacked if beside.cell.rank < min(NUMBERS, stacked.cell.rank) else beside


def candidate(layout: Layout, sides: int, columns: int, lines: int, curves: bool, rule: int, stacked: bool) -> PanePlan:
    many = sides if stacked else 1
    wide = columns if stacked or sides == 1 else (columns - 3) // 2
    head = 1 if stacked or wide >= 84 else 2
    room = max(1, lines - rule - many * head)
    for kept in (BEST_CHART, LEAST_CHART, 0):
        cell = cell_size(layout.height, layout.width, wide, (room - kept) // many)
        smaller = cell.rank < cell_size(layout.height, layout.width, wide, room // many).rank
        too_tall = cell.tall * layout.height * many > room - kept
        if kept == 0 or (curves and kept == LEAST_CHART) or not (smaller or too_tall):
            break
    tall = cell.tall * layout.height
    if layout.height == 1 and cell.kind == "sign":  # drawn as bars
        tall = 10
    world = max(1, min(tall, (room - (LEAST_CHART if curves else 0)) // many))
    left = room - many * world
    chart = left if left >= LEAST_CHART else 0
    both = sides > 1 and rule and left - RULE_LINES >= (LEAST_CHART + 1 if chart else 0)
    if both and chart:
        chart -= RULE_LINES
    return PanePlan(stacked, head, world, chart, cell, (2 if both else 1) if rule else 0)
