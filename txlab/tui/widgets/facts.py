"""A table of facts: a name, a right-aligned value, its unit or a note next to it, and a sparkline of its history.

All values are right-aligned, so that a column of numbers can be compared at a glance; everything else is in a quiet
colour. Only rows that changed are redrawn. More facts than lines are side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.strip import Strip

from txlab.drawing.spark import spark
from txlab.drawing.text import fit, formula, width
from txlab.tui.bindings import MOVING, bind
from txlab.tui.widgets.painted import Painted

BETWEEN = 5  # cells of a fact besides its name and value: the mark, and two gaps
SHORTEST_NOTE = 6  # cells; a longer note that would be cut below this is left out
PARTS = ("name", "value", "note", "curve", "chosen", "good", "bad", "accent")


@dataclass(frozen=True)
class Fact:
    """`value` and `note` are formatted text; `key` names the fact for `w`; `level` is its emphasis: "plain", "quiet",
    "accent", "good" or "bad"."""

    name: str
    value: str
    note: str = ""
    key: str = ""
    curve: tuple[float, ...] | None = None
    level: str = "plain"


class FactTable(Painted, can_focus=True):
    """Facts, one per line where they fit; when focused, up and down choose one (`chosen`), which `w` may explain."""

    COMPONENT_CLASSES = {f"facts--{part}" for part in PARTS}
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("up", "move(-1)", "choose", id="facts.up", heading=MOVING),
        bind("down", "move(1)", "choose", id="facts.down", heading=MOVING),
    ]
    DEFAULT_CSS = """
    FactTable { height: auto; width: 1fr; padding: 0 1; }
    FactTable > .facts--name { color: $text-muted; }
    FactTable > .facts--value { color: $foreground; text-style: bold; }
    FactTable > .facts--note { color: $text-muted; }
    FactTable > .facts--curve { color: $secondary; }
    FactTable > .facts--chosen { color: $accent; text-style: bold; }
    FactTable > .facts--good { color: $success; text-style: bold; }
    FactTable > .facts--bad { color: $error; text-style: bold; }
    FactTable > .facts--accent { color: $accent; text-style: bold; }
    """

    class Chosen(Message):
        """The cursor moved to another fact."""

        def __init__(self, table: FactTable, fact: Fact) -> None:
            super().__init__()
            self.table, self.fact = table, fact

        @property
        def control(self) -> FactTable:
            return self.table

    def __init__(self, facts: Sequence[Fact] = (), id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.facts = tuple(facts)
        self.cursor = 0

    def set_facts(self, facts: Sequence[Fact]) -> None:
        """Show these facts, redrawing only the rows that differ."""
        old, self.facts = self.facts, tuple(facts)
        if old == self.facts:
            return
        self.cursor = max(0, min(self.cursor, len(self.facts) - 1))
        if len(old) != len(self.facts):
            self.refresh(layout=True)
            return
        if columns(old) != columns(self.facts) or self.across > 1:
            self.refresh()
            return
        self.refresh_changed(old, self.facts)

    @property
    def chosen(self) -> Fact | None:
        return self.facts[self.cursor] if self.facts else None

    def action_move(self, by: int) -> None:
        self.choose(self.cursor + by)

    def choose(self, row: int) -> None:
        row = max(0, min(row, len(self.facts) - 1))
        if self.facts and row != self.cursor:
            self.cursor = row
            self.refresh()
            self.post_message(self.Chosen(self, self.facts[row]))

    def on_focus(self) -> None:
        self.refresh()

    on_blur = on_focus

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or offset.y >= self.rows:
            return
        row = offset.x // max(1, self.size.width // self.across) * self.rows + offset.y
        if row < len(self.facts):
            self.choose(row)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return max(1, len(self.facts))

    @property
    def across(self) -> int:
        """How many facts are side by side: one, unless there are more facts than lines and their values fit there."""
        least = sum(columns(self.facts, self.ascii)) + BETWEEN
        wanted = max(1, -(-len(self.facts) // max(1, self.size.height)))
        return wanted if wanted * least <= self.size.width else 1

    @property
    def rows(self) -> int:
        """The lines that the facts take."""
        return -(-len(self.facts) // self.across)

    def render_line(self, y: int) -> Strip:
        size, across, rows = self.size.width, self.across, self.rows
        if y >= rows or size <= 0:
            return Strip.blank(size, self.surface)
        segments: list[Segment] = []
        for column in range(across):
            cells = size // across + (size % across if column == across - 1 else 0)
            place = column * rows + y
            drawn = self.fact_segments(place, cells) if place < len(self.facts) else []
            left = cells - sum(segment.cell_length for segment in drawn)
            segments += [*drawn, Segment(" " * max(0, left), self.surface)]
        return self.strip(segments)

    def fact_segments(self, place: int, size: int) -> list[Segment]:
        """A fact in `size` cells."""
        fact, ascii, surface = self.facts[place], self.ascii, self.surface
        names, values = columns(self.facts, ascii)
        style = {part: self.part(part) for part in ("name", "value", "note", "curve")}
        ellipsis = "~" if ascii else "…"
        here = self.has_focus and place == self.cursor
        name_style = self.part("chosen") if here else style["name"]
        value_style = style["value"]
        if fact.level in ("good", "bad", "accent"):
            value_style = self.part(fact.level)
        elif fact.level == "quiet":
            value_style = style["note"]
        mark = (">" if ascii else "▸") if here else " "
        values = min(values, max(0, size - 3))
        room = max(0, size - 1 - values - 2)
        names = min(names, room)
        segments = [
            Segment(mark, name_style),
            Segment(fit(formula(fact.name, ascii), names, ellipsis=ellipsis), name_style),
            Segment("  ", surface),
            Segment(fit(formula(fact.value, ascii), values, "right", ellipsis), value_style),
        ]
        rest = size - names - values - 3
        if rest > 2:
            segments.append(Segment("  ", surface))
            rest -= 2
            note = formula(fact.note, ascii)
            if fact.curve is not None:
                cells = min(10, rest)
                line = spark(np.asarray(fact.curve, dtype=np.float64), cells, ascii)
                segments += [Segment(line, style["curve"]), Segment(" ", surface)]
                rest -= cells + 1
            if note and rest >= min(width(note), SHORTEST_NOTE):
                segments.append(Segment(fit(note, rest, ellipsis=ellipsis), style["note"]))
        return segments


def columns(facts: Sequence[Fact], ascii: bool = False) -> tuple[int, int]:
    """Return the widths of the name and value columns."""
    return (
        max((width(formula(fact.name, ascii)) for fact in facts), default=0),
        max((width(formula(fact.value, ascii)) for fact in facts), default=0),
    )
