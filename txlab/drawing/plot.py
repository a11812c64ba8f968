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
    """The annotations around and across the curves; steps are None where there is nothing to mark."""

    unit: str = ""
    cursor: int | None = None
    marker: int | None = None
    legend: Sequence[tuple[str, str, Role, str]] = ()
    """(glyph, label, role, value under the cursor)"""
    selected: tuple[int, int] | None = None
    """Columns that the mouse is drawing over."""
    across: str = "step"
    """The unit of the x axis."""
    events: Sequence[tuple[int, str]] = ()
    """(step, words) of the events of the run, in order."""
    legend_lines: int = 1
    """Lines that the legend may take, see `lines_of_legend`."""
    ends: Sequence[tuple[float, str, Role]] = ()
    """(last value, label, role) of the curves that have their name at their end."""
    right: int = 0
    """Cells right of the plot for these names, see `room_for_ends`."""


def margin(chart: curve.Chart) -> int:
    """Return the number of cells left of the plot: the longest label of the y axis, a space and the axis itself."""
    return max((width(tick.label) for tick in chart.y_ticks), default=0) + 2


def readout(chart: curve.Chart, furniture: Furniture, cells: int, ascii: bool) -> Pieces:
    """Return the top line: the unit at the left, the legend at the right, with values if there is a cursor."""
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
        short = [(glyph, shorten(label, longest, ascii), role, value) for glyph, label, role, value in furniture.legend]
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


def room_for_ends(labels: Sequence[str], cells: int, rows: int, ascii: bool) -> int:
    """Return the cells that names at the ends of curves take, a space included; 0 = not enough lines or columns."""
    if not labels or len(labels) > rows or cells < NARROWEST:
        return 0
    return 1 + min(max(width(visible(label, ascii)) for label in labels), cells // 4)


def end_rows(chart: curve.Chart, values: Sequence[float]) -> list[int]:
    """Return a row for each value, the nearest to it that keeps the order of the values and no two in one row.

    Values outside the window are at its edge.
    """
    rows = chart.characters.shape[0]
    wanted = [(1 - float(np.clip(np.nan_to_num(chart.window.up(value)), 0, 1))) * (rows - 1) for value in values]
    order = sorted(range(len(values)), key=lambda index: wanted[index])
    placed: dict[int, int] = {}
    for place, index in enumerate(order):
        least = placed[order[place - 1]] + 1 if place else 0
        placed[index] = max(least, min(round(wanted[index]), rows - (len(order) - place)))
    return [placed[index] for index in range(len(values))]


NARROWEST = 40  # cells of a chart that has names at the ends of its curves
TALL = 12  # lines of a chart that can spare one for a long legend


def lines_of_legend(furniture: Furniture, cells: int, height: int, ascii: bool) -> int:
    """Return 2 if the names do not fit next to the unit, and a plot of this height is tall enough; else 1."""
    names = [width(glyph) + 1 + width(visible(label, ascii)) for glyph, label, _, _ in furniture.legend]
    needed = width(visible(furniture.unit, ascii).split(",")[0]) + 2 + sum(names) + 3 * (len(names) - 1)
    return 2 if needed > cells and height >= TALL and len(names) > 1 else 1


def readouts(chart: curve.Chart, furniture: Furniture, cells: int, ascii: bool) -> list[Pieces]:
    """Return the lines above the plot: `readout`, and the rest of a legend of two lines."""
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
    """Return the width to which the longest of these have to be cut to save `excess` cells; 0 if that is too narrow.

    >>> fair_share([5, 24, 30], 12)
    21
    """
    most = max(widths, default=0)
    while most >= SHORTEST and sum(max(0, each - most) for each in widths) < excess:
        most -= 1
    return most if most >= SHORTEST else 0


def shorten(label: str, cells: int, ascii: bool) -> str:
    """Return a name cut in its middle: runs of one scenario differ at the end.

    >>> shorten("gpt-tiny layers=3 seed=7", 15, ascii=False)
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
    """Return the marks of every row, by column: a line at each event's step and, near the top where there is room next
    to it, its words. Of several events in one column the last has the words."""
    rows, columns = chart.characters.shape
    words = {column: visible(word, ascii) for step, word in events if (column := chart.column_of(step)) is not None}
    marks: list[dict[int, tuple[str, str]]] = [
        dict.fromkeys(words, (":" if ascii else "╎", "unit")) for _ in range(rows)
    ]
    for column, word in sorted(words.items(), reverse=True):
        for begin in (column + 1, column - len(word)):  # to the right of its line, else to the left
            span = range(begin, begin + len(word))
            free = [
                row
                for row in range(min(3, rows))
                if begin >= 0
                and span.stop <= columns
                and not any(marks[row].keys() & {begin - 1, *span, span.stop} - {column})
                and (chart.series[row, begin : span.stop] == -1).all()
            ]
            if free:
                marks[free[0]].update({place: (letter, "unit") for place, letter in zip(span, word, strict=True)})
                break
    return marks


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
    lines = readouts(chart, furniture, left + columns + furniture.right, ascii)
    places = end_rows(chart, [value for value, _, _ in furniture.ends]) if furniture.right else []
    names = dict(zip(places, furniture.ends, strict=False))
    done = event_marks(chart, furniture.events, ascii)
    for row in range(rows):
        label = labels.get(row)
        axis = fit(label or "", left - 2, "right") + " " + (bar if label is None else tee)
        lines.append([(axis, "axis"), *curve_pieces(chart, row, done[row] | marks)])
        if row in names:
            _, name, owner = names[row]
            lines[-1].append((" " + shorten(name, furniture.right - 1, ascii), owner))
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

    In colours every curve is drawn in braille, each in its own colour; without colours only the first one, with the
    others on top with their own marks. `options` are passed to `curve.draw`.
    """
    marks = colours == "none" or ascii
    known = curve.ASCII_MARKS if ascii else curve.MARKS
    top: Pieces = [(visible(title, ascii), "axis")] if title else []
    for index, each in enumerate(curves):
        mark = "⠤⠤" if not ascii and (index == 0 or not marks) else known[index % len(known)]
        top += [("   ", "axis")] * bool(top) + [(mark, index), (" " + visible(each.name, ascii), "axis")]

    def draw(left: int) -> curve.Chart | None:
        return curve.draw(curves, width - left, max(height - 3, 1), ascii=ascii, marks=marks, **options)

    first = draw(2)  # labels and chart size depend on each other
    chart = draw(2 if first is None else max(3, margin(first)))
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
    """Return the x axis with a notch for every tick, and the line of its numbers with the axis name in a gap.

    Where no gap is wide enough, one number makes room for the name, or the name is shortened to what is before its
    first comma."""
    columns = chart.characters.shape[1]
    line = [horizontal] * columns
    labels: list[tuple[int, str]] = []  # (first column, number)
    free = 0
    for tick in chart.x_ticks:
        place = round(tick.place * (columns - 1))
        line[place] = notch
        start = max(min(place - len(tick.label) // 2, columns - len(tick.label)), 0)
        if start >= free and start + len(tick.label) <= columns:
            labels.append((start, tick.label))
            free = start + len(tick.label) + 2  # with one space between them, 0 and 500 would look like one number
    labels, name, begin = place_name(labels, name, columns)
    numbers = [" "] * columns
    for start, label in [*labels, (begin, name)]:
        numbers[start : start + len(label)] = label
    return "".join(line), "".join(numbers)


def place_name(labels: list[tuple[int, str]], name: str, columns: int) -> tuple[list[tuple[int, str]], str, int]:
    """Return the numbers of an axis that are written, its name as it is written, and the column where that begins.

    >>> place_name([(0, "0"), (8, "20"), (16, "40"), (24, "60")], "steps back", 30)
    ([(0, '0'), (8, '20'), (24, '60')], 'steps back', 13)
    >>> place_name([(0, "0"), (8, "20")], "far too long, t", 12)
    ([(0, '0'), (8, '20')], '', 0)
    """
    if width(name) != len(name):
        return labels, "", 0
    inner = range(len(labels) - 2, 0, -1)  # the first and the last number say what the range is
    fewer = [labels[:each] + labels[each + 1 :] for each in inner]
    for words in dict.fromkeys((name, name.partition(",")[0].partition(";")[0])):
        for kept in [labels, *fewer]:
            ends = [0, *(start + len(label) + 2 for start, label in kept)]
            starts = [*(start for start, _ in kept), columns]
            for begin, end in reversed(list(zip(ends, starts, strict=True))):
                if end - begin >= len(words) + 2:
                    return kept, words, begin + (end - begin - len(words)) // 2
    return labels, "", 0


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
