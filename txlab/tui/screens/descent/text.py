"""The text next to the map: each method with its numbers; the rule, parameters and tangent of the chosen one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from textual.content import Content

from txlab.drawing.explanation import wrap_text
from txlab.drawing.formatting import count
from txlab.drawing.text import fit, formula, width
from txlab.drawing.update_lines import compact
from txlab.engine.descent.tangent import Tangent
from txlab.tui.screens.descent.shown import NAMES, Shown, Walker

Parts = list[tuple[str, str]]
QUIET = "$quiet"
WHERE = ("rests where f is not convex", "goes on where f is not convex")
"""Newton's parameter "anywhere", 0 and 1, in words."""


def style_rows(rows: Sequence[Parts], ascii: bool) -> Content:
    return Content("\n").join(
        [Content.assemble(*(Content.styled(formula(text, ascii), style) for text, style in row)) for row in rows]
    )


def point_text(point: Sequence[float]) -> str:
    numbers = [compact(each) for each in point]
    return f"({', '.join(numbers)})" if len(numbers) > 1 else numbers[0]


def format_point(point: Sequence[float], names: str) -> str:
    """ "x = 1.5", "(1.5, −2)" """
    return f"{names[0]} = {compact(point[0])}" if len(point) == 1 else point_text(point)


def side_rows(
    shown: Shown, chosen: int, turned: str, colour: Callable[[int], str], cells: int, lines: int, ascii: bool
) -> list[Parts]:
    """As many rows as there are lines, each at most `cells` wide. `turned` is the parameter that − and + change."""
    walker = shown.walkers[chosen]
    below = [
        *about(walker, turned, cells, ascii),
        *([[], *hessian_rows(walker), *tangent_rows(walker.tangent, shown, cells)] if walker.on else []),
    ]
    for detail in (3, 2, 1):
        rows: list[Parts] = []
        for each in shown.walkers:
            rows += method_rows(each, shown, each.number == chosen, colour(each.ink), cells, detail, ascii)
        if len(rows) + 1 + len(below) <= lines:
            break
    return [*rows, [], *below][: max(0, lines)]


def method_rows(
    walker: Walker, shown: Shown, chosen: bool, colour: str, cells: int, detail: int, ascii: bool
) -> list[Parts]:
    """One method: its name, why it rests, and its steps; f and ‖∇f‖; the point. `detail` is the number of lines; at 2,
    only the chosen method's point is written: the others are on the map."""
    mark = (("> " if ascii else "▸ ") if chosen else "  ", "bold $accent")
    state = f"{walker.word}  {count(walker.steps)}".strip() if walker.on else "off"
    name = f" {fit(walker.title, max(0, cells - 7 - len(state)), ellipsis='~' if ascii else '…')} "
    if not walker.on:
        return [[mark, (f" {walker.letter} ", QUIET), (name, QUIET), (state, QUIET)]]
    badge = (f" {walker.letter} ", f"bold reverse {colour}".strip())
    rows: list[Parts] = [[mark, badge, (name, "bold" if chosen else ""), (state, "$accent" if walker.rests else "")]]
    at, where = walker.tangent, point_text(walker.path[-1].tolist())
    values: Parts = []
    norm: Parts = []
    if at is not None:
        values = [("f ", QUIET), (compact(at.value), "")]
        slope = at.gradient[0] if shown.one else at.steepness
        norm = [("  f′ " if shown.one else "  |grad f| " if ascii else "  ‖∇f‖ ", QUIET), (compact(slope), "")]
    if shown.one and detail > 1:
        rows.append([("     ", ""), (f"{shown.names[0]} ", QUIET), (f"{where}  ", ""), *values, *norm])
    elif detail > 1:
        rows.append([("     ", ""), *values, *norm])
        rows += [[("     ", ""), (where, "")]] * (detail == 3 or chosen)
    return rows


def total(parts: Parts) -> int:
    return sum(width(text) for text, _ in parts)


def wrap_parts(parts: Sequence[tuple[str, str]], cells: int) -> list[Parts]:
    """The parts, wrapped to rows."""
    rows: list[Parts] = [[]]
    for part in parts:
        if rows[-1] and total([*rows[-1], part]) > cells:
            rows.append([])
        rows[-1].append(part)
    return rows


def about(walker: Walker, turned: str, cells: int, ascii: bool) -> list[Parts]:
    """The rule of the chosen method, why it rests, and its parameters."""
    equations = walker.equation.split(",  ") if walker.equation else []
    rows: list[Parts] = [
        [(line, "$secondary")] for part in equations for line in wrap_text(formula(part, ascii), cells)
    ]
    if walker.on and walker.rests and walker.rests != "arrived":
        rows += [[(line, "$warning")] for line in wrap_text(formula(walker.rests, ascii), cells)]
    parts = []
    for key, value in walker.settings.items():
        text = WHERE[value > 0] if key == "anywhere" else f"{NAMES[key]} {compact(value)}"
        text = formula(text, ascii)
        left, right = "<>" if ascii else "‹›"
        parts.append((f"{left}{text}{right}", "bold $accent") if key == turned else (f" {text} ", ""))
    return [*rows, *wrap_parts(parts, cells)]


def format_signed(value: float) -> str:
    """ "− 3.1" or "+ 3.1" """
    return f"{'−' if value < 0 else '+'} {compact(abs(value))}"


def tangent_rows(tangent: Tangent | None, shown: Shown, cells: int) -> list[Parts]:
    """The tangent with its slope, intercept and root, or the tangent plane with its normal."""
    if tangent is None:
        return []
    names = shown.names
    if len(tangent.point) == 1:
        slope, root = tangent.gradient[0], tangent.root
        meets = f"at {names[0]} = {compact(root)}" if root is not None else "nowhere: it is level"
        return [
            [("tangent   ", QUIET), (f"z = {compact(tangent.intercept)} {format_signed(slope)} {names[0]}", "")],
            [("slope f′  ", QUIET), (compact(slope), "")],
            [("meets 0   ", QUIET), (meets, "")],
        ]
    terms = zip(tangent.gradient, names, tangent.point, strict=False)
    plane = [f" {format_signed(slope)} ({name} {format_signed(-x)})" for slope, name, x in terms]
    return [
        [("tangent plane", QUIET)],
        *wrap_parts([(f"z = {compact(tangent.value)}", ""), *((term, "") for term in plane)], cells),
        [("normal ", QUIET), (point_text(tangent.normal), "")],
    ]


def hessian_rows(walker: Walker) -> list[Parts]:
    """H, and its eigenvalues, for the method that uses it: f is convex here if both are positive."""
    if walker.rule != "newton-minimum":
        return []
    if walker.hessian is None:
        return [[("H = f″    ", QUIET), (compact(walker.curvature), "")]] if np.isfinite(walker.curvature) else []
    if not np.isfinite(walker.hessian).all():
        return []
    entries = [[compact(float(each)) for each in row] for row in walker.hessian]
    wide = [max(width(row[column]) for row in entries) for column in range(2)]
    first, second = (f"( {row[0]:>{wide[0]}}  {row[1]:>{wide[1]}} )" for row in entries)
    values = "  ".join(compact(float(each)) for each in np.linalg.eigvalsh(walker.hessian))
    return [
        [("H         ", QUIET), (first, "")],
        [("          ", QUIET), (second, "")],
        [("its eigenvalues  ", QUIET), (values, "")],
    ]


def plane_words(shown: Shown, chosen: int, cells: int) -> str:
    """The caption of the tangent plane: as much of it as fits, the most important first."""
    walker = shown.walkers[chosen]
    at = walker.tangent
    if not walker.on or at is None:
        return "this method takes no part; m lets it" if not walker.on else ""
    figure = at.figure
    if figure is None:
        return "the plane is level: ∇f = 0, so no direction leads down"
    down, upwards = point_text(figure.d), point_text([-each for each in at.normal])
    level = "" if figure.level == 0 else f" above {compact(figure.level)}"
    parts = [
        f"OD leads along −∇f, n = {upwards}",
        f"OC = f = {compact(figure.height)}" if figure.level == 0 else f"OC = {compact(figure.height)}{level}",
        "CD is the steepest way down",
        f"OD {down}",
        *(
            f"∂f/∂{name} = −OC/O{corner} = {compact(slope)}"
            for name, corner, slope in zip(list(shown.names), "AB", at.gradient, strict=True)
        ),
    ]
    text = parts[0]
    for part in parts[1:]:
        text = f"{text}   {part}" if width(text) + 3 + width(part) <= cells else text
    return text
