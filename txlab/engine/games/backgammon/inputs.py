"""Tesauro's 198 inputs: what TD-Gammon sees of a position (MATH G2; Tesauro 1992, Sutton and Barto section 16.1).

For each side and each of its 24 points four units, by the number n of its checkers there:

    n ≥ 1    n ≥ 2    n ≥ 3    (n − 3)/2 if n > 3

then n/2 for the checkers on the bar, n/15 for those borne off, and two units for whose turn it is. Notable: a
position is always seen by the player to roll, so these two are 1 and 0; the network then learns every pattern once, not
once for each colour.
"""

from __future__ import annotations

import numpy as np

from txlab.engine.games.backgammon.rules import BAR, CHECKERS, Board, Side

INPUTS = 198
UNITS_OF_A_SIDE = 24 * 4 + 2
TURN = 2 * UNITS_OF_A_SIDE

OF_A_POINT = ("1 or more", "2 or more", "3 or more", "beyond 3")
NAMES: tuple[str, ...] = (
    *(
        name
        for side in ("own", "opponent's")
        for name in (
            *(f"{side} point {point + 1}, {unit}" for point in range(24) for unit in OF_A_POINT),
            f"{side} bar",
            f"{side} borne off",
        )
    ),
    "own turn",
    "opponent's turn",
)
"""What each input says, in order; points are counted from the view of the side whose checkers they hold."""


def units_of(side: Side) -> list[float]:
    """The 98 units of one side."""
    units = []
    for n in side[:BAR]:
        units += [float(n >= 1), float(n >= 2), float(n >= 3), (n - 3) / 2 if n > 3 else 0.0]
    return [*units, side[BAR] / 2, (CHECKERS - sum(side)) / CHECKERS]


def inputs_of(board: Board) -> np.ndarray:
    """(198) float32: a position as the player to roll sees it."""
    own, other = board
    return np.array([*units_of(own), *units_of(other), 1.0, 0.0], dtype=np.float32)
