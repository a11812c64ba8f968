"""The pictures of the Playground: the network, its neurons small with wires between them, and the answer, large."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import ClassVar

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from txlab.drawing.diverging import signed_ramp
from txlab.drawing.network import Plan, Wires, plan
from txlab.drawing.palette import Ramp, contrast
from txlab.drawing.text import fit, width
from txlab.engine.feedforward.plane import FEATURES
from txlab.tui.screens.playground.shown import Shown, cell_of, point_of, resample
from txlab.tui.widgets.painted import Painted
from txlab.tui.widgets.pixels import Pixels
from txlab.tui.widgets.terminal import ink

LABEL = 7  # cells for the signs of the features
GLYPHS = "%=-. .+*#"  # −1 to 1 without half blocks: different signs below and above zero
STRENGTHS = (0.0, 0.3, 0.55, 1.0)  # of the ramp, for the roles of wires


def ramp_of(widget: Painted) -> Ramp:
    """The ramp from −1 to 1; without half blocks its glyphs show the sign."""
    ramp = signed_ramp(widget.colours, widget.dark, widget.ascii)
    if widget.colours != "none" and not widget.ascii:
        return ramp
    at = np.rint(np.linspace(0, len(GLYPHS) - 1, ramp.levels)).astype(int)
    return replace(ramp, glyphs="".join(GLYPHS[place] for place in at))


class Pictures(Painted):
    """The base of both views: the ramp, and lines that are redrawn only if they have changed."""

    shown: Shown | None = None

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows: list[list[Segment]] = []

    @property
    def paired(self) -> bool:
        return self.colours != "none" and not self.ascii

    @property
    def painter(self) -> Pixels:
        return self.get_cached("painter", lambda: Pixels(ramp_of(self), self.surface, self.paired))

    def draw(self) -> list[list[Segment]]:
        raise NotImplementedError

    def redraw(self) -> None:
        old, self.rows = self.rows, self.draw() if self.shown is not None and self.size.width else []
        self.refresh_changed(old, self.rows)

    def on_resize(self) -> None:
        self.rows = []
        self.redraw()
        self.refresh()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.call_after_refresh(self.on_resize)

    def render_line(self, y: int) -> Strip:
        if y >= len(self.rows):
            return Strip.blank(self.size.width, self.surface)
        return self.strip(self.rows[y])


class NetworkView(Pictures, can_focus=False):
    """Features at the left, then the neurons by depth; the wires of the last ones lead to the right edge."""

    COMPONENT_CLASSES = {"networkview--label", "networkview--here"}
    DEFAULT_CSS = """
    NetworkView { width: 1fr; height: 1fr; }
    NetworkView > .networkview--label { color: $text-muted; }
    NetworkView > .networkview--here { color: $accent; text-style: bold; }
    """

    class Pointed(Message):
        """A neuron was clicked."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.cursor, self.source = "", ""  # the chosen neuron, and the one at the other end of its chosen weight
        self.middle = 0  # line of the answer's middle
        self.heads = 1  # lines of titles
        self.known: tuple[object, ...] = ()
        self.plan: Plan = plan((), 1, 1, 0)
        self.wires = Wires(self.plan, (), 0)

    def show(self, shown: Shown, cursor: str, source: str, middle: int) -> None:
        self.shown, self.cursor, self.source, self.middle = shown, cursor, source, middle
        self.redraw()

    def lay_out(self, shown: Shown) -> None:
        """Lay the columns out again if anything has changed that they depend on."""
        columns = shown.columns[:-1]
        wanted = (columns, tuple(shown.edges), self.size, self.middle)
        crowded = len(self.plan.places) < sum(map(len, columns))
        if wanted != self.known or (crowded and self.cursor not in self.plan.places):
            self.known = wanted
            lines, cells = max(1, self.size.height), self.size.width
            self.plan = plan(columns, lines, cells, LABEL, self.cursor)
            titled = plan(columns, max(1, lines - 1), cells, LABEL, self.cursor)
            self.heads = int(titled.pitch == self.plan.pitch)  # titles only if the pictures leave a line
            self.plan = titled if self.heads else self.plan
            self.wires = Wires(self.plan, shown.edges, self.middle - self.heads)

    def draw(self) -> list[list[Segment]]:
        shown = self.shown
        assert shown is not None
        self.lay_out(shown)
        chosen = np.array([target == self.cursor for _, target in shown.edges], bool)
        characters, roles = self.wires.draw(shown.weights, chosen, self.ascii, self.legibility)
        lines: list[list[tuple[int, int, list[Segment]]]] = [[] for _ in range(self.plan.size[0])]
        label, here, painter = self.part("label"), self.part("here"), self.painter
        opening, closing = "[]" if self.ascii else "▐▌"
        tall, pixels = self.plan.pitch, self.plan.pixels
        for name, (top, left) in self.plan.places.items():
            rows = pixels if self.paired else max(1, tall - 1)
            picture = resample(shown.pictures[name], rows, self.plan.wide)
            levels = painter.ramp.level((picture + 1) / 2)
            off = name in shown.off
            for y in range((rows + 1) // 2 if self.paired else rows):
                lines[top + y].append((left, left + self.plan.wide, painter.line(levels, y, off)))
                right = left + self.plan.wide
                if name == self.cursor:
                    lines[top + y] += [
                        (left - 1, left, [Segment(opening, here)]),
                        (right, right + 1, [Segment(closing, here)]),
                    ]
                elif name == self.source and y == (tall - 1) // 2:
                    lines[top + y].append((right, right + 1, [Segment("<" if self.ascii else "◂", here)]))
            if name in FEATURES:
                sign = FEATURES[name][0] if not self.ascii else name.replace("_", " ")
                text = fit(sign, LABEL - 2, "right", "")
                style = here if name == self.cursor else label
                lines[top + (tall - 1) // 2].append((0, LABEL - 2, [Segment(text, style)]))
        drawn = zip(lines, characters.tolist(), roles.tolist(), strict=True)
        return [*[self.titles(shown)] * self.heads, *(self.line(*row) for row in drawn)]

    def titles(self, shown: Shown) -> list[Segment]:
        """The titles of the columns: `inputs`, `8 tanh`."""
        text = " " * self.size.width
        for number, column in enumerate(shown.columns[:-1]):
            places = [self.plan.places[name] for name in column if name in self.plan.places]
            if not places:
                continue
            labels = {shown.activations[name] for name in column} if number else set()
            words = f"{len(column)} {labels.pop() if len(labels) == 1 else 'neurons'}" if number else "inputs"
            left = max(0, places[0][1] + self.plan.wide // 2 - len(words) // 2)
            if not text[max(0, left - 1) : left + len(words) + 1].strip():
                text = text[:left] + words + text[left + len(words) :]
        return [Segment(text[: self.size.width], self.part("label"))]

    def line(
        self, parts: list[tuple[int, int, list[Segment]]], characters: list[str], roles: list[int]
    ) -> list[Segment]:
        """A line: pictures and marks, and wires in between."""
        segments_found: list[Segment] = []
        at = 0
        for left, right, segments in sorted(parts, key=lambda part: part[0]):
            if left < at:
                continue
            segments_found += self.wire(characters[at:left], roles[at:left])
            segments_found += segments
            at = right
        return segments_found + self.wire(characters[at:], roles[at:])

    def wire(self, characters: list[str], roles: list[int]) -> list[Segment]:
        """A run of cells between two pictures."""
        segments, at = [], 0
        for role, run in groupby(roles):
            end = at + len(list(run))
            segments.append(Segment("".join(characters[at:end]), self.wire_style(role)))
            at = end
        return segments

    def wire_style(self, role: int) -> Style:
        def find() -> Style:
            ramp = self.painter.ramp
            share = STRENGTHS[abs(role)] * (1 if role > 0 else -1)
            level = int(ramp.level(np.array([(share + 1) / 2]))[0])
            return ink(ramp.fill[level] or ramp.ink[level], self.surface)

        return self.get_cached(f"wire {role}", find) if role else self.surface

    def on_click(self, event: events.Click) -> None:
        place = event.get_content_offset(self)
        if place is None:
            return
        for name, (top, left) in self.plan.places.items():
            inside = left - 1 <= place.x <= left + self.plan.wide or (name in FEATURES and place.x < left)
            if inside and top <= place.y - self.heads < top + self.plan.pitch:
                self.post_message(self.Pointed(name))


class AnswerView(Pictures, can_focus=False):
    """The answer over the plane, or the chosen neuron's picture, with the points of the data."""

    COMPONENT_CLASSES = {"answerview--label", "answerview--here"}
    DEFAULT_CSS = """
    AnswerView { width: auto; height: auto; }
    AnswerView > .answerview--label { color: $text-muted; }
    AnswerView > .answerview--here { color: $accent; text-style: bold; }
    """
    SIGNS: ClassVar = {"train": ("●", "■"), "test": ("○", "□")}
    ASCII_SIGNS: ClassVar = {"train": ("O", "X"), "test": ("o", "x")}

    class Pointed(Message):
        """A cell was clicked: (line, column) of the picture."""

        def __init__(self, line: int, column: int) -> None:
            super().__init__()
            self.line, self.column = line, column

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.neuron = ""  # the name of the neuron whose picture it is
        self.heads: tuple[str, ...] = ("",)
        self.chosen = False
        self.here: tuple[int, int] | None = None  # the cursor's cell
        self.marker = ""

    def show(
        self, shown: Shown, name: str, heads: tuple[str, ...], chosen: bool, here: tuple[int, int] | None, marker: str
    ) -> None:
        """`heads`: the forms of its first line, the longest first; `chosen`: the cursor is on it; `marker` is the sign
        of a point that would be added at `here`."""
        self.chosen = chosen
        self.shown, self.neuron, self.heads, self.here, self.marker = shown, name, heads, here, marker
        self.redraw()

    @property
    def area(self) -> tuple[int, int]:
        """(lines, cells) of the picture."""
        return max(1, self.size.height - 1), max(1, self.size.width)

    def draw(self) -> list[list[Segment]]:
        shown, painter = self.shown, self.painter
        assert shown is not None
        lines, cells = self.area
        picture = resample(shown.pictures[self.neuron], 2 * lines if self.paired else lines, cells)
        levels = painter.ramp.level((picture + 1) / 2)
        drawn = [[(sign, painter.ink(*pair)) for sign, pair in painter.cells(levels, y)] for y in range(lines)]
        rows = 2 if self.paired else 1
        for which, share in (("test", 20), ("train", 7)):
            signs = signs_of(which, self.ascii)
            for x, y, target in shown.points(which, lines * cells // share).tolist():
                line, column = cell_of(x, y, lines, cells)
                style = self.point_style(int(levels[rows * line, column]), which == "train")
                drawn[line][column] = signs[target <= 0], style
        if self.here is not None:
            line, column = min(self.here[0], lines - 1), min(self.here[1], cells - 1)
            for at, sign in ((column - 1, "["), (column, self.marker), (column + 1, "]")):
                if 0 <= at < cells:
                    drawn[line][at] = sign, self.surface + Style(reverse=True, bold=True)
        head = next((each for each in self.heads if width(each) <= cells), self.heads[-1])
        head = fit(head, cells, ellipsis="~" if self.ascii else "…")
        return [[Segment(head, self.part("here" if self.chosen else "label"))], *map(in_runs, drawn)]

    def point_style(self, level: int, bold: bool) -> Style:
        """An ink that is readable on the level's colour."""

        def find() -> Style:
            fill = painter.ramp.fill[level]
            if fill is None:
                return self.surface + Style(bold=bold)
            return ink(contrast(fill), self.surface, fill) + Style(bold=bold)

        painter = self.painter
        return self.get_cached(f"point {level} {bold}", find)

    def on_click(self, event: events.Click) -> None:
        place = event.get_content_offset(self)
        if place is not None and place.y >= 1:
            self.post_message(self.Pointed(place.y - 1, place.x))

    def at(self, cell: tuple[int, int]) -> tuple[float, float]:
        """The point of the plane in the middle of a cell."""
        return point_of(*cell, *self.area)


def in_runs(cells: list[tuple[str, Style]]) -> list[Segment]:
    """Merge neighbours of the same style."""
    runs = ((style, "".join(sign for sign, _ in run)) for style, run in groupby(cells, key=itemgetter(1)))
    return [Segment(text, style) for style, text in runs]


def signs_of(which: str, ascii: bool) -> tuple[str, str]:
    """The signs of the points of the first and the second class: of "train", or of "test"."""
    signs: tuple[str, str] = (AnswerView.ASCII_SIGNS if ascii else AnswerView.SIGNS)[which]
    return signs
