"""The runs of the Lab as a table: a line per run, columns for differing settings, ordered and in groups.

      name                    step    loss  lr       width   time
    ● job3                     240   2.113  3.0e-4      64   3m12s
    ✓ job2                     500   1.870  1.0e-3     128   6m40s

The columns are defined in `txlab.runs.overview`; a cursor moves over their names, and the table is ordered by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from txlab.drawing.formatting import common_exponent, count, duration, number, scaled
from txlab.drawing.run_names import Spare, fit_handle
from txlab.drawing.text import cut, fit, visible, width
from txlab.experiments.metric import short
from txlab.runs.overview import GROUPS, columns_by_use, group_runs, sort_runs, value_of
from txlab.runs.summary import RunSummary
from txlab.tui.theme import Signs
from txlab.tui.widgets.rows import Item, Line, StyleName

NAME = 28  # cells for the name, at most
WIDEST = 14  # of any other column
LEAST = 6
RISING = ("name", "status", "created")  # columns usually sorted in ascending order, as are all losses


@dataclass
class RunTable:
    """The view of the table.

    column    the name of the column under the cursor
    by        the column that orders the runs; "created" = newest first
    descends  whether the largest value comes first
    group     "" or one of overview.GROUPS
    """

    column: str = "metric"
    by: str = "created"
    descends: bool = True
    group: str = ""
    columns: list[str] = field(default_factory=list)
    titles: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    scales: dict[str, int | None] = field(default_factory=dict)  # the exponent of all numbers of a column
    first: int = 0  # the first visible column after the name

    def fill(self, runs: Sequence[RunSummary], unread: Sequence[Path]) -> list[Item]:
        """Update the runs; return the rows in order, unread runs last."""
        primary = {run.metric for run in runs if run.metric}
        self.columns = columns_by_use(runs)
        self.scales = {name: common_exponent([value_of(run, name) for run in runs]) for name in self.columns}
        if self.column not in self.columns:
            self.column = "metric" if "metric" in self.columns else "name"
        titles = {"metric": short(primary.pop()) if len(primary) == 1 else "metric"}
        self.titles = {name: titles.get(name, name.rpartition(".")[2]) for name in self.columns}
        self.sizes = {
            name: min(
                NAME if name == "name" else WIDEST,
                max(
                    [
                        LEAST,
                        width(self.titles[name]) + 1,
                        *(width(format_cell(run, name, self.scales[name])) for run in runs),
                    ]
                ),
            )
            for name in self.columns
        }
        items: list[Item] = []
        for name, members in group_runs(runs, self.group) if self.group else [("", list(runs))]:
            if self.group:
                items.append(Item(None, f"{visible(name) or f'no {self.group}'}   {count(len(members))}"))
            items += [Item(str(run.path)) for run in sort_runs(members, self.by, self.descends)]
        return items + [Item(str(path)) for path in unread]

    def format(self, run: RunSummary, column: str) -> str:
        return format_cell(run, column, self.scales.get(column))

    def move(self, by: int) -> None:
        """Move the cursor over the names of the columns."""
        at = self.columns.index(self.column) if self.column in self.columns else 0
        self.column = self.columns[max(0, min(at + by, len(self.columns) - 1))]

    def order(self) -> None:
        """Order by the column under the cursor, or reverse the order if it is already the key."""
        if self.by == self.column:
            self.descends = not self.descends
        else:
            self.by = self.column
            self.descends = not (self.by in RISING or "loss" in self.titles.get(self.by, self.by))

    def next_group(self) -> None:
        every = ("", *GROUPS)
        self.group = every[(every.index(self.group) + 1) % len(every)]

    def in_view(self, cells: int) -> list[str]:
        """The columns after the name that fit, including the one under the cursor."""
        rest = self.columns[1:]
        room = cells - self.sizes.get("name", NAME) - 4

        def names_shown(first: int) -> list[str]:
            names, used = [], 0
            for name in rest[first:]:
                used += self.sizes[name] + 2
                if used > room:
                    break
                names.append(name)
            return names

        self.first = min(self.first, max(0, len(rest) - 1))
        if self.column in rest:
            at = rest.index(self.column)
            self.first = min(self.first, at)
            while self.first < at and self.column not in names_shown(self.first):
                self.first += 1
        else:
            self.first = 0
        return names_shown(self.first)

    def header(self, cells: int, focused: bool) -> list[tuple[str, bool]]:
        """The names of the columns as (text, whether the cursor is on it)."""
        shown = self.in_view(cells)
        parts = [("    ", False)]
        for name in ["name", *shown]:
            arrow = "" if name != self.by else Signs.falling if self.descends else Signs.rising
            title = f"{self.titles.get(name, name)}{arrow}"
            text = fit(visible(title), self.sizes.get(name, NAME), "left" if name == "name" else "right")
            parts += [(text, focused and name == self.column), ("  ", False)]
        if len(shown) < len(self.columns) - 1 - self.first:
            parts.append((Signs.ellipsis, False))
        return parts

    def line(
        self,
        run: RunSummary,
        cells: int,
        state: tuple[str, StyleName],
        chosen: bool,
        spare: Spare = frozenset(),
    ) -> Line:
        """One run: its name, and its values in the columns that are in view. `state` is the sign of its state."""
        name = fit(fit_handle(visible(run.handle), self.sizes["name"], spare), self.sizes["name"])
        parts: list[tuple[str, StyleName]] = [state, (name, "accent" if chosen else "strong")]
        for column in self.in_view(cells):
            text = fit(visible(self.format(run, column)), self.sizes[column], "right")
            style: StyleName = "plain" if column in ("metric", self.by, self.column) else "quiet"
            parts.append((f"  {text}", style))
        return parts


def format_cell(run: RunSummary, column: str, exponent: int | None = None) -> str:
    """The value of a run in a column as the table shows it, with the exponent of the column; "" if it has none."""
    value: Any = value_of(run, column)
    match column:
        case "name":
            return run.handle
        case "step":
            return count(value)
        case "time":
            return duration(value) if value else ""
    if value is None or isinstance(value, Mapping):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and exponent is not None:
        return scaled(value, exponent)
    if isinstance(value, (int, float)):
        return number(value)
    text = str(value)
    return cut(text.rstrip("/").rpartition("/")[2] if "/" in text else text, WIDEST)
