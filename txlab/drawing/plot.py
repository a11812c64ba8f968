"""A chart as lines of text with roles, for a widget or a shell to colour: axes, curves, the cursor, the legend.

A line is a list of (text, role), where the role is "axis", "unit", "cursor", "marker", "empty" or the number of a
curve.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from rich.color import Color
from rich.style import Style
from rich.text import Text

from txlab.drawing import curve
from txlab.drawing.curve import Curve
from txlab.drawing.formatting import count, number, plain
from txlab.drawing.palette import RGB, Colours, lines
from txlab.drawing.text import cut, fit, visible, width

Role = str | int
Pieces = list[tuple[str, Role]]


@dataclass(frozen=True)
class Furniture:
    """What is drawn around and across the curves; steps are None where there is nothing to mark."""

    unit: str = ""
    cursor: int | None = None
    marker: int | None = None
    legend: Sequence[tuple[str, str, Role, str]] = ()
    """(glyph, label, role, value under the cursor)"""
    selected: tuple[int, int] | None = None
    """Columns that the mouse is drawing over."""
    across: str = "step"
    """What the x axis counts."""
    events: Sequence[tuple[int, str]] = ()
    """(step, words) of what was done to the run, in order."""
    legend_lines: int = 1
    """Lines that the legend may take, see `lines_of_legend`."""


def margin(chart: curve.Chart) -> int:
    """Return the number of cells left of the plot: the longest label of the y axis, a space and the axis itself."""
    return max((width(tick.label) for tick in chart.y_ticks), default=0) + 2


def readout(chart: curve.Chart, furniture: Furniture, cells: int, ascii: bool) -> Pieces:
    """Return the top line: the unit at the left, the legend at the right, with values while there is a cursor."""
    entries: list[Pieces] = []
    if furniture.cursor is not None:
        step = f"{furniture.across} {count(furniture.cursor)}"
        entries.append([(plain(step) if ascii else step, "cursor")])
    for glyph, label, role, value in furniture.legend:
        entry: Pieces = [(glyph + " ", role), (visible(label, ascii), "unit")]
        if value:
            entry.append((" " + (plain(value) if ascii else value), "cursor"))
        entries.append(entry)
    if chart.dropped:
        entries.append([(f"{count(chart.dropped)} not positive, left out", "unit")])
    unit = visible(furniture.unit, ascii)
    needed = sum(width(text) for entry in entries for text, _ in entry) + 3 * (len(entries) - 1)
    if width(unit) + 2 + needed > cells:
        unit = unit.split(",")[0]  # the name of a curve matters more than its smoothing span
    room = cells - width(unit) - 2
    if needed > room and (
        longest := fair_share([width(visible(e[1], ascii)) for e in furniture.legend], needed - room)
    ):
        short = [
            (glyph, shortened(label, longest, ascii), role, value) for glyph, label, role, value in furniture.legend
        ]
        return readout(chart, replace(furniture, unit=unit, legend=short), cells, ascii)
    shown: Pieces = []
    for entry in entries:
        size = sum(width(text) for text, _ in entry) + (3 if shown else 0)
        if size > room:
            break
        shown += [("   ", "unit")] * bool(shown) + entry
        room -= size
    gap = cells - width(unit) - sum(width(text) for text, _ in shown)
    return [(cut(unit, cells), "unit"), (" " * max(0, gap), "empty"), *shown]


TALL = 12  # lines of a chart that can spare one for a long legend


def lines_of_legend(furniture: Furniture, cells: int, height: int, ascii: bool) -> int:
    """Return 2 where the names do not fit beside the unit, and a plot of so many lines is high enough; else 1."""
    names = [width(glyph) + 1 + width(visible(label, ascii)) for glyph, label, _, _ in furniture.legend]
    needed = width(visible(furniture.unit, ascii).split(",")[0]) + 2 + sum(names) + 3 * (len(names) - 1)
    return 2 if needed > cells and height >= TALL and len(names) > 1 else 1


def readouts(chart: curve.Chart, furniture: Furniture, cells: int, ascii: bool) -> list[Pieces]:
    """Return the lines above the plot: `readout`, and what of a legend of two lines does not fit into the first."""
    if furniture.legend_lines == 1:
        return [readout(chart, furniture, cells, ascii)]
    room, first = cells - width(visible(furniture.unit, ascii).split(",")[0]) - 2, 0
    if furniture.cursor is not None:
        room -= len(furniture.across) + len(count(furniture.cursor)) + 4
    for glyph, label, _, value in furniture.legend:
        room -= width(glyph) + 1 + width(visible(label, ascii)) + (len(value) + 1 if value else 0) + 3
        if room < -3:
            break
        first += 1
    rest = Furniture(legend=furniture.legend[first:])
    line = readout(chart, replace(furniture, legend=furniture.legend[:first]), cells, ascii)
    return [line, readout(replace(chart, dropped=0), rest, cells, ascii)]


SHORTEST = 8  # cells of a shortened name in the legend


def fair_share(widths: Sequence[int], excess: int) -> int:
    """Return the width to which the longest of these have to be cut to save so many cells; 0 if that is too narrow.

    >>> fair_share([5, 24, 30], 12)
    21
    """
    most = max(widths, default=0)
    while most >= SHORTEST and sum(max(0, each - most) for each in widths) < excess:
        most -= 1
    return most if most >= SHORTEST else 0


def shortened(label: str, cells: int, ascii: bool) -> str:
    """Return a name cut in its middle: what tells runs of one scenario apart stands at the end.

    >>> shortened("gpt-tiny layers=3 seed=7", 15, ascii=False)
    'gpt…rs=3 seed=7'
    """
    label = visible(label, ascii)
    if width(label) <= cells:
        return label
    head, end = cut(label, (cells - 1) // 4), len(label)
    while width(label[end - 1 :]) <= cells - 1 - width(head):
        end -= 1
    return f"{head}{'~' if ascii else '…'}{label[end:]}"


def event_marks(chart: curve.Chart, events: Sequence[tuple[int, str]], ascii: bool) -> list[dict[int, tuple[str, str]]]:
    """Return the marks of every row, by column: a line at each event's step and, high up where there is room beside it,
    its words. Of several events in one column the last has the words."""
    rows, columns = chart.characters.shape
    words = {column: visible(said, ascii) for step, said in events if (column := chart.column_of(step)) is not None}
    found: list[dict[int, tuple[str, str]]] = [
        dict.fromkeys(words, (":" if ascii else "╎", "unit")) for _ in range(rows)
    ]
    for column, said in sorted(words.items(), reverse=True):
        for begin in (column + 1, column - len(said)):  # to the right of its line, else to the left
            span = range(begin, begin + len(said))
            free = [
                row
                for row in range(min(3, rows))
                if begin >= 0
                and span.stop <= columns
                and not any(found[row].keys() & {begin - 1, *span, span.stop} - {column})
                and (chart.series[row, begin : span.stop] == -1).all()
            ]
            if free:
                found[free[0]].update({place: (letter, "unit") for place, letter in zip(span, said, strict=True)})
                break
    return found


def plot_lines(chart: curve.Chart, furniture: Furniture, ascii: bool) -> list[Pieces]:
    """Return every line of the plot, from the legend to the tick labels of the x axis; its size is the chart's."""
    rows, columns = chart.characters.shape
    left = margin(chart)
    bar, tee, corner, rule, notch, upright, dotted = "|++-+|:" if ascii else "│┤└─┬│┊"
    labels = {rows - 1 - round(tick.place * (rows - 1)): tick.label for tick in chart.y_ticks}
    marks = {}
    for step, glyph, role in ((furniture.marker, dotted, "marker"), (furniture.cursor, upright, "cursor")):
        column = chart.column_of(step) if step is not None else None
        if column is not None:
            marks[column] = (glyph, role)
    lines = readouts(chart, furniture, left + columns, ascii)
    done = event_marks(chart, furniture.events, ascii)
    for row in range(rows):
        label = labels.get(row)
        axis = fit(label or "", left - 2, "right") + " " + (bar if label is None else tee)
        lines.append([(axis, "axis"), *curve_pieces(chart, row, done[row] | marks)])
    numbers = x_axis(chart, rule, notch, f"{furniture.across}, log" if chart.window.log_x else furniture.across)
    lines.append([(" " * (left - 1) + corner + numbers[0], "axis")])
    lines.append([(fit(" " * left + numbers[1], left + columns, ellipsis=""), "axis")])
    if furniture.selected is not None:
        low, high = sorted(furniture.selected)
        lines[-2] = [
            (" " * (left - 1) + corner + numbers[0][:low], "axis"),
            (("=" if ascii else "━") * (high - low + 1), "cursor"),
            (numbers[0][high + 1 :], "axis"),
        ]
    return lines


def text_chart(
    curves: Sequence[Curve], width: int = 80, height: int = 20, *, ascii: bool = False, colours: Colours = "none",
    title: str = "", x_label: str = "step", **options: Any,
) -> list[Text]:  # fmt: skip
    """Draw a chart with axes, labels and legend as `height` lines of at most `width` cells.

    In colours every curve is drawn in braille, each in its own colour; without them the first one is, and the others
    lie on top of it with their own marks. `options`: those of `curve.draw`.
    """
    marks = colours == "none" or ascii
    known = curve.ASCII_MARKS if ascii else curve.MARKS
    top: Pieces = [(visible(title, ascii), "axis")] if title else []
    for index, each in enumerate(curves):
        mark = "⠤⠤" if not ascii and (index == 0 or not marks) else known[index % len(known)]
        top += [("   ", "axis")] * bool(top) + [(mark, index), (" " + visible(each.name, ascii), "axis")]

    def drawn(left: int) -> curve.Chart | None:
        return curve.draw(curves, width - left, max(height - 3, 1), ascii=ascii, marks=marks, **options)

    first = drawn(2)  # labels and chart size depend on each other
    chart = drawn(2 if first is None else max(3, margin(first)))
    body: list[Pieces] = [[("no numbers yet", "axis")]]
    if chart is not None:
        body = plot_lines(chart, Furniture(across=visible(x_label, ascii)), ascii)[1:]
    inks = [ink(colour) for colour in lines(colours)]
    styled = [
        Text.assemble(*((text, inks[role % len(inks)] if isinstance(role, int) else "") for text, role in line))
        for line in [top, *body]
    ]
    return [line[: len(cut(line.plain, width).rstrip())] for line in styled]


def ink(colour: RGB | None) -> Style:
    return Style.null() if colour is None else Style(color=Color.from_rgb(*colour))


def x_axis(chart: curve.Chart, horizontal: str, notch: str, name: str) -> tuple[str, str]:
    """Return the x axis with a notch for every tick, and the line of its numbers with the axis name in a gap."""
    columns = chart.characters.shape[1]
    line, numbers, free = [horizontal] * columns, [" "] * columns, 0
    gaps: list[tuple[int, int]] = []
    for tick in chart.x_ticks:
        place = round(tick.place * (columns - 1))
        line[place] = notch
        start = max(min(place - len(tick.label) // 2, columns - len(tick.label)), 0)
        if start >= free and start + len(tick.label) <= columns:
            numbers[start : start + len(tick.label)] = tick.label
            gaps.append((free, start))
            free = start + len(tick.label) + 2  # with one space between them, 0 and 500 would be read as one number
    gaps.append((free, columns))
    roomy = [gap for gap in gaps if gap[1] - gap[0] >= width(name) + 2]
    if roomy and width(name) == len(name):
        begin, end = roomy[-1]
        begin += (end - begin - len(name)) // 2
        numbers[begin : begin + len(name)] = name
    return "".join(line), "".join(numbers)


def curve_pieces(chart: curve.Chart, row: int, marks: dict[int, tuple[str, str]]) -> Pieces:
    """Return one row of the plot: equal neighbours are merged, vertical marks are drawn where there is no curve."""
    characters, owners = chart.characters[row].copy(), chart.series[row].astype(np.int32)
    roles: dict[int, Role] = {-1: "empty"}
    for code, (column, (glyph, role)) in enumerate(marks.items(), start=2):
        if owners[column] == -1:
            characters[column], owners[column] = glyph, -code
            roles[-code] = role
    changes = [0, *(np.flatnonzero(np.diff(owners)) + 1).tolist(), len(owners)]
    pieces: Pieces = []
    for begin, end in itertools.pairwise(changes):
        owner = int(owners[begin])
        pieces.append(("".join(characters[begin:end]), roles.get(owner, owner)))
    return pieces


def value_at(steps: np.ndarray, values: np.ndarray, step: int) -> str:
    """Return the value logged at `step`, or last before it, as formatted text; '' before the first."""
    index = int(np.searchsorted(steps, step, side="right")) - 1
    return number(float(values[index])) if index >= 0 else ""


def as_curve(label: str, steps: np.ndarray, values: np.ndarray, style: curve.Style) -> Curve:
    return Curve(label, np.asarray(steps), np.asarray(values, dtype=np.float64), style)
