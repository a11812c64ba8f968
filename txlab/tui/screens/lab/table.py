"""The runs of the Lab as a table: a line a run, what differs between them as columns, ordered and in groups.

      name                    step    loss  lr       width   time
    ● job3                     240   2.113  3.0e-4      64   3m12s
    ✓ job2                     500   1.870  1.0e-3     128   6m40s

The columns are those of `txlab.runs.overview`; a cursor moves over their names, and the table is ordered by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from txlab.drawing.formatting import count, duration, number
from txlab.drawing.text import cut, fit, visible, width
from txlab.experiments.metric import short
from txlab.runs.overview import GROUPS, arranged, grouped, metrics_in, settings_in, value_of
from txlab.runs.summary import RunSummary
from txlab.tui.theme import Glyphs
from txlab.tui.widgets.rows import Item, Line, StyleName

NAME = 28  # cells for the name, at most
WIDEST = 14  # of any other column
LEAST = 6
RISING = ("name", "status", "created")  # columns that are usually read from the least value on; so are all losses


@dataclass
class RunTable:
    """How the table is looked at.

    column    the name of the column under the cursor
    by        the column that orders the runs; "created" = newest first
    descends  whether the largest value comes first
    group     "" or one of overview.GROUPS
    """

    column: str = "name"
    by: str = "created"
    descends: bool = True
    group: str = ""
    columns: list[str] = field(default_factory=list)
    titles: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    first: int = 0  # the first column behind the name that is in view

    def fill(self, runs: Sequence[RunSummary], unread: Sequence[Path]) -> list[Item]:
        """Take in the runs; return the rows in order, the names of those that have not been read last."""
        primary = {run.metric for run in runs if run.metric}
        rest = [name for name in metrics_in(runs) if primary != {name}]
        self.columns = ["name", "step", "metric", *settings_in(runs), *rest, "time"]
        self.columns += ["tags"] if any(run.tags for run in runs) else []
        if self.column not in self.columns:
            self.column = "name"
        titles = {"metric": short(primary.pop()) if len(primary) == 1 else "metric"}
        self.titles = {name: titles.get(name, name.rpartition(".")[2]) for name in self.columns}
        self.sizes = {
            name: min(
                NAME if name == "name" else WIDEST,
                max([LEAST, width(self.titles[name]) + 1, *(width(told(run, name)) for run in runs)]),
            )
            for name in self.columns
        }
        items: list[Item] = []
        for name, members in grouped(runs, self.group) if self.group else [("", list(runs))]:
            if self.group:
                items.append(Item(None, f"{visible(name) or f'no {self.group}'}   {count(len(members))}"))
            items += [Item(str(run.path)) for run in arranged(members, self.by, self.descends)]
        return items + [Item(str(path)) for path in unread]

    def move(self, by: int) -> None:
        """Move the cursor over the names of the columns."""
        at = self.columns.index(self.column) if self.column in self.columns else 0
        self.column = self.columns[max(0, min(at + by, len(self.columns) - 1))]

    def order(self) -> None:
        """Order by the column under the cursor, or if that is so already, the other way around."""
        if self.by == self.column:
            self.descends = not self.descends
        else:
            self.by = self.column
            self.descends = not (self.by in RISING or "loss" in self.titles.get(self.by, self.by))

    def next_group(self) -> None:
        every = ("", *GROUPS)
        self.group = every[(every.index(self.group) + 1) % len(every)]

    def in_view(self, cells: int) -> list[str]:
        """The columns behind the name for which there is room, the one under the cursor among them."""
        rest = self.columns[1:]
        room = cells - self.sizes.get("name", NAME) - 4

        def shown(first: int) -> list[str]:
            found, used = [], 0
            for name in rest[first:]:
                used += self.sizes[name] + 2
                if used > room:
                    break
                found.append(name)
            return found

        self.first = min(self.first, max(0, len(rest) - 1))
        if self.column in rest:
            at = rest.index(self.column)
            self.first = min(self.first, at)
            while self.first < at and self.column not in shown(self.first):
                self.first += 1
        else:
            self.first = 0
        return shown(self.first)

    def header(self, cells: int, signs: Glyphs, focused: bool) -> list[tuple[str, bool]]:
        """The names of the columns as (text, whether the cursor is on it)."""
        shown = self.in_view(cells)
        parts = [("    ", False)]
        for name in ["name", *shown]:
            arrow = "" if name != self.by else signs.falling if self.descends else signs.rising
            title = f"{self.titles.get(name, name)}{arrow}"
            text = fit(
                visible(title), self.sizes.get(name, NAME), "left" if name == "name" else "right", signs.ellipsis
            )
            parts += [(text, focused and name == self.column), ("  ", False)]
        if len(shown) < len(self.columns) - 1 - self.first:
            parts.append((signs.ellipsis, False))
        return parts

    def line(self, run: RunSummary, cells: int, state: tuple[str, StyleName], chosen: bool, signs: Glyphs) -> Line:
        """One run: its name, and its values in the columns that are in view. `state` is the sign of its state."""
        name = fit(visible(run.handle), self.sizes["name"], ellipsis=signs.ellipsis)
        parts: list[tuple[str, StyleName]] = [state, (name, "accent" if chosen else "strong")]
        for column in self.in_view(cells):
            text = fit(visible(told(run, column)), self.sizes[column], "right", signs.ellipsis)
            style: StyleName = "plain" if column in ("metric", self.by, self.column) else "quiet"
            parts.append((f"  {text}", style))
        return parts


def told(run: RunSummary, column: str) -> str:
    """The value of a run in a column as the table shows it; "" if it has none."""
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
    if isinstance(value, (int, float)):
        return number(value)
    text = str(value)
    return cut(text.rstrip("/").rpartition("/")[2] if "/" in text else text, WIDEST)
