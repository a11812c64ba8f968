"""The signs of a world: an arrow for each move, one sign for several moves, numbers fitted to a width, marks.

Several best moves share one box-drawing character where only one fits: └ is up or right. Actions that are not
directions are abbreviated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from txlab.drawing.formatting import minus
from txlab.drawing.text import cut, visible, width

# (rows down, columns right) of the moves with an arrow.
DIRECTIONS = {
    "up": (-1, 0), "up-right": (-1, 1), "right": (0, 1), "down-right": (1, 1), "down": (1, 0), "down-left": (1, -1),
    "left": (0, -1), "up-left": (-1, -1), "stay": (0, 0), "north": (-1, 0), "east": (0, 1), "south": (1, 0),
    "west": (0, -1),
}  # fmt: skip
ARROWS = {
    (-1, 0): "↑", (-1, 1): "↗", (0, 1): "→", (1, 1): "↘", (1, 0): "↓", (1, -1): "↙", (0, -1): "←", (-1, -1): "↖",
    (0, 0): "·",
}  # fmt: skip
ASCII_ARROWS = {
    (-1, 0): "^", (-1, 1): "/", (0, 1): ">", (1, 1): "\\", (1, 0): "v", (1, -1): "/", (0, -1): "<", (-1, -1): "\\",
    (0, 0): ".",
}  # fmt: skip
# Up 1, right 2, down 4, left 8.
LINES = " ↑→└↓│┌├←┘─┴┐┤┬┼"
BITS = {(-1, 0): 1, (0, 1): 2, (1, 0): 4, (0, -1): 8}


def direction(action: str) -> tuple[int, int] | None:
    """Return the direction of an action; None if it has none."""
    return DIRECTIONS.get(action.strip().lower())


@cache
def action_sign(action: str, cells: int, ascii: bool) -> str:
    """Return an arrow, or as much of an action's name as fits: of "move 3" the number, "" if that does not fit.

    >>> action_sign("up-left", 1, False), action_sign("pick up", 5, False), action_sign("move +3", 2, False)
    ('↖', 'pick', '+3')
    >>> action_sign("stake 12", 1, False), action_sign("-1", 1, False)
    ('', '')
    """
    way = direction(action)
    if way is not None:
        return (ASCII_ARROWS if ascii else ARROWS)[way]
    words = visible(action, ascii).split()
    last = words[-1] if words else ""
    if last.strip("+-−").replace(".", "").isdigit():
        return last if width(last) <= cells else ""
    name = visible(action, ascii)
    if width(name) > cells and words and width(words[0]) <= cells:
        return words[0]
    return cut(name, cells).strip() or "?"


def actions_sign(actions: Sequence[str], cells: int, ascii: bool) -> str:
    """Format several actions in `cells` cells, "" for none: arrows side by side, or one sign for all of them.

    >>> actions_sign(("up", "right"), 2, False), actions_sign(("up", "right"), 1, False), actions_sign((), 1, False)
    ('↑→', '└', '')
    """
    if not actions:
        return ""
    if len(actions) == 1:
        return action_sign(actions[0], cells, ascii)
    ways = [direction(action) for action in actions]
    if all(way is not None for way in ways):
        signs = "".join(action_sign(action, 1, ascii) for action in actions)
        if len(signs) <= cells and len(signs) < 4:
            return signs
        bits = sum(BITS.get(way, 16) for way in ways if way is not None)
        if bits < 16:
            return "+" if ascii else LINES[bits]
        return "*"
    first = action_sign(actions[0], cells - 1, ascii)
    return first + "+" if cells > 1 and width(first) < cells else "+"


@cache
def decimals_for(size: float, cells: int, negative: bool = True, digits: int = 15) -> int:
    """Return the decimals (at most three) that fit into `cells` cells for numbers up to `size`, or ±size, so that all
    numbers of a world have the same; with fewer if they have more than `digits` digits in all."""
    if not math.isfinite(size):
        return 0
    whole = len(f"{abs(size):.0f}") if size >= 0.9995 else 0
    return max(0, min(3 if size <= 1 else 2, cells - 1 - negative - whole, digits - whole))


def short(value: float, cells: int, decimals: int, ascii: bool = False) -> str:
    """Format a number in at most `cells` cells, with `decimals` decimals if they fit; "" if unknown.

    >>> short(-12.34, 5, 1), short(0.8235, 4, 3), short(-0.04, 3, 2), short(1234567.0, 4, 0), short(0.0, 4, 2)
    ('−12.3', '.824', '.0', '1e6', '0')
    """
    if value != value:
        return ""
    if value == 0:
        return "0"
    if not math.isfinite(value):
        text = "∞" if value > 0 else "−∞"
        text = text.replace("−", "-").replace("∞", "oo") if ascii else text
        return text if len(text) <= cells else ""
    for places in range(decimals, -1, -1):
        text = f"{value:.{places}f}"
        text = text if float(text) else text.removeprefix("-")  # zero has no sign
        if text.startswith(("0.", "-0.")):
            text = text.replace("0.", ".", 1)
        if len(text) <= cells:
            return text if ascii else minus(text)
    text = f"{value:.0e}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")
    return (text if ascii else minus(text)) if len(text) <= cells else ""


def whole(number: float, cells: int) -> str:
    """Format a count in at most `cells` cells: 734, 12k, 3M.

    >>> whole(734, 4), whole(12345, 4), whole(3200000, 4), whole(0, 4)
    ('734', '12k', '3M', '')
    """
    if not number > 0:
        return ""
    for divisor, unit in ((1, ""), (1000, "k"), (1e6, "M"), (1e9, "G")):
        text = f"{number / divisor:.0f}{unit}"
        if len(text) <= cells:
            return text
    return ""


def mark_sign(mark: str, ascii: bool, cells: int = 1) -> str:
    """Return the sign for the content of a cell: a star for a goal, a ring for a hole; other marks as they are, as far
    as they fit."""
    known = {"G": ("★", "G"), "H": ("○", "O"), "C": ("▓", "C"), "#": ("█", "#")}
    if mark in known:
        return known[mark][ascii]
    sign = cut(visible(mark, ascii), cells)
    return sign if 0 < width(sign) <= cells else " " if mark.isdigit() else "?"
