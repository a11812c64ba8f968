"""The inputs of an example as cells: numbers, rows, matrices and texts side by side, one of which the keys act on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.strip import Strip

from txlab.drawing.text import fit, formula, visible, width
from txlab.experiments.formulas.example import Given, Input
from txlab.tui.bindings import MOVING, bind
from txlab.tui.widgets.painted import Painted

GAP = 3  # cells between two inputs
DIGITS = (*"0123456789", "full_stop")


@dataclass(frozen=True)
class Cell:
    """A number of an input, by its indices, or the whole input (a text, one number): no indices."""

    name: str
    at: tuple[int, ...] = ()


@dataclass(frozen=True)
class Piece:
    """A part of a line: `role` is its style; `cell` is the cell that it shows, if any."""

    text: str
    role: str = "quiet"
    cell: Cell | None = None


Row = list[Piece]


def entry_of(value: Any, at: Sequence[int]) -> Any:
    for index in at:
        value = value[index]
    return value


def replaced(value: Any, at: Sequence[int], entry: Any) -> Any:
    """The value with another number at these indices.

    >>> replaced([[1, 2], [3, 4]], (1, 0), 5)
    [[1, 2], [5, 4]]
    """
    if not at:
        return entry
    return [replaced(each, at[1:], entry) if index == at[0] else each for index, each in enumerate(value)]


def cells_of(name: str, value: Any) -> list[Cell]:
    """The cells of an input, in reading order."""
    if not isinstance(value, list):
        return [Cell(name)]
    return [Cell(name, (index, *cell.at)) for index, each in enumerate(value) for cell in cells_of(name, each)]


def short(value: Any, ascii: bool) -> str:
    """A number or a text as a cell shows it.

    >>> short(0.5, False), short(-2.0, False), short(3, False)
    ('0.5', '−2', '3')
    """
    if isinstance(value, str):
        return visible(value, ascii) or "(nothing)"
    return f"{value + 0.0:.6g}".replace("-", "-" if ascii else "−")


def block(name: str, value: Any, cells: int, ascii: bool) -> list[Row]:
    """The lines of an input: its name, and its number, text, row or matrix."""
    head = [Piece(name, "name"), Piece(" ")]
    if not isinstance(value, list):
        text = short(value, ascii)
        return [[*head, Piece(fit(text, max(1, min(width(text), cells - width(name) - 1))), "value", Cell(name))]]
    rows = [(index, each) if isinstance(each, list) else (None, value) for index, each in enumerate(value)]
    if rows[0][0] is None:
        rows = rows[:1]
    texts = [[short(each, ascii) for each in row] for _, row in rows]
    size = max(max(map(width, row), default=1) for row in texts)
    fits = max(1, (cells - width(name) - 4) // (size + 1))
    lines: list[Row] = []
    for (index, _), row in zip(rows, texts, strict=True):
        for first in range(0, len(row), fits):
            before = head if not lines else [Piece(" " * (width(name) + 1))]
            line = [*before, Piece("[ " if not first else "  ")]
            for column, text in enumerate(row[first : first + fits], first):
                at = (column,) if index is None else (index, column)
                line += [Piece(text.rjust(size), "value", Cell(name, at)), Piece(" ")]
            lines.append(line + [Piece("]")] * (first + fits >= len(row)))
    return lines


def flow(blocks: Sequence[list[Row]], cells: int) -> list[Row]:
    """Put blocks next to each other, as many as fit on a line."""
    lines: list[Row] = []
    band: list[Row] = []
    for each in blocks:
        wide = max(map(row_width, each))
        left = max(map(row_width, band), default=0)
        if band and left + GAP + wide > cells:
            lines, band, left = [*lines, *band], [], 0
        start = left + GAP if band else 0
        band += [[] for _ in range(len(each) - len(band))]
        for row, line in zip(band, each, strict=False):
            row += [Piece(" " * (start - row_width(row))), *line]
    return [*lines, *band]


def row_width(row: Row) -> int:
    return sum(width(piece.text) for piece in row)


class Cells(Painted, can_focus=True):
    """The inputs; arrows move `at`, the cell that is changed."""

    COMPONENT_CLASSES = {f"cells--{part}" for part in ("name", "value", "quiet", "chosen", "here")}
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("up", "move(0, -1)", "to the number above", id="formulas.up", heading=MOVING),
        bind("down", "move(0, 1)", "to the number below", id="formulas.down", heading=MOVING),
        bind("left", "move(-1, 0)", "to the number on the left", id="formulas.left", heading=MOVING),
        bind("right", "move(1, 0)", "to the number on the right", id="formulas.right", heading=MOVING),
        bind("home", "edge(0)", "first number", id="formulas.first", heading=MOVING),
        bind("end", "edge(-1)", "last number", id="formulas.last", heading=MOVING),
        bind("enter", "type('')", "type another value", "type", id="formulas.type", key_display="enter"),
        *(bind(key, f"type({key!r})", "begin to type another value", id="formulas.digit") for key in DIGITS),
    ]
    DEFAULT_CSS = """
    Cells { height: auto; width: 1fr; }
    Cells > .cells--name { color: $secondary; }
    Cells > .cells--value { color: $foreground; }
    Cells > .cells--quiet { color: $quiet; }
    Cells > .cells--chosen { color: $accent; text-style: bold; }
    Cells > .cells--here { color: $accent; text-style: bold reverse; }
    """

    class Moved(Message):
        """Another cell was chosen."""

    class Typed(Message):
        """The user wants to type a value; `first` is what was typed already."""

        def __init__(self, first: str) -> None:
            super().__init__()
            self.first = first

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.inputs: tuple[Input, ...] = ()
        self.values: Given = {}
        self.at = Cell("")
        self.rows: list[Row] = []

    def set_values(self, inputs: tuple[Input, ...], values: Given) -> None:
        self.inputs, self.values = inputs, values
        known = self.known
        if self.at not in known:
            same = [cell for cell in known if cell.name == self.at.name]
            self.at = (same[-1:] or known[:1] or [Cell("")])[0]
        self.lay_out()

    @property
    def known(self) -> list[Cell]:
        return [cell for each in self.inputs for cell in cells_of(each.name, self.values[each.name])]

    @property
    def input(self) -> Input | None:
        """The input of the chosen cell."""
        return next((each for each in self.inputs if each.name == self.at.name), None)

    def lay_out(self) -> None:
        cells = max(12, self.size.width)
        before = len(self.rows)
        self.rows = flow([block(each.name, self.values[each.name], cells, self.ascii) for each in self.inputs], cells)
        self.refresh(layout=len(self.rows) != before)

    def get_content_height(self, container: object, viewport: object, cells: int) -> int:
        return max(1, len(self.rows))

    def on_resize(self) -> None:
        self.lay_out()

    def on_focus(self) -> None:
        self.refresh()

    on_blur = on_focus

    def places(self) -> dict[Cell, tuple[int, float]]:
        """Where each cell is: its line, and the column of its middle."""
        found = {}
        for y, row in enumerate(self.rows):
            x = 0
            for piece in row:
                if piece.cell is not None:
                    found[piece.cell] = (y, x + width(piece.text) / 2)
                x += width(piece.text)
        return found

    def action_move(self, across: int, down: int) -> None:
        """Choose the nearest cell in a direction: in the same line, or in the nearest line."""
        places = self.places()
        if self.at not in places:
            return
        y, x = places[self.at]
        if across:
            near = [(abs(b - x), cell) for cell, (a, b) in places.items() if a == y and (b - x) * across > 0]
        else:
            near = [(abs(a - y) * 1000 + abs(b - x), cell) for cell, (a, b) in places.items() if (a - y) * down > 0]
        if near:
            self.choose(min(near, key=lambda pair: pair[0])[1])

    def action_edge(self, place: int) -> None:
        if self.known:
            self.choose(self.known[place])

    def choose(self, cell: Cell) -> None:
        if cell != self.at:
            self.at = cell
            self.refresh()
            self.post_message(self.Moved())

    def action_type(self, key: str) -> None:
        self.post_message(self.Typed("." if key == "full_stop" else key))

    def render_line(self, y: int) -> Strip:
        segments = []
        for piece in self.rows[y] if y < len(self.rows) else []:
            chosen = piece.cell is not None and piece.cell == self.at
            role = ("here" if self.has_focus else "chosen") if chosen else piece.role
            text = formula(piece.text, self.ascii) if piece.role == "name" else piece.text
            segments.append(Segment(text, self.part(role)))
        return self.strip(segments)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or offset.y >= len(self.rows):
            return
        x = 0
        for piece in self.rows[offset.y]:
            if x <= offset.x < (x := x + width(piece.text)) and piece.cell is not None:
                self.choose(piece.cell)
