"""The formulas as a map: a column a chapter, and lines between the chosen formula and its neighbours.

Notable: the lines of all formulas at once, some seventy, are a thicket in which none can be followed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import atan2, ceil, pi

import numpy as np

from txlab.drawing.curve import signs_of
from txlab.drawing.legibility import DESK, Legibility
from txlab.drawing.scatter import DOTS_ACROSS, DOTS_DOWN, HEADS, along
from txlab.drawing.text import fit, width

COLUMNS = "FKRTTMHG"
"""The chapter of each column."""

ROWS = 8
TITLED = 24  # cells of a column in which titles have room
LEADS_TO = "KRTH"
"""The chapters that are made of the one in the column before them."""

ROLES = ("line", "heading", "number", "near", "here")
LINE, HEADING, NUMBER, NEAR, HERE = range(len(ROLES))


def grid(numbers: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Number → its column and row: a column a chapter, two for T.

    >>> grid(["F1", "F2", "M1"])
    {'F1': (0, 0), 'F2': (0, 1), 'M1': (5, 0)}
    """
    found = {}
    for chapter in dict.fromkeys(each[0] for each in numbers):
        columns = [at for at, each in enumerate(COLUMNS) if each == chapter]
        members = [each for each in numbers if each.startswith(chapter)]
        deep = max(1, ceil(len(members) / len(columns)))
        for index, each in enumerate(members):
            found[each] = columns[min(index // deep, len(columns) - 1)], index % deep
    return found


def neighbour(number: str, numbers: Sequence[str], across: int, down: int) -> str:
    """The nearest formula in a direction: in the same column, or in the next one."""
    places = grid(numbers)
    column, row = places[number]
    if down:
        near = [each for each, (x, y) in places.items() if x == column and (y - row) * down > 0]
        return min(near, key=lambda each: abs(places[each][1] - row), default=number)
    near = [each for each, (x, _) in places.items() if (x - column) * across > 0]
    return min(near, key=lambda each: (abs(places[each][0] - column), abs(places[each][1] - row)), default=number)


@dataclass(frozen=True)
class FormulaMap:
    """rows of (text, role), and where each label is: number → (line, first column, end)."""

    lines: list[list[tuple[str, str]]]
    places: dict[str, tuple[int, int, int]]


def formula_map(
    here: str,
    titles: Mapping[str, str],
    uses: Mapping[str, Sequence[str]],
    chapters: Mapping[str, str],
    columns: int,
    rows: int,
    ascii: bool = False,
    legibility: Legibility = DESK,
) -> FormulaMap:
    """Draw the map in columns × rows cells with `here` chosen. titles, chapters: number or letter → title; uses: number
    → the numbers that it is made of."""
    cells = grid(list(titles))
    wide, deep = columns / len(COLUMNS), max(1.0, (rows - 1) / ROWS)
    long = int(wide) - 5 if wide >= TITLED else 3
    labels = {each: fit(f"{each:<4}{title}", long).rstrip() if long > 3 else each for each, title in titles.items()}
    places = {}
    for each, (column, row) in cells.items():
        x = int(column * wide) + 1
        places[each] = 1 + int(row * deep), x, x + width(labels[each])
    picture = Picture(columns, rows, ascii, legibility)
    for number, made in uses.items():
        for used in made:
            if here in (used, number):
                picture.draw_line(places[used], places[number])
    for at, letter in enumerate(COLUMNS):
        if at and letter == COLUMNS[at - 1]:
            continue
        room = int(wide * COLUMNS.count(letter)) - 3
        whole = chapters[letter]
        title = next((each for each in (whole, whole.split(" ")[0]) if width(each) <= room), letter)
        picture.write(0, int(at * wide) + 1, title, HEADING)
        if letter in LEADS_TO:
            picture.write(0, int(at * wide) - 1, ">" if ascii else "→", HEADING)
    near = {*uses[here], *(number for number, made in uses.items() if here in made)}
    for each, (line, x, _) in places.items():
        picture.write(line, x, labels[each], HERE if each == here else NEAR if each in near else NUMBER)
    return FormulaMap(picture.lines(), places)


class Picture:
    """Cells with dots, and letters over them."""

    def __init__(self, columns: int, rows: int, ascii: bool, legibility: Legibility) -> None:
        self.columns, self.rows, self.ascii, self.legibility = columns, rows, ascii, legibility
        self.dots = np.zeros((rows * DOTS_DOWN, columns * DOTS_ACROSS), bool)
        self.letters: dict[tuple[int, int], tuple[str, int]] = {}

    def draw_line(self, start: tuple[int, int, int], end: tuple[int, int, int]) -> None:
        """A line between two labels: from the right of the left one to the left of the right one, or beside both."""
        (a, left, right), (b, first, last) = start, end
        x0, x1 = (right, first - 1) if right < first else (left - 1, last) if last < left else (left - 1, first - 1)
        ends = np.array([[x0, a], [x1, b]]) * (DOTS_ACROSS, DOTS_DOWN) + (DOTS_ACROSS // 2, DOTS_DOWN // 2)
        for x, y in along(ends, (self.rows * DOTS_DOWN, self.columns * DOTS_ACROSS)):
            self.dots[y, x] = True
        self.write(b, x1, head_of(x1 - x0, b - a, self.ascii), LINE)

    def write(self, line: int, x: int, text: str, role: int) -> None:
        for at, sign in enumerate(text):
            if 0 <= line < self.rows and 0 <= x + at < self.columns:
                self.letters[line, x + at] = sign, role

    def lines(self) -> list[list[tuple[str, str]]]:
        signs: list[list[str]] = self.signs().tolist()
        roles = np.full((self.rows, self.columns), LINE)
        for (y, x), (letter, role) in self.letters.items():
            signs[y][x], roles[y, x] = letter, role
        return [
            [("".join(sign for sign, _ in run), ROLES[role]) for role, run in runs(line, roles[y])]
            for y, line in enumerate(signs)
        ]

    def signs(self) -> np.ndarray:
        if not self.ascii:
            return signs_of(self.dots, self.legibility)
        drawn = self.dots.reshape(self.rows, DOTS_DOWN, self.columns, DOTS_ACROSS).any((1, 3))
        return np.where(drawn, ".", " ")


def runs(line: Sequence[str], roles: np.ndarray) -> list[tuple[int, list[tuple[str, int]]]]:
    pairs = list(zip(line, map(int, roles), strict=True))
    return [(role, list(run)) for role, run in groupby(pairs, key=lambda pair: pair[1])]


def head_of(across: int, down: int, ascii: bool) -> str:
    """The head of an arrow that leads `across` cells to the right and down."""
    sign = HEADS[round(atan2(-down * DOTS_DOWN, across * DOTS_ACROSS) / (pi / 4)) % len(HEADS)]
    return {"→": ">", "←": "<", "↑": "^", "↓": "v"}.get(sign, "+") if ascii else sign
