"""The moves that one may have on a map, and what lies to the left and the right of each.

Notable: they go round clockwise from up, so that a side of a move is its neighbour; `stay` comes last and has no sides.
"""

from __future__ import annotations

from typing import Literal, get_args

Moves = Literal["4", "king", "king-stay", "sideways"]
MOVES: tuple[Moves, ...] = get_args(Moves)

ACTIONS: dict[Moves, tuple[str, ...]] = {
    "4": ("up", "right", "down", "left"),
    "king": ("up", "up-right", "right", "down-right", "down", "down-left", "left", "up-left"),
    "king-stay": ("up", "up-right", "right", "down-right", "down", "down-left", "left", "up-left", "stay"),
    "sideways": ("left", "right"),
}

STEPS: dict[str, tuple[int, int]] = {
    "up": (-1, 0),
    "up-right": (-1, 1),
    "right": (0, 1),
    "down-right": (1, 1),
    "down": (1, 0),
    "down-left": (1, -1),
    "left": (0, -1),
    "up-left": (-1, -1),
    "stay": (0, 0),
}
"""(rows down, columns right) of each."""

ARROWS: dict[str, str] = {
    "up": "↑",
    "up-right": "↗",
    "right": "→",
    "down-right": "↘",
    "down": "↓",
    "down-left": "↙",
    "left": "←",
    "up-left": "↖",
    "stay": "·",
}


def sides(moves: Moves, action: str) -> tuple[str, str]:
    """The moves to the left and to the right of a move: a quarter turn with 4, an eighth with the king's. Whoever can
    only go sideways slips to the other side; whoever stays does not slip.

    >>> sides("4", "up")
    ('left', 'right')
    """
    if action == "stay":
        return ("stay", "stay")
    if moves == "sideways":
        other = "right" if action == "left" else "left"
        return (other, other)
    ring = [name for name in ACTIONS[moves] if name != "stay"]
    at = ring.index(action)
    return ring[at - 1], ring[(at + 1) % len(ring)]
