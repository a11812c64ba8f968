"""The tangent plane of a function of two variables as a triangle in perspective, with its normal (MATH F3; Wang §1,
example 1, figure 1).

Notable: the reader stands so that OD always points the same way, and the axes where they then are; seen along OD the
triangle would be a line. x and y have the same scale, so that right angles on the floor are those of the plane; z has
its own.
"""

from __future__ import annotations

from dataclasses import replace
from math import hypot

import numpy as np

from txlab.drawing.axis import Window
from txlab.drawing.legibility import DESK, Legibility
from txlab.drawing.plane import HERE, Sheet, Shows, empty, stamp
from txlab.engine.descent.tangent import PlaneFigure

REACH = 3.2  # of OD: the axes of x and y on the floor
TOP = 1.5  # of OC: the axis of z, and the length of the normal's shadow on it
BEARING = 0.55  # radians: OD points to the right and, by this, towards the reader, whatever the gradient
LOOKING_DOWN = 0.5  # of the floor's depth is seen
RISE = 1.4  # of OC on paper, in units of OD


def tangent_sheet(
    figure: PlaneFigure, room: tuple[int, int], ink: int, ascii: bool, legibility: Legibility = DESK
) -> Sheet:
    """The figure: axes from O, the triangle ABC, OD and CD in the colour of a method, the normal n at C."""
    across, along = figure.d
    size = hypot(across, along)
    unit = np.array([across, along]) / size
    to_left = np.array([-unit[1], unit[0]])
    right_hand = np.cos(BEARING) * unit + np.sin(BEARING) * to_left
    away = np.cos(BEARING) * to_left - np.sin(BEARING) * unit

    def on_paper(point: np.ndarray) -> np.ndarray:
        """(x, y, z) → (right, up), a parallel projection."""
        floor = point[:2]
        return np.array([floor @ right_hand, LOOKING_DOWN * floor @ away + RISE * point[2]])

    def is_far(value: float | None) -> bool:
        return value is None or abs(value) > REACH * size

    def clipped(value: float | None, direction: float) -> float:
        """In units of OD: the place on an axis; its end if it is further, or nowhere."""
        far = REACH * float(np.sign(direction) or 1.0)
        return far if value is None or is_far(value) else value / size

    a, b = clipped(figure.a, across), clipped(figure.b, along)
    o, c, d = np.zeros(3), np.array([0, 0, 1.0]), np.array([*unit, 0.0])
    ends = line_on_floor(unit)
    normal = c + 0.45 * np.array([*unit, 1.0])  # (−∂f/∂x, −∂f/∂y, 1), upwards, with z in units of OC
    points = {
        "O": o, "C": c, "D": d, "A": np.array([a, 0, 0]), "B": np.array([0, b, 0]),
        "x": np.array([max(1.6, a + 0.3), 0, 0]), "y": np.array([0, max(1.6, b + 0.3), 0]),
        "z": np.array([0, 0, TOP]), "n": normal,
    }  # fmt: skip
    paper = {name: on_paper(point) for name, point in points.items()}
    shown = np.array([*paper.values(), *(on_paper(end) for end in ends)])
    (left, low), (right, high) = shown.min(0), shown.max(0)
    wide, tall = 0.06 * (right - left), 0.08 * (high - low)
    sheet = replace(empty(Window(left - wide, right + wide, low - tall, high + tall), *room), bare=True)

    def draw(start: np.ndarray, end: np.ndarray, shows: int, mark: str, dashed: bool = False) -> None:
        line = np.stack([on_paper(start), on_paper(end)])
        stamp(sheet, line, shows, mark, ascii, "dashed" if dashed else "line", legibility)

    for axis, behind in (("x", a), ("y", b), ("z", 0.0)):
        draw(o, points[axis], Shows.AXIS, ".")
        if behind < 0:
            draw(o, points["A" if axis == "x" else "B"], Shows.AXIS, ".")
    draw(*ends, Shows.CURVE, "+")
    for corner, reached in (("A", figure.a), ("B", figure.b)):
        far = is_far(reached)
        end = ends[0 if (ends[0] - ends[1]) @ points[corner] > 0 else 1] if far else points[corner]
        draw(c, end, Shows.CURVE, "+", dashed=far)
    draw(o, d, ink, "o")
    draw(c, d, ink, "o")
    draw(c, normal, Shows.TANGENT, "*")
    for name, place in paper.items():
        if name in "AB" and is_far(figure.a if name == "A" else figure.b):
            continue
        write(sheet, place, name, HERE + ink if name in "CD" else Shows.LABEL)
    return sheet


def line_on_floor(unit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the line AB, in units of OD: where it meets the axes, or no further than REACH from O."""
    direction = np.array([-unit[1], unit[0]])
    reach = (REACH**2 - 1) ** 0.5
    ends = []
    for sign in (-1.0, 1.0):
        # On the line D + t · direction, the axes are at t = −unit[0] / direction[0] and −unit[1] / direction[1].
        there = [-u / w for u, w in zip(unit, direction, strict=True) if w and -u / w * sign > 0]
        t = sign * min([abs(each) for each in there] + [reach])
        ends.append(np.array([*(unit + t * direction), 0.0]))
    return ends[0], ends[1]


def write(sheet: Sheet, place: np.ndarray, name: str, shows: int) -> None:
    """A letter at a point, or next to it if there is one already."""
    row, column = sheet.cell_of(float(place[0]), float(place[1]))
    for aside in (0, 1, -1, 2, -2):
        there = min(max(column + aside, 0), sheet.columns - 1)
        if not sheet.characters[row, there].isalpha():
            sheet.characters[row, there], sheet.shows[row, there] = name, shows
            return
